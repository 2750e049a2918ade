//! What estimators share: sums that do not depend on the order, and ways to standardise.

use serde::{Deserialize, Serialize};

use super::{Advantage, Rollout, Rollouts};
use crate::SettingError;
use crate::fact::{Fact, TURN_REWARDS};
use crate::settings::require;

/// The sum, taken in ascending order: the same to the bit in whatever order the values come.
pub(super) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.iter().sum()
}

/// The finite rewards in ascending order.
pub(super) fn scored(rewards: impl IntoIterator<Item = Option<f64>>) -> Vec<f64> {
    let mut found: Vec<f64> = rewards.into_iter().flatten().filter(|reward| reward.is_finite()).collect();
    found.sort_unstable_by(f64::total_cmp);
    found
}

/// Do values in ascending order differ at all?
pub(super) fn varies(sorted: &[f64]) -> bool {
    sorted.first() != sorted.last()
}

/// `credit` of each reward of a group; exactly 0 if all rewards are equal, so that rounding in their mean is not
/// amplified by a small divisor.
pub(super) fn centred(group: Rollouts<'_>, credit: impl Fn(f64) -> f64) -> Vec<Option<Advantage>> {
    let varies = varies(&group.scored());
    let advantage = |reward: f64| Advantage::Whole(if varies { credit(reward) } else { 0.0 });
    group.all.iter().map(|rollout| rollout.score().map(advantage)).collect()
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation. `None` for fewer than two values (TRL: NaN).
pub(super) fn std(values: &[f64], ddof: usize) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() >= 2)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - ddof.min(1)) as f64).sqrt())
}

/// A fact about a rollout's tokens.
///
/// # Panics
/// If it is not known for each token, though [`super::Estimator::needs`] asks for it.
pub(super) fn of_tokens<'a>(rollout: &'a Rollout, fact: &Fact) -> &'a [f64] {
    let (found, tokens) = (rollout.facts.of(fact), rollout.tokens);
    assert_eq!(found.len(), tokens, "the estimator needs {} of each of {tokens} tokens", fact.id);
    found
}

/// Refuses settings of estimators that credit episodes and steps.
pub(super) fn check_steps(episode: f64, step: f64, epsilon: f64, gamma: f64) -> Result<(), SettingError> {
    for (key, value) in [("episode_weight", episode), ("step_weight", step), ("epsilon", epsilon)] {
        require(key, value, |value| value >= 0.0, "must be 0 or more")?;
    }
    require("gamma", gamma, |gamma| (0.0..=1.0).contains(&gamma), "must be 0 to 1")
}

/// `γ`-discounted sums of the rewards of each turn and those after it. A reward that is not finite earns nothing.
pub(super) fn discounted_returns(rollout: &Rollout, gamma: f64) -> Vec<f64> {
    let mut following = 0.0;
    let mut returns: Vec<f64> = rollout
        .facts
        .of(&TURN_REWARDS)
        .iter()
        .rev()
        .map(|reward| {
            let earned = if reward.is_finite() { *reward } else { 0.0 };
            following = earned + gamma * following;
            following
        })
        .collect();
    returns.reverse();
    returns
}

/// How numbers that are compared with each other are put on one scale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// Minus their mean, divided by their standard deviation (n - 1) plus ε.
    #[default]
    MeanStd,
    /// Minus their mean.
    Mean,
    /// [`Normalisation::MeanStd`], bounded to -1 to 3.
    AsymClip,
    /// As they are.
    Identity,
}

/// A [`Normalisation`] with the statistics of a population.
pub(super) struct Normaliser {
    kind: Normalisation,
    varies: bool,
    mean: f64,
    divisor: f64,
}

impl Normalisation {
    /// With the statistics of `population`, which may come in any order.
    pub(super) fn by(self, population: impl IntoIterator<Item = f64>, epsilon: f64) -> Normaliser {
        let population = scored(population.into_iter().map(Some));
        let divisor = match self {
            Normalisation::MeanStd | Normalisation::AsymClip => std(&population, 1).unwrap_or(0.0) + epsilon,
            Normalisation::Mean | Normalisation::Identity => 1.0,
        };
        Normaliser {
            kind: self,
            varies: varies(&population),
            mean: mean(&population).unwrap_or(0.0),
            divisor,
        }
    }
}

