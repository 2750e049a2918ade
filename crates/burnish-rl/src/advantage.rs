//! Group-relative advantage: which of the rollouts of one task were better than their siblings.
//!
//! **What it does.** Compares the reward of each rollout with the mean of its group, and optionally divides
//! by a standard deviation.
//!
//! **Formula.** For rollout `i` of group `g`, with `R_i` its reward and `n` the number of scored members:
//!
//! ```text
//! A_i = (R_i - mean_g) / (std + ε)        std = sqrt(Σ (R - mean)² / (n - ddof))
//! ```
//!
//! `std` is that of the group, or of everything sampled in this step (`batch`), or the division is left out
//! (`none`).
//!
//! **Conventions.** A rollout without a reward (its verifier failed) counts in no mean and no standard
//! deviation, and gets no advantage. A group whose scored rewards are all equal, a group of one among them,
//! has advantages of exactly 0: rounding in its mean is not amplified by `1/ε`.
//!
//! **Reduces to.** With `scale = none` and groups of `G`, RLOO times `(G - 1)/G`. Adding a constant to the
//! rewards of a group changes nothing.
//!
//! **Differs from the paper.** Shao et al. give no `ε`. TRL adds 1e-4 and divides by `n - 1`, which are the
//! defaults here; verl adds 1e-6 and gives a group of one its raw reward. TRL sets the advantage of an
//! unscored rollout to 0 and trains on it (it counts in denominators); here it has none, so that the caller
//! leaves it out.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{AdvantageConfig, Scale, group_relative};
//! let config = AdvantageConfig { scale: Scale::None, ..AdvantageConfig::default() };
//! let rewards = [Some(1.0), Some(0.0), None, Some(0.5), Some(2.0), Some(2.0)];
//! let credit = group_relative(&rewards, 3, &config);
//! assert_eq!(credit.advantages, [Some(0.5), Some(-0.5), None, Some(-1.0), Some(0.5), Some(0.5)]);
//! ```
//!
//! **References.** Shao et al. 2024 (GRPO), arXiv:2402.03300, section 4.1.2. Without scaling: Liu et al. 2025
//! (Dr. GRPO), arXiv:2503.20783. Scaling by the batch: Liu et al. 2025, arXiv:2508.08221.

use crate::config::{ConfigError, require};
use burnish_core::rng::{self, Stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the distance from the group's mean is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The standard deviation of the group.
    #[default]
    Group,
    /// The standard deviation of all rewards of the step.
    Batch,
    /// Nothing.
    None,
}

/// How rewards become advantages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdvantageConfig {
    /// What the distance from the group's mean is divided by. Default: `group`.
    pub scale: Scale,
    /// What is taken off the count in the variance: 1 (default) for the sample's, 0 for the population's.
    pub ddof: usize,
    /// What is added to the standard deviation. Default: 1e-4, as in TRL.
    pub epsilon: f64,
}

impl Default for AdvantageConfig {
    fn default() -> Self {
        AdvantageConfig { scale: Scale::Group, ddof: 1, epsilon: 1e-4 }
    }
}

impl AdvantageConfig {
    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        require("ddof", self.ddof as f64, |ddof| ddof <= 1.0, "must be 0 or 1")?;
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")
    }
}

/// Advantages, and what is worth knowing about the rewards they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Credit {
    /// One entry a rollout; `None` where it had no reward.
    pub advantages: Vec<Option<f64>>,
    /// `reward` (mean), `reward_std` (n - 1) and `frac_reward_zero_std`, as TRL 1.16 defines them. A number
    /// that does not exist (the mean of nothing) is left out.
    pub metrics: BTreeMap<String, f64>,
}

/// Advantages of rollouts that lie group after group, `group_size` to each; the last group may be smaller.
/// A reward that is not finite can't be compared with others, and counts as none.
pub fn group_relative(rewards: &[Option<f64>], group_size: usize, config: &AdvantageConfig) -> Credit {
    let batch_std = std(&scored(rewards), config.ddof);
    let mut advantages = Vec::with_capacity(rewards.len());
    for group in groups(rewards, group_size) {
        let members = scored(group);
        let divisor = match config.scale {
            Scale::Group => std(&members, config.ddof).unwrap_or(0.0) + config.epsilon,
            Scale::Batch => batch_std.unwrap_or(0.0) + config.epsilon,
            Scale::None => 1.0,
        };
        let mean = mean(&members).unwrap_or(0.0);
        let varies = has_variance(group);
        let advantage = |reward: f64| if varies { (reward - mean) / divisor } else { 0.0 };
        advantages.extend(group.iter().map(|reward| reward.filter(|r| r.is_finite()).map(advantage)));
    }
    Credit { advantages, metrics: metrics(rewards, group_size, config.scale) }
}

/// Can anything be learnt from this group: are its finite rewards not all equal? Where they are, or there are fewer
/// than two, [`group_relative`] gives advantages of exactly 0.
pub fn has_variance(group: &[Option<f64>]) -> bool {
    let members = scored(group);
    members.first() != members.last()
}

/// The control experiment in which nothing can be learnt: the rewards of each group go to random members of
/// it. Every number that depends on the set of a group's rewards stays what it was. Rollouts without a reward
/// keep none.
///
/// `seed` is that of an [`rng::Address`] with purpose [`rng::Purpose::Perturb`].
pub fn shuffle_within_groups(rewards: &[Option<f64>], group_size: usize, seed: u64) -> Vec<Option<f64>> {
    let mut shuffled = Vec::with_capacity(rewards.len());
    for (index, group) in groups(rewards, group_size).enumerate() {
        let mut given: Vec<f64> = group.iter().flatten().copied().collect();
        Stream::new(rng::bits(seed, index as u64)).shuffle(&mut given);
        let mut given = given.into_iter();
        shuffled.extend(group.iter().map(|reward| reward.and_then(|_| given.next())));
    }
    shuffled
}

fn groups(rewards: &[Option<f64>], group_size: usize) -> std::slice::Chunks<'_, Option<f64>> {
    rewards.chunks(group_size.max(1))
}

/// The finite rewards in ascending order, so that sums over them do not depend on who finished first.
fn scored(rewards: &[Option<f64>]) -> Vec<f64> {
    let mut found: Vec<f64> = rewards.iter().flatten().copied().filter(|reward| reward.is_finite()).collect();
    found.sort_unstable_by(f64::total_cmp);
    found
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

fn metrics(rewards: &[Option<f64>], group_size: usize, scale: Scale) -> BTreeMap<String, f64> {
    let all = scored(rewards);
    // TRL's share counts rollouts, and takes the standard deviation that scales them. Of a group in which
    // fewer than two of several members were scored, it is not a number, hence not zero.
    let zero_std = |group: &[Option<f64>]| group.len() == 1 || std(&scored(group), 1).is_some_and(is_zero);
    let zero_std_rollouts = match scale {
        Scale::Batch => usize::from(zero_std(rewards)) * rewards.len(),
        Scale::Group | Scale::None => {
            groups(rewards, group_size).filter(|group| zero_std(group)).map(<[_]>::len).sum()
        }
    };
    let share = (!rewards.is_empty()).then(|| zero_std_rollouts as f64 / rewards.len() as f64);
    [("reward", mean(&all)), ("reward_std", std(&all, 1)), ("frac_reward_zero_std", share)]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// `torch.isclose(std, 0)`.
fn is_zero(std: f64) -> bool {
    std <= 1e-8
}
