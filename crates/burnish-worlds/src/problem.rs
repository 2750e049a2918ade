//! Problems: a drawn state, what a user says turn by turn, and the calls that do it.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::{Address, Purpose, Stream};

use crate::chain::{Call, Sampler, carry_out, chain};
use crate::graph::Graph;
use crate::query::{Refinement, words};
use crate::reward::GoldCall;
use crate::state::State;
use crate::world::World;

/// How problems are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How chains of tools are drawn.
    pub sampler: Sampler,
    /// Least and most calls of a problem.
    pub calls: [usize; 2],
    /// Most calls that a user asks for at once.
    pub turn: usize,
    /// How a user's words are made less explicit.
    pub refinement: Refinement,
}

/// A problem: what is there, what is asked, and what is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Which of the worlds it is about, in ascending order.
    pub worlds: Vec<usize>,
    /// The state of each of them before.
    pub start: Vec<State>,
    /// What the user says, and the calls that do it.
    pub turns: Vec<Turn>,
    /// The state of each of its worlds afterwards.
    pub end: Vec<State>,
}

/// What a user says, and the calls that do it.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// What the user says.
    pub words: String,
    /// The calls, in an order in which they succeed.
    pub calls: Vec<GoldCall>,
}

/// Problems, and what became of the chains that were drawn for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Problems {
    /// The problems.
    pub problems: Vec<Problem>,
    /// Number of chains drawn.
    pub drawn: usize,
    /// Number of chains dropped, by reason.
    pub dropped: BTreeMap<&'static str, usize>,
}

/// Chains drawn for one problem before none is to be had.
const DRAWS: u64 = 400;

/// Makes `count` problems over the tools of `graph`, which is of `worlds`. The same arguments give the same problems.
///
/// # Errors
/// If a problem can't be had in a fixed number of draws: why its last chain was dropped.
pub fn problems(
    worlds: &[World],
    graph: &Graph<'_>,
    options: &Options,
    seed: u64,
    count: usize,
) -> Result<Problems, String> {
    let mut made = Problems { problems: Vec::with_capacity(count), drawn: 0, dropped: BTreeMap::new() };
    for task in 0..count as u64 {
        let mut last = "";
        let found = (0..DRAWS).find_map(|step| {
            let place = Address { task, step, ..Address::new(seed, Purpose::Task) };
            made.drawn += 1;
            problem(worlds, graph, options, place)
                .inspect_err(|reason| {
                    last = reason;
                    *made.dropped.entry(*reason).or_default() += 1;
                })
                .ok()
        });
        made.problems.push(found.ok_or_else(|| {
            let [least, most] = options.calls;
            format!(
                "no problem of {least} to {most} calls in {DRAWS} draws; the last was dropped because {last}"
            )
        })?);
    }
    Ok(made)
}

fn problem(
    worlds: &[World],
    graph: &Graph<'_>,
    options: &Options,
    place: Address,
) -> Result<Problem, &'static str> {
    let stream = &mut Stream::new(place.seed());
    // Words have numbers of their own, so that a refinement that draws some changes nothing else.
    let of_words = &mut Stream::new(Address { turn: 1, ..place }.seed());
    let [least, most] = options.calls;
    let length = least + stream.index(most - least + 1);
    let chain = chain(graph, options.sampler, length, stream).ok_or("its parameters can't all be had")?;
    if chain.len() > most {
        return Err("it is too long");
    }
    let start: Vec<State> = worlds.iter().map(|world| State::draw(world, stream)).collect();
    let mut end = start.clone();
    let calls = carry_out(graph, &chain, &mut end, stream).ok_or("a call is refused")?;
    if start == end {
        return Err("it changes nothing");
    }

    let mut turns = Vec::new();
    let mut at = 0;
    while at < calls.len() {
        let taken = (1 + stream.index(options.turn)).min(calls.len() - at);
        let words = words(graph, &calls, at..at + taken, options.refinement, of_words);
        let gold = calls[at..at + taken].iter().map(|call| gold(graph, call)).collect();
        turns.push(Turn { words, calls: gold });
        at += taken;
    }
    let used: BTreeSet<usize> = chain.iter().map(|&tool| graph.nodes()[tool].server).collect();
    let of_used = |states: &[State]| used.iter().map(|&world| states[world].clone()).collect();
    Ok(Problem { start: of_used(&start), end: of_used(&end), worlds: used.into_iter().collect(), turns })
}

fn gold(graph: &Graph<'_>, call: &Call) -> GoldCall {
    let name = graph.nodes()[call.tool].tool.name.clone();
    GoldCall { name, arguments: call.arguments.clone(), masked: Vec::new() }
}
