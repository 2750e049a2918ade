//! PPO's clipped surrogate with an advantage per token: the objective of GRPO, DAPO, Dr. GRPO and BNPO, which differ
//! only in advantage and aggregation.
//!
//! **What it does.** Raises the probability of tokens with a positive advantage and lowers that of others,
//! until the policy has moved by a set ratio from where the update began.
//!
//! **Formula.** For each token, with `lp` the policy's log-probability, `old` the proximal, `A` the advantage:
//!
//! ```text
//! r = exp(lp - old)
//! ℓ = -min(r·A, clip(r, 1 - ε_low, 1 + ε_high)·A)
//! ℓ = min(ℓ, -c·A)   where A < 0, with `dual_clip` = c
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -r·A` where the token is not clipped, 0 where it is: if `r > 1 + ε_high` and `A > 0`,
//! `r < 1 - ε_low` and `A < 0`, or `r > c` and `A < 0`. `A = 0` gives exactly 0, however extreme `r` is. Without
//! `dual_clip` the loss grows with `r` without bound for `A < 0`.
//!
//! At the kink, `r` exactly on a bound, a token is *not* clipped: the derivative is that of the side within
//! the region. torch 2.15 gives half of that on a bound (`min` halves the gradient between its equal
//! arguments, and `clamp` passes none at its bounds), even on the bound where nothing is clipped and both
//! sides agree. So the two differ only where a bound is hit to the last bit; not on the first inner step,
//! where every `r` is exactly 1, unless `ε = 0`.
//!
//! **Reduces to.** REINFORCE with a baseline on the first inner step (`lp = old`): `r` is exactly 1, the
//! derivative exactly `-A`. PPO for `ε_low = ε_high`.
//!
//! **Differs from the paper.** `ε_high` is DAPO's, and `c` Ye et al.'s (off by default; verl 0.9: 3; TRL calls it
//! `delta`, and applies it for `A > 0` too, where it has no effect if `c ≥ 1 + ε_high`, which is required here).
//! verl clamps the log-ratio to ±20 before anything else.
//!
//! **References.** Schulman et al. 2017 (PPO), arXiv:1707.06347, eq. 7. Shao et al. 2024 (GRPO),
//! arXiv:2402.03300, eq. 3. Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 10. Dual clip: Ye et al. 2020,
//! arXiv:1912.09729, eq. 2.

use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Metric, Part, RatioBounds, SettingError, TokenLoss, Tokens};

/// The clipped surrogate. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PpoClip {
    /// How far the ratio may fall below 1 before a token with a negative advantage stops counting; 1 is no limit.
    /// Default: 0.2.
    pub epsilon_low: f64,
    /// How far the ratio may rise above 1 before a token with a positive advantage stops counting. Default: 0.2,
    /// whatever `epsilon_low` is.
    pub epsilon_high: f64,
    /// The ratio above which a token with a negative advantage stops counting; 0 (default) is no limit.
    pub dual_clip: f64,
}

impl Default for PpoClip {
    fn default() -> Self {
        PpoClip { epsilon_low: 0.2, epsilon_high: 0.2, dual_clip: 0.0 }
    }
}

impl Part for PpoClip {
    const CARD: Card = Card {
        id: "ppo_clip",
        title: "PPO's clipped surrogate (GRPO, DAPO, Dr. GRPO, BNPO)",
        family: Family::Objective,
        paper: "Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv:1707.06347",
        equation: "-min(r·A, clip(r, 1 - ε_low, 1 + ε_high)·A), r = exp(lp - old); at most -c·A where A < 0",
        scope: "token",
        check: Check::Golden("TRL 1.16 GRPOTrainer.compute_loss; verl 0.9 compute_policy_loss_vanilla"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy"],
        file: "crates/burnish-rl/src/objective/ppo_clip.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("epsilon_low", self.epsilon_low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")?;
        let least = 1.0 + self.epsilon_high;
        let rule = format!("must be 0 (off), or {least} (1 + epsilon_high) or more");
        require("dual_clip", self.dual_clip, |cap| cap == 0.0 || cap >= least, &rule)
    }
}

impl TokenLoss for PpoClip {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let mut dual = 0.0;
        for at in 0..tokens.len() {
            let (ratio, advantage) = (tokens.log_ratio(at).exp(), tokens.advantage[at]);
            if self.dual_clip > 0.0 && advantage < 0.0 && ratio > self.dual_clip {
                losses.value[at] = -self.dual_clip * advantage;
                dual += 1.0;
                continue;
            }
            let (value, clipped) =
                clipped_surrogate(ratio, advantage, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high);
            losses.value[at] = value;
            // r = exp(lp - old) is its own derivative.
            losses.d_policy[at] = if clipped.is_some() { 0.0 } else { value };
            losses.clipped[at] = clipped;
        }
        if self.dual_clip > 0.0 {
            let weight = tokens.len() as f64;
            losses.metrics.push(Metric { name: "clip_ratio/dual_mean", sum: dual, weight });
        }
    }

    fn surrogate(&self) -> Option<RatioBounds> {
        let bounds = RatioBounds { low: 1.0 - self.epsilon_low, high: 1.0 + self.epsilon_high };
        (self.dual_clip == 0.0).then_some(bounds)
    }
}

/// `-min(r·A, clip(r, low, high)·A)`, and the bound beyond which it is constant.
pub fn clipped_surrogate(ratio: f64, advantage: f64, low: f64, high: f64) -> (f64, Option<Bound>) {
    // An infinite ratio times 0 would be NaN.
    if advantage == 0.0 {
        return (0.0, None);
    }
    if advantage > 0.0 && ratio > high {
        return (-high * advantage, Some(Bound::High));
    }
    if advantage < 0.0 && ratio < low {
        return (-low * advantage, Some(Bound::Low));
    }
    (-ratio * advantage, None)
}
