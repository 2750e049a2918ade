//! A record of each task: what every arm said, and why.

use std::collections::BTreeMap;

use burnish_core::Message;
use burnish_reason::Considered;
use serde::{Deserialize, Serialize};

use super::arms::{Field, Played};
use crate::items::{PlayedOutcome, PlayedSample};
use crate::records::Item;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The policy alone, once.
    Plain,
    /// The strategy.
    Strategy,
    /// The majority of as many answers of the policy as reach the strategy's tokens on the same task.
    Majority,
}

impl Arm {
    /// In the order of the table.
    pub const ALL: [Arm; 3] = [Arm::Plain, Arm::Strategy, Arm::Majority];
}

/// A task with what every arm made of it: a line of `items.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyRecord {
    /// The task.
    pub id: String,
    /// Labels by which results are broken down.
    pub labels: BTreeMap<String, String>,
    /// The messages that the policy got, before its chat template.
    pub prompt: Vec<Message>,
    /// In the order of [`Arm::ALL`].
    pub arms: Vec<ArmRecord>,
}

/// The episodes of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmRecord {
    /// Which one.
    pub arm: Arm,
    /// Its episodes.
    pub samples: Vec<ArmSample>,
}

/// One episode of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmSample {
    /// What came of it.
    pub played: PlayedSample,
    /// How each turn was answered: candidates, what selections read, which was chosen.
    pub turns: Vec<Considered>,
    /// Of an episode of one turn: whether each candidate would have succeeded, null if that is not known. Judged when
    /// everything was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub is_right: Vec<Option<bool>>,
}

impl StrategyRecord {
    /// Tokens that were generated for it in all arms.
    pub fn generated(&self) -> usize {
        let samples = self.arms.iter().flat_map(|arm| &arm.samples);
        samples.flat_map(|sample| &sample.turns).map(|turn| turn.tokens.generated).sum()
    }
}

/// The share of the strategy's episodes that succeeded; `None` if the environment reports no success.
pub fn success_rate(records: &[StrategyRecord]) -> Option<f64> {
    let own = records.iter().filter_map(|record| record.arms.get(Arm::Strategy as usize));
    let outcomes: Vec<PlayedOutcome> =
        own.flat_map(|arm| &arm.samples).map(|sample| sample.played.outcome).collect();
    let count = |is: PlayedOutcome| outcomes.iter().filter(|outcome| **outcome == is).count();
    let is_rate = !outcomes.is_empty() && count(PlayedOutcome::Judged) == 0;
    is_rate.then(|| count(PlayedOutcome::Success) as f64 / outcomes.len() as f64)
}

impl Item for StrategyRecord {
    fn id(&self) -> &str {
        &self.id
    }
}

/// Records of some tasks. `arms` has the episodes of each arm, task by task.
pub(super) fn records(field: &Field<'_>, arms: [Vec<Played>; 3]) -> Vec<StrategyRecord> {
    let Field { tasks, weights, has_tokens, .. } = *field;
    let mut records: Vec<StrategyRecord> = tasks
        .iter()
        .map(|task| StrategyRecord {
            id: task.id.0.clone(),
            labels: task.labels.clone(),
            prompt: task.prompt.clone(),
            arms: Vec::new(),
        })
        .collect();
    for (arm, played) in Arm::ALL.into_iter().zip(arms) {
        let rollouts = (played.len() / tasks.len().max(1)).max(1);
        let mut samples = played.into_iter().map(|played| ArmSample {
            played: PlayedSample::of(&played.episode, weights, has_tokens),
            turns: played.turns,
            is_right: played.is_right,
        });
        for record in &mut records {
            let samples = samples.by_ref().take(rollouts).collect();
            record.arms.push(ArmRecord { arm, samples });
        }
    }
    records
}
