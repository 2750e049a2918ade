//! DPO on a group of graded answers: every right one against every wrong one.
//!
//! **What it does.** Pairs each desirable answer to a task with each undesirable one, and takes the mean of the DPO
//! losses of these pairs. A group in which all answers are right, or all wrong, teaches nothing.
//!
//! **Formula.** For a group `g` with `W` the answers whose advantage is above 0, `L` those with an advantage below
//! 0, `n_g` its sequences and `S` those of the optimiser batch, with the `ℓ_dpo` of [`super::Dpo`]:
//!
//! ```text
//! loss = Σ_g (n_g / S) · 1/(|W|·|L|) · Σ_{w ∈ W} Σ_{l ∈ L} ℓ_dpo(w, l)
//! ```
//!
//! So groups of equal size weigh the same, and a group without a pair adds 0 but still counts in `S`. An
//! answer with an advantage of 0, or without a token in the loss, is in no pair.
//!
//! **Derivative.** That of the sum: with `a_w = 1/|L| · Σ_l σ(-x_wl)`, each token of `w` has `-β·a_w/|W|`, times
//! `n_g / S`.
//!
//! **Reduces to.** DPO where every group is one right and one wrong answer, to the bit.
//!
//! **Differs from the paper.** Socratic-Zero makes a data set of the pairs and trains on it with any DPO trainer, so a
//! task with more pairs weighs more; here tasks weigh the same.
//!
//! **Reconstructed.** The weight of a pair within its group and of a group within the batch: the paper gives none.
//!
//! **References.** Wang et al. 2025 (Socratic-Zero), arXiv:2509.24726. DPO: Rafailov et al. 2023, arXiv:2305.18290.

use serde::{Deserialize, Serialize};

use super::Dpo;
use super::common::{Answer, Pairs};
use crate::{Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals};

/// DPO over all pairs of a group. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupDpo {
    /// How strongly the reference holds the policy back. Default: 0.1.
    pub beta: f64,
    /// Probability that a label is wrong, below 0.5. Default: 0.
    pub label_smoothing: f64,
    /// Is the reference taken to be uniform? Default: false.
    pub reference_free: bool,
}

impl Default for GroupDpo {
    fn default() -> Self {
        GroupDpo { beta: 0.1, label_smoothing: 0.0, reference_free: false }
    }
}

impl GroupDpo {
    fn dpo(&self) -> Dpo {
        let GroupDpo { beta, label_smoothing, reference_free } = *self;
        Dpo { beta, label_smoothing, reference_free, ..Dpo::default() }
    }
}

impl Part for GroupDpo {
    const CARD: Card = Card {
        id: "group_dpo",
        title: "DPO over all pairs of a group",
        family: Family::Preference,
        paper: "Wang et al. 2025, Socratic-Zero, arXiv:2509.24726",
        equation: "mean over right w and wrong l of a group of -log σ(β·(h_w - h_l))",
        scope: "group",
        check: Check::Golden("TRL 1.16 DPOTrainer.compute_loss, on the written-out pairs"),
        reconstructed: Some("the weight of a pair within its group and of a group within the batch"),
        reduces_to: &["DPO, for groups of one right and one wrong answer"],
        file: "crates/burnish-rl/src/preference/group_dpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        self.dpo().check()
    }
}

impl Objective for GroupDpo {
    fn needs(&self) -> Needs {
        self.dpo().needs()
    }

    /// # Panics
    /// If the streams lack the reference that [`Objective::needs`] asks for.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let dpo = self.dpo();
        let mut pairs = Pairs::new(streams, totals);
        for group in streams.groups {
            let (mut right, mut wrong) = (Vec::new(), Vec::new());
            for sequence in &streams.sequences[group.clone()] {
                let answer = Answer::of(streams, sequence, !self.reference_free);
                let label = answer.label(streams);
                if label > 0.0 {
                    right.push(answer);
                } else if label < 0.0 {
                    wrong.push(answer);
                }
            }
            let share = group.len() as f64 / 2.0 / (right.len() * wrong.len()) as f64;
            for chosen in &right {
                for rejected in &wrong {
                    pairs.add(chosen, rejected, dpo.pair(chosen, rejected), share);
                }
            }
        }
        pairs.finish()
    }
}
