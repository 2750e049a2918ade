//! The table: each arm with its tokens, its result, and how it differs from the others.

use std::collections::BTreeMap;

use burnish_core::{Episode, Task, TaskId};
use burnish_eval::{Change, Summary};
use burnish_reason::{Rates, Role, Tokens};
use burnish_recipe::StrategySection;
use serde::{Deserialize, Serialize};

use super::records::{Arm, ArmSample, StrategyRecord};

/// What a strategy is worth: `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The strategy.
    pub strategy: StrategySection,
    /// Its arms, in the order of [`Arm::ALL`].
    pub rows: Vec<Row>,
    /// What its drafts and deliberations were worth: means over episodes of one turn. `None` if there are none, or the
    /// environment reports no success.
    pub rates: Option<Rates>,
    /// Whether tokens were counted. If not, four characters count as a token.
    pub is_counted: bool,
}

/// An arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which one.
    pub arm: Arm,
    /// Mean number of tokens generated in an episode.
    pub generated: f64,
    /// Mean number of tokens read in an episode, those of a cache included.
    pub read: f64,
    /// Mean number of turns of a policy in an episode.
    pub turns: f64,
    /// The result.
    pub summary: Summary,
    /// What changes from the plain policy to this arm, paired by task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_plain: Option<Change>,
    /// What changes from the majority to this arm, paired by task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_majority: Option<Change>,
}

impl Comparison {
    /// Of records. `weights` are those of rewards, `seed` that of the bootstrap.
    pub fn of(
        strategy: &StrategySection,
        tasks: &[Task],
        records: &[StrategyRecord],
        weights: &BTreeMap<String, f64>,
        seed: u64,
    ) -> Self {
        let samples = |arm: Arm| {
            let arms = records.iter().flat_map(move |record| {
                record.arms.iter().filter(move |own| own.arm == arm).map(move |own| (record, own))
            });
            arms.flat_map(|(record, own)| own.samples.iter().map(move |sample| (record.id.as_str(), sample)))
        };
        let episodes = |arm: Arm| -> Vec<Episode> {
            let mut before: Option<&str> = None;
            let mut rollout = 0;
            let mut episodes = Vec::new();
            for (id, sample) in samples(arm) {
                rollout = if before == Some(id) { rollout + 1 } else { 0 };
                before = Some(id);
                episodes.push(sample.played.episode(&TaskId(id.to_owned()), rollout));
            }
            episodes
        };
        let [plain, own, majority] = Arm::ALL.map(episodes);
        let row = |arm: Arm, episodes: &[Episode]| {
            let spent = spent(samples(arm).map(|(_, sample)| sample));
            let over = |other: Arm, before: &[Episode]| {
                (arm != other).then(|| Change::between(before, episodes, weights, seed)).flatten()
            };
            let mut summary = Summary::of(tasks, episodes, weights, seed);
            if samples(arm).any(|(_, sample)| sample.played.tokens.is_none()) {
                summary.completion_tokens_mean = None;
            }
            Row {
                arm,
                generated: spent.generated,
                read: spent.read,
                turns: spent.turns,
                summary,
                over_plain: over(Arm::Plain, &plain),
                over_majority: over(Arm::Majority, &majority),
            }
        };
        let rates: Vec<Rates> = samples(Arm::Strategy).filter_map(|(_, sample)| rates(sample)).collect();
        Comparison {
            strategy: strategy.clone(),
            rows: vec![row(Arm::Plain, &plain), row(Arm::Strategy, &own), row(Arm::Majority, &majority)],
            rates: Rates::mean_of(&rates),
            is_counted: samples(Arm::Strategy)
                .flat_map(|(_, sample)| &sample.turns)
                .all(|considered| considered.is_counted),
        }
    }

    /// The row of an arm.
    pub fn row(&self, arm: Arm) -> Option<&Row> {
        self.rows.iter().find(|row| row.arm == arm)
    }
}

/// Means over episodes.
struct Spent {
    generated: f64,
    read: f64,
    turns: f64,
}

fn spent<'a>(samples: impl Iterator<Item = &'a ArmSample>) -> Spent {
    let (mut tokens, mut turns, mut episodes) = (Tokens::default(), 0, 0);
    for sample in samples {
        episodes += 1;
        for considered in &sample.turns {
            tokens += considered.tokens;
            turns += considered.candidates.len();
        }
    }
    let mean = |count: usize| count as f64 / f64::from(episodes.max(1));
    Spent { generated: mean(tokens.generated), read: mean(tokens.read), turns: mean(turns) }
}

/// The rates of an episode of one turn, if every candidate could be judged.
fn rates(sample: &ArmSample) -> Option<Rates> {
    let [considered] = &sample.turns[..] else { return None };
    let judged = considered.candidates.iter().zip(&sample.is_right);
    let is_right: Option<Vec<bool>> = judged
        .map(|(candidate, is_right)| if candidate.role == Role::Grade { Some(false) } else { *is_right })
        .collect();
    is_right
        .filter(|all| all.len() == considered.candidates.len())
        .and_then(|all| Rates::of(considered, &all))
}
