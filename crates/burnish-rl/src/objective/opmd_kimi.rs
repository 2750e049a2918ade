//! Kimi's OPMD: REINFORCE, with the squared log-ratio of the whole answer pulling the policy back to where the update
//! began.
//!
//! **What it does.** Online policy mirror descent: solves for the policy that best trades reward against distance from
//! the proximal one, with steps on a squared loss that is valid for rollouts of any policy.
//!
//! **Formula.** For a sequence, with `lp` the policy's log-probability, `old` the proximal, `A` the advantage without
//! division by a standard deviation, sums over its tokens:
//!
//! ```text
//! ℓ = -Σ A·lp + τ/2·(Σ (lp - old))²         each token has this value
//! ```
//!
//! **Derivative.** Of the sum of `ℓ` over the `n` tokens: `n·(-A + τ·Σ (lp - old))`. Nothing is clipped. It is meant
//! for `loss.aggregation = "grpo"`, which makes it the mean of `ℓ` over sequences.
//!
//! **Reduces to.** `opmd` for sequences of one token, to the bit. REINFORCE with a baseline, summed over the tokens of
//! a sequence, for `τ = 0` or a policy that has not moved.
//!
//! **Differs from the paper and from the frameworks.** The paper estimates its `τ·log Z` by the mean reward of the
//! group, as the advantage does here. Trinity-RFT once had this, divided by the number of tokens of the batch; its
//! `regularizer = "k2"` treats each token by itself, which is `opmd`.
//!
//! **References.** Kimi Team 2025, "Kimi k1.5", arXiv:2501.12599, section 2.3.2, eq. 3.

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// Online policy mirror descent on whole answers. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpmdKimi {
    /// How strongly the policy is pulled back, in units of reward. Default: 1.
    pub tau: f64,
}

impl Default for OpmdKimi {
    fn default() -> Self {
        OpmdKimi { tau: 1.0 }
    }
}

impl Part for OpmdKimi {
    const CARD: Card = Card {
        id: "opmd_kimi",
        title: "Online policy mirror descent on whole answers (Kimi k1.5)",
        family: Family::Objective,
        paper: "Kimi Team 2025, Kimi k1.5, arXiv:2501.12599",
        equation: "-Σ A·lp + τ/2·(Σ (lp - old))²",
        scope: "sequence",
        check: Check::Oracle("torch's autograd on the published formula"),
        reconstructed: None,
        reduces_to: &["opmd, for sequences of one token", "REINFORCE with a baseline, for tau = 0"],
        file: "crates/burnish-rl/src/objective/opmd_kimi.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("tau", self.tau, |tau| tau >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for OpmdKimi {
    fn aggregation(&self) -> Option<Aggregation> {
        Some(Aggregation::Grpo)
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let count = tokens.len();
        let x: f64 = (0..count).map(|at| tokens.log_ratio(at)).sum();
        let reward: f64 = (0..count).map(|at| -tokens.advantage[at] * tokens.policy[at]).sum();
        losses.value.fill(reward + 0.5 * self.tau * x * x);
        for at in 0..count {
            losses.d_policy[at] = count as f64 * (-tokens.advantage[at] + self.tau * x);
        }
    }
}
