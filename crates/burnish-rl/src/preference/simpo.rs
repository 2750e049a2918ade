//! Simple preference optimisation: the mean log-prob is the reward, and there is no reference.
//!
//! **What it does.** Raises the mean log-prob of the chosen answer over that of the rejected one by a margin. The mean
//! log-prob is also what generation ranks answers by, and it does not reward length.
//!
//! **Formula.** For a pair, with `m_w`, `m_l` the means over tokens of `log π_θ` of the chosen and the rejected
//! answer, `ε` the label smoothing:
//!
//! ```text
//! x = β·(m_w - m_l) - γ           ℓ = -(1 - ε)·log σ(x) - ε·log σ(-x)
//! ```
//!
//! The loss is the mean over pairs. An answer without a token in the loss has `m = 0`.
//!
//! **Derivative.** With `s = -(1 - ε)·σ(-x) + ε·σ(x)`: `β·s/n_w` of each of the `n_w` tokens of the chosen answer,
//! `-β·s/n_l` of each of the rejected.
//!
//! **Reduces to.** `dpo` with `reference_free` and `sigmoid_norm`, for `γ = 0`, to the bit.
//!
//! **Differs from the paper.** The paper has no smoothing (its code does, with 0). Defaults are those of its code:
//! `β = 2`, and `γ = 0.5`, which is written there as a `gamma_beta_ratio` of 0.25. TRL 1.16 has it as
//! `loss_type = "simpo"` of its experimental CPO trainer, with `β = 0.1`, and adds the chosen answer's NLL unless
//! `cpo_alpha = 0`. Its `alpha` (AlphaPO) is not here.
//!
//! **References.** Meng et al. 2024 (SimPO), arXiv:2405.14734, eq. 6.

use serde::{Deserialize, Serialize};

use super::common::{PairLoss, log_sigmoid, mean_over_pairs, sigmoid};
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals};

/// Simple preference optimisation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simpo {
    /// Scale of the reward. Default: 2.
    pub beta: f64,
    /// By how much the chosen answer's reward must exceed the rejected one's. Default: 0.5.
    pub gamma: f64,
    /// Probability that a label is wrong, below 0.5. Default: 0.
    pub label_smoothing: f64,
}

impl Default for Simpo {
    fn default() -> Self {
        Simpo { beta: 2.0, gamma: 0.5, label_smoothing: 0.0 }
    }
}

impl Part for Simpo {
    const CARD: Card = Card {
        id: "simpo",
        title: "Simple preference optimisation",
        family: Family::Preference,
        paper: "Meng et al. 2024, SimPO, arXiv:2405.14734",
        equation: "-log σ(β·(m_w - m_l) - γ), m = mean_t log π_θ",
        scope: "pair",
        check: Check::Golden("TRL 1.16 experimental CPOTrainer.get_batch_loss_metrics, loss_type simpo"),
        reconstructed: None,
        reduces_to: &["dpo with reference_free and sigmoid_norm, for γ = 0"],
        file: "crates/burnish-rl/src/preference/simpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| beta > 0.0, "must be above 0")?;
        require("gamma", self.gamma, |gamma| gamma >= 0.0, "must be 0 or more")?;
        let smoothing = self.label_smoothing;
        require("label_smoothing", smoothing, |it| (0.0..0.5).contains(&it), "must be 0 to below 0.5")
    }
}

impl Objective for Simpo {
    fn needs(&self) -> Needs {
        Needs { groups: true, pairs: true, ..Needs::default() }
    }

    /// # Panics
    /// If a group is not a pair.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let Simpo { beta, gamma, label_smoothing: smoothing } = *self;
        mean_over_pairs(streams, totals, false, |chosen, rejected| {
            let logps = [chosen.policy / chosen.tokens, rejected.policy / rejected.tokens];
            let x = beta * (logps[0] - logps[1]) - gamma;
            let slope = -(1.0 - smoothing) * sigmoid(-x) + smoothing * sigmoid(x);
            PairLoss {
                value: -(1.0 - smoothing) * log_sigmoid(x) - smoothing * log_sigmoid(-x),
                d: [beta * slope / chosen.tokens, -beta * slope / rejected.tokens],
                rewards: logps.map(|mean| beta * mean),
                logps,
                metrics: Vec::new(),
            }
        })
    }
}
