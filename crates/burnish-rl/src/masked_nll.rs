//! Negative log-likelihood of masked tokens: imitation by models of masked diffusion.
//!
//! **What it does.** Supervised fine-tuning of a model that predicts masked tokens from both sides. The loss mask says
//! which tokens are masked, the advantage what each of them weighs.
//!
//! **Formula.** `loss = -(1 / S) Σ_t m[t] · a[t] · log π_θ[t]`, with `m` the loss mask, `S` the number of sequences in the
//! optimiser batch, and `a[t] = 1 / (u L)` for an answer of `L` tokens that were masked with probability `u`. Over `u`
//! uniform in (0, 1] and over masks its mean is an upper bound of the negative log-likelihood per token of the answer.
//! `∂loss/∂log π_θ[t] = -m[t] a[t] / S`.
//!
//! **Reduces to.** A mean over sequences of the masked cross-entropy; with `u = 1` that of all tokens predicted at once.
//!
//! **Metrics.** `entropy`: mean over masked tokens. `masked`: the mean number of masked tokens in a sequence.
//!
//! **Example.**
//! ```
//! use burnish_rl::{Objective, Streams, Totals, masked_nll::MaskedNll};
//! let (policy, zeros) = ([-1.0, -2.0, -3.0], [0.0; 3]);
//! let streams = Streams {
//!     policy: &policy, proximal: &policy, behavior: &policy, reference: None, teacher: None, entropy: &zeros,
//!     advantage: &[0.0, 0.5, 0.25], loss_mask: &[false, true, true], sequences: &[0..3], groups: &[], directions: &[],
//!     parts: &[], facts: &[], batch_constants: &[],
//! };
//! let evaluation = MaskedNll.evaluate(&streams, &Totals { sequences: 2, ..Totals::default() });
//! assert_eq!(evaluation.loss, 0.875);
//! assert_eq!(evaluation.d_policy, [0.0, -0.25, -0.125]);
//! ```
//!
//! **References.** Sahoo et al. 2024, arXiv:2406.07524; Nie et al. 2025, arXiv:2502.09992, equation 5.

use crate::{Evaluation, Metric, Objective, Streams, Totals};

/// Weighted negative log-likelihood of the masked tokens, in nats per token of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaskedNll;

impl Objective for MaskedNll {
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let sequences = totals.sequences.max(1) as f64;
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let (mut entropy, mut tokens) = (0.0, 0.0);
        for at in streams.loss_positions(0..streams.policy.len()) {
            let weight = streams.advantage[at] / sequences;
            evaluation.loss -= weight * streams.policy[at];
            evaluation.d_policy[at] = -weight;
            entropy += streams.entropy[at];
            tokens += 1.0;
        }
        evaluation.metrics.push(Metric { name: "entropy", sum: entropy, weight: tokens });
        let count = streams.sequences.len() as f64;
        evaluation.metrics.push(Metric { name: "masked", sum: tokens, weight: count });
        evaluation
    }
}
