//! VESPO: REINFORCE with each sequence weighted by a soft function of its whole ratio.
//!
//! **What it does.** The further the policy has moved since a sequence was sampled, in either direction, the less the
//! sequence counts. The weight falls smoothly with the ratio of the *whole* sequence, not normalised by its length.
//!
//! **Formula.** For a sequence, `sg` a constant of the derivative:
//!
//! ```text
//! W   = exp(Σ_t (lp_t - old_t))
//! φ_t = W^k·exp(λ·(1 - W))      (k, λ) = (2, 3) where A_t ≥ 0, else (3, 2)
//! ℓ_t = -sg(φ_t)·A_t·lp_t
//! ```
//!
//! **Derivative.** `∂(Σ ℓ)/∂lp_t = -φ_t·A_t`.
//!
//! **Reduces to.** REINFORCE on policy, exactly: `φ(1) = 1`. Nothing, far away: `φ` is 0 at both ends.
//!
//! **Aggregation.** `-φ·A·Σ lp` is the loss of a sequence, so it is meant for a sum over tokens; TRL's is that of
//! `dapo`. Under `grpo`, each sequence is also divided by its length.
//!
//! **Differs from TRL 1.16.** TRL bounds `log W` to ±20 (below: log 1e-8) and each token's log-ratio to ±20 before
//! the sum; where that makes a difference, `φ` is below 1e-13 with the defaults. `λ` below 1e-4, which it raises, is
//! refused. It multiplies `W` by the truncated weights of a separate sampler; here `W` is the ratio to the start of the
//! update. Its `vespo/phi_seq_mean` is the mean of `φ` over sequences; ours is the mean over loss tokens.
//!
//! **References.** VESPO: Variational Sequence-Level Soft Policy Optimization, 2026, arXiv:2602.10693.

use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Card, Check, Family, Losses, Metric, Part, SettingError, TokenLoss, Tokens};

/// VESPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vespo {
    /// How fast a sequence with an advantage of 0 or more fades out as its ratio falls to 0. Default: 2.
    pub k_pos: f64,
    /// How fast it fades out as its ratio rises. Default: 3.
    pub lambda_pos: f64,
    /// As `k_pos`, for a negative advantage. Default: 3.
    pub k_neg: f64,
    /// As `lambda_pos`, for a negative advantage. Default: 2.
    pub lambda_neg: f64,
}

impl Default for Vespo {
    fn default() -> Self {
        Vespo { k_pos: 2.0, lambda_pos: 3.0, k_neg: 3.0, lambda_neg: 2.0 }
    }
}

impl Part for Vespo {
    const CARD: Card = Card {
        id: "vespo",
        title: "VESPO: a soft weight of whole sequences",
        family: Family::Objective,
        paper: "2026, Variational Sequence-Level Soft Policy Optimization, arXiv:2602.10693",
        equation: "-sg(φ)·A·lp, φ = W^k·exp(λ·(1 - W)), W = exp(Σ_t (lp_t - old_t))",
        scope: "sequence",
        check: Check::Golden("TRL 1.16 GRPOTrainer.compute_loss"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy"],
        file: "crates/burnish-rl/src/objective/vespo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (key, k) in [("k_pos", self.k_pos), ("k_neg", self.k_neg)] {
            // The largest weight is (k/λ)^k·e^(λ - k): within these limits it is finite.
            require(key, k, |k| (0.0..=50.0).contains(&k), "must be 0 to 50")?;
        }
        for (key, lambda) in [("lambda_pos", self.lambda_pos), ("lambda_neg", self.lambda_neg)] {
            require(key, lambda, |lambda| (1e-4..=50.0).contains(&lambda), "must be 0.0001 to 50")?;
        }
        Ok(())
    }
}

impl TokenLoss for Vespo {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let log_ratio: f64 = (0..tokens.len()).map(|at| tokens.detached_log_ratio(at)).sum();
        let mut sum = 0.0;
        for at in 0..tokens.len() {
            let advantage = tokens.advantage[at];
            let (k, lambda) =
                if advantage >= 0.0 { (self.k_pos, self.lambda_pos) } else { (self.k_neg, self.lambda_neg) };
            let weight = (lambda + k * log_ratio - lambda * log_ratio.exp()).exp();
            losses.d_policy[at] = -weight * advantage;
            losses.value[at] = losses.d_policy[at] * tokens.policy[at];
            sum += weight;
        }
        losses.metrics.push(Metric { name: "vespo/phi_mean", sum, weight: tokens.len() as f64 });
    }
}
