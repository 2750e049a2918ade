//! An outcome reward model: the log-odds that an answer is right, from answers with a label.
//!
//! **What it does.** Learns to tell right from wrong answers, each on its own; no pairs are needed.
//!
//! **Formula.** For a conversation with reward `r`, `σ` the logistic function:
//!
//! ```text
//! ℓ = -log σ(r)     right: its advantage is above 0
//! ℓ = -log σ(-r)    wrong: below 0
//! ```
//!
//! The loss is the sum over sequences divided by the sequences of the optimiser batch. One with an advantage of 0 adds
//! nothing.
//!
//! **Derivative.** `∂ℓ/∂r = σ(r) - 1` of a right one, `σ(r)` of a wrong one.
//!
//! **Reduces to.** Binary cross-entropy with logits; `ln 2` at `r = 0`.
//!
//! **Differs from the paper.** Cobbe et al. predict the label at every token, and train the language model along. Here it is
//! predicted once, after the answer.
//!
//! **Metrics**: `accuracy` (share of labels that the sign of the reward meets), `mean_reward`.
//!
//! **References.** Cobbe et al. 2021, arXiv:2110.14168, section 4.

use serde::{Deserialize, Serialize};

use super::{log_sigmoid, sigmoid};
use crate::{Card, Check, Evaluation, Family, Metric, Needs, Objective, Part, SettingError, Streams, Totals};

/// A reward model of labelled answers. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outcome {}

impl Part for Outcome {
    const CARD: Card = Card {
        id: "outcome",
        title: "Outcome reward model",
        family: Family::RewardModel,
        paper: "Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems, arXiv:2110.14168",
        equation: "-log σ(r) of a right answer, -log σ(-r) of a wrong one",
        scope: "sequence",
        check: Check::Golden("torch 2.13 binary_cross_entropy_with_logits"),
        reconstructed: None,
        reduces_to: &["ln 2 at r = 0"],
        file: "crates/burnish-rl/src/reward_model/outcome.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

impl Objective for Outcome {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let sequences = totals.sequences.max(1) as f64;
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let (mut count, mut right, mut rewards) = (0.0, 0.0, 0.0);
        for sequence in streams.sequences {
            let Some(at) = streams.loss_positions(sequence.clone()).last() else { continue };
            let (reward, label) = (streams.policy[at], streams.advantage[at]);
            if label == 0.0 {
                continue;
            }
            let sign = label.signum();
            evaluation.loss -= log_sigmoid(sign * reward) / sequences;
            evaluation.d_policy[at] = -sign * sigmoid(-sign * reward) / sequences;
            count += 1.0;
            right += f64::from(sign * reward > 0.0);
            rewards += reward;
        }
        evaluation.metrics = [("accuracy", right), ("mean_reward", rewards)]
            .map(|(name, sum)| Metric { name, sum, weight: count })
            .to_vec();
        evaluation
    }
}
