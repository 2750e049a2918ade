//! AsymRE: REINFORCE with the baseline shifted, so that good rollouts count for more than bad ones.
//!
//! **What it does.** With rollouts of an older policy, pushing bad ones down teaches less than pulling good ones up,
//! and can make training collapse. A baseline below the mean reward tips the balance towards the good ones.
//!
//! **Formula.** With `lp` the policy's log-probability, `A = R - mean` the advantage, without division by a standard
//! deviation, and `δ` the `baseline_shift`:
//!
//! ```text
//! ℓ = -(A - δ)·lp
//! ```
//!
//! **Derivative.** `-(A - δ)`: that of REINFORCE with the baseline `mean + δ`. A token with an advantage of 0 is
//! imitated with weight `-δ`; so is a group without variance, unless the run drops it.
//!
//! **Reduces to.** REINFORCE with a baseline (`rec` with `clip = "none"`) for `baseline_shift = 0`, to the bit. It is
//! the sum of that and of `-δ` times the negative log-likelihood.
//!
//! **Differs from the paper and from the frameworks.** Trinity-RFT shifts the baseline in its advantage
//! (`ASYMREGroupAdvantage`, same default), or adds `-c·lp` in its loss (`rec`, `regularizer = "forward-kl"`, `c = -δ`).
//! For a group of one it takes the baseline 0; here the estimator decides. With an estimator that divides by the
//! standard deviation, the shift would be in units of that: use `advantage.config.scale = "none"`.
//!
//! **References.** Arnal et al. 2025, "Asymmetric REINFORCE for off-Policy Reinforcement Learning", arXiv:2506.20520.
//! As a regularised REINFORCE: Yao et al. 2025, arXiv:2509.24203, section 3.

use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// REINFORCE with a shifted baseline. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AsymRe {
    /// What is added to the baseline, in units of reward. Default: -0.1.
    pub baseline_shift: f64,
}

impl Default for AsymRe {
    fn default() -> Self {
        AsymRe { baseline_shift: -0.1 }
    }
}

impl Part for AsymRe {
    const CARD: Card = Card {
        id: "asymre",
        title: "Asymmetric REINFORCE (AsymRE)",
        family: Family::Objective,
        paper: "Arnal et al. 2025, Asymmetric REINFORCE for off-Policy Reinforcement Learning, arXiv:2506.20520",
        equation: "-(A - δ)·lp",
        scope: "token",
        check: Check::Golden("Trinity-RFT 0.6.0 RECPolicyLossFn with forward-kl"),
        reconstructed: None,
        reduces_to: &["REINFORCE with the baseline moved by baseline_shift"],
        file: "crates/burnish-rl/src/objective/asymre.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("baseline_shift", self.baseline_shift, |_| true, "must be a number")
    }
}

impl TokenLoss for AsymRe {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let advantage = tokens.advantage[at] - self.baseline_shift;
            losses.value[at] = -advantage * tokens.policy[at];
            losses.d_policy[at] = -advantage;
        }
    }
}
