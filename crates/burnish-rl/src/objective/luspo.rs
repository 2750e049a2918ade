//! LUSPO: GSPO, with sequences weighted by their length.
//!
//! **What it does.** As [`super::Gspo`], but without its bias against long answers: each token of the batch weighs the
//! same, as in a sum over tokens.
//!
//! **Formula.** For a sequence of `n` loss tokens:
//!
//! ```text
//! s   = exp(1/n · Σ_t (lp_t - old_t))
//! ℓ_t = -n·min(s·A_t, clip(s, 1 - ε_low, 1 + ε_high)·A_t)
//! ```
//!
//! **Derivative.** `n` times that of `gspo` (`level = "sequence"`).
//!
//! **Reduces to.** `gspo` for sequences of one token, exactly. With the mean over sequences, it is `gspo` under
//! `dr_grpo` times the constant that `dr_grpo` divides by.
//!
//! **Aggregation.** `loss.aggregation = "grpo"`: the factor `n` is in the formula already. Any sum over tokens would
//! count the length twice; [`crate::rules`] refuses it.
//!
//! **Differs from the frameworks.** Does not differ from TRL 1.16's `luspo` with
//! `importance_sampling_level = "sequence"`, which TRL asks for with a warning. Its default bounds are 0.2; ours are
//! the paper's. As there, a KL in the loss is corrected by `s` and summed, not averaged, over the tokens of a sequence;
//! `clip_ratio/*` count sequences.
//!
//! **References.** Length-Unbiased Sequence Policy Optimization, 2026, arXiv:2602.05261, section 5.1 for the bounds.

use serde::{Deserialize, Serialize};

use super::common::{check_epsilons, sequence_surrogate};
use crate::aggregation::Aggregation;
use crate::{Card, Check, Family, Losses, Part, Ratio, SettingError, TokenLoss, Tokens};

/// LUSPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Luspo {
    /// How far the ratio of the sequence may fall below 1. Default: 2e-3, the paper's.
    pub epsilon_low: f64,
    /// How far it may rise above 1. Default: 2.5e-3, the paper's.
    pub epsilon_high: f64,
}

impl Default for Luspo {
    fn default() -> Self {
        Luspo { epsilon_low: 2e-3, epsilon_high: 2.5e-3 }
    }
}

impl Part for Luspo {
    const CARD: Card = Card {
        id: "luspo",
        title: "LUSPO: GSPO without its bias of length",
        family: Family::Objective,
        paper: "2026, Length-Unbiased Sequence Policy Optimization, arXiv:2602.05261",
        equation: "-n·min(s·A, clip(s, 1 - ε_low, 1 + ε_high)·A), s = exp(mean_t(lp_t - old_t))",
        scope: "sequence",
        check: Check::Golden("TRL 1.16 GRPOTrainer.compute_loss"),
        reconstructed: None,
        reduces_to: &["gspo, for sequences of one token", "gspo under dr_grpo, times its length"],
        file: "crates/burnish-rl/src/objective/luspo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        check_epsilons(self.epsilon_low, self.epsilon_high)
    }
}

impl TokenLoss for Luspo {
    fn aggregation(&self) -> Option<Aggregation> {
        Some(Aggregation::Grpo)
    }

    fn ratio(&self) -> Ratio {
        Ratio::Sequence
    }

    fn kl_weight(&self, tokens: usize) -> f64 {
        tokens as f64
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        sequence_surrogate(tokens, losses, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high);
        let length = tokens.len() as f64;
        losses.value.iter_mut().chain(&mut losses.d_policy).for_each(|number| *number *= length);
    }
}
