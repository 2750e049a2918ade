//! Generalised advantage estimation: a critic says what each token was worth.
//!
//! **What it does.** Adds up how much better than expected each token turned out, step by step: `λ` chooses between the
//! critic's opinion (0) and the reward that came in the end (1).
//!
//! **Formula.** For token `t` of the `T` sampled tokens of a rollout, with `V` the critic's values, `r_t` what the token
//! earned ([`crate::fact::TOKEN_REWARDS`]: the reward at the last token of all, if turns and spans earn nothing of their own),
//! and `V_T` 0 if the rollout came to its end, or the critic's estimate if it was cut off:
//!
//! ```text
//! δ_t = r_t + γ·V_(t+1) - V_t
//! A_t = δ_t + γ·λ·A_(t+1)            A_T = 0
//! ```
//!
//! The advantages of the step are then standardised together (`whiten`). What the critic learns is `A_t + V_t` before
//! that: [`Estimator::returns`].
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage.
//!
//! **Reduces to.** With `whiten = none`: for `λ = 0`, the one-step error; for `γ = λ = 1`, `R + V_T - V_t`, which is
//! the return if all values are 0.
//!
//! **Differs from the paper.** The paper does not standardise; verl and TRL's PPO do, over tokens (the default here).
//! verl takes `V_T = 0` also for a rollout that was cut off. Tokens from tools are not steps: `V_(t+1)` is that of the
//! next *sampled* token, as in verl. There is no KL penalty per token; `loss.use_kl_in_reward` subtracts the KL of the
//! sequence from `R`.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Gae, Rollout, Rollouts, Whiten};
//! use burnish_rl::fact::VALUES;
//! let rollout = Rollout { tokens: 2, ..Rollout::of_reward(Some(1.0)) }.with(&VALUES, [0.5, 0.75]);
//! let gae = Gae { gamma: 1.0, lambda: 0.5, whiten: Whiten::None };
//! // The last token earned 0.25 more than expected; half of that reaches the one before, which raised hopes by 0.25.
//! let credit = gae.advantages(&Rollouts { all: &[rollout], groups: &[0..1] });
//! assert_eq!(credit, [Some(Advantage::Tokens(vec![0.375, 0.25]))]);
//! ```
//!
//! **References.** Schulman et al. 2015 (GAE), arXiv:1506.02438, eq. 16.

use serde::{Deserialize, Serialize};

use super::common::of_tokens;
use super::{Advantage, Estimator, Rollout, Rollouts, Whiten};
use crate::fact::{BOOTSTRAP, Need, TOKEN_REWARDS, VALUES};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// Advantages by a critic. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gae {
    /// What a reward is worth one token earlier. Default: 1.
    pub gamma: f64,
    /// How far the errors of later tokens reach back. Default: 1, as in verl (TRL's PPO: 0.95).
    pub lambda: f64,
    /// How the advantages of a step are standardised together. Default: `tokens`.
    pub whiten: Whiten,
}

impl Default for Gae {
    fn default() -> Self {
        Gae { gamma: 1.0, lambda: 1.0, whiten: Whiten::Tokens }
    }
}

impl Part for Gae {
    const CARD: Card = Card {
        id: "gae",
        title: "Generalised advantage estimation",
        family: Family::Advantage,
        paper: "Schulman et al. 2015, Generalized Advantage Estimation, arXiv:1506.02438",
        equation: "A_t = δ_t + γ·λ·A_(t+1), δ_t = r_t + γ·V_(t+1) - V_t; then standardised over the step",
        scope: "token",
        check: Check::Golden("verl 0.9 compute_gae_advantage_return"),
        reconstructed: None,
        reduces_to: &["the return, with γ = λ = 1 and values of 0", "the error of one step, with λ = 0"],
        file: "crates/burnish-rl/src/advantage/gae.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("gamma", self.gamma, |gamma| (0.0..=1.0).contains(&gamma), "must be 0 to 1")?;
        require("lambda", self.lambda, |lambda| (0.0..=1.0).contains(&lambda), "must be 0 to 1")
    }
}

impl Gae {
    fn credit(&self, rollout: &Rollout) -> Option<Vec<f64>> {
        let whole = rollout.score()?;
        let tokens = rollout.facts.of(&TOKEN_REWARDS);
        let earned = |at: usize| match tokens.get(at) {
            Some(earned) if earned.is_finite() => *earned,
            Some(_) => 0.0,
            None if at + 1 == rollout.tokens => whole,
            None => 0.0,
        };
        let mut next_value = rollout.facts.number(&BOOTSTRAP).unwrap_or(0.0);
        let mut next_credit = 0.0;
        let mut credit = vec![0.0; rollout.tokens];
        for (at, (own, value)) in credit.iter_mut().zip(of_tokens(rollout, &VALUES)).enumerate().rev() {
            let error = earned(at) + self.gamma * next_value - value;
            *own = error + self.gamma * self.lambda * next_credit;
            (next_value, next_credit) = (*value, *own);
        }
        Some(credit)
    }
}

impl Estimator for Gae {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&VALUES, &BOOTSTRAP, &TOKEN_REWARDS])
    }

    fn compares_within_groups(&self) -> bool {
        false
    }

    /// `A_t + V_t` before any standardisation. `None` without a reward.
    fn returns(&self, rollout: &Rollout) -> Option<Vec<f64>> {
        let credit = self.credit(rollout)?;
        Some(credit.iter().zip(of_tokens(rollout, &VALUES)).map(|(own, value)| own + value).collect())
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let credit = rollouts.all.iter().map(|rollout| self.credit(rollout).map(Advantage::Tokens));
        self.whiten.apply(credit.collect(), rollouts)
    }
}
