//! Results for rows of hidden states under an output head, beyond [`Tape::token_scores`]. Not recorded.

use crate::{
    Adapter, Param, Tape, Var, Vocab, Weight,
    data::dispatch,
    ops::{scores, squares, top},
};

impl Tape<'_> {
    /// The `top` likeliest ids of each row under the distributions of [`Tape::token_scores`], the likeliest first (of
    /// equal ones, the smaller id), and their log-probs over the whole vocabulary: `[rows, top]` each. Not recorded.
    /// Waits for a GPU; if the GPU has failed, log-probs are NaN and [`Device::check`](crate::Device::check) returns
    /// the error.
    ///
    /// # Panics
    /// If the vocabulary has fewer ids.
    pub fn top_scores(
        &self,
        hidden: &Var,
        head: impl Into<Weight>,
        temperatures: &[f32],
        vocab: &Vocab,
        top: usize,
    ) -> (Vec<u32>, Vec<f32>) {
        let head = self.head_over(hidden, head.into(), temperatures, vocab);
        dispatch!(
            self,
            |gpu| gpu.top(&hidden.data, head, temperatures, vocab, top),
            self.with_head(hidden, head, temperatures, vocab, |inputs| top::top(inputs, top))
        )
    }

    /// The sum of the squared probabilities of each row's distribution, that of [`Tape::token_scores`]: `[rows]`. Not
    /// recorded. Waits for a GPU; if the GPU has failed, all are NaN and [`Device::check`](crate::Device::check)
    /// returns the error.
    pub fn squared_probabilities(
        &self,
        hidden: &Var,
        head: impl Into<Weight>,
        temperatures: &[f32],
        vocab: &Vocab,
    ) -> Vec<f32> {
        let head = self.head_over(hidden, head.into(), temperatures, vocab);
        dispatch!(
            self,
            |gpu| gpu.squares(&hidden.data, head, temperatures, vocab),
            self.with_head(hidden, head, temperatures, vocab, squares::squares)
        )
    }

    /// The head's own matrix, and its adapter if that is part of it on this tape.
    ///
    /// # Panics
    /// If sizes differ.
    fn head_over(
        &self,
        hidden: &Var,
        head: Weight,
        temperatures: &[f32],
        vocab: &Vocab,
    ) -> (Param, Option<Adapter>) {
        let Weight { base: head, adapter } = head;
        assert_eq!(head.cols, hidden.cols, "columns of the hidden states and of the head differ");
        assert_eq!(head.rows, vocab.len(), "rows of the head and ids of the vocabulary differ");
        assert_eq!(temperatures.len(), hidden.rows, "one temperature for each row");
        (head, adapter.filter(|_| self.has_adapters))
    }

    fn with_head<R>(
        &self,
        hidden: &Var,
        (head, adapter): (Param, Option<Adapter>),
        temperatures: &[f32],
        vocab: &Vocab,
        read: impl FnOnce(scores::Inputs<'_>) -> R,
    ) -> R {
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
