//! What rows of hidden states come to under an output head, beyond [`Tape::token_scores`]. Not recorded.

use crate::{
    Tape, Var, Vocab, Weight,
    ops::{scores, squares, top},
};

impl Tape<'_> {
    /// The `top` likeliest ids of each row under the distributions of [`Tape::token_scores`], likeliest first (of two
    /// alike, the smaller id), and their log-probs over the whole vocabulary: `[rows, top]` each. Not recorded.
    ///
    /// # Panics
    /// If the vocabulary has fewer ids, or the parameters lie on a GPU.
    pub fn top_scores(
        &self,
        hidden: &Var,
        head: impl Into<Weight>,
        temperatures: &[f32],
        vocab: &Vocab,
        top: usize,
    ) -> (Vec<u32>, Vec<f32>) {
        self.with_head(hidden, head.into(), temperatures, vocab, |inputs| top::top(inputs, top))
    }

    /// The sum of the squared probabilities of each row's distribution, that of [`Tape::token_scores`]: `[rows]`. Not
    /// recorded.
    ///
    /// # Panics
    /// If the parameters lie on a GPU.
    pub fn squared_probabilities(
        &self,
        hidden: &Var,
        head: impl Into<Weight>,
        temperatures: &[f32],
        vocab: &Vocab,
    ) -> Vec<f32> {
        self.with_head(hidden, head.into(), temperatures, vocab, squares::squares)
    }

    fn with_head<R>(
        &self,
        hidden: &Var,
        head: Weight,
        temperatures: &[f32],
        vocab: &Vocab,
        read: impl FnOnce(scores::Inputs<'_>) -> R,
    ) -> R {
        let Weight { base: head, adapter } = head;
        assert_eq!(head.cols, hidden.cols, "columns of the hidden states and of the head differ");
        assert_eq!(head.rows, vocab.len(), "rows of the head and ids of the vocabulary differ");
        assert_eq!(temperatures.len(), hidden.rows, "one temperature for each row");
        let adapter = adapter.filter(|_| self.has_adapters);
        let inner = adapter.map(|adapter| adapter.inner(self.params, hidden.data(), hidden.rows));
        read(scores::Inputs {
            hidden: hidden.data(),
            weight: self.params.elements(head),
            low_rank: adapter.zip(inner.as_ref()).map(|(adapter, u)| adapter.of_head(self.params, u)),
            precision: self.params.precision(),
            width: head.cols,
            targets: &[],
            temperatures,
            vocab,
        })
    }
}