impl Normaliser {
    /// A member of the population, normalised: exactly 0 if all members are equal, except with
    /// [`Normalisation::Identity`].
    pub(super) fn of(&self, value: f64) -> f64 {
        match self.kind {
            Normalisation::Identity => value,
            _ if !self.varies => 0.0,
            Normalisation::AsymClip => ((value - self.mean) / self.divisor).clamp(-1.0, 3.0),
            Normalisation::Mean | Normalisation::MeanStd => (value - self.mean) / self.divisor,
        }
    }
}

/// How the advantages of everything sampled in a step are standardised together. If they are all equal, they become
/// exactly 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whiten {
    /// Each sampled token counts once: `(A - mean) / sqrt(variance + 1e-8)`, as verl's `masked_whiten`.
    #[default]
    Tokens,
    /// Each rollout counts once: `(A - mean) / (std + 1e-4)`, as in TRL.
    Rollouts,
    /// They stay as they are.
    None,
}

impl Whiten {
    /// The advantages, standardised by mean and variance (n - 1) over all of them.
    pub(super) fn apply(
        self,
        mut credit: Vec<Option<Advantage>>,
        rollouts: &Rollouts<'_>,
    ) -> Vec<Option<Advantage>> {
        if self == Whiten::None {
            return credit;
        }
        let parts: Vec<Weighted> = credit
            .iter()
            .zip(rollouts.all)
            .filter_map(|(own, rollout)| self.weigh(own.as_ref()?, rollout))
            .collect();
        let count = sum(parts.iter().map(|part| part.count));
        // Sums over rollouts of sums over their tokens: sorting the outer ones is enough to make them independent of
        // the order.
        let over = |term: &dyn Fn(f64) -> f64| sum(parts.iter().map(|part| part.sum(term)));
        let mean = over(&|value| value) / count.max(1.0);
        let variance = over(&|value| (value - mean).powi(2)) / (count - 1.0).max(1.0);
        let divisor = match self {
            Whiten::Tokens => (variance + 1e-8).sqrt(),
            Whiten::Rollouts | Whiten::None => variance.sqrt() + 1e-4,
        };
        let mut values = parts.iter().flat_map(|part| &part.values);
        let first = values.next().copied();
        let varies = values.any(|value| Some(*value) != first);
        for value in credit.iter_mut().flatten().flat_map(Advantage::values_mut) {
            *value = if varies { (*value - mean) / divisor } else { 0.0 };
        }
        credit
    }

    /// The numbers of one rollout that count, with their weights; `None` if it has none.
    fn weigh(self, advantage: &Advantage, rollout: &Rollout) -> Option<Weighted> {
        let (values, tokens): (Vec<f64>, Vec<f64>) = match advantage {
            Advantage::Whole(value) => (vec![*value], vec![rollout.tokens as f64]),
            Advantage::Steps(values) => {
                (values.clone(), rollout.turns.iter().map(|turn| turn.len() as f64).collect())
            }
            Advantage::Tokens(values) => (values.clone(), vec![1.0; values.len()]),
        };
        let (weights, count) = match self {
            Whiten::Tokens => {
                let count = tokens.iter().sum::<f64>();
                (tokens, count)
            }
            Whiten::Rollouts | Whiten::None => (vec![1.0 / values.len() as f64; values.len()], 1.0),
        };
        (!values.is_empty() && count > 0.0).then_some(Weighted { values, weights, count })
    }
}

/// Numbers of one rollout, with their weights and the sum of these.
struct Weighted {
    values: Vec<f64>,
    weights: Vec<f64>,
    count: f64,
}

impl Weighted {
    fn sum(&self, term: &dyn Fn(f64) -> f64) -> f64 {
        self.values.iter().zip(&self.weights).map(|(value, weight)| weight * term(*value)).sum()
    }
}
