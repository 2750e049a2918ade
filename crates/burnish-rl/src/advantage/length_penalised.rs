//! GRPO with a price on length: of two answers that earn the same, the shorter one is better.
//!
//! **What it does.** Before rewards are compared, subtracts from each a price for sampled tokens and for turns, each
//! relative to the most that any member of the group spent. The price is in units of the group's mean reward, so a task
//! that nobody solves has none: length does not matter there yet.
//!
//! **Formula.** With `L` the sampled tokens of a rollout and `N` its turns:
//!
//! ```text
//! R'_i = R_i - max(mean_g(R), 0)·(a·L_i / max_g(L) + b·N_i / max_g(N))
//! A_i  = GRPO of R'
//! ```
//!
//! **Conventions.** A rollout without a reward counts in no mean and no maximum, and gets no advantage. A group whose
//! rewards are all equal can still have advantages here, if lengths differ; whatever drops groups without variance
//! drops such groups too.
//!
//! **Reduces to.** GRPO for `a = b = 0`, and where all lengths and turns are equal.
//!
//! **Differs from prime-rl.** prime-rl has a third price, with a weight of 0.1, on tokens that the model read but did
//! not write; it is missing here because rollouts do not say how many these are. If the mean reward is negative,
//! prime-rl rewards length; here the price is then 0. prime-rl never divides by a standard deviation (`scale = none`,
//! also the default here).
//!
//! **References.** prime-rl 2026, `length_penalty` of its GRPO (type `linear`).

use serde::{Deserialize, Serialize};

use super::common::mean;
use super::{Advantage, Estimator, Grpo, Rollout, Rollouts, Scale};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// GRPO on rewards minus a price. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LengthPenalised {
    /// Price of sampled tokens (`a`). Default: 0.25, as in prime-rl.
    pub output_tokens_weight: f64,
    /// Price of turns (`b`). Default: 0.1, as in prime-rl.
    pub turns_weight: f64,
    /// What the distance from the group's mean is divided by. Default: `none`.
    pub scale: Scale,
    /// What is added to the standard deviation (n - 1). Default: 1e-4.
    pub epsilon: f64,
}

impl Default for LengthPenalised {
    fn default() -> Self {
        LengthPenalised { output_tokens_weight: 0.25, turns_weight: 0.1, scale: Scale::None, epsilon: 1e-4 }
    }
}

impl Part for LengthPenalised {
    const CARD: Card = Card {
        id: "length_penalised",
        title: "GRPO with a price on tokens and turns",
        family: Family::Advantage,
        paper: "prime-rl 2026, GRPO with a linear length penalty",
        equation: "GRPO of R_i - max(mean_g(R), 0)·(a·L_i / max_g(L) + b·N_i / max_g(N))",
        scope: "group",
        check: Check::Oracle(
            "NumPy, from prime-rl's grpo with length_penalty, without its price on input tokens",
        ),
        reconstructed: None,
        reduces_to: &["GRPO, with prices of 0 or equal lengths and turns"],
        file: "crates/burnish-rl/src/advantage/length_penalised.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (key, value) in [
            ("output_tokens_weight", self.output_tokens_weight),
            ("turns_weight", self.turns_weight),
            ("epsilon", self.epsilon),
        ] {
            require(key, value, |value| value >= 0.0, "must be 0 or more")?;
        }
        Ok(())
    }
}

impl Estimator for LengthPenalised {
    fn scale(&self) -> Scale {
        self.scale
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let shaped: Vec<Rollout> = rollouts.each_group().flat_map(|group| self.shaped(group)).collect();
        let grpo = Grpo { scale: self.scale, epsilon: self.epsilon, ..Grpo::default() };
        grpo.advantages(&Rollouts { all: &shaped, groups: rollouts.groups })
    }
}

impl LengthPenalised {
    /// The members of a group, each with its price subtracted from its reward.
    fn shaped(&self, group: Rollouts<'_>) -> Vec<Rollout> {
        let scored = || group.all.iter().filter(|rollout| rollout.score().is_some());
        let tokens_max = scored().map(|rollout| rollout.tokens).max().unwrap_or(0).max(1);
        let turns_max = scored().map(|rollout| rollout.turns.len()).max().unwrap_or(0).max(1);
        let unit = mean(&group.scored()).unwrap_or(0.0).max(0.0);
        let shaped = |rollout: &Rollout| {
            let price = self.output_tokens_weight * (rollout.tokens as f64 / tokens_max as f64)
                + self.turns_weight * (rollout.turns.len() as f64 / turns_max as f64);
            Rollout::of_reward(rollout.score().map(|reward| reward - unit * price))
        };
        group.all.iter().map(shaped).collect()
    }
}
