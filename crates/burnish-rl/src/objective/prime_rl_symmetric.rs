//! prime-rl's loss with a symmetric trust region, which it calls `ipo`. It has nothing to do with the preference
//! loss of that name.
//!
//! **What it does.** Leaves out tokens whose probability is far from that with which they were sampled, whatever the
//! direction and the advantage, and pulls all tokens back with the square of their log-ratio. It compares with the
//! sampler only, so no forward pass is needed before the update.
//!
//! **Formula.** For each token, with `roll` its log-probability when it was sampled, `p` its probability under the
//! policy and `q` that when it was sampled:
//!
//! ```text
//! ℓ = -A·r·keep + kl_tau·(lp - roll)²,   r = exp(lp - roll)
//! keep: |p - q| ≤ threshold                                  (a constant of the derivative)
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -A·r·keep + 2·kl_tau·(lp - roll)`. On the threshold a token is kept. The second term
//! counts even without an advantage.
//!
//! **Reduces to.** REINFORCE on policy. The gradient of `dppo_tv` with `anchor = "behavior"`, `ratio_max = 0` and the
//! same bounds, as long as no token that its advantage pulls back is far away.
//!
//! **Differs from prime-rl.** Its `adv_tau`, 1 by default, gives this loss with `kl_tau/adv_tau`, times `adv_tau`. It
//! divides by the tokens of the batch: `loss.aggregation = "bnpo"`. Its default loss is asymmetric: [`super::DppoTv`].
//!
//! **References.** prime-rl, `src/prime_rl/trainer/rl/loss.py`, `ipo_loss_fn`. The squared log-ratio: Kimi K2.5,
//! arXiv:2602.02276.

use serde::{Deserialize, Serialize};

use super::common::{Anchor, Moved, add_squared_log_ratio};
use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// prime-rl's symmetric loss. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrimeRlSymmetric {
    /// How far the probability of a token may be from that with which it was sampled. Default: 0.1.
    pub threshold: f64,
    /// Weight of the squared log-ratio. Default: 1e-3.
    pub kl_tau: f64,
}

impl Default for PrimeRlSymmetric {
    fn default() -> Self {
        PrimeRlSymmetric { threshold: 0.1, kl_tau: 1e-3 }
    }
}

impl Part for PrimeRlSymmetric {
    const CARD: Card = Card {
        id: "prime_rl_symmetric",
        title: "prime-rl's symmetric trust region (its `ipo`, not the preference loss)",
        family: Family::Objective,
        paper: "Prime Intellect 2026, prime-rl, ipo_loss_fn",
        equation: "-A·r·keep + kl_tau·(lp - roll)², r = exp(lp - roll), keep: |p - q| ≤ threshold",
        scope: "token",
        check: Check::Golden("prime-rl ipo_loss_fn at 559b447"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy", "the gradient of dppo_tv, for small moves"],
        file: "crates/burnish-rl/src/objective/prime_rl_symmetric.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("threshold", self.threshold, |bound| (0.0..=1.0).contains(&bound), "must be 0 to 1")?;
        require("kl_tau", self.kl_tau, |tau| tau >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for PrimeRlSymmetric {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let moved = Moved { from: tokens.behavior[at], to: tokens.detached[at] };
            let advantage = tokens.advantage[at];
            if moved.total_variation() > self.threshold {
                losses.clipped[at] = Some(if moved.is_up() { Bound::High } else { Bound::Low });
            } else if advantage != 0.0 {
                let value = -(tokens.policy[at] - tokens.behavior[at]).exp() * advantage;
                losses.value[at] = value;
                losses.d_policy[at] = value;
            }
        }
        add_squared_log_ratio(tokens, losses, Anchor::Behavior, self.kl_tau);
    }
}
