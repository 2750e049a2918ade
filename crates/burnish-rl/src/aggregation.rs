//! From token losses to one number.
//!
//! **What it does.** Divides the loss of each token, so that the sum over all parts of an optimiser batch is
//! the loss. Nearly every disagreement between frameworks about "the same" objective is a disagreement here.
//!
//! **Formula.** With `ℓ[s, t]` the loss of token `t` of sequence `s`, `m[s, t]` the loss mask, and an
//! optimiser batch of `S` sequences: `loss = Σ_s Σ_t m[s, t] · ℓ[s, t] / D[s]`, where `D[s]` is
//!
//! | aggregation | `D[s]` | every ... weighs the same |
//! | --- | --- | --- |
//! | `grpo` | `S · max(1, Σ_t m[s, t])` | sequence, whatever its length |
//! | `bnpo` | `Σ_s Σ_t m[s, t]`: tokens of the optimiser batch | token of the optimiser batch |
//! | `dr_grpo` | `S · completion_tokens_max` | token of the run |
//! | `dapo` | tokens of the generation / minibatches in it | token of the generation |
//!
//! **Reduces to.** All four are equal for one minibatch whose completions all have `completion_tokens_max`
//! tokens; `dapo` is `bnpo` where the generation is one minibatch.
//!
//! **Differs from TRL 1.16.** Not for `grpo`, `dr_grpo` and `dapo`. How TRL's numbers map to [`Totals`]: an
//! optimiser batch is `gradient_accumulation_steps` micro-batches of equal size, whose losses are added, and
//! a generation is `steps_per_generation` of them, so `minibatches = steps_per_generation /
//! gradient_accumulation_steps`; `num_items_in_batch` (over all processes) is `tokens_generation`;
//! `max_completion_length` is `completion_tokens_max`. TRL divides by `current_gradient_accumulation_steps`,
//! which for the mean over sequences and for the constant amounts to counting the sequences of all
//! micro-batches. `bnpo` there means the tokens of each *micro-batch*, so its gradient depends on how much
//! memory the machine has; here it is the tokens of the optimiser batch, which is TRL's with
//! `gradient_accumulation_steps = 1`.
//!
//! **Example.**
//! ```
//! use burnish_rl::{Totals, aggregation::Aggregation};
//! // Two sequences, of 3 and 5 tokens; nothing else was sampled.
//! let totals = Totals {
//!     sequences: 2, tokens: 8, tokens_generation: 8, minibatches: 1, completion_tokens_max: 10, seed: 0,
//! };
//! assert_eq!(Aggregation::Grpo.denominator(3, &totals), 6.0);
//! assert_eq!(Aggregation::Dapo.denominator(3, &totals), 8.0);
//! assert_eq!(Aggregation::DrGrpo.denominator(3, &totals), 20.0);
//! ```
//!
//! **References.** `grpo`: Shao et al. 2024, arXiv:2402.03300, eq. 3. `dr_grpo`: Liu et al. 2025,
//! arXiv:2503.20783. `dapo`: Yu et al. 2025, arXiv:2503.14476, eq. 8. `bnpo`: the name is TRL's.

use crate::Totals;
use serde::{Deserialize, Serialize};

/// How token losses become one number. Names are TRL's `loss_type`; its default, `dapo`, is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Mean over the tokens of a sequence, then over sequences.
    Grpo,
    /// Mean over the tokens of the optimiser batch.
    Bnpo,
    /// Sum over tokens, divided by a constant: no length is favoured.
    DrGrpo,
    /// Sum over tokens, divided by the optimiser batch's equal share of the generation's tokens.
    #[default]
    Dapo,
}

impl Aggregation {
    /// What the loss of a token is divided by, in a sequence with `sequence_tokens` tokens in the loss.
    /// At least 1 where tokens are counted.
    pub fn denominator(self, sequence_tokens: usize, totals: &Totals) -> f64 {
        match self {
            Aggregation::Grpo => sequence_tokens.max(1) as f64 * totals.sequences as f64,
            Aggregation::Bnpo => totals.tokens.max(1) as f64,
            Aggregation::DrGrpo => totals.sequences as f64 * totals.completion_tokens_max as f64,
            Aggregation::Dapo => totals.tokens_generation.max(1) as f64 / totals.minibatches.max(1) as f64,
        }
    }
}
