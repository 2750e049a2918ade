//! An item of a benchmark: what was asked, what was answered, and how that was judged.

use std::collections::BTreeMap;

use burnish_core::{Message, StopReason, Verdict};
use burnish_verify::Reason;
use serde::{Deserialize, Serialize};

use super::language::Spoken;
use burnish_run::records::Item;

/// An item with its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The item: benchmark, language if there are several, row of the file from 0.
    pub id: String,
    /// Labels by which results are broken down.
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
    /// Its thoughts, if its chat format separates them; they are not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The final answer that the verifier found in the text.
    pub answer: Option<String>,
    /// How it was judged.
    pub outcome: Outcome,
    /// Of a program that is not right: what was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Tokens sampled.
    pub tokens: usize,
    /// Why sampling stopped; `None` if it did not start.
    pub stop: Option<StopReason>,
    /// The language of text and thoughts, if the item is in one of several languages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Spoken>,
}

/// How a sample was judged. Only [`Outcome::Correct`] counts as right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer equals the reference.
    Correct,
    /// The answer was read, and differs.
    Different,
    /// There is no answer.
    NoAnswer,
    /// There is an answer that can't be compared.
    Unreadable,
    /// The program ran and did not pass every test.
    Failed,
    /// The program raised an exception before any test.
    Raised,
    /// The program took more time, memory, processes, output or space than it may.
    OverLimit,
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

impl Outcome {
    /// How a program was judged.
    pub(super) fn of_program(verdict: &Verdict) -> Self {
        let has = |flag: &str| verdict.flags.get(flag).is_some_and(|holds| *holds);
        match () {
            () if verdict.success => Outcome::Correct,
            () if has("parse_error") => Outcome::NoAnswer,
            () if has("over_limit") => Outcome::OverLimit,
            () if has("raised") => Outcome::Raised,
            () => Outcome::Failed,
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
