//! GPPO: the clipped surrogate whose clipped tokens still have a gradient.
//!
//! **What it does.** Has the value of [`super::PpoClip`], but lets every token teach: one beyond a bound has the
//! gradient that it had on the bound.
//!
//! **Formula.** For each token, with `r = exp(lp - old)`, `sg` a constant of the derivative and `[x]` a number that
//! is 1, with derivative `β`:
//!
//! ```text
//! ℓ = -min(r·A, clip(r, (1 - ε_low)·[r/sg(r)]_β1, (1 + ε_high)·[r/sg(r)]_β2)·A)
//! ℓ = min(ℓ, -c·A)   where A < 0, with `dual_clip` = c
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -r·A` within the bounds, `-β2·(1 + ε_high)·A` where `r > 1 + ε_high` and `A > 0`,
//! `-β1·(1 - ε_low)·A` where `r < 1 - ε_low` and `A < 0`, and 0 where `dual_clip` binds. On a bound a token is not
//! clipped; with `β = 1` both sides agree there.
//!
//! **Reduces to.** `ppo_clip` in its value, bit for bit, and wholly for `beta1 = beta2 = 0`. REINFORCE on policy.
//! Between the bounds it has the gradient of `cispo` too.
//!
//! **Differs from the paper.** `β` scale the gradient and leave the value and the bounds alone. The authors' code keeps
//! `dual_clip = 3`, under which a token with `A < 0` and `r > 3` has no gradient after all; it is off here.
//!
//! **Reconstructed.** Where `β` stand: the paper's survey that we have gives the clipped form and names `β1` and `β2`
//! as optional factors of the two preserved gradients, which is what is done here.
//!
//! **References.** Su et al. 2025 (Klear-Reasoner), arXiv:2508.07629. `β` are studied as CE-GPPO, arXiv:2509.20712.

use serde::{Deserialize, Serialize};

use super::PpoClip;
use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// GPPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gppo {
    /// How far the ratio may fall below 1. Default: 0.2.
    pub epsilon_low: f64,
    /// How far the ratio may rise above 1. Default: 0.2.
    pub epsilon_high: f64,
    /// What the gradient of tokens below the lower bound is multiplied by. Default: 1.
    pub beta1: f64,
    /// What the gradient of tokens above the upper bound is multiplied by. Default: 1.
    pub beta2: f64,
    /// The ratio above which a token with a negative advantage has no gradient; 0 (default) is no limit.
    pub dual_clip: f64,
}

impl Default for Gppo {
    fn default() -> Self {
        Gppo { epsilon_low: 0.2, epsilon_high: 0.2, beta1: 1.0, beta2: 1.0, dual_clip: 0.0 }
    }
}

impl Gppo {
    /// What has the same value.
    fn ppo_clip(&self) -> PpoClip {
        let Gppo { epsilon_low, epsilon_high, dual_clip, .. } = *self;
        PpoClip { epsilon_low, epsilon_high, dual_clip }
    }
}

impl Part for Gppo {
    const CARD: Card = Card {
        id: "gppo",
        title: "GPPO: clipped tokens keep a gradient (CE-GPPO)",
        family: Family::Objective,
        paper: "Su et al. 2025, Klear-Reasoner, arXiv:2508.07629",
        equation: "ppo_clip's value; derivative -β2·(1 + ε_high)·A above the upper bound, -β1·(1 - ε_low)·A below the lower",
        scope: "token",
        check: Check::Oracle("torch, from the published formula: tests/golden/make_objectives.py"),
        reconstructed: Some("where beta1 and beta2 stand"),
        reduces_to: &["ppo_clip in its value, bit for bit", "REINFORCE with a baseline, on policy"],
        file: "crates/burnish-rl/src/objective/gppo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta1", self.beta1, |beta| beta >= 0.0, "must be 0 or more")?;
        require("beta2", self.beta2, |beta| beta >= 0.0, "must be 0 or more")?;
        self.ppo_clip().check()
    }
}

impl TokenLoss for Gppo {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        self.ppo_clip().losses(tokens, losses);
        for at in 0..tokens.len() {
            let is_above_dual = self.dual_clip > 0.0
                && tokens.advantage[at] < 0.0
                && tokens.log_ratio(at).exp() > self.dual_clip;
            let beta = match losses.clipped[at] {
                Some(Bound::Low) => self.beta1,
                Some(Bound::High) if !is_above_dual => self.beta2,
                _ => continue,
            };
            let bound = losses.value[at];
            // exp(lp - sg(lp)) - 1, which is 0 with derivative 1: the value stays that of the bound.
            losses.value[at] = bound * (1.0 + beta * tokens.score(at).exp_m1());
            losses.d_policy[at] = beta * bound;
        }
    }
}
