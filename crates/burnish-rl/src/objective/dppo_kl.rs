//! DPPO with a trust region in KL divergence: tokens whose distribution has moved too far are left out.
//!
//! **What it does.** As [`super::DppoTv`], but how far the policy has moved is measured by the KL divergence of the
//! distribution over "this token" and "any other", before from after.
//!
//! **Formula.** For each token, with `p` and `q` its probability under the policy and under the anchor:
//!
//! ```text
//! ℓ    = -A·sg(min(r, c))·lp·keep,   r = p/q
//! d    = q·log(q/p) + (1 - q)·log((1 - q)/(1 - p))
//! keep: d ≤ high or p ≤ q where A > 0,   d ≤ low or p ≥ q where A < 0
//! ```
//!
//! `sg` is a constant of the derivative, `keep` is one as well, and `c` is `ratio_max`.
//!
//! **Derivative.** `∂ℓ/∂lp = -A·min(r, c)·keep`. On a bound a token is kept.
//!
//! **Reduces to.** REINFORCE on policy (`c ≥ 1`). `dppo_tv` where neither leaves out a token.
//!
//! **Differs from the frameworks.** verl adds 1e-8 to both arguments of the second logarithm. The names and the pitfall
//! of its `clip_ratio_c` are as in `dppo_tv`; its bounds are those of every other loss: 0.2 unless they are set.
//!
//! **References.** DPPO, 2026, arXiv:2602.04879.

use serde::{Deserialize, Serialize};

use super::common::{Anchor, check_cap, masked_reinforce};
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// DPPO with KL divergence. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DppoKl {
    /// The largest divergence, in nats, of a token with a negative advantage that has become less probable.
    /// Default: 0.2.
    pub divergence_low: f64,
    /// The largest divergence, in nats, of a token with a positive advantage that has become more probable.
    /// Default: 0.2.
    pub divergence_high: f64,
    /// The largest weight of a token; 0 is no limit. Default: 20.
    pub ratio_max: f64,
    /// What the policy is compared with. Default: `proximal`, as in verl.
    pub anchor: Anchor,
}

impl Default for DppoKl {
    fn default() -> Self {
        DppoKl { divergence_low: 0.2, divergence_high: 0.2, ratio_max: 20.0, anchor: Anchor::Proximal }
    }
}

impl Part for DppoKl {
    const CARD: Card = Card {
        id: "dppo_kl",
        title: "DPPO, KL divergence",
        family: Family::Objective,
        paper: "2026, DPPO, arXiv:2602.04879",
        equation: "-A·sg(min(r, c))·lp·keep, keep: KL(q‖p) of the token against all others within a bound, or p nearer to q than A draws",
        scope: "token",
        check: Check::Golden("verl 0.9 compute_policy_loss_dppo_kl"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy", "dppo_tv, where neither leaves out a token"],
        file: "crates/burnish-rl/src/objective/dppo_kl.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("divergence_low", self.divergence_low, |bound| bound >= 0.0, "must be 0 or more")?;
        require("divergence_high", self.divergence_high, |bound| bound >= 0.0, "must be 0 or more")?;
        check_cap("ratio_max", self.ratio_max)
    }
}

impl TokenLoss for DppoKl {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        masked_reinforce(tokens, losses, self.anchor, self.ratio_max, |moved| {
            let bound = if moved.is_up() { self.divergence_high } else { self.divergence_low };
            moved.binary_kl() <= bound
        });
    }
}
