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
//! deviation, and gets no advantage. A group whose scored rewards are all equal (such as a group of one) has advantages
//! of exactly 0: rounding in its mean is not amplified by `1/ε`. With `scale = group`, so has one whose standard
//! deviation is at most `std_min`.
//!
//! **Reduces to.** With `scale = none` and groups of `G`, RLOO times `(G - 1)/G`. Adding a constant to the
//! rewards of a group changes nothing.
//!
//! **Differs from the paper.** Shao et al. give no `ε`. TRL adds 1e-4 and divides by `n - 1`, which are the
//! defaults here; verl adds 1e-6, and takes 0 and 1 for mean and standard deviation of a group of one
//! (`group_of_one = "raw"`); ROLL adds 1e-6 and gives 0 where the standard deviation is at most that
//! (`std_min = 1e-6`). TRL sets the advantage of an unscored rollout to 0 and trains on it (it counts in denominators);
//! here it has no advantage, so the caller leaves it out. TRL's `multi_objective_aggregation = "normalize_then_sum"` is
//! the estimator `gdpo`.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Grpo, Rollout, Rollouts, Scale};
//! let rollouts = [Some(1.0), Some(0.0), None, Some(0.5), Some(2.0), Some(2.0)].map(Rollout::of_reward);
//! let grpo = Grpo { scale: Scale::None, ..Grpo::default() };
//! let credit = grpo.advantages(&Rollouts { all: &rollouts, groups: &[0..3, 3..6] });
//! let expected = [Some(0.5), Some(-0.5), None, Some(-1.0), Some(0.5), Some(0.5)];
//! assert_eq!(credit, expected.map(|advantage| advantage.map(Advantage::Whole)));
//! ```
//!
//! **References.** Shao et al. 2024 (GRPO), arXiv:2402.03300, section 4.1.2. Without scaling: Liu et al. 2025
//! (Dr. GRPO), arXiv:2503.20783. Scaling by the batch: Liu et al. 2025, arXiv:2508.08221.

use serde::{Deserialize, Serialize};

use super::common::{centred, mean, std};
use super::{Advantage, Estimator, Rollouts};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

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

/// What the only scored member of a group is credited with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupOfOne {
    /// Nothing: there is nobody to compare it with.
    #[default]
    Zero,
    /// Its reward, as if the group had a mean of 0 and a standard deviation of 1.
    Raw,
}

/// The group-relative advantage. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grpo {
    /// What the distance from the group's mean is divided by. Default: `group`.
    pub scale: Scale,
    /// What is subtracted from the count in the variance: 1 (default) for that of a sample, 0 for that of the
    /// population.
    pub ddof: usize,
    /// What is added to the standard deviation. Default: 1e-4, as in TRL.
    pub epsilon: f64,
    /// The standard deviation up to which the members of a group count as equal, with `scale = group`. Default: 0.
    pub std_min: f64,
    /// What the only scored member of a group is credited with. Default: `zero`.
    pub group_of_one: GroupOfOne,
}

impl Default for Grpo {
    fn default() -> Self {
        Grpo { scale: Scale::Group, ddof: 1, epsilon: 1e-4, std_min: 0.0, group_of_one: GroupOfOne::Zero }
    }
}

impl Part for Grpo {
    const CARD: Card = Card {
        id: "grpo",
        title: "Group-relative advantage",
        family: Family::Advantage,
        paper: "Shao et al. 2024, DeepSeekMath, arXiv:2402.03300",
        equation: "(R_i - mean_g) / (std + ε)",
        scope: "group",
        check: Check::Golden("TRL 1.16 GRPOTrainer; verl 0.9 compute_grpo_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["RLOO times (G - 1)/G, without scaling"],
        file: "crates/burnish-rl/src/advantage/grpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("ddof", self.ddof as f64, |ddof| ddof <= 1.0, "must be 0 or 1")?;
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")?;
        require("std_min", self.std_min, |std_min| std_min >= 0.0, "must be 0 or more")
    }
}

impl Estimator for Grpo {
    fn scale(&self) -> Scale {
        self.scale
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let batch_std = std(&rollouts.scored(), self.ddof);
        rollouts.by_group(|group| {
            let members = group.scored();
            let group_std = std(&members, self.ddof);
            let std = match self.scale {
                Scale::Group => group_std.unwrap_or(1.0),
                Scale::Batch => batch_std.unwrap_or(0.0),
                Scale::None => 1.0,
            };
            let divisor = if self.scale == Scale::None { 1.0 } else { std + self.epsilon };
            if let ([reward], GroupOfOne::Raw) = (&members[..], self.group_of_one) {
                let raw = Advantage::Whole(reward / divisor);
                return group.all.iter().map(|rollout| rollout.score().map(|_| raw.clone())).collect();
            }
            let mean = mean(&members).unwrap_or(0.0);
            let is_equal = self.scale == Scale::Group && std <= self.std_min;
            centred(group, |reward| if is_equal { 0.0 } else { (reward - mean) / divisor })
        })
    }
}

impl Grpo {
    /// Only the distance from the mean of the group.
    pub(super) fn unscaled() -> Self {
        Grpo { scale: Scale::None, ..Grpo::default() }
    }
}
