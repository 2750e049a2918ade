//! OPMD: REINFORCE, with the squared log-ratio pulling the policy back to where the update began.
//!
//! **What it does.** Online policy mirror descent: solves for the policy that best trades reward against distance from
//! the proximal one, with steps on a squared loss that is valid for rollouts of any policy.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal, `x = lp - old`, `A` the advantage without
//! division by a standard deviation:
//!
//! ```text
//! variant = "k2":       ℓ = -A·lp + τ/2·x²
//! variant = "minimal":  ℓ = -A·lp / (1 + τ)
//! ```
//!
//! **Derivative.** `-A + τ·x`, or `-A / (1 + τ)`. Nothing is clipped.
//!
//! **Reduces to.** REINFORCE with a baseline (`rec` with `clip = "none"`) for `τ = 0`, and, with `k2`, in its
//! derivative where the policy has not moved. Both to the bit.
//!
//! **Differs from the paper and from the frameworks.** The paper (Kimi k1.5) squares the log-ratio of the whole answer:
//! `opmd_kimi`. `k2` is Trinity-RFT's `rec` with `regularizer = "k2"`, whose coefficient is our `τ/2` (its formula has
//! no half). `minimal` is Trinity-RFT's algorithm called `opmd`: the first step on the loss of all pairs of a group,
//! `Σ (A_i - A_j - τ·(log π_i - log π_j))²`, divided by `1 + τ`. Beyond its first step, the pairwise loss needs whole
//! groups, which an objective does not see.
//!
//! **References.** Kimi Team 2025, "Kimi k1.5", arXiv:2501.12599, section 2.3.2. Yao et al. 2025, arXiv:2509.24203,
//! section 3; Trinity-RFT's `OPMDPolicyLossFn` and `RECPolicyLossFn`.

use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// What pulls the policy back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpmdVariant {
    /// The squared log-ratio of each token.
    #[default]
    K2,
    /// Nothing; the step is smaller.
    Minimal,
}

/// Online policy mirror descent. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Opmd {
    /// What pulls the policy back. Default: `k2`.
    pub variant: OpmdVariant,
    /// How strongly, in units of reward. Default: 1.
    pub tau: f64,
}

impl Default for Opmd {
    fn default() -> Self {
        Opmd { variant: OpmdVariant::K2, tau: 1.0 }
    }
}

impl Part for Opmd {
    const CARD: Card = Card {
        id: "opmd",
        title: "Online policy mirror descent (OPMD)",
        family: Family::Objective,
        paper: "Kimi Team 2025, Kimi k1.5, arXiv:2501.12599; Yao et al. 2025, arXiv:2509.24203",
        equation: "-A·lp + τ/2·(lp - old)² (k2), or -A·lp/(1 + τ) (minimal)",
        scope: "token",
        check: Check::Golden("Trinity-RFT 0.6.0 RECPolicyLossFn (k2), OPMDPolicyLossFn (minimal)"),
        reconstructed: None,
        reduces_to: &["REINFORCE with a baseline, for tau = 0 or a policy that has not moved"],
        file: "crates/burnish-rl/src/objective/opmd.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("tau", self.tau, |tau| tau >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for Opmd {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let (advantage, x) = (tokens.advantage[at], tokens.log_ratio(at));
            let reward = -advantage * tokens.policy[at];
            (losses.value[at], losses.d_policy[at]) = match self.variant {
                OpmdVariant::K2 => (reward + 0.5 * self.tau * x * x, -advantage + self.tau * x),
                OpmdVariant::Minimal => (reward / (1.0 + self.tau), -advantage / (1.0 + self.tau)),
            };
        }
    }
}
