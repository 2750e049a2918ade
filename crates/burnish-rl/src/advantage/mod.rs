//! From rewards to credit: which rollouts, turns or tokens were better than what they are compared with. One file per
//! estimator; [`crate::catalogue::ADVANTAGES`] lists them.

mod common;
mod fapo;
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
mod skill1;
mod skpo;
mod step_episode;
mod vineppo;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::catalogue::{ADVANTAGES, choice, no_settings};
use crate::fact::{Fact, Facts, Need};
use common::scored;

pub use crate::reward_statistics::RewardStatistics;
pub use common::{Normalisation, Whiten};
pub use fapo::{Detector, Fapo};
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
pub use skill1::{ACTING, ASKING, ORDERING, Skill1, WRITING};
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

/// One rollout, as an estimator sees it. An estimator that needs more asks for it with [`Estimator::needs`], and finds
/// it among the facts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    /// What it earned; `None` if its verifier failed. A reward that is not finite can't be compared with others, and
    /// counts as `None`.
    pub reward: Option<f64>,
    /// Which part of an answer it is, if answers are sampled in two parts.
    pub phase: Phase,
    /// The task that it plays; the task has the same name in every step.
    pub task: String,
    /// How many tokens the policy sampled.
    pub tokens: usize,
    /// The tokens of each turn: in order, without gaps.
    pub turns: Vec<Range<usize>>,
    /// What else is known about it.
    pub facts: Facts,
}

impl Rollout {
    /// A rollout of which only the reward is known.
    pub fn of_reward(reward: Option<f64>) -> Self {
        Rollout { reward, ..Rollout::default() }
    }

    /// The same rollout, with a fact.
    #[must_use]
    pub fn with(mut self, fact: &'static Fact, numbers: impl Into<Vec<f64>>) -> Self {
        self.facts.set(fact, numbers);
        self
    }

    /// The same rollout, with turns of these numbers of tokens, and as many tokens in all.
    #[must_use]
    pub fn with_turns(self, tokens: &[usize]) -> Self {
        let ends = tokens.iter().scan(0, |end, tokens| {
            *end += tokens;
            Some(*end)
        });
        let turns: Vec<Range<usize>> = ends.zip(tokens).map(|(end, tokens)| end - tokens..end).collect();
        Rollout { tokens: tokens.iter().sum(), turns, ..self }
    }

    /// Its reward, if it can be compared with others; `None` for [`Phase::Upstream`].
    pub fn score(&self) -> Option<f64> {
        self.reward.filter(|reward| reward.is_finite() && self.phase == Phase::Downstream)
    }
}

/// Which part of an answer a rollout is, if the beginning and what follows from it are sampled separately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// The answer, or what follows from the beginning: earns the reward.
    #[default]
    Downstream,
    /// The beginning that the other members of its group go on from. It has no reward of its own; one that is given is
    /// ignored.
    Upstream,
}

/// All rollouts of a step.
#[derive(Debug, Clone, Copy)]
pub struct Rollouts<'a> {
    /// Group after group.
    pub all: &'a [Rollout],
    /// The ranges of rollouts that are compared with each other: in order, without gaps.
    pub groups: &'a [Range<usize>],
}

/// What a rollout's tokens are credited with.
#[derive(Debug, Clone, PartialEq)]
pub enum Advantage {
    /// Each token the same.
    Whole(f64),
    /// One number per turn.
    Steps(Vec<f64>),
    /// One number per sampled token.
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

/// From rewards to credit.
///
/// A rollout without a reward counts in no mean, and gets no advantage. The same holds for one of [`Phase::Upstream`],
/// unless the estimator credits it with what followed. If the members of a group are reordered, their advantages are
/// reordered alike, to the bit.
pub trait Estimator: Send + Sync {
    /// The facts that it needs.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Does it compare the rollouts of a group? If so, it needs at least two of each task.
    fn compares_within_groups(&self) -> bool {
        true
    }

    /// What a critic should predict for each sampled token, if the estimator works with one.
    fn returns(&self, _rollout: &Rollout) -> Option<Vec<f64>> {
        None
    }

    /// What its advantages are scaled by, for `frac_reward_zero_std`.
    fn scale(&self) -> Scale {
        Scale::None
    }

    /// One entry per rollout; `None` if it has no reward, or if what it is compared with is missing.
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>>;

    /// What it says of the credit that it gave in a step, as metrics; called before [`Estimator::learn`].
    fn metrics(&self, _rollouts: &Rollouts<'_>) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// Learns from the rollouts of a step what later steps are compared with; called after [`Estimator::advantages`].
    fn learn(&mut self, _rollouts: &Rollouts<'_>) {}

    /// What it has learned, for a checkpoint; null if it learns nothing.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Goes on from what [`Estimator::state`] returned.
    ///
    /// # Errors
    /// If it is not a state of this estimator.
    fn restore(&mut self, _state: &Value) -> Result<(), SettingError> {
        Ok(())
    }
}

impl<'a> Rollouts<'a> {
    /// The finite rewards in ascending order, so that sums over them do not depend on the order in which rollouts
    /// finished.
    pub fn scored(&self) -> Vec<f64> {
        scored(self.all.iter().map(Rollout::score))
    }

    /// Each group by itself.
    fn each_group(&self) -> impl Iterator<Item = Rollouts<'a>> {
        self.groups
            .iter()
            .map(|range| Rollouts { all: &self.all[range.clone()], groups: std::slice::from_ref(range) })
    }

    /// The results of `credit` for each group, concatenated.
    fn by_group(&self, credit: impl FnMut(Rollouts<'a>) -> Vec<Option<Advantage>>) -> Vec<Option<Advantage>> {
        self.each_group().flat_map(credit).collect()
    }
}
