//! From token losses to one number.
//!
//! **What it does.** Divides the loss of each token so that the sum over all parts of an optimiser batch is the loss.
//! Nearly every disagreement between frameworks about "the same" objective is a disagreement about this.
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
//! | `prompt_mean` | `G · max(1, Σ_s' Σ_t m[s', t])`, over the sequences `s'` of its group | group of `G`, and token in it |
//! | `seq_mean_token_sum` | `S` | token of the run |
//! | `token_sum` | `1` | token of the run; the size of the batch is a learning rate |
//!
//! **Reduces to.** The first five are equal for one minibatch whose completions all have `completion_tokens_max`
//! tokens, in groups of one size; `dapo` is `bnpo` where the generation is one minibatch; `prompt_mean` is `grpo`
//! with groups of one, and `bnpo` with one group; `dr_grpo` is `seq_mean_token_sum` over a constant.
//!
//! **Names elsewhere.**
//!
//! | here | elsewhere |
//! | --- | --- |
//! | `grpo` | verl `seq-mean-token-mean`; SkyRL `sequence_mean`; NeMo-RL `token_level_loss = false` |
//! | `bnpo` | verl `token-mean`; NeMo-RL `token_level_loss = true`; prime-rl, per component |
//! | `dr_grpo` | verl `seq-mean-token-sum-norm`; SkyRL `seq_mean_token_sum_norm` |
//! | `dapo` | TRL's default; over one minibatch, verl `token-mean` and SkyRL `token_mean` |
//! | `prompt_mean` | SkyRL `prompt_mean`; slime, whose groups are the samples of one `rollout_id` |
//! | `seq_mean_token_sum` | verl `seq-mean-token-sum`; TRL `luspo` |
//! | `token_sum` | verl `token-sum` |
//!
//! `loss.loss_scale_factor` (verl's name) replaces `dr_grpo`'s constant. slime averages within a `rollout_id` so that
//! an episode that gives many samples weighs no more than another: this is `prompt_mean` if the trainer's groups are
//! those samples.
//!
//! **Differs from TRL 1.16.** Not for `grpo`, `dr_grpo` and `dapo`. How TRL's numbers map to [`Totals`]: an
//! optimiser batch is `gradient_accumulation_steps` micro-batches of equal size, whose losses are added, and
//! a generation is `steps_per_generation` of them, so `minibatches = steps_per_generation /
//! gradient_accumulation_steps`; `num_items_in_batch` (over all processes) is `tokens_generation`;
//! `max_completion_length` is `completion_tokens_max`. TRL divides by `current_gradient_accumulation_steps`,
//! which for the mean over sequences and for the constant amounts to counting the sequences of all
//! micro-batches. `bnpo` there means the tokens of each *micro-batch*, so its gradient depends on how much
//! memory the machine has; here it is the tokens of the optimiser batch, which is TRL's with
//! `gradient_accumulation_steps = 1`. Sequences without a loss token count in `S` here and in TRL; verl counts them if
//! its actor hands over `global_batch_size`, as it does.
//!
//! **Example.**
//! ```
//! use burnish_rl::{Totals, aggregation::Aggregation};
//! // Two sequences, of 3 and 5 tokens; nothing else was sampled.
//! let totals = Totals {
//!     sequences: 2, tokens: 8, tokens_generation: 8, minibatches: 1, completion_tokens_max: 10, ..Totals::default()
//! };
//! assert_eq!(Aggregation::Grpo.denominator(3, &totals), 6.0);
//! assert_eq!(Aggregation::Dapo.denominator(3, &totals), 8.0);
//! assert_eq!(Aggregation::DrGrpo.denominator(3, &totals), 20.0);
//! ```
//!
//! **References.** `grpo`: Shao et al. 2024, arXiv:2402.03300, eq. 3. `dr_grpo`: Liu et al. 2025,
//! arXiv:2503.20783. `dapo`: Yu et al. 2025, arXiv:2503.14476, eq. 8. `bnpo`: the name is TRL's; `prompt_mean` SkyRL's;
//! the others are verl's.

use crate::Totals;
use serde::{Deserialize, Serialize};

/// How token losses become one number. Names and default (`dapo`) are those of TRL's `loss_type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Mean over the tokens of a sequence, then over sequences.
    Grpo,
    /// Mean over the tokens of the optimiser batch.
    Bnpo,
    /// Sum over tokens, divided by a constant: no length is favoured.
    DrGrpo,
    /// Sum over tokens, divided by the generation's tokens per minibatch.
    #[default]
    Dapo,
    /// Mean over the tokens of a group, then over groups.
    PromptMean,
    /// Sum over the tokens of a sequence, then mean over sequences.
    SeqMeanTokenSum,
    /// Sum over tokens.
    TokenSum,
}

impl Aggregation {
    /// Does it need whole groups?
    pub fn needs_groups(self) -> bool {
        self == Aggregation::PromptMean
    }

    /// Does it divide by the token count of the whole optimiser batch, or of the generation?
    pub fn counts_batch_tokens(self) -> bool {
        matches!(self, Aggregation::Bnpo | Aggregation::Dapo)
    }

    /// What the loss of a token is divided by in a sequence with `tokens` tokens in the loss, or, if it
    /// [`Aggregation::needs_groups`], in a group with that many. Token counts are taken to be at least 1.
    pub fn denominator(self, tokens: usize, totals: &Totals) -> f64 {
        match self {
            Aggregation::Grpo => tokens.max(1) as f64 * totals.sequences as f64,
            Aggregation::PromptMean => tokens.max(1) as f64 * totals.groups as f64,
            Aggregation::SeqMeanTokenSum => totals.sequences as f64,
            Aggregation::TokenSum => 1.0,
            Aggregation::Bnpo => totals.tokens.max(1) as f64,
            Aggregation::DrGrpo => totals.sequences as f64 * totals.completion_tokens_max as f64,
            Aggregation::Dapo => totals.tokens_generation.max(1) as f64 / totals.minibatches.max(1) as f64,
        }
    }
}
