//! REC: REINFORCE with a clip, for rollouts of any policy.
//!
//! **What it does.** Group-relative REINFORCE needs no importance weights to learn from the rollouts of an older
//! policy; it needs its updates to be bounded. A token counts until the policy has moved too far in its favour.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal, `A` the advantage, `r = exp(lp - old)`:
//!
//! ```text
//! ℓ = -w·A·lp·M                w = 1, or r (weight = "is"); w and M are constants of the derivative
//! M = 1 (not clipped) if, by `clip`,
//!   none       always
//!   two_side   1 - ε_low ≤ r ≤ 1 + ε_high
//!   one_side   A ≥ 0 and r ≤ 1 + ε_high,  or  A ≤ 0 and r ≥ 1 - ε_low
//!   ring       two_side,  or A ≥ 0 and r ≤ 1 - ε'_low,  or A ≤ 0 and r ≥ 1 + ε'_high
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -w·A`, 0 where the token is clipped. On a bound it is not. Only the derivative has a
//! meaning; the value is not that of a surrogate.
//!
//! **Reduces to.** With `weight = "is"`, the derivative of `ppo_clip`, to the bit: everywhere for `one_side`, within
//! the bounds of the ratio for `two_side`. With `clip = "none"`: REINFORCE with a baseline, on any data.
//!
//! **Differs from the paper and from the frameworks.** Trinity-RFT's default is `clip_mode = "none"`, with which
//! nothing bounds an update; here it is `one_side`, which the paper recommends. Its ratio is to the policy that
//! sampled; here it is to the proximal policy, as everywhere. Its `weight = "advantage"` is `red`, its `regularizer`s
//! are `opmd` and `asymre`. `ε'_low = 0.6`, `ε'_high = 2` are its default arguments.
//!
//! **References.** Yao et al. 2025, "Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm", arXiv:2509.24203,
//! section 3; Trinity-RFT's `RECPolicyLossFn`.

use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// Which tokens count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecClip {
    /// Every one.
    None,
    /// Those that have not moved too far in the direction in which the advantage pulls.
    #[default]
    OneSide,
    /// Those that have not moved too far in either direction.
    TwoSide,
    /// As `two_side`, and those that have moved far against the advantage.
    Ring,
}

/// What a token is multiplied by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecWeight {
    /// Nothing.
    #[default]
    None,
    /// Its ratio, as a constant.
    Is,
}

/// REINFORCE with a clip. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rec {
    /// Which tokens count. Default: `one_side`.
    pub clip: RecClip,
    /// What a token is multiplied by. Default: `none`.
    pub weight: RecWeight,
    /// How far the ratio may fall below 1. Default: 0.2.
    pub epsilon_low: f64,
    /// How far the ratio may rise above 1. Default: 0.2.
    pub epsilon_high: f64,
    /// With `ring`: this far below 1, a token with a positive advantage counts again. Default: 0.6.
    pub epsilon_low_prime: f64,
    /// With `ring`: this far above 1, a token with a negative advantage counts again. Default: 2.
    pub epsilon_high_prime: f64,
}

impl Default for Rec {
    fn default() -> Self {
        Rec {
            clip: RecClip::OneSide,
            weight: RecWeight::None,
            epsilon_low: 0.2,
            epsilon_high: 0.2,
            epsilon_low_prime: 0.6,
            epsilon_high_prime: 2.0,
        }
    }
}

impl Part for Rec {
    const CARD: Card = Card {
        id: "rec",
        title: "Clipped REINFORCE for any data (REC)",
        family: Family::Objective,
        paper: "Yao et al. 2025, Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm, arXiv:2509.24203",
        equation: "-w·A·lp where r is not clipped (none, one_side, two_side, ring); w = 1 or r, a constant",
        scope: "token",
        check: Check::Golden("Trinity-RFT 0.6.0 RECPolicyLossFn"),
        reconstructed: None,
        reduces_to: &[
            "the derivative of ppo_clip, with one_side and is",
            "the derivative of ppo_clip within its bounds, with two_side and is",
            "REINFORCE with a baseline, with none",
        ],
        file: "crates/burnish-rl/src/objective/rec.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("epsilon_low", self.epsilon_low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")?;
        let (low, high) = (self.epsilon_low, self.epsilon_high);
        let rule = format!("must be {low} (epsilon_low) to 1");
        require("epsilon_low_prime", self.epsilon_low_prime, |prime| (low..=1.0).contains(&prime), &rule)?;
        let rule = format!("must be {high} (epsilon_high) or more");
        require("epsilon_high_prime", self.epsilon_high_prime, |prime| prime >= high, &rule)
    }
}

impl Rec {
    /// The bound that `ratio` has crossed.
    fn bound(&self, ratio: f64, advantage: f64) -> Option<Bound> {
        let outside = match ratio {
            ratio if ratio < 1.0 - self.epsilon_low => Bound::Low,
            ratio if ratio > 1.0 + self.epsilon_high => Bound::High,
            _ => return None,
        };
        let is_clipped = match (self.clip, outside) {
            (RecClip::None, _) => false,
            (RecClip::TwoSide, _) => true,
            (RecClip::OneSide, Bound::Low) => advantage < 0.0,
            (RecClip::OneSide, Bound::High) => advantage > 0.0,
            (RecClip::Ring, Bound::Low) => advantage < 0.0 || ratio > 1.0 - self.epsilon_low_prime,
            (RecClip::Ring, Bound::High) => advantage > 0.0 || ratio < 1.0 + self.epsilon_high_prime,
        };
        is_clipped.then_some(outside)
    }
}

impl TokenLoss for Rec {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let (ratio, advantage) = (tokens.log_ratio(at).exp(), tokens.advantage[at]);
            losses.clipped[at] = self.bound(ratio, advantage);
            // An infinite ratio times 0 would be NaN.
            if losses.clipped[at].is_some() || advantage == 0.0 {
                continue;
            }
            let weighted = match self.weight {
                RecWeight::None => advantage,
                RecWeight::Is => ratio * advantage,
            };
            losses.value[at] = -weighted * tokens.policy[at];
            losses.d_policy[at] = -weighted;
        }
    }
}
