//! MDPO: mirror descent, the surrogate with a KL penalty on the distance from where the update began.
//!
//! **What it does.** Each update takes some gradient steps that maximise the advantage minus the KL divergence from the
//! policy it began with: a soft trust region instead of a clip.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal, `A` the advantage, `r = exp(lp - old)` and
//! `t_k` the size of the mirror-descent step, of which `inverse_step` is the inverse:
//!
//! ```text
//! ℓ = -r·A + 1/t_k·(r·log r - r + 1)
//! ```
//!
//! In expectation over tokens that the proximal policy sampled, the bracket is `KL(π ‖ π_old)`, and for each token it
//! is 0 or more. At the maximum, `π` is proportional to `π_old·exp(t_k·A)`.
//!
//! **Derivative.** `∂ℓ/∂lp = -r·A + 1/t_k·r·log r`. Nothing is clipped.
//!
//! **Reduces to.** The policy gradient, exactly `-A`, where the policy has not moved: with one step per update, the
//! penalty does nothing. `ppo_clip` without bounds (`-r·A`) for `inverse_step = 0`. Both to the bit.
//!
//! **Differs from the paper and from the frameworks.** The authors' on-policy code lets `t_k` fall linearly from 1 to 0
//! over the run (so `inverse_step` rises from 1 without bound) and takes 5 to 10 steps per update; here `inverse_step`
//! is a constant, and the run sets the steps. Their off-policy variant has a critic. `loss.beta` is a penalty on the
//! distance from the *reference*, which does not move from update to update.
//!
//! **Reconstructed.** The estimate of the KL from sampled tokens: the authors have the distributions. This estimate has
//! the KL's gradient in expectation, and no gradient where the policy has not moved.
//!
//! **References.** Tomar et al. 2020, "Mirror Descent Policy Optimization", arXiv:2005.09814, section 4.1.

use serde::{Deserialize, Serialize};

use super::clipped_surrogate;
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// The surrogate with a KL penalty to the proximal policy. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mdpo {
    /// What a nat of distance costs, in units of advantage: `1/t_k`. Default: 1.
    pub inverse_step: f64,
}

impl Default for Mdpo {
    fn default() -> Self {
        Mdpo { inverse_step: 1.0 }
    }
}

impl Part for Mdpo {
    const CARD: Card = Card {
        id: "mdpo",
        title: "Mirror descent policy optimisation (MDPO)",
        family: Family::Objective,
        paper: "Tomar et al. 2020, Mirror Descent Policy Optimization, arXiv:2005.09814",
        equation: "-r·A + 1/t_k·(r·log r - r + 1)",
        scope: "token",
        check: Check::Oracle("torch's autograd on the published formula"),
        reconstructed: Some("the estimate of the KL from sampled tokens"),
        reduces_to: &["the policy gradient on policy", "ppo_clip without bounds, for inverse_step = 0"],
        file: "crates/burnish-rl/src/objective/mdpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("inverse_step", self.inverse_step, |inverse| inverse >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for Mdpo {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let log_ratio = tokens.log_ratio(at);
            let ratio = log_ratio.exp();
            let (value, _) = clipped_surrogate(ratio, tokens.advantage[at], 0.0, f64::INFINITY);
            // `r·x - (r - 1)`, without a difference of two numbers near 1.
            let kl = ratio * log_ratio - log_ratio.exp_m1();
            losses.value[at] = value + self.inverse_step * kl;
            losses.d_policy[at] = value + self.inverse_step * ratio * log_ratio;
        }
    }
}
