//! KL-Cov: keeps the tokens that lower the entropy most near where they were.
//!
//! **What it does.** A step lowers the entropy by about the covariance of log-probability and advantage. A share of the
//! tokens, those with the largest covariance, pays for the distance from the proximal policy.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal, `A` the advantage, means over the loss
//! tokens of the optimiser batch, `N` their number and `k` the `kl_cov_ratio`:
//!
//! ```text
//! r   = exp(lp - old)
//! cov = (A - mean A)·(lp - mean lp)
//! S   = the max(1, floor(k·N)) tokens with the largest cov
//! ℓ   = -r·A + c·|lp - old| for a token of S,   -r·A for another
//! ```
//!
//! With `k = 0`, `S` is empty. `S` is a constant of the derivative, chosen once per optimiser batch; of tokens with
//! equal covariance, the first is taken.
//!
//! **Derivative.** `∂ℓ/∂lp = -r·A`, plus `c·sign(lp - old)` for a token of `S`: 0 where the policy has not moved, as in
//! torch, so nothing holds a token back on the first inner step. There is no clip.
//!
//! **Reduces to.** `ppo_clip` without bounds (`-r·A`) for `kl_cov_ratio = 0`, to the bit.
//!
//! **Differs from the paper and from the frameworks.** The paper writes a KL penalty; its code, and verl's, has
//! `|lp - old|`. What the authors' recipes call `k_percent = 0.2` is `kl_cov_ratio = 0.002` here and in verl. verl
//! refuses `k = 0`, and takes means and `N` over what it forwards at once (a micro-batch); here they are taken over the
//! optimiser batch.
//!
//! **References.** Cui et al. 2025, "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models",
//! arXiv:2505.22617, section 4.

use serde::{Deserialize, Serialize};

use super::clip_cov::{covariances, is_marked, share_of};
use super::clipped_surrogate;
use crate::kl::KlEstimator;
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Metric, Needs, Part, SettingError, TokenLoss, Tokens};

/// The surrogate with a penalty on tokens of large covariance. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KlCov {
    /// Share of the batch's tokens that are penalised; 0 switches this off. Default: 0.0002.
    pub kl_cov_ratio: f64,
    /// What a penalised token pays for a nat of distance. Default: 1.
    pub ppo_kl_coef: f64,
}

impl Default for KlCov {
    fn default() -> Self {
        KlCov { kl_cov_ratio: 0.0002, ppo_kl_coef: 1.0 }
    }
}

impl Part for KlCov {
    const CARD: Card = Card {
        id: "kl_cov",
        title: "KL-Cov",
        family: Family::Objective,
        paper: "Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models, \
                arXiv:2505.22617",
        equation: "-r·A, plus c·|lp - old| for the share of tokens with the largest (A - mean A)·(lp - mean lp)",
        scope: "batch",
        check: Check::Golden("verl 0.9.1 compute_policy_loss_kl_cov"),
        reconstructed: None,
        reduces_to: &["ppo_clip without bounds, for kl_cov_ratio = 0"],
        file: "crates/burnish-rl/src/objective/kl_cov.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("kl_cov_ratio", self.kl_cov_ratio, |share| (0.0..=1.0).contains(&share), "must be 0 to 1")?;
        require("ppo_kl_coef", self.ppo_kl_coef, |coef| coef >= 0.0, "must be 0 or more")
    }
}

impl TokenLoss for KlCov {
    fn needs(&self) -> Needs {
        Needs { batch_constants: self.kl_cov_ratio > 0.0, ..Needs::default() }
    }

    /// 1 for a token that is penalised, 0 for another.
    fn batch_constants(&self, batch: &Tokens<'_>, _seed: u64) -> Vec<f64> {
        let covariances = covariances(batch);
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by(|one, other| covariances[*other].total_cmp(&covariances[*one]));
        let mut batch_constants = vec![0.0; batch.len()];
        for at in order.into_iter().take(share_of(self.kl_cov_ratio, batch.len())) {
            batch_constants[at] = 1.0;
        }
        batch_constants
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let mut penalised = 0.0;
        for at in 0..tokens.len() {
            let ratio = tokens.log_ratio(at).exp();
            let (value, _) = clipped_surrogate(ratio, tokens.advantage[at], 0.0, f64::INFINITY);
            losses.value[at] = value;
            losses.d_policy[at] = value;
            if is_marked(tokens, at) {
                let (kl, d_kl) = KlEstimator::Abs.evaluate(tokens.policy[at], tokens.proximal[at]);
                losses.value[at] += self.ppo_kl_coef * kl;
                losses.d_policy[at] += self.ppo_kl_coef * d_kl;
                penalised += 1.0;
            }
        }
        losses.metrics.push(Metric {
            name: "kl_cov/penalised_mean",
            sum: penalised,
            weight: tokens.len() as f64,
        });
    }
}
