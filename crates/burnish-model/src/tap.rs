//! Looking into the decoder while it works.

use std::sync::Arc;

use burnish_tensor::{Tape, Var};

/// Looks into a decoder while it works, and may change what goes on.
///
/// Everything that it does to a [`Var`] is an operation on the tape, so what it changes has a gradient. A pass without a
/// tap is a pass with `()`, which does nothing: the same operations in the same order.
pub trait Tap {
    /// Whether it wants to see the residual stream ([`Tap::hidden`]). Where it does not, sums are computed with their norms.
    fn wants_hidden(&self) -> bool {
        true
    }

    /// The residual stream `[T, D]` that enters `layer`; `layer` is the number of layers for what leaves the last one,
    /// before the final norm. What is returned goes on in its place.
    fn hidden(&mut self, _tape: &mut Tape<'_>, _layer: usize, hidden: Var) -> Var {
        hidden
    }

    /// The sets of tokens whose shares of the attention it wants to know.
    fn marked(&self) -> &[Marked] {
        &[]
    }

    /// The share of its attention that each head of an attention layer pays to set number `set` of the marked tokens,
    /// `[T, heads]`. Layers of another kind have none, and where keys are out of reach (see
    /// [`Mix::attention_to`](crate::Mix::attention_to)) it is not called.
    fn attention(&mut self, _tape: &mut Tape<'_>, _layer: usize, _set: usize, _share: Var) {}

    /// Whether it wants to see what linear maps read.
    fn wants_inputs(&self) -> bool {
        false
    }

    /// What the linear maps `maps` read, `[T, columns]`, all of them the same; maps are named as in the checkpoint,
    /// without `.weight`. A head that is the embedding is none of them.
    fn inputs(&mut self, _maps: &[&str], _x: &Var) {}
}

/// No tap.
impl Tap for () {
    fn wants_hidden(&self) -> bool {
        false
    }
}

/// Marked tokens: for each sequence of a batch, a flag for each of its positions. Positions beyond the flags are not
/// marked. In a packed batch a sequence is a segment of the layout, and the flags are those of its own rows.
#[derive(Debug, Clone, Default)]
pub struct Marked(pub Vec<Arc<[bool]>>);

impl Marked {
    /// Is this token of that sequence marked?
    pub fn contains(&self, sequence: usize, position: usize) -> bool {
        self.0.get(sequence).and_then(|flags| flags.get(position)).copied().unwrap_or(false)
    }
}
