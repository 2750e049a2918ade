//! GPG: the distance from the group's mean, enlarged where groups teach nothing.
//!
//! **What it does.** A group whose rewards are all equal adds nothing to the gradient, but its rollouts count in the
//! denominator of the mean. GPG makes up for that with a factor.
//!
//! **Formula.** With `B` the scored rollouts of the step, `M` of them in groups whose rewards are all equal:
//!
//! ```text
//! A_i = α·(R_i - mean_g) / F        α = B / (B - M)
//! ```
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. A group whose scored rewards
//! are all equal (such as a group of one) has advantages of exactly 0.
//!
//! **Reduces to.** GRPO without scaling, with `alpha = one` and `F = 1`, or where every group has variance.
//!
//! **Differs from the paper.** verl takes `α = B / N` with `N` the number of rewards that are not 0
//! (`alpha = "nonzero_rewards"`), which is the same only by chance: rewards of -1 and 1 are never 0, and all those of
//! a solved task are 1. It also gives a group of one its raw reward. The paper also allows the standard deviation as
//! `F`: that is `grpo`.
//!
//! **References.** Chu et al. 2025 (GPG), arXiv:2504.02546.

use serde::{Deserialize, Serialize};

use super::common::varies;
use super::{Advantage, Estimator, Grpo, Rollouts};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The factor that makes up for rollouts that teach nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alpha {
    /// All rollouts, divided by those in groups whose rewards are not all equal.
    #[default]
    VariedGroups,
    /// All rollouts, divided by those whose reward is not 0, as in verl.
    NonzeroRewards,
    /// Nothing.
    One,
}

/// The enlarged distance from the mean. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpg {
    /// The factor that makes up for rollouts that teach nothing. Default: `varied_groups`, as in the paper.
    pub alpha: Alpha,
    /// What the distance is divided by (`F`). Default: 1.
    pub f_norm: f64,
}

impl Default for Gpg {
    fn default() -> Self {
        Gpg { alpha: Alpha::VariedGroups, f_norm: 1.0 }
    }
}

impl Part for Gpg {
    const CARD: Card = Card {
        id: "gpg",
        title: "Group policy gradient",
        family: Family::Advantage,
        paper: "Chu et al. 2025, GPG, arXiv:2504.02546",
        equation: "α·(R_i - mean_g) / F, α = rollouts / rollouts in groups with variance",
        scope: "batch",
        check: Check::Golden("verl 0.9 compute_gpg_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["GRPO without scaling, with α = 1 and F = 1"],
        file: "crates/burnish-rl/src/advantage/gpg.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("f_norm", self.f_norm, |f_norm| f_norm > 0.0, "must be above 0")
    }
}

impl Gpg {
    fn alpha(&self, rollouts: &Rollouts<'_>) -> f64 {
        let scored = rollouts.scored();
        let taught = match self.alpha {
            Alpha::One => return 1.0,
            Alpha::NonzeroRewards => scored.iter().filter(|reward| **reward != 0.0).count(),
            Alpha::VariedGroups => rollouts
                .each_group()
                .map(|group| group.scored())
                .filter(|own| varies(own))
                .map(|own| own.len())
                .sum(),
        };
        scored.len() as f64 / taught.max(1) as f64
    }
}

impl Estimator for Gpg {
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let alpha = self.alpha(rollouts);
        let centred = Grpo::unscaled().advantages(rollouts);
        centred.into_iter().map(|own| own.map(|own| own.map(|value| alpha * value / self.f_norm))).collect()
    }
}
