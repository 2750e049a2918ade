//! SAPO: a soft gate instead of a clip.
//!
//! **What it does.** The further the ratio of a token is from 1, in either direction, the less the token counts. It
//! fades smoothly, and sooner for negative advantages, which are less stable.
//!
//! **Formula.** For each token, with `σ` the logistic function and `τ` depending on the sign of `A`:
//!
//! ```text
//! ℓ = -A·σ(τ·(r - 1))·4/τ,   r = exp(lp - old),   τ = τ_pos where A > 0, else τ_neg
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -A·r·4·σ·(1 - σ)`: at `r = 1` exactly `-A`, whatever `τ` is.
//!
//! **Reduces to.** REINFORCE on policy. The gradient of `ppo_clip` without bounds as `τ → 0`.
//!
//! **Differs from the frameworks.** Not in the formula. TRL and verl always take the mean over sequences of the mean
//! over tokens, as the paper does (`loss.aggregation = "grpo"`); each token has a loss of its own, so the other means
//! are valid objectives too, as with GRPO and DAPO. verl clamps the log-ratio to ±20.
//!
//! **References.** Qwen 2025, Soft Adaptive Policy Optimization, arXiv:2511.20347, eq. 5 and 6.

use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// SAPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sapo {
    /// How fast tokens with a positive advantage fade out. Default: 1.0.
    pub tau_pos: f64,
    /// How fast other tokens fade out. Default: 1.05.
    pub tau_neg: f64,
}

impl Default for Sapo {
    fn default() -> Self {
        Sapo { tau_pos: 1.0, tau_neg: 1.05 }
    }
}

impl Part for Sapo {
    const CARD: Card = Card {
        id: "sapo",
        title: "SAPO: a soft gate instead of a clip",
        family: Family::Objective,
        paper: "Qwen 2025, Soft Adaptive Policy Optimization, arXiv:2511.20347",
        equation: "-A·σ(τ·(r - 1))·4/τ, r = exp(lp - old), τ = τ_pos where A > 0, else τ_neg",
        scope: "token",
        check: Check::Golden("TRL 1.16 GRPOTrainer.compute_loss; verl 0.9 compute_policy_loss_sapo"),
        reconstructed: None,
        reduces_to: &[
            "REINFORCE with a baseline, on policy",
            "the gradient of ppo_clip, unclipped, as τ → 0",
        ],
        file: "crates/burnish-rl/src/objective/sapo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (key, tau) in [("tau_pos", self.tau_pos), ("tau_neg", self.tau_neg)] {
            require(key, tau, |tau| tau > 0.0, "must be above 0")?;
        }
        Ok(())
    }
}

impl TokenLoss for Sapo {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let (ratio, advantage) = (tokens.log_ratio(at).exp(), tokens.advantage[at]);
            let tau = if advantage > 0.0 { self.tau_pos } else { self.tau_neg };
            let distance = tau * (ratio - 1.0);
            let gate = logistic(distance);
            losses.value[at] = -advantage * gate * 4.0 / tau;
            // 1 - σ(x) = σ(-x), without the loss of digits. Where it is 0, an infinite ratio would give NaN.
            let slope = 4.0 * gate * logistic(-distance);
            losses.d_policy[at] = if slope == 0.0 { 0.0 } else { -advantage * ratio * slope };
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
