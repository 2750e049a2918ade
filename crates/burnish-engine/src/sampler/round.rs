//! Several steps of several sequences, done by one thread.

use burnish_model::Model;
use burnish_tensor::{Precision, Workers};
use std::ops::ControlFlow;

use super::{Ended, Sampler, Sequence};
use crate::Chooser;

/// Bytes of keys and values of sequences that stay in a core's share of a common cache while the thread works on them.
const PART_BYTES: usize = 5 << 20;
/// Fewest sequences in a part: products with fewer rows wait for weights.
const PART_ROWS_MIN: usize = 8;

/// The result of a round for some sequences.
#[derive(Default)]
pub(super) struct Round {
    /// The sequences that continue, in order.
    pub(super) sequences: Vec<Sequence>,
    pub(super) ended: Vec<Ended>,
    pub(super) steps: usize,
    pub(super) sampled_tokens: usize,
}

impl Round {
    /// Combines the two.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.sequences.extend(other.sequences);
        self.ended.extend(other.ended);
        self.steps = self.steps.max(other.steps);
        self.sampled_tokens += other.sampled_tokens;
        self
    }
}

impl Sampler {
    /// Does the steps ahead of a thread's sequences.
    pub(super) fn round(&self, sequences: Vec<Sequence>, chooser: &mut Chooser) -> Round {
        let each = sequences.len().div_ceil(self.parts(&sequences));
        let mut rest = sequences.into_iter();
        let mut round = Round::default();
        while rest.len() > 0 {
            round = round.with(self.steps_of(rest.by_ref().take(each).collect(), chooser));
        }
        round
    }

    /// Number of parts in which a thread goes through its sequences; it does all steps of one part before the next.
    fn parts(&self, sequences: &[Sequence]) -> usize {
        let mut pages = 0;
        for (at, sequence) in sequences.iter().enumerate() {
            pages += sequence.cache.answer_pages();
            let is_shared = at > 0 && sequence.cache.shares_prompt(&sequences[at - 1].cache);
            pages += if is_shared { 0 } else { sequence.cache.prompt_pages() };
        }
        parts_of(sequences.len(), pages * self.pool.shape.bytes(), self.weight_bytes)
    }

    /// Does the steps ahead of sequences that are read together.
    fn steps_of(&self, sequences: Vec<Sequence>, chooser: &mut Chooser) -> Round {
        let mut round = Round { sequences, ..Round::default() };
        while round.steps < self.steps_ahead && !round.sequences.is_empty() {
            let (hidden, logits) = self.forward(&mut round.sequences, Workers::One);
            round.steps += 1;
            round.sampled_tokens += round.sequences.len();
            let rows =
                hidden.data().chunks_exact(hidden.cols()).zip(logits.data().chunks_exact(logits.cols()));
            for (mut sequence, (hidden, logits)) in std::mem::take(&mut round.sequences).into_iter().zip(rows)
            {
                let next = sequence.answer.next(logits, self.model.vocab(), chooser);
                match self.push(sequence, next, hidden) {
                    ControlFlow::Continue(sequence) => round.sequences.push(sequence),
                    ControlFlow::Break(ended) => round.ended.push(ended),
                }
            }
        }
        round
    }
}

/// Number of parts in which to go through `rows` sequences whose keys and values take this many bytes. Each step reads
/// all of them, and memory is slow. Parts that stay in the cache are faster, unless reading the weights once per part
/// costs more than that saves.
fn parts_of(rows: usize, cache_bytes: usize, weight_bytes: usize) -> usize {
    let parts = cache_bytes.div_ceil(PART_BYTES).max(1);
    let is_worth_it = parts * weight_bytes <= cache_bytes && rows >= parts * PART_ROWS_MIN;
    if is_worth_it { parts } else { 1 }
}

/// Bytes of a model's weights as products read them.
pub(super) fn weight_bytes(model: &Model) -> usize {
    let element_bytes = match model.params.precision() {
        Precision::F32 => 4,
        Precision::Bf16 => 2,
    };
    model.params.entries().iter().map(|entry| entry.param.len() * element_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_parted_where_their_cache_is_large_beside_the_weights() {
        const MIB: usize = 1 << 20;
        // 32 sequences of a small model: at first all of them stay in the cache, then each of two parts does, then each
        // of three.
        let small = |cache_mib: usize| parts_of(32, cache_mib * MIB, 7 * MIB / 2);
        assert_eq!([0, 4, 5, 8, 12].map(small), [1, 1, 1, 2, 3]);
        // So many bytes that not even a part of eight sequences would stay in the cache.
        assert_eq!(small(21), 1);
        // The weights are larger than the cached keys and values.
        assert_eq!(parts_of(32, 9 * MIB, 20 * MIB), 1);
    }
}
