//! DPPO with a trust region in total variation: tokens whose *probability* has moved too far are left out.
//!
//! **What it does.** A ratio is a bad measure of how far a policy has moved: it doubles for a token that went from
//! 0.0001 to 0.0002, and hardly moves for one that went from 0.9 to 1. DPPO bounds the difference of probabilities.
//!
//! **Formula.** For each token, with `p` and `q` its probability under the policy and under the anchor:
//!
//! ```text
//! ℓ = -A·sg(min(r, c))·lp·keep + kl_tau·(lp - anchor)²,   r = exp(lp - anchor)
//! keep: p - q ≤ high where A > 0,   p - q ≥ -low where A < 0
//! ```
//!
//! `sg` is a constant of the derivative, `keep` is one as well, and `c` is `ratio_max`.
//!
//! **Derivative.** `∂ℓ/∂lp = -A·min(r, c)·keep + 2·kl_tau·(lp - anchor)`. On a bound a token is kept.
//!
//! **Reduces to.** REINFORCE on policy (`c ≥ 1`). The gradient of `ppo_clip` without bounds for `low = high = 1` and no
//! `c`. The gradient of prime-rl's default loss with `anchor = "behavior"`, `ratio_max = 0`, `kl_tau = 0.001`, with
//! bounds of 0.2 (`dppo_mask_low`, `dppo_mask_high`) and `loss.aggregation = "bnpo"`. The *value* of prime-rl's loss is
//! `-A·r·keep` instead of `-A·r·lp·keep`. Its `adv_tau`, 1 by default, gives this loss with `kl_tau/adv_tau`, times
//! `adv_tau`.
//!
//! **Differs from the frameworks.** verl calls the bounds `clip_ratio_low` and `clip_ratio_high`, though they bound
//! no ratio, and calls `c` `clip_ratio_c`: 20 in its code, but `actor.yaml` sets 3.0 for all losses, so runs use 3. The
//! default here, 20, is what the authors recommend, because truncation is a bias. verl clamps the log-ratio to ±20.
//!
//! **References.** DPPO, 2026, arXiv:2602.04879, section 5.4 for `c`. The squared log-ratio: Kimi K2.5,
//! arXiv:2602.02276.

use serde::{Deserialize, Serialize};

use super::common::{Anchor, add_squared_log_ratio, check_cap, masked_reinforce};
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// DPPO with total variation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DppoTv {
    /// How far the probability of a token with a negative advantage may fall. Default: 0.2.
    pub divergence_low: f64,
    /// How far the probability of a token with a positive advantage may rise. Default: 0.2.
    pub divergence_high: f64,
    /// The largest weight of a token; 0 is no limit. Default: 20.
    pub ratio_max: f64,
    /// What the policy is compared with. Default: `proximal`, as in verl; prime-rl: `behavior`.
    pub anchor: Anchor,
    /// Weight of the squared log-ratio, also for tokens that are left out. Default: 0; prime-rl: 0.001.
    pub kl_tau: f64,
}

impl Default for DppoTv {
    fn default() -> Self {
        DppoTv {
            divergence_low: 0.2,
            divergence_high: 0.2,
            ratio_max: 20.0,
            anchor: Anchor::Proximal,
            kl_tau: 0.0,
        }
    }
}

impl Part for DppoTv {
    const CARD: Card = Card {
        id: "dppo_tv",
        title: "DPPO, total variation (prime-rl's default)",
        family: Family::Objective,
        paper: "2026, DPPO, arXiv:2602.04879",
        equation: "-A·sg(min(r, c))·lp·keep, keep: p - q ≤ high where A > 0, p - q ≥ -low where A < 0",
        scope: "token",
        check: Check::Golden("verl 0.9 compute_policy_loss_dppo_tv; prime-rl default_loss_fn at 559b447"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy", "the gradient of prime-rl's default loss"],
        file: "crates/burnish-rl/src/objective/dppo_tv.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let within = |bound: f64| (0.0..=1.0).contains(&bound);
        require("divergence_low", self.divergence_low, within, "must be 0 to 1")?;
        require("divergence_high", self.divergence_high, within, "must be 0 to 1")?;
        check_cap("ratio_max", self.ratio_max)?;
        require("kl_tau", self.kl_tau, |tau| tau >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for DppoTv {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        masked_reinforce(tokens, losses, self.anchor, self.ratio_max, |moved| {
            let bound = if moved.is_up() { self.divergence_high } else { self.divergence_low };
            moved.total_variation() <= bound
        });
        add_squared_log_ratio(tokens, losses, self.anchor, self.kl_tau);
    }
}
