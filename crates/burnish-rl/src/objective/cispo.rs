//! CISPO: REINFORCE with a clipped importance weight.
//!
//! **What it does.** Corrects each token for how far the policy has moved since the update began, and bounds the
//! correction. No token is ever left out: beyond a bound it counts with the weight of the bound.
//!
//! **Formula.** For each token, `sg` a constant of the derivative:
//!
//! ```text
//! ℓ = -sg(clip(r, low, high))·A·lp,   r = exp(lp - old)
//! ```
//!
//! **Bounds.** Four conventions go by this one name, each a value of `bounds`:
//!
//! | `bounds` | `low`, `high` | whose |
//! | --- | --- | --- |
//! | `two_sided` | `1 - ε_low`, `1 + ε_high` | verl, slime |
//! | `upper` | 0, `1 + ε_high` | the paper's experiments, open-instruct |
//! | `wide` | 0, 5 | SkyRL's defaults (`two_sided` with ε 1 and 4) |
//! | `cap` | 0, `ε_high` | TRL, where `epsilon_high` is the bound itself |
//!
//! **Derivative.** `∂ℓ/∂lp = -clip(r, low, high)·A`.
//!
//! **Reduces to.** REINFORCE on policy, as `low ≤ 1 ≤ high`. Between the bounds it has the gradient of `ppo_clip`.
//!
//! **Differs from the frameworks.** In TRL, the default `epsilon_high` of 0.2 thus becomes a cap of 0.2, which scales
//! even tokens that have not moved; here a cap below 1 is refused. A token counts in `clip_ratio/*` if its ratio is
//! beyond a bound, as in verl, whatever the advantage; it counts in TRL's `cispo_clip_ratio` if the ratio is above the
//! upper bound and `A > 0`. verl clamps the log-ratio to ±20 first.
//!
//! **References.** MiniMax 2025 (MiniMax-M1), arXiv:2506.13585, eq. 4 and 5.

use serde::{Deserialize, Serialize};

use super::common::check_epsilons;
use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Metric, Part, SettingError, TokenLoss, Tokens};

/// What the ratio is clipped to: the table in the head of this file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// `[1 - epsilon_low, 1 + epsilon_high]`.
    #[default]
    TwoSided,
    /// At most `1 + epsilon_high`.
    Upper,
    /// `[0, 5]`.
    Wide,
    /// At most `epsilon_high`.
    Cap,
}

/// CISPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cispo {
    /// Which convention the bounds of the weight follow. Default: `two_sided`.
    pub bounds: Bounds,
    /// How far below 1 the weight may fall, with `two_sided`. Default: 0.2.
    pub epsilon_low: f64,
    /// How far above 1 the weight may rise, with `two_sided` and `upper`; the largest weight, with `cap`.
    /// Default: 0.2.
    pub epsilon_high: f64,
}

const EPSILON: f64 = 0.2;

impl Default for Cispo {
    fn default() -> Self {
        Cispo { bounds: Bounds::TwoSided, epsilon_low: EPSILON, epsilon_high: EPSILON }
    }
}

impl Part for Cispo {
    const CARD: Card = Card {
        id: "cispo",
        title: "CISPO: REINFORCE with a clipped importance weight",
        family: Family::Objective,
        paper: "MiniMax 2025, MiniMax-M1, arXiv:2506.13585",
        equation: "-sg(clip(r, low, high))·A·lp, r = exp(lp - old)",
        scope: "token",
        check: Check::Golden("verl 0.9 compute_policy_loss_cispo; TRL 1.16 GRPOTrainer.compute_loss"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy", "the gradient of ppo_clip, between the bounds"],
        file: "crates/burnish-rl/src/objective/cispo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let unused = |key: &str, value: f64| {
            let rule = "has no effect with these `bounds`: leave it out";
            require(key, value, |value| value == EPSILON, rule)
        };
        match self.bounds {
            Bounds::TwoSided => check_epsilons(self.epsilon_low, self.epsilon_high),
            Bounds::Upper => {
                unused("epsilon_low", self.epsilon_low)?;
                check_epsilons(EPSILON, self.epsilon_high)
            }
            Bounds::Wide => {
                unused("epsilon_low", self.epsilon_low)?;
                unused("epsilon_high", self.epsilon_high)
            }
            Bounds::Cap => {
                unused("epsilon_low", self.epsilon_low)?;
                let rule = "must be 1 or more with `bounds = \"cap\"`, where it is the largest weight itself";
                require("epsilon_high", self.epsilon_high, |cap| cap >= 1.0, rule)
            }
        }
    }
}

impl Cispo {
    fn interval(&self) -> (f64, f64) {
        match self.bounds {
            Bounds::TwoSided => (1.0 - self.epsilon_low, 1.0 + self.epsilon_high),
            Bounds::Upper => (0.0, 1.0 + self.epsilon_high),
            Bounds::Wide => (0.0, 5.0),
            Bounds::Cap => (0.0, self.epsilon_high),
        }
    }
}

impl TokenLoss for Cispo {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let (low, high) = self.interval();
        let mut raised = 0.0;
        for at in 0..tokens.len() {
            let ratio = tokens.detached_log_ratio(at).exp();
            let derivative = -ratio.clamp(low, high) * tokens.advantage[at];
            losses.value[at] = derivative * tokens.policy[at];
            losses.d_policy[at] = derivative;
            losses.clipped[at] = match ratio {
                _ if ratio < low => Some(Bound::Low),
                _ if ratio > high => Some(Bound::High),
                _ => None,
            };
            raised += f64::from(ratio > high && tokens.advantage[at] > 0.0);
        }
        let weight = tokens.len() as f64;
        losses.metrics.push(Metric { name: "cispo_clip_ratio", sum: raised, weight });
    }
}
