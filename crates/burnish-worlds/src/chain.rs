//! Chains of tools, and calls of them on a state.
//!
//! The topology sampler follows links forwards and puts in front of a tool what it needs (EnvFactory, arXiv:2605.18703,
//! the constants of its code); a random walk only follows links. Of both, chains are kept whose every parameter can be
//! had ([`Graph::is_valid_chain`]) and whose calls succeed on the state ([`carry_out`]).

use std::collections::BTreeSet;

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::{Graph, Output};
use crate::state::State;
use crate::world::{Source, World};

/// How chains are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// Forwards along links, with what each tool needs in front of it.
    Topology,
    /// Forwards along links, nothing else.
    Walk,
}

/// Deepest search for what a tool needs (5 in EnvFactory's code, 3 in its paper).
const DEPTH_MAX: usize = 5;
/// Most worlds in a chain.
pub const SERVERS_MAX: usize = 3;
/// How often an optional parameter is passed over.
const OPTIONAL_SKIPPED: f64 = 0.6;
/// How often a parameter that can be had already is passed over.
const HAD_SKIPPED: f64 = 0.9;
/// Draws of arguments for one call before a chain is given up.
const DRAWS: usize = 20;

/// Draws a chain of at least `length` different tools; `None` if it came to a dead end or is not valid.
pub fn chain(graph: &Graph<'_>, sampler: Sampler, length: usize, stream: &mut Stream) -> Option<Vec<usize>> {
    let first = stream.index(graph.nodes().len());
    let mut chain = Vec::new();
    extend(graph, sampler, &mut chain, first, stream);
    while chain.len() < length {
        let mut next: Vec<usize> = chain.iter().flat_map(|&tool| graph.successors(tool)).collect();
        next.sort_unstable();
        next.dedup();
        next.retain(|&tool| fits(graph, &chain, tool));
        if next.is_empty() {
            return None;
        }
        stream.shuffle(&mut next);
        let taken = match sampler {
            Sampler::Topology => 1 + stream.index(next.len()),
            Sampler::Walk => 1,
        };
        for tool in next.into_iter().take(taken) {
            if chain.len() < length && fits(graph, &chain, tool) {
                extend(graph, sampler, &mut chain, tool, stream);
            }
        }
    }
    (graph.is_valid_chain(&chain) && graph.servers(&chain) <= SERVERS_MAX).then_some(chain)
}

/// Whether a tool can be added: not there yet, and not of too many worlds.
fn fits(graph: &Graph<'_>, chain: &[usize], tool: usize) -> bool {
    let with: Vec<usize> = chain.iter().copied().chain([tool]).collect();
    !chain.contains(&tool) && graph.servers(&with) <= SERVERS_MAX
}

/// Adds a tool, by the topology sampler behind what it needs.
fn extend(graph: &Graph<'_>, sampler: Sampler, chain: &mut Vec<usize>, tool: usize, stream: &mut Stream) {
    if sampler == Sampler::Topology {
        prior(graph, chain, tool, 0, stream);
    }
    if fits(graph, chain, tool) {
        chain.push(tool);
    }
}

fn prior(graph: &Graph<'_>, chain: &mut Vec<usize>, tool: usize, depth: usize, stream: &mut Stream) {
    if depth >= DEPTH_MAX {
        return;
    }
    for (at, parameter) in graph.nodes()[tool].tool.parameters.iter().enumerate() {
        if parameter.optional && stream.uniform() < OPTIONAL_SKIPPED {
            continue;
        }
        let before: BTreeSet<usize> = chain.iter().copied().collect();
        if graph.is_valid_parameter(tool, at, &before) && stream.uniform() < HAD_SKIPPED {
            continue;
        }
        let mut makers: Vec<usize> = graph.producers(tool, at).iter().map(|output| output.tool).collect();
        makers.dedup();
        makers.retain(|&maker| maker != tool && fits(graph, chain, maker));
        if makers.is_empty() {
            continue;
        }
        let maker = makers[stream.index(makers.len())];
        prior(graph, chain, maker, depth + 1, stream);
        if fits(graph, chain, maker) {
            chain.push(maker);
        }
    }
}

/// A call that succeeded, and where its arguments came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Which tool of the graph.
    pub tool: usize,
    /// What it was given.
    pub arguments: Map<String, Value>,
    /// Where each argument came from, by its name.
    pub origins: Vec<(String, Origin)>,
    /// What it returned.
    pub result: Map<String, Value>,
}

/// Where an argument came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A user says it.
    Said,
    /// An earlier call returned it: which one, and which of its outputs.
    Returned(usize, usize),
}

/// Calls the tools of a chain on the states of their worlds, with arguments that are drawn until a call succeeds.
/// `None` if one doesn't. Optional parameters are left out.
pub fn carry_out(
    graph: &Graph<'_>,
    chain: &[usize],
    states: &mut [State],
    stream: &mut Stream,
) -> Option<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::with_capacity(chain.len());
    for &tool in chain {
        let call = (0..DRAWS).find_map(|_| attempt(graph, tool, &calls, states, stream))?;
        calls.push(call);
    }
    Some(calls)
}

fn attempt(
    graph: &Graph<'_>,
    tool: usize,
    calls: &[Call],
    states: &mut [State],
    stream: &mut Stream,
) -> Option<Call> {
    let node = graph.nodes()[tool];
    let state = &mut states[node.server];
    let (mut arguments, mut origins) = (Map::new(), Vec::new());
    for (at, parameter) in node.tool.parameters.iter().enumerate().filter(|(_, it)| !it.optional) {
        let had: Vec<(usize, &Output)> = graph
            .producers(tool, at)
            .iter()
            .flat_map(|output| {
                calls
                    .iter()
                    .enumerate()
                    .filter(|(_, call)| call.tool == output.tool)
                    .map(move |(at, _)| (at, output))
            })
            .collect();
        // The newest result is what a user means next.
        let newest = had.into_iter().max();
        let is_taken = parameter.source == Source::Internal || stream.uniform() < 0.5;
        let (value, origin) = match newest.filter(|_| is_taken) {
            Some((call, output)) => {
                let name = &graph.nodes()[output.tool].tool.returns[output.index].name;
                (calls[call].result.get(name)?.clone(), Origin::Returned(call, output.index))
            }
            None => (said(node.world, state, &parameter.source, stream)?, Origin::Said),
        };
        arguments.insert(parameter.name.clone(), value);
        origins.push((parameter.name.clone(), origin));
    }
    let result = node.tool.call(node.world, state, &arguments).ok()?;
    Some(Call { tool, arguments, origins, result })
}

/// A value that a user could say: one that is in the column, or else one that could be drawn there.
pub(crate) fn said(world: &World, state: &State, source: &Source, stream: &mut Stream) -> Option<Value> {
    let draw = match source {
        Source::Internal => return None,
        Source::Drawn(draw) => draw,
        Source::Column(table, column) => {
            let found = world.table(table)?;
            let there: Vec<Value> = match column.as_str() {
                "id" => state.rows(table).map(|(number, _)| Value::from(found.key(number))).collect(),
                column => state.rows(table).filter_map(|(_, row)| row.get(column).cloned()).collect(),
            };
            if !there.is_empty() {
                return Some(there[stream.index(there.len())].clone());
            }
            found.column(column)?.draw.as_ref()?
        }
    };
    let values = draw.values();
    (!values.is_empty()).then(|| values[stream.index(values.len())].clone())
}
