//! What an episode asked of the world and was told: run again on its record, an episode arrives at the same point.
//!
//! Tokens are not in it: they are kept once, in the traces, and a turn's entry says how far its trace had grown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Message, StopReason, TokenLogprobs};

/// Where in an episode it touches the world: a branch, and how many times that branch had done so before.
///
/// Written as `2`, or with the branches before it as `0/1/2`; a branch that a race or a join opened begins with `~`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Place {
    /// From the root; empty there.
    pub branch: Vec<Fork>,
    /// Counts from 0 in each branch.
    pub number: u32,
}

/// One step from a branch into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fork {
    /// A branch that the episode named.
    Named(u32),
    /// One of the branches that were opened together, at the contact of this number.
    Opened(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fork in &self.branch {
            match fork {
                Fork::Named(branch) => write!(f, "{branch}/")?,
                Fork::Opened(number) => write!(f, "~{number}/")?,
            }
        }
        write!(f, "{}", self.number)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |_| format!("`{text}` is no place in an episode");
        let (branch, number) =
            text.rsplit_once('/').map_or((None, text), |(branch, number)| (Some(branch), number));
        let fork = |fork: &str| match fork.strip_prefix('~') {
            Some(opened) => opened.parse().map(Fork::Opened),
            None => fork.parse().map(Fork::Named),
        };
        let branch = branch.into_iter().flat_map(|branch| branch.split('/')).map(fork);
        let branch = branch.collect::<Result<_, _>>().map_err(refused)?;
        Ok(Place { branch, number: number.parse().map_err(refused)? })
    }
}

impl From<Place> for String {
    fn from(place: Place) -> String {
        place.to_string()
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What repeating something means that an episode has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeating {
    /// It changes nothing: on a record its answer is taken from there, and without one it is done again.
    Repeatable,
    /// It changes what belongs to the episode alone: on a record it is done again and must come to the same.
    #[default]
    Rebuilt,
    /// It changes the world: it is never done twice. One that was begun, and whose end nobody knows, ends the episode.
    Outside,
}

/// One contact of an episode with the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    /// Where.
    pub at: Place,
    /// Digest of what was asked.
    pub question: String,
    /// What was answered; `None` for what was begun and whose answer never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Told>,
}

/// What an episode was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A policy's turn.
    Turn(RecordedTurn),
    /// The conversation does not fit the policy's context window.
    TooLong {
        /// Length of the prompt.
        tokens: usize,
        /// Most that fits.
        tokens_max: usize,
    },
    /// Anything else, as JSON.
    Value(serde_json::Value),
}

/// A turn without its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedTurn {
    /// Whose: where the agent came into the episode.
    pub agent: Place,
    /// Nodes of its agent's trace after it.
    pub nodes: usize,
    /// Index of the node at which the trace stood then; `None` in an empty trace.
    pub head: Option<usize>,
    /// The answer.
    pub message: Message,
    /// Why sampling stopped.
    pub stop: StopReason,
    /// Calls in the answer that could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<String>,
    /// What was asked for of the tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprobs>,
}

/// All contacts of an episode with the world.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Who took turns, in the order of their places.
    pub agents: Vec<Speaker>,
    /// In the order of their places.
    pub contacts: Vec<Contact>,
    /// What became of tool calls.
    #[serde(default, skip_serializing_if = "ToolCalls::is_empty")]
    pub calls: ToolCalls,
}

/// One who takes turns in an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Speaker {
    /// Where it came into the episode.
    pub at: Place,
    /// Who answers for it.
    pub policy: String,
}

/// Counts of tool calls in the policy's answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// All of them.
    pub made: usize,
    /// Those that were run by no tool: they could not be read, or did not fit their tool.
    pub failed: usize,
}

impl ToolCalls {
    fn is_empty(&self) -> bool {
        *self == ToolCalls::default()
    }
}

impl Record {
    /// For each agent whether it is the first one's policy that answers, so that its trace is the policy's own.
    pub fn are_own(&self) -> impl Iterator<Item = bool> {
        let own = self.agents.first().map(|agent| agent.policy.as_str());
        self.agents.iter().map(move |agent| Some(agent.policy.as_str()) == own)
    }

    /// The turns of the agent that came first, each with its number among the contacts of the root.
    pub fn first_agents_turns(&self) -> impl Iterator<Item = (u32, &RecordedTurn)> {
        let first = self.agents.first().map(|agent| &agent.at);
        self.contacts.iter().filter(|contact| contact.at.branch.is_empty()).filter_map(move |contact| {
            match &contact.answer {
                Some(Told::Turn(turn)) if Some(&turn.agent) == first => Some((contact.at.number, turn)),
                _ => None,
            }
        })
    }

    /// What was asked and told before the root's contact `number`.
    pub fn before(&self, number: u32) -> Record {
        let is_before = |contact: &&Contact| match contact.at.branch.first() {
            None => contact.at.number < number,
            Some(Fork::Opened(opened)) => *opened < number,
            // Nothing says when a named branch was gone into.
            Some(Fork::Named(_)) => false,
        };
        let contacts = self.contacts.iter().filter(is_before).cloned().collect();
        Record { agents: self.agents.clone(), contacts, calls: ToolCalls::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn forks() -> impl Strategy<Value = Vec<Fork>> {
        prop::collection::vec(
            prop_oneof![any::<u32>().prop_map(Fork::Named), any::<u32>().prop_map(Fork::Opened)],
            0..4,
        )
    }

    proptest! {
        #[test]
        fn a_place_is_read_as_it_is_written(branch in forks(), number: u32) {
            let place = Place { branch, number };
            prop_assert_eq!(place.to_string().parse::<Place>(), Ok(place));
        }
    }

    #[test]
    fn what_is_no_place_is_refused_by_name() {
        for text in ["", "/1", "a", "1/x", "~/1", "-1"] {
            assert_eq!(text.parse::<Place>(), Err(format!("`{text}` is no place in an episode")));
        }
    }
}
