//! The truth of a task: records, the goal, and what of it has been said.

use std::fmt::Write as _;

use burnish_core::{Message, Task};
use serde::{Deserialize, Serialize};

use super::ID;
use super::belief::Belief;
use super::config::{PromptStyle, Role};
use super::goal::{Goal, Known, Slot};
use super::world::Records;
use crate::EnvError;
use crate::tasks::read;

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Truth {
    pub(super) records: Records,
    pub(super) goal: Goal,
    /// What the customer says at the beginning.
    pub(super) said: Vec<Known>,
    /// What was asked and answered before the episode.
    pub(super) asked: Vec<Known>,
    /// Slots that the customer does not know.
    pub(super) unknown: Vec<Slot>,
    /// The task of tau-bench that wants this, and which of its calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<String>,
}

impl Truth {
    pub(super) fn of(task: &Task) -> Result<Self, EnvError> {
        read(ID, task)
    }

    /// What can be believed before the episode.
    pub(super) fn belief(&self, recency: f64) -> Belief {
        let all = Belief::new(self.records.goals(recency));
        self.said.iter().chain(&self.asked).fold(all, |belief, known| belief.after(known))
    }

    /// What the customer says at the beginning.
    pub(super) fn says(&self) -> String {
        let said: Vec<&str> = self.said.iter().map(Known::words).collect();
        if said.is_empty() { "help".to_owned() } else { self.records.say(&said) }
    }

    /// The goal in words.
    pub(super) fn goal(&self) -> String {
        self.records.say(&self.goal.values())
    }

    /// What a reader reads: the records, what the customer says, and each question with its answer.
    pub(super) fn known(&self, answered: &[Known]) -> String {
        let mut text = format!("{}\nsays {}", self.records.whole_text(), self.says());
        for known in self.asked.iter().chain(answered) {
            let _ = write!(text, "\n{} {}", known.slot().name(), known.words());
        }
        text + "\nwants"
    }

    /// What the policy reads first.
    pub(super) fn prompt(&self, role: Role, style: PromptStyle) -> Vec<Message> {
        if role == Role::Reader {
            return vec![Message::user(self.known(&[]))];
        }
        let opening = format!("{}\nsays {}", self.records.text(), self.says());
        let mut prompt = vec![Message::user(opening)];
        for known in &self.asked {
            prompt.push(Message::assistant(format!("ask {}", known.slot().name())));
            prompt.push(Message::user(known.words()));
        }
        if style == PromptStyle::Full {
            prompt.insert(0, Message::system(self.records.rules()));
        }
        prompt
    }
}
