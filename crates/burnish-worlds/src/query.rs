//! What a user says for a few calls, and how this is made less explicit.
//!
//! Four refinements (EnvFactory, arXiv:2605.18703, section 3.3) change words only: the calls stay what they are, and every
//! value that a user has to say is said, by itself or by its alias.

use std::collections::BTreeSet;
use std::ops::Range;

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::{Call, Origin};
use crate::graph::Graph;

/// Which refinements a user's words go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Refinement {
    /// What was just mentioned is `it`.
    pub implicit: bool,
    /// A lookup whose result the next call needs is not asked for: what it looks up is named.
    pub compressed: bool,
    /// Values are said by their aliases.
    pub ambiguous: bool,
    /// The user begins with a motive.
    pub goal: bool,
}

impl Default for Refinement {
    fn default() -> Self {
        Refinement { implicit: true, compressed: true, ambiguous: true, goal: true }
    }
}

impl Refinement {
    /// Words as explicit as they can be.
    pub const NONE: Refinement =
        Refinement { implicit: false, compressed: false, ambiguous: false, goal: false };
}

/// The names in braces of a text, in order.
pub(crate) fn braces(text: &str) -> Vec<&str> {
    let parts = text.split('{').skip(1);
    parts.filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect()
}

/// What a user says for the calls in `turn`, of `calls` that were carried out one after the other.
pub fn words(
    graph: &Graph<'_>,
    calls: &[Call],
    turn: Range<usize>,
    refinement: Refinement,
    stream: &mut Stream,
) -> String {
    let speaker = Speaker { graph, calls, refinement };
    let hidden = speaker.hidden(&turn);
    let mut phrases = Vec::new();
    let mut mentioned = None;
    for at in turn.clone().filter(|at| !hidden.contains(at)) {
        let ask = &graph.nodes()[calls[at].tool].tool.ask;
        phrases.push(speaker.fill(ask, at, mentioned));
        mentioned = Some(at);
    }
    let mut text = phrases.join(", then ");
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    text.push('.');
    // A motive is said once, before anything else.
    let goals = calls.first().map_or(&[][..], |call| &graph.nodes()[call.tool].world.goals);
    if refinement.goal && turn.start == 0 && !goals.is_empty() {
        text = format!("{} {text}", goals[stream.index(goals.len())]);
    }
    text
}

struct Speaker<'a> {
    graph: &'a Graph<'a>,
    calls: &'a [Call],
    refinement: Refinement,
}

impl Speaker<'_> {
    /// Calls that nobody has to ask for: they change nothing, and what they look up is named where it is needed, once.
    fn hidden(&self, turn: &Range<usize>) -> BTreeSet<usize> {
        let mut hidden = BTreeSet::new();
        if !self.refinement.compressed {
            return hidden;
        }
        for at in turn.clone() {
            let tool = self.graph.nodes()[self.calls[at].tool].tool;
            let said = tool.noun.as_deref().map(braces).unwrap_or_default();
            let required = tool.parameters.iter().filter(|it| !it.optional);
            let is_named = tool.noun.is_some() && required.clone().all(|it| said.contains(&it.name.as_str()));
            let readers: Vec<usize> = (at + 1..self.calls.len())
                .filter(|&other| {
                    self.calls[other]
                        .origins
                        .iter()
                        .any(|(_, it)| matches!(it, Origin::Returned(call, _) if *call == at))
                })
                .collect();
            if is_named && !tool.changes() && readers.len() == 1 && turn.contains(&readers[0]) {
                hidden.insert(at);
            }
        }
        hidden
    }

    /// A template of the call at `at`, its parameters in words. `mentioned` is the call that was asked for just before.
    fn fill(&self, template: &str, at: usize, mentioned: Option<usize>) -> String {
        let call = &self.calls[at];
        let mut text = template.to_owned();
        for (name, origin) in &call.origins {
            let braced = format!("{{{name}}}");
            if !text.contains(&braced) {
                continue;
            }
            let value = call.arguments.get(name).unwrap_or(&Value::Null);
            let words = match origin {
                Origin::Said => self.value(at, value),
                Origin::Returned(maker, output) => self.reference(*maker, *output, mentioned),
            };
            text = text.replace(&braced, &words);
        }
        text
    }

    fn value(&self, at: usize, value: &Value) -> String {
        let plain = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let aliases = &self.graph.nodes()[self.calls[at].tool].world.aliases;
        match aliases.get(&plain) {
            Some(alias) if self.refinement.ambiguous => alias.clone(),
            _ => plain,
        }
    }

    /// What an earlier call returned, in words.
    fn reference(&self, maker: usize, output: usize, mentioned: Option<usize>) -> String {
        let tool = self.graph.nodes()[self.calls[maker].tool].tool;
        let name = tool.returns[output].name.replace('_', " ");
        let identified = name.strip_suffix(" id").filter(|_| self.refinement.implicit);
        // What a tool returns first is what its noun names.
        if identified.is_some() && output == 0 && mentioned == Some(maker) {
            return "it".to_owned();
        }
        let noun = match &tool.noun {
            Some(noun) => self.fill(noun, maker, None),
            None => format!("what you did to {}", self.fill(&tool.ask, maker, None)),
        };
        match identified {
            Some(_) if output == 0 => noun,
            Some(other) => format!("the {other} of {noun}"),
            None => format!("the {name} of {noun}"),
        }
    }
}
