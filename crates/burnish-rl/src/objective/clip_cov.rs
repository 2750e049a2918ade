//! Clip-Cov: leaves out of the update some of the tokens that lower the entropy most.
//!
//! **What it does.** A step lowers the entropy by about the covariance of log-probability and advantage, and few
//! tokens carry most of it. A small random share of those with a large covariance gets no gradient.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal, `A` the advantage, means over the loss
//! tokens of the optimiser batch, `N` their number and `ρ` the `clip_cov_ratio`:
//!
//! ```text
//! r   = exp(lp - old)
//! cov = (A - mean A)·(lp - mean lp)
//! S   = max(1, floor(ρ·N)) tokens at random, or all there are, of those with lb < cov < ub that PPO does not clip
//! ℓ   = 0 for a token of S,   -min(r·A, clip(r, 1 - ε_low, 1 + ε_high)·A) for another
//! ```
//!
//! With `ρ = 0`, `S` is empty. `S` is a constant of the derivative, chosen once per optimiser batch.
//!
//! **Derivative.** `∂ℓ/∂lp = -r·A`, 0 for a token of `S` or where PPO clips: as `ppo_clip`, its bounds included.
//!
//! **Reduces to.** `ppo_clip` with the same bounds for `clip_cov_ratio = 0`, to the bit.
//!
//! **Differs from the paper and from the frameworks.** The default bounds of the ratio, 0 and 2, are those of the
//! authors' recipe and all but switch PPO's clip off; verl 0.9 takes those of its `vanilla` loss (0.2). verl refuses
//! `ρ = 0`; because of `max(1, ..)`, any other value takes at least one token. verl takes means and `N` over what it
//! forwards at once (a micro-batch), so its choice depends on how much memory there is; here they are taken over the
//! optimiser batch. verl's mean adds 1e-8 to the count. Other tokens are drawn: verl uses torch's generator, burnish
//! random numbers addressed by the batch.
//!
//! **References.** Cui et al. 2025, "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models",
//! arXiv:2505.22617, section 4.

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::clipped_surrogate;
use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Metric, Needs, Part, SettingError, TokenLoss, Tokens};

/// The clipped surrogate without some tokens of large covariance. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClipCov {
    /// Share of the batch's tokens that get no gradient, as far as there are candidates; 0 switches this off.
    /// Default: 0.0002.
    pub clip_cov_ratio: f64,
    /// Candidates have a covariance above this. Default: 1.
    pub clip_cov_lb: f64,
    /// Candidates have a covariance below this. Default: 5.
    pub clip_cov_ub: f64,
    /// As in `ppo_clip`. Default: 1, no bound.
    pub epsilon_low: f64,
    /// As in `ppo_clip`. Default: 1.
    pub epsilon_high: f64,
}

impl Default for ClipCov {
    fn default() -> Self {
        ClipCov {
            clip_cov_ratio: 0.0002,
            clip_cov_lb: 1.0,
            clip_cov_ub: 5.0,
            epsilon_low: 1.0,
            epsilon_high: 1.0,
        }
    }
}

impl Part for ClipCov {
    const CARD: Card = Card {
        id: "clip_cov",
        title: "Clip-Cov",
        family: Family::Objective,
        paper: "Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models, \
                arXiv:2505.22617",
        equation: "0 for a random share of the tokens with lb < (A - mean A)·(lp - mean lp) < ub, else ppo_clip",
        scope: "batch",
        check: Check::Golden("verl 0.9.1 compute_policy_loss_clip_cov"),
        reconstructed: None,
        reduces_to: &["ppo_clip, for clip_cov_ratio = 0"],
        file: "crates/burnish-rl/src/objective/clip_cov.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require(
            "clip_cov_ratio",
            self.clip_cov_ratio,
            |share| (0.0..=1.0).contains(&share),
            "must be 0 to 1",
        )?;
        require("clip_cov_lb", self.clip_cov_lb, |_| true, "must be a number")?;
        let rule = format!("must be above clip_cov_lb, {}", self.clip_cov_lb);
        require("clip_cov_ub", self.clip_cov_ub, |above| above > self.clip_cov_lb, &rule)?;
        require("epsilon_low", self.epsilon_low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")
    }
}

impl ClipCov {
    fn surrogate(&self, tokens: &Tokens<'_>, at: usize) -> (f64, Option<Bound>) {
        let ratio = tokens.log_ratio(at).exp();
        clipped_surrogate(ratio, tokens.advantage[at], 1.0 - self.epsilon_low, 1.0 + self.epsilon_high)
    }
}

impl TokenLoss for ClipCov {
    fn needs(&self) -> Needs {
        Needs { batch_constants: self.clip_cov_ratio > 0.0, ..Needs::default() }
    }

    /// 1 for a token without gradient, 0 for another.
    fn batch_constants(&self, batch: &Tokens<'_>, seed: u64) -> Vec<f64> {
        let covariances = covariances(batch);
        let is_candidate = |at: &usize| {
            let covariance = covariances[*at];
            let in_range = self.clip_cov_lb < covariance && covariance < self.clip_cov_ub;
            in_range && self.surrogate(batch, *at).1.is_none()
        };
        let mut candidates: Vec<usize> = (0..batch.len()).filter(is_candidate).collect();
        Stream::new(seed).shuffle(&mut candidates);
        let mut batch_constants = vec![0.0; batch.len()];
        for at in candidates.into_iter().take(share_of(self.clip_cov_ratio, batch.len())) {
            batch_constants[at] = 1.0;
        }
        batch_constants
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let mut left_out = 0.0;
        for at in 0..tokens.len() {
            if is_marked(tokens, at) {
                left_out += 1.0;
                continue;
            }
            let (value, clipped) = self.surrogate(tokens, at);
            losses.value[at] = value;
            losses.d_policy[at] = if clipped.is_some() { 0.0 } else { value };
            losses.clipped[at] = clipped;
        }
        losses.metrics.push(Metric {
            name: "clip_cov/detached_mean",
            sum: left_out,
            weight: tokens.len() as f64,
        });
    }
}

/// `(A - mean A)·(lp - mean lp)` of each token: their mean is the covariance of advantage and log-probability.
pub fn covariances(batch: &Tokens<'_>) -> Vec<f64> {
    let count = batch.len().max(1) as f64;
    let mean = |stream: &[f64]| stream.iter().sum::<f64>() / count;
    let (advantage, policy) = (mean(batch.advantage), mean(batch.policy));
    batch.advantage.iter().zip(batch.policy).map(|(a, lp)| (a - advantage) * (lp - policy)).collect()
}

/// The number of tokens that a share of `tokens` is: at least one, unless the share is 0.
pub(super) fn share_of(share: f64, tokens: usize) -> usize {
    if share == 0.0 { 0 } else { ((share * tokens as f64) as usize).max(1) }
}

/// Was the token chosen? No token is if there are no batch_constants.
pub(super) fn is_marked(tokens: &Tokens<'_>, at: usize) -> bool {
    tokens.batch_constants.get(at).is_some_and(|constant| *constant != 0.0)
}
