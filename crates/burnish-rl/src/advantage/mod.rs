//! From rewards to credit: which rollouts, steps or tokens were better than what they are compared with. One
//! file an estimator; [`crate::catalogue::ADVANTAGES`] lists them.

mod common;
mod gae;
mod gdpo;
mod gigpo;
mod gpg;
mod grpo;
mod grpo_passk;
mod length_penalised;
mod max_rl;
mod opo;
mod optimal_token_baseline;
mod pairwise_difference;
mod rdpo;
mod reinforce_plus_plus;
mod reinforce_plus_plus_baseline;
mod remax;
mod report;
mod rloo;
mod skpo;
mod step_episode;
mod vineppo;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::catalogue::{ADVANTAGES, choice, no_settings};
use common::scored;

pub use crate::reward_statistics::RewardStatistics;
pub use common::{Normalisation, Whiten};
pub use gae::Gae;
pub use gdpo::Gdpo;
pub use gigpo::Gigpo;
pub use gpg::{Alpha, Gpg};
pub use grpo::{GroupOfOne, Grpo, Scale};
pub use grpo_passk::GrpoPassk;
pub use length_penalised::LengthPenalised;
pub use max_rl::MaxRl;
pub use opo::Opo;
pub use optimal_token_baseline::OptimalTokenBaseline;
pub use pairwise_difference::PairwiseDifference;
pub use rdpo::{Magnitude, Rdpo};
pub use reinforce_plus_plus::ReinforcePlusPlus;
pub use reinforce_plus_plus_baseline::ReinforcePlusPlusBaseline;
pub use remax::Remax;
pub use report::{has_variance, reward_metrics, shuffle_within_groups};
pub use rloo::Rloo;
pub use skpo::{Skpo, Trackers};
pub use step_episode::StepEpisode;
pub use vineppo::Vineppo;

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
        AdvantageConfig { estimator: "grpo".to_owned(), config: no_settings() }
    }
}

choice!(AdvantageConfig, estimator, ADVANTAGES, dyn Estimator);

/// One rollout, as far as an estimator may know it. What it needs beyond the reward it asks for with
/// [`Estimator::needs`], and finds empty otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    /// What it earned; none where its verifier failed. A reward that is not finite can't be compared with
    /// others, and counts as none.
    pub reward: Option<f64>,
    /// Tokens that the policy sampled.
    pub tokens: usize,
    /// The reward's components before they are added up, weighted, in an order that all rollouts of a run share. One
    /// that is not finite counts as none.
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
    /// The critic's estimate of the return after the last token, where the rollout was cut off there; none where
    /// it came to its end, after which nothing more is earned.
    pub bootstrap: Option<f64>,
    /// Which part of an answer it is, where answers are made in two.
    pub phase: Phase,
    /// What the policy earned in the mean when it went on from this rollout's beginnings: entry `j` after
    /// `(j + 1)·every` tokens ([`Continuations`]); NaN where nothing that went on from there has a reward.
    pub continued: Vec<f64>,
    /// The task that it plays: the same name at every step.
    pub task: String,
    /// How far the policy has moved since it last played this task: KL divergence, in nats a token. 0 at the first time.
    pub kl: f64,
}

impl Rollout {
    /// A rollout of which only the reward is known.
    pub fn of_reward(reward: Option<f64>) -> Self {
        Rollout { reward, ..Rollout::default() }
    }

    /// Its reward, if that can be compared with others; none of [`Phase::Upstream`].
    pub fn score(&self) -> Option<f64> {
        self.reward.filter(|reward| reward.is_finite() && self.phase == Phase::Downstream)
    }
}

/// Which part of an answer a rollout is, where the beginning and what follows from it are sampled apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// The answer, or what follows from the beginning: earns the reward.
    #[default]
    Downstream,
    /// The beginning that the other members of its group go on from. It has no reward of its own: one that is given is
    /// not looked at.
    Upstream,
}

/// One turn of a rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Step {
    /// What it earned; nothing where that is not finite.
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
            Advantage::Steps(values) | Advantage::Tokens(values) => common::mean(values).unwrap_or(0.0),
        }
    }

    fn values_mut(&mut self) -> &mut [f64] {
        match self {
            Advantage::Whole(value) => std::slice::from_mut(value),
            Advantage::Steps(values) | Advantage::Tokens(values) => values,
        }
    }

    fn map(mut self, credit: impl Fn(f64) -> f64) -> Self {
        self.values_mut().iter_mut().for_each(|value| *value = credit(*value));
        self
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
    /// [`TokenStatistics::value`], and [`Rollout::bootstrap`] of rollouts that were cut off.
    pub values: bool,
    /// [`Rollout::task`] and [`Rollout::kl`].
    pub tasks: bool,
    /// [`Rollout::continued`]: where the rollouts are cut, and how often the policy goes on from there.
    pub continuations: Option<Continuations>,
}

/// Where rollouts are cut to find out what they were worth until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continuations {
    /// Tokens between two cuts.
    pub every: usize,
    /// How often the policy goes on from each.
    pub rollouts: usize,
}

/// From rewards to credit.
///
/// A rollout without a reward counts in no mean, and gets no advantage; so is one of [`Phase::Upstream`], but where an
/// estimator credits it with what followed. Members of a group in another order get
/// the same advantages in that order, to the bit.
pub trait Estimator: Send + Sync {
    /// What it needs beyond rewards and token counts.
    fn needs(&self) -> AdvantageNeeds {
        AdvantageNeeds::default()
    }

    /// Does it compare the rollouts of a group? It needs two of each task then.
    fn compares_within_groups(&self) -> bool {
        true
    }

    /// What a critic is to predict of each sampled token, where the estimator works with one.
    fn returns(&self, _rollout: &Rollout) -> Option<Vec<f64>> {
        None
    }

    /// What its advantages are scaled by, for `frac_reward_zero_std`.
    fn scale(&self) -> Scale {
        Scale::None
    }

    /// One entry a rollout; `None` where it had no reward, or where what it is compared with is missing.
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>>;

    /// Learns from the rollouts of a step what later steps are compared with, after [`Estimator::advantages`] was asked
    /// about them.
    fn learn(&mut self, _rollouts: &Rollouts<'_>) {}

    /// What it has learned, for a checkpoint; null where it learns nothing.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Goes on from what [`Estimator::state`] said.
    ///
    /// # Errors
    /// If it is not a state of this estimator.
    fn restore(&mut self, _state: &Value) -> Result<(), SettingError> {
        Ok(())
    }
}

impl<'a> Rollouts<'a> {
    /// The finite rewards in ascending order, so that sums over them do not depend on who finished first.
    pub fn scored(&self) -> Vec<f64> {
        scored(self.all.iter().map(Rollout::score))
    }

    /// Each group by itself.
    fn each_group(&self) -> impl Iterator<Item = Rollouts<'a>> {
        self.groups
            .iter()
            .map(|range| Rollouts { all: &self.all[range.clone()], groups: std::slice::from_ref(range) })
    }

    /// What `credit` says of each group, one behind the other.
    fn by_group(&self, credit: impl FnMut(Rollouts<'a>) -> Vec<Option<Advantage>>) -> Vec<Option<Advantage>> {
        self.each_group().flat_map(credit).collect()
    }
}
