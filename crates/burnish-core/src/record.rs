//! What an episode asked of the world and was told. Run again on its record, an episode arrives at the same point.
//!
//! The record has no tokens: they are kept once, in the traces. The entry of a turn says how far its trace had grown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Message, StopReason, TokenLogprobs};

/// The place of a contact with the world: its branch, and the number of earlier contacts in that branch.
///
/// Written as `2`, or with the path of branches before it as `0/1/2`. A branch that a race or a join opened is marked
/// with `~`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Place {
    /// From the root; empty in the root itself.
    pub branch: Vec<Fork>,
    /// Counts from 0 in each branch.
    pub number: u32,
}

/// One step from a branch into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fork {
    /// A branch that the episode named.
    Named(u32),
    /// One of the branches that were opened together, by the contact of this number.
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

/// What it means to repeat an action of an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeating {
    /// It changes nothing. If the record has its answer, that is taken; otherwise it is done again.
    Repeatable,
    /// It changes only what belongs to the episode. If the record has its answer, it is done again and must have the
    /// same result.
    #[default]
    Rebuilt,
    /// It changes the world and is never done twice. If it was begun and its outcome is unknown, the episode ends.
    Outside,
}

/// One contact of an episode with the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    /// Where.
    pub at: Place,
    /// Digest of what was asked.
    pub question: String,
    /// The answer; `None` if the contact was begun and no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Told>,
}

/// An answer that an episode received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A policy's turn.
    Turn(RecordedTurn),
    /// The conversation does not fit the policy's context window.
    TooLong {
        /// Length of the prompt.
        tokens: usize,
        /// Most tokens that fit.
        tokens_max: usize,
    },
    /// Anything else, as JSON.
    Value(serde_json::Value),
}

/// A turn without its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedTurn {
    /// The agent, by the place where it entered the episode.
    pub agent: Place,
    /// Number of nodes in its agent's trace after the turn.
    pub nodes: usize,
    /// Index of the trace's head at that point; `None` in an empty trace.
    pub head: Option<usize>,
    /// The answer.
    pub message: Message,
    /// Why sampling stopped.
    pub stop: StopReason,
    /// Calls in the answer that could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<String>,
    /// Details per token, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprobs>,
    /// Tokens that were read and sampled beside the answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aside: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// All contacts of an episode with the world.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Who takes turns, in the order of their places.
    pub agents: Vec<Speaker>,
    /// In the order of their places.
    pub contacts: Vec<Contact>,
    /// Counts of tool calls.
    #[serde(default, skip_serializing_if = "ToolCalls::is_empty")]
    pub calls: ToolCalls,
}

/// One who takes turns in an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Speaker {
    /// The place where it entered the episode.
    pub at: Place,
    /// Name of the policy that answers for it.
    pub policy: String,
}

/// Counts of tool calls in the policy's answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// All calls.
    pub made: usize,
    /// Calls that no tool ran: they could not be read, or did not fit their tool.
    pub failed: usize,
}

impl ToolCalls {
    fn is_empty(&self) -> bool {
        *self == ToolCalls::default()
    }
}

impl Record {
    /// For each agent, whether the first agent's policy answers for it, so that its trace is the policy's own.
    pub fn are_own(&self) -> impl Iterator<Item = bool> {
        let own = self.agents.first().map(|agent| agent.policy.as_str());
        self.agents.iter().map(move |agent| Some(agent.policy.as_str()) == own)
    }

    /// The turns of the first agent, each with the number of its contact in the root.
    pub fn first_agents_turns(&self) -> impl Iterator<Item = (u32, &RecordedTurn)> {
        let first = self.agents.first().map(|agent| &agent.at);
        self.contacts.iter().filter(|contact| contact.at.branch.is_empty()).filter_map(move |contact| {
            match &contact.answer {
                Some(Told::Turn(turn)) if Some(&turn.agent) == first => Some((contact.at.number, turn)),
                _ => None,
            }
        })
    }

    /// The contacts before the root's contact `number`.
    pub fn before(&self, number: u32) -> Record {
        let is_before = |contact: &&Contact| match contact.at.branch.first() {
            None => contact.at.number < number,
            Some(Fork::Opened(opened)) => *opened < number,
            // The record does not say when a named branch was entered.
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
