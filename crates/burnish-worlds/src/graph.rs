//! Which tool can follow which: a graph of tools and their parameters.
//!
//! An output of one tool is linked to a parameter of another if they are alike (cosine between the three-letter pieces of
//! name and description, at least the threshold) and the types fit. EnvFactory compares embeddings of a language model
//! instead and lets another refine the links (arXiv:2605.18703, section 3.2).

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::Kind;
use crate::world::{Source, Tool, World};

/// Likeness from which an output and a parameter are linked.
pub const LIKENESS: f64 = 0.85;

/// Tools of several worlds, with the links between their outputs and parameters.
#[derive(Debug)]
pub struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    /// For each tool, for each of its parameters: the outputs that are linked to it.
    links: Vec<Vec<Vec<Output>>>,
}

/// A tool of a world.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// Its world.
    pub world: &'a World,
    /// The tool.
    pub tool: &'a Tool,
    /// Which of the worlds that is.
    pub server: usize,
}

/// An output of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    /// Which tool of the graph.
    pub tool: usize,
    /// Which of the things that it returns.
    pub index: usize,
}

impl<'a> Graph<'a> {
    /// The graph of all tools of `worlds`, with links from `threshold` on.
    pub fn new(worlds: &'a [World], threshold: f64) -> Self {
        let nodes: Vec<Node<'a>> = worlds
            .iter()
            .enumerate()
            .flat_map(|(server, world)| world.tools.iter().map(move |tool| Node { world, tool, server }))
            .collect();
        let outputs: Vec<(Output, Kind, Pieces)> = nodes
            .iter()
            .enumerate()
            .flat_map(|(tool, node)| {
                node.tool.returns.iter().enumerate().map(move |(index, it)| {
                    (Output { tool, index }, it.kind, Pieces::of(&it.name, &it.about))
                })
            })
            .collect();
        let linked = |tool: usize, parameter: &crate::world::Parameter| -> Vec<Output> {
            let pieces = Pieces::of(&parameter.name, &parameter.about);
            let fits = |(output, kind, other): &&(Output, Kind, Pieces)| {
                output.tool != tool && parameter.kind.takes(*kind) && pieces.likeness(other) >= threshold
            };
            outputs.iter().filter(fits).map(|(output, ..)| *output).collect()
        };
        let links = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| node.tool.parameters.iter().map(|parameter| linked(at, parameter)).collect())
            .collect();
        Graph { nodes, links }
    }

    /// The tools.
    pub fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// Number of links between outputs and parameters.
    pub fn edges(&self) -> usize {
        self.links.iter().flatten().map(Vec::len).sum()
    }

    /// The outputs that are linked to a parameter of a tool.
    pub fn producers(&self, tool: usize, parameter: usize) -> &[Output] {
        self.links.get(tool).and_then(|links| links.get(parameter)).map_or(&[], Vec::as_slice)
    }

    /// The tools that have a parameter to which an output of `tool` is linked.
    pub fn successors(&self, tool: usize) -> Vec<usize> {
        let reads = |links: &[Vec<Output>]| links.iter().flatten().any(|output| output.tool == tool);
        (0..self.nodes.len()).filter(|&other| reads(&self.links[other])).collect()
    }

    /// Whether the value of a parameter can be had after the tools in `before`: a user can say it, or one of them gives it.
    pub fn is_valid_parameter(&self, tool: usize, parameter: usize, before: &BTreeSet<usize>) -> bool {
        let is_said = self.nodes[tool].tool.parameters[parameter].source != Source::Internal;
        is_said || self.producers(tool, parameter).iter().any(|output| before.contains(&output.tool))
    }

    /// Whether every required parameter of every tool can be had after the earlier ones.
    pub fn is_valid_chain(&self, chain: &[usize]) -> bool {
        let mut before = BTreeSet::new();
        chain.iter().all(|&tool| {
            let parameters = self.nodes[tool].tool.parameters.iter().enumerate();
            let valid = parameters
                .filter(|(_, parameter)| !parameter.optional)
                .all(|(at, _)| self.is_valid_parameter(tool, at, &before));
            before.insert(tool);
            valid
        })
    }

    /// How many worlds the tools in `chain` are of.
    pub fn servers(&self, chain: &[usize]) -> usize {
        chain.iter().map(|&tool| self.nodes[tool].server).collect::<BTreeSet<_>>().len()
    }
}

/// How often each three-letter piece occurs in a text.
#[derive(Debug)]
struct Pieces(BTreeMap<[char; 3], f64>);

impl Pieces {
    fn of(name: &str, about: &str) -> Self {
        let text = format!("  {} {}  ", name.replace('_', " "), about).to_lowercase();
        let letters: Vec<char> = text.chars().collect();
        let mut pieces = BTreeMap::new();
        for window in letters.windows(3) {
            *pieces.entry([window[0], window[1], window[2]]).or_default() += 1.0;
        }
        Pieces(pieces)
    }

    /// The cosine, between 0 and 1.
    fn likeness(&self, other: &Pieces) -> f64 {
        let dot: f64 = self.0.iter().map(|(piece, count)| count * other.0.get(piece).unwrap_or(&0.0)).sum();
        let norm = |pieces: &Pieces| pieces.0.values().map(|count| count * count).sum::<f64>().sqrt();
        dot / (norm(self) * norm(other)).max(f64::MIN_POSITIVE)
    }
}
