//! GMPO: the geometric mean of clipped ratios.
//!
//! **What it does.** Clips the ratios of a sequence and multiplies them instead of adding them. So one token that has
//! moved far changes the objective little, and the bounds can be wide.
//!
//! **Formula.** For a sequence of `n` loss tokens, with `x_t = lp_t - old_t` and `Ā` the mean advantage:
//!
//! ```text
//! z_t = min(x_t, ε_high)    where A_t > 0
//! z_t = max(x_t, -ε_low)    where A_t < 0        (0 where A_t = 0)
//! ℓ_t = -Ā·exp(1/n · Σ_t z_t)
//! ```
//!
//! **Derivative.** `∂(Σ ℓ)/∂lp_t = -Ā·exp(mean z)` where the token is not clipped, 0 where it is. On a bound it is
//! not.
//!
//! **Reduces to.** REINFORCE on policy. For sequences of one token, `ppo_clip` with the bounds `exp(-ε_low)` and
//! `exp(ε_high)`. `gspo` where no bound is reached.
//!
//! **Aggregation.** The mean over sequences of the mean over tokens (`loss.aggregation = "grpo"`); [`crate::rules`]
//! refuses others.
//!
//! **Differs from the frameworks.** The bounds are those of the log-ratio, and their default is the paper's `(e^-0.4,
//! e^0.4)`; verl's `geo_mean` takes them from `clip_ratio`, 0.2 by default. verl adds 1e-8 to `n`, and its
//! `pg_clipfrac` counts tokens beyond either bound, even where nothing is clipped. The paper does not cover advantages
//! that differ within a sequence; we do what verl does.
//!
//! **References.** Zhao et al. 2025, Geometric-Mean Policy Optimization, arXiv:2507.20673, eq. 4.

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// GMPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gmpo {
    /// How far the *log*-ratio of a token may fall below 0, in nats. Default: 0.4.
    pub epsilon_low: f64,
    /// How far it may rise above 0, in nats. Default: 0.4.
    pub epsilon_high: f64,
}

impl Default for Gmpo {
    fn default() -> Self {
        Gmpo { epsilon_low: 0.4, epsilon_high: 0.4 }
    }
}

impl Part for Gmpo {
    const CARD: Card = Card {
        id: "gmpo",
        title: "GMPO: geometric mean of clipped ratios",
        family: Family::Objective,
        paper: "Zhao et al. 2025, Geometric-Mean Policy Optimization, arXiv:2507.20673",
        equation: "-A·exp(mean_t z_t), z_t = lp_t - old_t, at most ε_high where A > 0, at least -ε_low where A < 0",
        scope: "sequence",
        check: Check::Golden("verl 0.9 compute_policy_loss_geo_mean"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, on policy", "ppo_clip, for sequences of one token"],
        file: "crates/burnish-rl/src/objective/gmpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("epsilon_low", self.epsilon_low, |low| low >= 0.0, "must be 0 or more")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")
    }
}

impl Gmpo {
    /// The clipped log-ratio, and the bound that it has crossed.
    fn clipped(&self, log_ratio: f64, advantage: f64) -> (f64, Option<Bound>) {
        if advantage > 0.0 && log_ratio > self.epsilon_high {
            return (self.epsilon_high, Some(Bound::High));
        }
        if advantage < 0.0 && log_ratio < -self.epsilon_low {
            return (-self.epsilon_low, Some(Bound::Low));
        }
        (if advantage == 0.0 { 0.0 } else { log_ratio }, None)
    }
}

impl TokenLoss for Gmpo {
    fn aggregation(&self) -> Option<Aggregation> {
        Some(Aggregation::Grpo)
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let length = tokens.len() as f64;
        let advantage = tokens.advantage.iter().sum::<f64>() / length;
        if advantage == 0.0 {
            return;
        }
        let mut sum = 0.0;
        for at in 0..tokens.len() {
            let (log_ratio, clipped) = self.clipped(tokens.log_ratio(at), tokens.advantage[at]);
            sum += log_ratio;
            losses.clipped[at] = clipped;
        }
        let value = -advantage * (sum / length).exp();
        losses.value.fill(value);
        for at in 0..tokens.len() {
            let counts = losses.clipped[at].is_none() && tokens.advantage[at] != 0.0;
            losses.d_policy[at] = if counts { value } else { 0.0 };
        }
    }
}
