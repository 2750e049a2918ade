//! GPPO: a clipped surrogate whose clipped tokens still have a gradient.
//!
//! **What it does.** Has the value of [`super::PpoClip`], but every token teaches: one beyond a bound keeps the
//! gradient that it had at the bound.
//!
//! **Formula.** For each token, `sg` a constant of the derivative:
//!
//! ```text
//! ℓ = -β2·(1 + ε_high)·r/sg(r)·A   where r > 1 + ε_high and A > 0,   r = exp(lp - old)
//! ℓ = -β1·(1 - ε_low)·r/sg(r)·A    where r < 1 - ε_low and A < 0
//! ℓ = min(-r·A, -c·A)              where A < 0 and r is larger, with `dual_clip` = c
//! ℓ = -r·A                         else
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = ℓ`, but 0 where `dual_clip` binds. On a bound a token is not clipped; with `β = 1` both
//! sides agree there.
//!
//! **Reduces to.** `ppo_clip` in its value, bit for bit, with `beta1 = beta2 = 1`; in its gradient for `beta1 = beta2 =
//! 0`. REINFORCE on policy. Between the bounds it has the gradient of `cispo` too.
//!
//! **Differs from the authors' code.** That keeps `dual_clip = 3`, so a token with `A < 0` and `r > 3` has no gradient
//! after all; here dual clip is off by default. CE-GPPO is the same with `beta1` below 1 (0.25 to 0.75 in its scripts).
//!
//! **References.** Su et al. 2025 (Klear-Reasoner), arXiv:2508.07629. `β`: Su et al. 2025 (CE-GPPO), arXiv:2509.20712.
//! `compute_gppo_loss_general_beta` of Kwai-Klear/CE-GPPO.

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
    /// What the loss of tokens below the lower bound is multiplied by. Default: 1.
    pub beta1: f64,
    /// What the loss of tokens above the upper bound is multiplied by. Default: 1.
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
    /// The surrogate that clips the same tokens at the same values.
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
        equation: "-r·A; -β2·(1 + ε_high)·r/sg(r)·A above the upper bound, -β1·(1 - ε_low)·r/sg(r)·A below the lower",
        scope: "token",
        check: Check::Golden("Klear: compute_gppo_loss_general_beta of Kwai-Klear/CE-GPPO at 10558fe"),
        reconstructed: None,
        reduces_to: &[
            "ppo_clip in its value, bit for bit, for beta 1",
            "REINFORCE with a baseline, on policy",
        ],
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
            let beta = match losses.clipped[at] {
                Some(Bound::Low) => self.beta1,
                Some(Bound::High) => self.beta2,
                _ => continue,
            };
            let clipped = beta * losses.value[at];
            // r/sg(r) = exp(lp - sg(lp)): exactly 1, with derivative 1.
            losses.value[at] = clipped * tokens.score(at).exp();
            losses.d_policy[at] = clipped;
        }
    }
}
