//! GSPO: the clipped surrogate with one ratio per sequence.
//!
//! **What it does.** As [`super::PpoClip`], but compares how probable the *whole answer* has become: an answer is
//! clipped as a whole, and the noise of single tokens averages out.
//!
//! **Formula.** For a sequence of `n` loss tokens, `sg` a constant of the derivative:
//!
//! ```text
//! s   = exp(1/n · Σ_t (lp_t - old_t))
//! ℓ_t = -min(s·A_t, clip(s, 1 - ε_low, 1 + ε_high)·A_t)              level = "sequence"
//! ℓ_t = the same with s_t = sg(s)·exp(lp_t - sg(lp_t)) for s         level = "token" (GSPO-token)
//! ```
//!
//! **Derivative.** `sequence`: `∂(Σ ℓ)/∂lp_t = -s·(mean of A over the sequence, clipped tokens counting 0)`, the same
//! for each token. `token`: `-s·A_t`, 0 where clipped. With one advantage per sequence the two are equal, in value as
//! well. On a bound nothing is clipped.
//!
//! **Reduces to.** `ppo_clip` for sequences of one token, exactly. REINFORCE on policy: `s` is exactly 1.
//!
//! **Aggregation.** The mean over sequences of the mean over tokens (`loss.aggregation = "grpo"`) is the
//! objective. A sum over tokens weighs each sequence by its length, which is [`super::Luspo`]; [`crate::rules`]
//! refuses it.
//!
//! **Differs from the frameworks.** The bounds are the paper's; TRL and verl keep the 0.2 of single tokens, which a
//! ratio that is normalised by length hardly ever reaches. TRL's `importance_sampling_level = "sequence"` is
//! `sequence`, and leaves the aggregation to the user; verl's `gspo` is `token`, with the mean of `loss_agg_mode`, and
//! clamps `log s` to at most 10. As in TRL, a KL in the loss is corrected by `s`, which every token of the sequence
//! moves; with `token`, by `s_t`. `clip_ratio/*` count sequences with `sequence`, as in TRL, and tokens with `token`,
//! as in verl.
//!
//! **References.** Zheng et al. 2025, Group Sequence Policy Optimization, arXiv:2507.18071, eq. 5 to 7 and 13 to 14.

use serde::{Deserialize, Serialize};

use super::clipped_surrogate;
use super::common::{check_epsilons, sequence_surrogate};
use crate::aggregation::Aggregation;
use crate::{Card, Check, Family, Losses, Part, Ratio, SettingError, TokenLoss, Tokens};

/// How the ratio of a sequence enters the derivative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As one for the whole sequence: the derivative of a token has the advantages of all tokens.
    #[default]
    Sequence,
    /// Token by token: the derivative of a token has its own advantage.
    Token,
}

/// GSPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gspo {
    /// How the ratio enters the derivative: `sequence` (default), or `token`, for advantages that differ between
    /// tokens.
    pub level: Level,
    /// How far the ratio of the sequence may fall below 1. Default: 3e-4, the paper's.
    pub epsilon_low: f64,
    /// How far it may rise above 1. Default: 4e-4, the paper's.
    pub epsilon_high: f64,
}

impl Default for Gspo {
    fn default() -> Self {
        Gspo { level: Level::Sequence, epsilon_low: 3e-4, epsilon_high: 4e-4 }
    }
}

impl Part for Gspo {
    const CARD: Card = Card {
        id: "gspo",
        title: "GSPO, GSPO-token",
        family: Family::Objective,
        paper: "Zheng et al. 2025, Group Sequence Policy Optimization, arXiv:2507.18071",
        equation: "-min(s·A, clip(s, 1 - ε_low, 1 + ε_high)·A), s = exp(mean_t(lp_t - old_t))",
        scope: "sequence",
        check: Check::Golden("TRL 1.16 GRPOTrainer.compute_loss; verl 0.9 compute_policy_loss_gspo"),
        reconstructed: None,
        reduces_to: &["ppo_clip, for sequences of one token", "REINFORCE with a baseline, on policy"],
        file: "crates/burnish-rl/src/objective/gspo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        check_epsilons(self.epsilon_low, self.epsilon_high)
    }
}

impl TokenLoss for Gspo {
    fn aggregation(&self) -> Option<Aggregation> {
        Some(Aggregation::Grpo)
    }

    fn ratio(&self) -> Ratio {
        match self.level {
            Level::Sequence => Ratio::Sequence,
            Level::Token => Ratio::SequenceAtToken,
        }
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let (low, high) = (1.0 - self.epsilon_low, 1.0 + self.epsilon_high);
        if self.level == Level::Sequence {
            return sequence_surrogate(tokens, losses, low, high);
        }
        let log_ratios = (0..tokens.len()).map(|at| tokens.detached_log_ratio(at));
        let ratio = (log_ratios.sum::<f64>() / tokens.len() as f64).exp();
        for at in 0..tokens.len() {
            let ratio = ratio * tokens.score(at).exp();
            let (value, clipped) = clipped_surrogate(ratio, tokens.advantage[at], low, high);
            losses.value[at] = value;
            losses.d_policy[at] = if clipped.is_some() { 0.0 } else { value };
            losses.clipped[at] = clipped;
        }
    }
}
