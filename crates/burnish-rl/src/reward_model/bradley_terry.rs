//! Bradley-Terry: a reward from pairs of answers, of which one was preferred.
//!
//! **What it does.** Raises the reward of the chosen answer above that of the rejected one, until the probability that the
//! Bradley-Terry model gives to the preference is plain. Rewards are known up to a constant only.
//!
//! **Formula.** For a pair with rewards `r_w`, `r_l` of the chosen and the rejected conversation, `σ` the logistic function:
//!
//! ```text
//! ℓ = -log σ(r_w - r_l) + c·(r_w + r_l)²
//! ```
//!
//! The loss is the mean over pairs; `c` (`center_coefficient`) keeps rewards around 0.
//!
//! **Derivative.** `∂ℓ/∂r_w = -σ(r_l - r_w) + 2c·(r_w + r_l)`, `∂ℓ/∂r_l = σ(r_l - r_w) + 2c·(r_w + r_l)`.
//!
//! **Reduces to.** `ln 2` where both rewards are equal and `c = 0`. It is DPO's loss with `β·log (π_θ/π_ref)` for the
//! reward.
//!
//! **Differs from the paper.** The paper has no centring term; TRL 1.16 has it as `center_rewards_coefficient`, off by
//! default as here. TRL's `margin` column is not read.
//!
//! **Metrics**, named as in TRL: `accuracy` (share of pairs whose chosen answer has the greater reward), `margin` (mean of
//! `r_w - r_l`), `mean_reward`.
//!
//! **References.** Ouyang et al. 2022, arXiv:2203.02155, eq. 1, after Bradley and Terry 1952. The centring term:
//! Eisenstein et al. 2023, arXiv:2312.09244, eq. 2.

use serde::{Deserialize, Serialize};

use super::{log_sigmoid, sigmoid};
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Metric, Needs, Objective, Part, SettingError, Streams, Totals};

/// A reward model of pairs. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BradleyTerry {
    /// Weight of the squared sum of a pair's rewards. Default: 0.
    pub center_coefficient: f64,
}

impl Part for BradleyTerry {
    const CARD: Card = Card {
        id: "bradley_terry",
        title: "Bradley-Terry reward model",
        family: Family::RewardModel,
        paper: "Ouyang et al. 2022, Training language models to follow instructions with human feedback, \
                arXiv:2203.02155",
        equation: "-log σ(r_w - r_l) + c·(r_w + r_l)²",
        scope: "pair",
        check: Check::Golden("TRL 1.16 RewardTrainer.compute_loss"),
        reconstructed: None,
        reduces_to: &["ln 2 for equal rewards and c = 0"],
        file: "crates/burnish-rl/src/reward_model/bradley_terry.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("center_coefficient", self.center_coefficient, |c| c >= 0.0, "must be 0 or more")
    }
}

impl Objective for BradleyTerry {
    fn needs(&self) -> Needs {
        Needs { groups: true, pairs: true, ..Needs::default() }
    }

    /// # Panics
    /// If a group is not a pair.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let pairs = totals.sequences as f64 / 2.0;
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let (mut count, mut right, mut margin, mut rewards) = (0.0, 0.0, 0.0, 0.0);
        for group in streams.groups {
            assert_eq!(group.len(), 2, "a pair is a group of two sequences: chosen, rejected");
            let places = group.clone().map(|at| streams.loss_positions(streams.sequences[at].clone()).last());
            let places: Vec<usize> = places.flatten().collect();
            // A pair without its two rewards says nothing.
            let [chosen, rejected] = places[..] else { continue };
            let (w, l) = (streams.policy[chosen], streams.policy[rejected]);
            let (sum, c) = (w + l, self.center_coefficient);
            evaluation.loss += (c * sum * sum - log_sigmoid(w - l)) / pairs;
            evaluation.d_policy[chosen] = (2.0 * c * sum - sigmoid(l - w)) / pairs;
            evaluation.d_policy[rejected] = (2.0 * c * sum + sigmoid(l - w)) / pairs;
            count += 1.0;
            right += f64::from(w > l);
            margin += w - l;
            rewards += sum / 2.0;
        }
        evaluation.metrics = [("accuracy", right), ("margin", margin), ("mean_reward", rewards)]
            .map(|(name, sum)| Metric { name, sum, weight: count })
            .to_vec();
        evaluation
    }
}
