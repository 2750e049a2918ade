//! The loss of a critic: squared distance of values from returns, clipped like PPO's ratio.
//!
//! **What it does.** Pulls the value of each state towards the return that followed, but in one update no further than
//! a set distance.
//!
//! **Formula.** With `V` the value, `V_old` the value before the update, `R` the return:
//!
//! ```text
//! ℓ = ½·max((V - R)², (clip(V, V_old - c, V_old + c) - R)²)
//! ```
//!
//! and the mean over the tokens of the optimiser batch; `c = 0` leaves the clipping out: `ℓ = ½·(V - R)²`.
//!
//! **Derivative.** `V - R`, and 0 where the clipped term is the larger one and `V` is outside the region. At its bounds
//! both terms are equal, and the derivative is that of the inside.
//!
//! **Streams.** For a value model, `policy` is `V`, `proximal` is `V_old` and `advantage` is `R`.
//!
//! **Differs from others.** verl (`cliprange_value` 0.5) and TRL's PPO (`cliprange_value` 0.2, times `vf_coef` 0.1)
//! have the same form; verl's mean is over tokens, as here.
//!
//! **Metrics.** `critic/vf_loss`, `critic/vf_clipfrac`, `critic/vpred_mean`: verl's names; means over tokens.
//!
//! **References.** Schulman et al. 2017 (PPO), arXiv:1707.06347, eq. 9; the clipping is that of OpenAI's baselines,
//! ppo2 (see Engstrom et al. 2020, arXiv:2005.12729, section 3).

use crate::{Evaluation, Metric, Objective, Streams, Totals};

/// The clipped squared error of values. See the head of this file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueLoss {
    /// How far a value may move in one update; 0 is no limit.
    pub clip_range: f64,
}

impl Objective for ValueLoss {
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let denominator = totals.tokens.max(1) as f64;
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let (mut loss, mut clipped, mut values, mut tokens) = (0.0, 0.0, 0.0, 0.0);
        for at in streams.loss_positions(0..streams.policy.len()) {
            let (value, old, target) = (streams.policy[at], streams.proximal[at], streams.advantage[at]);
            let error = value - target;
            let kept = if self.clip_range > 0.0 {
                value.clamp(old - self.clip_range, old + self.clip_range) - target
            } else {
                error
            };
            let is_clipped = kept * kept > error * error;
            let larger = if is_clipped { kept } else { error };
            loss += 0.5 * larger * larger;
            evaluation.d_policy[at] = if is_clipped { 0.0 } else { error / denominator };
            clipped += f64::from(is_clipped);
            values += value;
            tokens += 1.0;
        }
        evaluation.loss = loss / denominator;
        evaluation.metrics =
            [("critic/vf_loss", loss), ("critic/vf_clipfrac", clipped), ("critic/vpred_mean", values)]
                .map(|(name, sum)| Metric { name, sum, weight: tokens })
                .into();
        evaluation
    }
}
