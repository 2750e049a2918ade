//! The entropy of the policy: which tokens are its forks, and a bonus that keeps it from collapsing.
//!
//! **What it does.** Trains only on the tokens where the policy was least sure (`top_entropy_quantile`), and adjusts
//! the weight of an entropy bonus from step to step ([`AdaptiveEntropy`]).
//!
//! **Formula.** With `q = top_entropy_quantile` below 1, a token of the optimiser batch is trained on if
//!
//! ```text
//! H[t] ≥ quantile(H, 1 - q)
//! ```
//!
//! where the quantile of `n` numbers lies at rank `(1 - q)(n - 1)`, interpolated linearly between two numbers (torch's
//! `linear`). `q = 0` trains on the token with the highest entropy. The mask applies to the objective's own loss and to
//! the entropy bonus; the KL penalty is over all loss tokens.
//!
//! After a step whose mean entropy over the tokens with the bonus was `H`, the coefficient of the bonus is
//!
//! ```text
//! c' = min(c + delta, coef_max)  where H ≤ target,   max(c - delta, coef_min)  otherwise
//! ```
//!
//! and the next step uses `c'` where `H ≤ target`, 0 otherwise. The first step has no bonus.
//!
//! **Differs from TRL 1.16.** TRL takes the quantile over a micro-batch of all processes, so it depends on how much
//! memory a machine has; here it is taken over the optimiser batch. TRL rounds entropies to f32 first. A
//! `target_entropy` of 0 is TRL's `use_adaptive_entropy = False`; its default target is 0.2, delta 0.005.
//!
//! **Example.**
//! ```
//! use burnish_rl::entropy::{AdaptiveEntropy, quantile};
//! assert_eq!(quantile(&[3.0, 1.0, 2.0, 4.0], 0.5), 2.5);
//! let adaptive = AdaptiveEntropy { target_entropy: 0.2, ..AdaptiveEntropy::default() };
//! assert_eq!(adaptive.next(0.01, 0.1), 0.01 + 0.005);
//! assert_eq!((adaptive.applied(0.01, 0.1), adaptive.applied(0.01, 0.3)), (0.01, 0.0));
//! ```
//!
//! **References.** Forks: Wang et al. 2025, "Beyond the 80/20 rule", arXiv:2506.01939. Adaptive coefficient: He et al.
//! 2025 (Skywork-OR1), arXiv:2505.22312.

use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::settings::require;

/// How the coefficient of the entropy bonus follows a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveEntropy {
    /// The entropy at or below which the bonus is applied and grows, in nats per token; 0 (default) leaves the
    /// coefficient as it is.
    pub target_entropy: f64,
    /// By how much the coefficient changes in a step. Default: 0.005.
    pub delta: f64,
    /// Its least value. Default: 0.
    pub coef_min: f64,
    /// Its greatest value. Default: 1.
    pub coef_max: f64,
}

impl Default for AdaptiveEntropy {
    fn default() -> Self {
        AdaptiveEntropy { target_entropy: 0.0, delta: 0.005, coef_min: 0.0, coef_max: 1.0 }
    }
}

impl AdaptiveEntropy {
    /// Does the coefficient change at all?
    pub fn is_on(&self) -> bool {
        self.target_entropy > 0.0
    }

    /// The coefficient after a step whose mean entropy was `entropy`; `coef` where this is off.
    pub fn next(&self, coef: f64, entropy: f64) -> f64 {
        if !self.is_on() {
            coef
        } else if entropy <= self.target_entropy {
            (coef + self.delta).min(self.coef_max)
        } else {
            (coef - self.delta).max(self.coef_min)
        }
    }

    /// The coefficient that a step uses, from `coef` and the mean entropy of the previous step (infinite before the
    /// first).
    pub fn applied(&self, coef: f64, entropy_before: f64) -> f64 {
        if self.is_on() && entropy_before > self.target_entropy { 0.0 } else { coef }
    }

    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), SettingError> {
        let at_least_0 = |value: f64| value >= 0.0;
        require(
            "adaptive_entropy.target_entropy",
            self.target_entropy,
            at_least_0,
            "must be 0 (off) or more",
        )?;
        require("adaptive_entropy.delta", self.delta, at_least_0, "must be 0 or more")?;
        require("adaptive_entropy.coef_min", self.coef_min, |_| true, "must be a number")?;
        let rule = format!("must be {} (adaptive_entropy.coef_min) or more", self.coef_min);
        require("adaptive_entropy.coef_max", self.coef_max, |max| max >= self.coef_min, &rule)
    }
}

/// The quantile of `values` at `share`, 0 to 1, with linear interpolation; infinite if there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::INFINITY };
    let rank = share * last as f64;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    low + (high - low) * rank.fract()
}
