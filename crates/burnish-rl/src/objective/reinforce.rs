//! REINFORCE: the plain policy gradient, with an optional truncated importance weight. GPG's objective.
//!
//! **What it does.** Raises the log-probability of tokens in proportion to their advantage. Without a weight it is
//! right only on policy: it does not notice that the policy has moved.
//!
//! **Formula.** For each token, `sg` a constant of the derivative:
//!
//! ```text
//! ℓ = -A·lp                                  ratio_max = 0
//! ℓ = -A·sg(min(r, c))·lp,   r = exp(lp - old)   ratio_max = c
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -A`, times the weight.
//!
//! **Reduces to.** With a weight, on policy: itself without a weight. Below `c` it has the gradient of `ppo_clip`
//! without bounds.
//!
//! **Differs from the frameworks.** verl's `gpg` is `ratio_max = 0`. verl's `reinforce` in bypass mode takes the ratio
//! to the policy that sampled (which is `old` in that mode), with a default bound of 2; its weights of whole sequences
//! are not among the settings here. GPG's own weights are part of its advantages, not of this loss.
//!
//! **References.** Williams 1992, Simple statistical gradient-following algorithms, Machine Learning 8. Truncated
//! weights: Ionides 2008, Truncated importance sampling. Chu et al. 2025 (GPG), arXiv:2504.02546.

use serde::{Deserialize, Serialize};

use super::common::{capped, check_cap};
use crate::{Bound, Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// REINFORCE. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reinforce {
    /// The largest importance weight of a token; 0 (default) is no weight at all.
    pub ratio_max: f64,
}

impl Part for Reinforce {
    const CARD: Card = Card {
        id: "reinforce",
        title: "REINFORCE (GPG's objective)",
        family: Family::Objective,
        paper: "Williams 1992, Simple statistical gradient-following algorithms for connectionist reinforcement learning",
        equation: "-A·lp, times sg(min(r, c)) where c is not 0, r = exp(lp - old)",
        scope: "token",
        check: Check::Golden("verl 0.9 compute_policy_loss_gpg, compute_policy_loss_bypass_mode"),
        reconstructed: None,
        reduces_to: &["itself without a weight, on policy", "the gradient of ppo_clip, unclipped, below c"],
        file: "crates/burnish-rl/src/objective/reinforce.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        check_cap("ratio_max", self.ratio_max)
    }
}

impl TokenLoss for Reinforce {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let ratio = if self.ratio_max == 0.0 { 1.0 } else { tokens.detached_log_ratio(at).exp() };
            let weight = capped(ratio, self.ratio_max);
            losses.d_policy[at] = -weight * tokens.advantage[at];
            losses.value[at] = losses.d_policy[at] * tokens.policy[at];
            losses.clipped[at] = (weight < ratio).then_some(Bound::High);
        }
    }
}
