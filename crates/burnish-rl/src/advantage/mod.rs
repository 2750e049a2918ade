//! From rewards to credit: which rollouts, steps or tokens were better than what they are compared with. One
//! file an estimator; [`crate::catalogue::ADVANTAGES`] lists them.

mod grpo;
mod report;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::catalogue::{self, ADVANTAGES};

pub use grpo::{Grpo, Scale};
pub use report::{has_variance, reward_metrics, shuffle_within_groups};

/// `[advantage]`: which estimator, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdvantageConfig {
    /// Id of the estimator. Default: `grpo`.
    pub estimator: String,
    /// Its own settings.
    pub config: Value,
}

impl Default for AdvantageConfig {
    fn default() -> Self {
        AdvantageConfig { estimator: "grpo".to_owned(), config: Value::Object(serde_json::Map::new()) }
    }
}

impl AdvantageConfig {
    /// The same, with every setting of the estimator written out.
    ///
    /// # Errors
    /// If there is no such estimator, or a value is unknown, of the wrong type or out of range.
    pub fn complete(mut self) -> Result<Self, SettingError> {
        let entry = catalogue::find(ADVANTAGES, "estimator", &self.estimator)?;
        self.config = (entry.complete)(&self.config).map_err(catalogue::in_config)?;
        Ok(self)
    }

    /// The estimator.
    ///
    /// # Errors
    /// As [`AdvantageConfig::complete`].
    pub fn build(&self) -> Result<Box<dyn Estimator>, SettingError> {
        let entry = catalogue::find(ADVANTAGES, "estimator", &self.estimator)?;
        (entry.build)(&self.config).map_err(catalogue::in_config)
    }
}

/// One rollout, as far as an estimator may know it. What it needs beyond the reward it asks for with
/// [`Estimator::needs`], and finds empty otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    /// What it earned; none where its verifier failed. A reward that is not finite can't be compared with
    /// others, and counts as none.
    pub reward: Option<f64>,
    /// Tokens that the policy sampled.
    pub tokens: usize,
    /// The reward's components before they are added up, weighted, in an order that all rollouts share.
    pub components: Vec<f64>,
    /// What each turn earned, and where it stood.
    pub steps: Vec<Step>,
    /// Reward of a greedy answer to the same task.
    pub greedy_reward: Option<f64>,
    /// Shares of the siblings that a judge finds worse, ties counting half: one entry a member of the group, this
    /// one's own ignored.
    pub wins: Vec<f64>,
    /// Of each sampled token, in order.
    pub token_statistics: Vec<TokenStatistics>,
}

impl Rollout {
    /// A rollout of which only the reward is known.
    pub fn of_reward(reward: Option<f64>) -> Self {
        Rollout { reward, ..Rollout::default() }
    }
}

/// One turn of a rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Step {
    /// What it earned.
    pub reward: f64,
    /// A number that equal states of the environment share.
    pub state: u64,
    /// Tokens that the policy sampled in it.
    pub tokens: usize,
}

/// What is known of a sampled token.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenStatistics {
    /// log-probability when it was sampled, in nats.
    pub logprob: f64,
    /// Sum of the squared probabilities of its distribution.
    pub squares: f64,
    /// The critic's estimate of the return from here on.
    pub value: f64,
}

/// All rollouts of a step.
#[derive(Debug, Clone, Copy)]
pub struct Rollouts<'a> {
    /// Group after group.
    pub all: &'a [Rollout],
    /// Which of them are compared with each other: in order, without gaps.
    pub groups: &'a [Range<usize>],
}

/// What a rollout's tokens are credited with.
#[derive(Debug, Clone, PartialEq)]
pub enum Advantage {
    /// Each token the same.
    Whole(f64),
    /// One number a turn.
    Steps(Vec<f64>),
    /// One number a sampled token.
    Tokens(Vec<f64>),
}

impl Advantage {
    /// The number, or the mean of the numbers.
    pub fn mean(&self) -> f64 {
        match self {
            Advantage::Whole(advantage) => *advantage,
            Advantage::Steps(values) | Advantage::Tokens(values) => mean(values).unwrap_or(0.0),
        }
    }
}

/// What an estimator needs beyond rewards. A recipe that cannot supply it is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdvantageNeeds {
    /// [`Rollout::components`].
    pub components: bool,
    /// [`Rollout::steps`].
    pub steps: bool,
    /// [`Rollout::greedy_reward`].
    pub greedy_reward: bool,
    /// [`Rollout::wins`].
    pub wins: bool,
    /// [`Rollout::token_statistics`], without values.
    pub token_statistics: bool,
    /// [`TokenStatistics::value`].
    pub values: bool,
}

/// From rewards to credit.
///
/// A rollout without a reward counts in no mean, and gets no advantage. Members of a group in another order get
/// the same advantages in that order, to the bit.
pub trait Estimator: Send + Sync {
    /// What it needs beyond rewards and token counts.
    fn needs(&self) -> AdvantageNeeds {
        AdvantageNeeds::default()
    }

    /// What its advantages are scaled by, for `frac_reward_zero_std`.
    fn scale(&self) -> Scale {
        Scale::None
    }

    /// One entry a rollout; `None` where it had no reward.
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>>;
}

impl<'a> Rollouts<'a> {
    /// The finite rewards in ascending order, so that sums over them do not depend on who finished first.
    pub fn scored(&self) -> Vec<f64> {
        scored(self.all.iter().map(|rollout| rollout.reward))
    }

    /// What `credit` says of each group, one behind the other.
    fn by_group(&self, credit: impl FnMut(Rollouts<'a>) -> Vec<Option<Advantage>>) -> Vec<Option<Advantage>> {
        let group = |range: &'a Range<usize>| Rollouts {
            all: &self.all[range.clone()],
            groups: std::slice::from_ref(range),
        };
        self.groups.iter().map(group).flat_map(credit).collect()
    }
}

/// The finite ones in ascending order.
fn scored(rewards: impl IntoIterator<Item = Option<f64>>) -> Vec<f64> {
    let mut found: Vec<f64> = rewards.into_iter().flatten().filter(|reward| reward.is_finite()).collect();
    found.sort_unstable_by(f64::total_cmp);
    found
}

/// `(R - baseline) / divisor` of the members of a group. Where their rewards are all equal it is exactly 0:
/// rounding in their mean is not amplified by a small divisor.
fn centred(group: Rollouts<'_>, baseline: f64, divisor: f64) -> Vec<Option<Advantage>> {
    let members = group.scored();
    let varies = members.first() != members.last();
    let advantage = |reward: f64| if varies { (reward - baseline) / divisor } else { 0.0 };
    let finite = |rollout: &Rollout| rollout.reward.filter(|reward| reward.is_finite());
    group.all.iter().map(|rollout| finite(rollout).map(advantage).map(Advantage::Whole)).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// `None` for fewer than two values, of which TRL makes NaN.
fn std(values: &[f64], ddof: usize) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() >= 2)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - ddof.min(1)) as f64).sqrt())
}
