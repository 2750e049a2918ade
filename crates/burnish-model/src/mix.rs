//! How a token's numbers mix with those of the tokens before it.

use std::sync::Arc;

use burnish_tensor::{DeltaInputs, DeltaShape, HeadShape, Layout, Param, Tape, Var};

/// What a layer reads of earlier tokens: within a packed batch (training, prefill), or from a cache (decoding). Layers
/// of attention and of the delta rule are counted separately, each from 0.
pub trait Mix {
    /// Attention: mixes the values of a layer.
    ///
    /// # Shapes
    /// `q` `[T, heads * head_dim]` and `k` `[T, kv_heads * head_dim]`, both after norm and rotation; `v` as `k`.
    /// Returns `[T, heads * head_dim]`.
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var;

    /// The convolution before the delta rule: each column of `x` `[T, C]` with its own row of `weight` `[C, kernel]`,
    /// over the last tokens, then SiLU. Returns `[T, C]`.
    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var;

    /// The delta rule: rewrites the state of each value head and reads it, token by token. Returns
    /// `[T, value_heads * value_dim]`.
    fn recur(&mut self, tape: &mut Tape<'_>, layer: usize, inputs: DeltaInputs<'_>, shape: DeltaShape)
    -> Var;
}

/// A packed batch that is read from its beginning; the layout says which rows each row sees.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Which rows see each other.
    pub layout: Arc<Layout>,
    /// Number and width of the heads.
    pub shape: HeadShape,
}

impl Mix for Packed {
    fn attend(&mut self, tape: &mut Tape<'_>, _layer: usize, q: Var, k: Var, v: Var) -> Var {
        tape.attention(&q, &k, &v, self.shape, &self.layout)
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, _layer: usize, x: &Var, weight: Param) -> Var {
        tape.short_conv(x, weight, &self.layout)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        _layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        tape.delta_rule(inputs, shape, &self.layout)
    }
}
