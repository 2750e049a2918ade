//! RED: REINFORCE on shaped data, with surplus failures dropped or good rollouts weighted up.
//!
//! **What it does.** Learns from the rollouts of any policy. Instead of bounding the update, it changes how much each
//! rollout counts: if those below their baseline outnumber the others, the surplus is dropped at random, or each
//! rollout is weighted by the exponential of its advantage.
//!
//! **Formula.** With `lp` the policy's log-probability, `A` the advantage; a sequence is negative if the mean of its
//! `A` is; `T` is the temperature:
//!
//! ```text
//! mode = "drop":    surplus = max(0, negatives - others), over the sequences of the optimiser batch
//!                   `surplus` negatives at random are dropped: ℓ = 0
//!                   ℓ = -(A - shift)·lp,   shift = mean A of the sequences that stay, 0 if all do
//! mode = "weight":  ℓ = -exp(A/T)·A·lp
//! ```
//!
//! **Derivative.** `-(A - shift)`, or `-exp(A/T)·A`.
//!
//! **Reduces to.** REINFORCE with a baseline (`rec` with `clip = "none"`) for `drop` where negatives do not outnumber
//! the others, to the bit, and for `weight` as `T` grows.
//!
//! **Differs from the paper and from the frameworks.** Trinity-RFT drops within each group, in its advantage
//! (`RECGroupedAdvantage`, `drop = "balance"`), and takes the mean of the remaining rewards as the baseline. An
//! objective does not see groups, so here the whole optimiser batch counts as one: the same for a batch of one group
//! and an estimator that subtracts the mean without dividing. Its `weight = "advantage"` is `weight` here.
//!
//! **Reconstructed.** The balance over the batch instead of the group.
//!
//! **References.** Yao et al. 2025, "Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm", arXiv:2509.24203,
//! section 4; Trinity-RFT's `RECGroupedAdvantage` and `RECPolicyLossFn`.

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use crate::settings::require;
use crate::{Card, Check, Family, Losses, Metric, Needs, Part, SettingError, TokenLoss, Tokens};

/// How the data is shaped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedMode {
    /// Surplus negatives are dropped.
    #[default]
    Drop,
    /// Each rollout is weighted by the exponential of its advantage.
    Weight,
}

/// REINFORCE on shaped data. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Red {
    /// How the data is shaped. Default: `drop`.
    pub mode: RedMode,
    /// With `weight`: the advantage at which a rollout counts e times as much as at 0. No effect otherwise. Default: 1.
    pub temperature: f64,
}

impl Default for Red {
    fn default() -> Self {
        Red { mode: RedMode::Drop, temperature: 1.0 }
    }
}

impl Part for Red {
    const CARD: Card = Card {
        id: "red",
        title: "REINFORCE on shaped data (RED-Drop, RED-Weight)",
        family: Family::Objective,
        paper: "Yao et al. 2025, Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm, arXiv:2509.24203",
        equation: "-(A - shift)·lp without surplus negative sequences; or -exp(A/T)·A·lp",
        scope: "batch",
        check: Check::Golden("Trinity-RFT 0.6.0 RECGroupedAdvantage (drop), RECPolicyLossFn (weight)"),
        reconstructed: Some("the balance is over the optimiser batch, not the group"),
        reduces_to: &["REINFORCE with a baseline, with drop where negatives do not outnumber the others"],
        file: "crates/burnish-rl/src/objective/red.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("temperature", self.temperature, |temperature| temperature > 0.0, "must be above 0")
    }
}

impl TokenLoss for Red {
    fn needs(&self) -> Needs {
        Needs { batch_constants: self.mode == RedMode::Drop, ..Needs::default() }
    }

    /// The advantage of each token after the drop: 0 for one that is dropped.
    fn batch_constants(&self, batch: &Tokens<'_>, seed: u64) -> Vec<f64> {
        let mean = |tokens: &[f64]| tokens.iter().sum::<f64>() / tokens.len() as f64;
        let mut kept = Vec::new();
        let mut negatives = Vec::new();
        for tokens in batch.sequences.iter().filter(|tokens| !tokens.is_empty()) {
            let advantage = mean(&batch.advantage[tokens.clone()]);
            if advantage < 0.0 { &mut negatives } else { &mut kept }.push((tokens.clone(), advantage));
        }
        if negatives.len() <= kept.len() {
            return batch.advantage.to_vec();
        }
        Stream::new(seed).shuffle(&mut negatives);
        negatives.truncate(kept.len());
        kept.append(&mut negatives);
        let shift = kept.iter().map(|(_, advantage)| advantage).sum::<f64>() / kept.len().max(1) as f64;
        let mut batch_constants = vec![0.0; batch.len()];
        for at in kept.into_iter().flat_map(|(tokens, _)| tokens) {
            batch_constants[at] = batch.advantage[at] - shift;
        }
        batch_constants
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let mut dropped = 0.0;
        for at in 0..tokens.len() {
            let advantage = tokens.advantage[at];
            let shaped = match self.mode {
                RedMode::Drop => tokens.batch_constants.get(at).copied().unwrap_or(advantage),
                RedMode::Weight => (advantage / self.temperature).exp() * advantage,
            };
            losses.value[at] = -shaped * tokens.policy[at];
            losses.d_policy[at] = -shaped;
            dropped += f64::from(shaped == 0.0 && advantage != 0.0);
        }
        if self.mode == RedMode::Drop {
            losses.metrics.push(Metric {
                name: "red/dropped_mean",
                sum: dropped,
                weight: tokens.len() as f64,
            });
        }
    }
}
