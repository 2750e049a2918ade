//! GDPO: each component of the reward is compared within the group by itself, before they are added up.
//!
//! **What it does.** If components are added first, different mixtures of them can give the same sum, and one with a
//! large spread drowns the others. Here each is put on the scale of its own group first.
//!
//! **Formula.** With `r_ik` component `k` of the reward of rollout `i`, and `w_k` its weight:
//!
//! ```text
//! a_i = Σ_k w_k·(r_ik - mean_g(r_k)) / (std_g(r_k) + ε)        std with n - 1
//! A_i = a_i standardised over the step (`whiten`)
//! ```
//!
//! **Weights.** Components arrive already multiplied by the weights with which they add up to the reward. Dividing by
//! the standard deviation takes that factor out again (except for `ε`), so it has no effect here; `weights`, applied
//! after the division, has. With `scale_by_std = false` the earlier factor stays, and `weights` multiplies it.
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. A component that is missing
//! or not finite counts in no mean of that component and adds 0. A component that is equal for the whole group adds
//! exactly 0.
//!
//! **Reduces to.** With one component that is the reward and `whiten = none`, GRPO.
//!
//! **Differs from the paper.** The second standardisation is over rollouts, as in the paper and in TRL
//! (`multi_objective_aggregation = "normalize_then_sum"`, whose `ε` of 1e-4 is the default); verl's is over tokens
//! (`whiten = "tokens"`, `epsilon = 1e-6`). verl gives a group of one its raw reward.
//!
//! **References.** Liu et al. 2026 (GDPO), arXiv:2601.05242.

use serde::{Deserialize, Serialize};

use super::{Advantage, Estimator, Grpo, Rollout, Rollouts, Scale, Whiten};
use crate::fact::{COMPONENTS, Need};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The sum of normalised components. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gdpo {
    /// Weight of each component after its normalisation; 1 beyond the end of the list. Default: an empty list, all 1.
    pub weights: Vec<f64>,
    /// Is each component divided by its standard deviation in the group? Default: true.
    pub scale_by_std: bool,
    /// What is added to that standard deviation. Default: 1e-4, as in TRL.
    pub epsilon: f64,
    /// How the sums of a step are standardised together. Default: `rollouts`.
    pub whiten: Whiten,
}

impl Default for Gdpo {
    fn default() -> Self {
        Gdpo { weights: Vec::new(), scale_by_std: true, epsilon: 1e-4, whiten: Whiten::Rollouts }
    }
}

impl Part for Gdpo {
    const CARD: Card = Card {
        id: "gdpo",
        title: "GDPO: components normalised apart",
        family: Family::Advantage,
        paper: "Liu et al. 2026, GDPO, arXiv:2601.05242",
        equation: "Σ_k w_k·(r_ik - mean_g(r_k)) / (std_g(r_k) + ε), then standardised over the step",
        scope: "batch",
        check: Check::Golden(
            "TRL 1.16 GRPOTrainer, normalize_then_sum; verl 0.9 compute_gdpo_outcome_advantage",
        ),
        reconstructed: None,
        reduces_to: &["GRPO, with one component and no whitening"],
        file: "crates/burnish-rl/src/advantage/gdpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (at, weight) in self.weights.iter().enumerate() {
            require(&format!("weights[{at}]"), *weight, |_| true, "must be a finite number")?;
        }
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")
    }
}

impl Estimator for Gdpo {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&COMPONENTS])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let scale = if self.scale_by_std { Scale::Group } else { Scale::None };
        let grpo = Grpo { scale, epsilon: self.epsilon, ..Grpo::default() };
        let mut sums: Vec<Option<f64>> =
            rollouts.all.iter().map(|rollout| rollout.score().map(|_| 0.0)).collect();
        let components =
            rollouts.all.iter().map(|rollout| rollout.facts.of(&COMPONENTS).len()).max().unwrap_or(0);
        for at in 0..components {
            let weight = self.weights.get(at).copied().unwrap_or(1.0);
            let alone = |rollout: &Rollout| {
                Rollout::of_reward(
                    rollout.score().and_then(|_| rollout.facts.of(&COMPONENTS).get(at).copied()),
                )
            };
            let all: Vec<Rollout> = rollouts.all.iter().map(alone).collect();
            let credit = grpo.advantages(&Rollouts { all: &all, groups: rollouts.groups });
            for (sum, own) in sums.iter_mut().zip(credit) {
                if let (Some(sum), Some(Advantage::Whole(value))) = (sum, own) {
                    *sum += weight * value;
                }
            }
        }
        self.whiten.apply(sums.into_iter().map(|sum| sum.map(Advantage::Whole)).collect(), rollouts)
    }
}
