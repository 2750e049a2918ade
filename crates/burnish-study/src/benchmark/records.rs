//! An item of a benchmark: what was asked, what was answered, and how it was judged.

use std::collections::BTreeMap;

use burnish_core::{Message, StopReason};
use burnish_verify::Reason;
use serde::{Deserialize, Serialize};

use super::language::Spoken;
use burnish_run::records::Item;

/// An item with its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The item: benchmark, language where there are several, row of the file from 0.
    pub id: String,
    /// By which results are broken down.
    pub labels: BTreeMap<String, String>,
    /// The messages that the policy got, before its chat template.
    pub prompt: Vec<Message>,
    /// What the answers are compared with.
    pub reference: String,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// One answer to an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// What the policy said.
    pub text: String,
    /// Its thoughts, where its chat format keeps them apart; they are not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The final answer that the verifier found in the text.
    pub answer: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// Tokens sampled.
    pub tokens: usize,
    /// Why sampling stopped; `None` where it did not begin.
    pub stop: Option<StopReason>,
    /// Which language text and thoughts are in, where the item is in one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Spoken>,
}

/// What came of a sample. Only [`Outcome::Correct`] counts as right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is the reference.
    Correct,
    /// The answer was read, and is another.
    Different,
    /// There is no answer.
    NoAnswer,
    /// There is an answer that can't be compared.
    Unreadable,
    /// The prompt does not fit the policy's context window: nothing was sampled.
    PromptTooLong,
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Correct => Outcome::Correct,
            Reason::Different => Outcome::Different,
            Reason::NoAnswer => Outcome::NoAnswer,
            Reason::Unreadable => Outcome::Unreadable,
        }
    }
}

impl Record {
    /// Number of right samples.
    pub fn correct(&self) -> usize {
        self.samples.iter().filter(|sample| sample.outcome == Outcome::Correct).count()
    }
}

impl Item for Record {
    fn id(&self) -> &str {
        &self.id
    }
}
