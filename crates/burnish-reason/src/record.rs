//! What a strategy did to answer a turn: enough to see that no selection read anything but what policies said.

use burnish_core::{Message, StopReason};
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

/// Tokens, by what was done with them. What a cache saved counts as read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Tokens that were sampled.
    pub generated: usize,
    /// Tokens of prompts, each time that one was read; and those that were read and sampled beside an answer, to decide
    /// about it.
    pub read: usize,
}

impl Tokens {
    /// Both together.
    pub fn total(self) -> usize {
        self.generated + self.read
    }
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        self.generated += other.generated;
        self.read += other.read;
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(all: I) -> Tokens {
        all.fold(Tokens::default(), |mut sum, tokens| {
            sum += tokens;
            sum
        })
    }
}

/// What a turn of a strategy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An answer to the question as it was asked.
    Draft,
    /// An answer after reading earlier ones.
    Deliberation,
    /// A judge's word on a candidate, or a reward model's number. It can't be chosen.
    Grade,
}

/// One turn that a strategy asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// What it is for.
    pub role: Role,
    /// 0 for drafts, then 1, 2 ... for each time that answers were read.
    pub stage: u32,
    /// Its number within the stage; of a grade, the index of the candidate that is graded.
    pub number: u32,
    /// The position at which it was sampled, counted in the order in which positions were reached: 0 is where the turn was asked.
    #[serde(default, skip_serializing_if = "is_opening")]
    pub position: usize,
    /// What was said.
    pub message: Message,
    /// Why sampling stopped.
    pub stop: StopReason,
    /// Calls of tools that could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<String>,
    /// The final answer, as selections read it; null if it gives none, or no selection read it.
    pub answer: Option<String>,
    /// Mean log-prob of its tokens under the model, in nats; null if the policy reports none.
    pub mean_logprob: Option<f64>,
    /// What it cost.
    pub tokens: Tokens,
}

fn is_opening(position: &usize) -> bool {
    *position == 0
}

/// A choice among candidates. It follows from what is said here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The rule.
    pub rule: String,
    /// Indices of the candidates among which was chosen.
    pub among: Vec<usize>,
    /// For each of them, the number of its answer: equal answers have equal numbers, null is no answer. Empty if the rule
    /// reads no answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Option<usize>>,
    /// For each of them, the number that it was judged by; null if it has none. Empty if the rule reads none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<Option<f64>>,
    /// Indices of those that were chosen, in their order.
    pub chosen: Vec<usize>,
}

/// An earlier answer in the order in which a deliberation read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cached {
    /// For which stage.
    pub stage: u32,
    /// Index of the candidate.
    pub candidate: usize,
    /// Its tokens that were kept.
    pub tokens: usize,
    /// Was all of it kept?
    pub is_whole: bool,
}

/// How a turn was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Considered {
    /// Every turn that was asked for, in the order of stages and numbers.
    pub candidates: Vec<Candidate>,
    /// Every choice, in its order.
    pub selections: Vec<Selection>,
    /// What deliberations read, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<Cached>,
    /// The last message of what each stage of deliberation read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    /// How answers were compared with each other; null if they were not.
    pub equality: Option<Verifier>,
    /// Index of the candidate that is the answer.
    pub chosen: usize,
    /// What all of it cost.
    pub tokens: Tokens,
    /// Whether tokens were counted. If not, the policy reports none, and four characters count as a token.
    pub is_counted: bool,
}

impl Considered {
    /// The indices of the candidates with this role in a stage; in any stage if `None`.
    pub fn of(&self, role: Role, stage: Option<u32>) -> Vec<usize> {
        let is_meant = |candidate: &Candidate| {
            candidate.role == role && stage.is_none_or(|stage| candidate.stage == stage)
        };
        let all = self.candidates.iter().enumerate();
        all.filter(|(_, candidate)| is_meant(candidate)).map(|(at, _)| at).collect()
    }

    /// The drafts that were read by the first deliberation; all drafts if none was read.
    pub fn drafts_read(&self) -> Vec<usize> {
        let mut read: Vec<usize> =
            self.cache.iter().filter(|cached| cached.stage == 1).map(|cached| cached.candidate).collect();
        read.sort_unstable();
        if read.is_empty() { self.of(Role::Draft, None) } else { read }
    }

    /// The candidates of the last stage.
    pub fn last(&self) -> Vec<usize> {
        let asked = self.candidates.iter().filter(|candidate| candidate.role != Role::Grade);
        let stage = asked.map(|candidate| candidate.stage).max();
        let all = self.candidates.iter().enumerate();
        let is_last = |(_, candidate): &(usize, &Candidate)| {
            candidate.role != Role::Grade && Some(candidate.stage) == stage
        };
        all.filter(is_last).map(|(at, _)| at).collect()
    }
}

/// All that was said: thoughts that a chat format keeps apart, then the text.
pub fn text_of(message: &Message) -> String {
    match &message.reasoning_content {
        Some(thoughts) if !thoughts.trim().is_empty() => format!("{}\n{}", thoughts.trim(), message.content),
        _ => message.content.clone(),
    }
}
