//! Negative log-likelihood: imitate the tokens that are given.
//!
//! **What it does.** Supervised fine-tuning. The loss mask says which tokens are imitated.
//!
//! **Formula.** `loss = -Σ_t m[t] · log π_θ[t] / N`, with `m` the loss mask and `N` the number of tokens with
//! a loss mask in the optimiser batch; `∂loss/∂log π_θ[t] = -m[t] / N`.
//!
//! **Reduces to.** Cross-entropy with mean reduction, as in `transformers` with `num_items_in_batch`. It is
//! GRPO's gradient at ratio 1 with every advantage 1 and `bnpo` aggregation.
//!
//! **Metrics.** `entropy`: mean over loss tokens. (TRL's `mean_token_accuracy` needs the most likely token,
//! which the streams do not have.)
//!
//! **Example.**
//! ```
//! use burnish_rl::{Objective, Streams, Totals, nll::Nll};
//! let (policy, zeros) = ([-1.0, -2.0, -3.0], [0.0; 3]);
//! let streams = Streams {
//!     policy: &policy, proximal: &policy, behavior: &policy, reference: None, teacher: None, entropy: &zeros,
//!     advantage: &zeros, loss_mask: &[false, true, true], sequences: &[0..3], groups: &[], directions: &[],
//!     parts: &[], facts: &[], batch_constants: &[],
//! };
//! let totals = Totals {
//!     sequences: 1, tokens: 2, tokens_generation: 2, minibatches: 1, ..Totals::default()
//! };
//! let evaluation = Nll.evaluate(&streams, &totals);
//! assert_eq!(evaluation.loss, 2.5);
//! assert_eq!(evaluation.d_policy, [0.0, -0.5, -0.5]);
//! ```
//!
//! **References.** Ouyang et al. 2022, arXiv:2203.02155, section 3.5.

use crate::{Evaluation, Metric, Objective, Streams, Totals};

/// Negative log-likelihood of the tokens in the loss, in nats per token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nll;

impl Objective for Nll {
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let denominator = totals.tokens.max(1) as f64;
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let (mut entropy, mut tokens) = (0.0, 0.0);
        for at in streams.loss_positions(0..streams.policy.len()) {
            evaluation.loss -= streams.policy[at] / denominator;
            evaluation.d_policy[at] = -1.0 / denominator;
            entropy += streams.entropy[at];
            tokens += 1.0;
        }
        evaluation.metrics.push(Metric { name: "entropy", sum: entropy, weight: tokens });
        evaluation
    }
}
