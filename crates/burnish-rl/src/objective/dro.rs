//! DRO: REINFORCE with a squared log-ratio that holds the policy back.
//!
//! **What it does.** Learns from advantages without ratios or clips, but pays for every step away from where the update
//! began.
//!
//! **Formula.** For each token:
//!
//! ```text
//! ℓ = -(A·lp - β/2·(lp - old)²)
//! ```
//!
//! **Derivative.** `∂ℓ/∂lp = -A + β·(lp - old)`: zero where the log-ratio is `A/β`. The second term counts even without
//! an advantage.
//!
//! **Reduces to.** REINFORCE for `beta = 0`, exactly, and on policy.
//!
//! **Differs from the paper and from the frameworks.** The paper's loss is for single answers with a learned value, and
//! takes the squared error of whole sequences; this is verl's `dro`, which works token by token. verl has no default
//! for `beta` (`dro_beta`) and asks for one above 0; the 0.1 here is our choice. The `beta` of `[loss]` is something
//! else: the weight of the distance from the *reference*.
//!
//! **References.** Richemond et al. 2024, Offline Regularised Reinforcement Learning for Large Language Models
//! Alignment (Direct Reward Optimisation), arXiv:2405.19107. verl 0.9.1, `compute_policy_loss_dro`.

use serde::{Deserialize, Serialize};

use super::common::{Anchor, add_squared_log_ratio};
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens};

/// DRO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dro {
    /// Weight of half the squared log-ratio. Default: 0.1.
    pub beta: f64,
}

impl Default for Dro {
    fn default() -> Self {
        Dro { beta: 0.1 }
    }
}

impl Part for Dro {
    const CARD: Card = Card {
        id: "dro",
        title: "DRO: REINFORCE with a squared log-ratio",
        family: Family::Objective,
        paper: "Richemond et al. 2024, Direct Reward Optimisation, arXiv:2405.19107",
        equation: "-(A·lp - β/2·(lp - old)²)",
        scope: "token",
        check: Check::Golden("verl 0.9 compute_policy_loss_dro"),
        reconstructed: None,
        reduces_to: &["reinforce, for beta = 0", "REINFORCE with a baseline, on policy"],
        file: "crates/burnish-rl/src/objective/dro.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| beta >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for Dro {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            losses.value[at] = -tokens.advantage[at] * tokens.policy[at];
            losses.d_policy[at] = -tokens.advantage[at];
        }
        add_squared_log_ratio(tokens, losses, Anchor::Proximal, 0.5 * self.beta);
    }
}
