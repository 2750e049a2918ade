//! The likeliest ids of rows of hidden states.

use crate::{
    Tape, Var, Vocab, Weight,
    ops::{scores, top},
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
        let Weight { base: head, adapter } = head.into();
        assert_eq!(head.cols, hidden.cols, "columns of the hidden states and of the head differ");
        assert_eq!(head.rows, vocab.len(), "rows of the head and ids of the vocabulary differ");
        assert_eq!(temperatures.len(), hidden.rows, "one temperature for each row");
        let adapter = adapter.filter(|_| self.has_adapters);
        let inner = adapter.map(|adapter| adapter.inner(self.params, hidden.data(), hidden.rows));
        let inputs = scores::Inputs {
            hidden: hidden.data(),
            weight: self.params.elements(head),
            low_rank: adapter.zip(inner.as_ref()).map(|(adapter, u)| adapter.of_head(self.params, u)),
            precision: self.params.precision(),
            width: head.cols,
            targets: &[],
            temperatures,
            vocab,
        };
        top::top(inputs, top)
    }
}
