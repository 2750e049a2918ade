//! How a token's numbers mix with those of the tokens before it.

use std::sync::Arc;

use burnish_tensor::{Buffer, DeltaInputs, DeltaShape, HeadMaps, HeadShape, Layout, Param, Tape, Var};

use crate::Marked;

/// What a layer reads of earlier tokens: within a packed batch (training, prefill), or from a cache (decoding). Layers
/// of attention and of the delta rule are counted separately, each from 0.
pub trait Mix {
    /// Attention: mixes the values of a layer.
    ///
    /// # Shapes
    /// `q` `[T, heads * head_dim]` and `k` `[T, kv_heads * head_dim]`, both after norm and rotation; `v` as `k`.
    /// Returns `[T, heads * head_dim]`.
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var;

    /// Attention from what its projections read, `x` `[T, D]`, where projections, norms, rotation and what a cache keeps are
    /// one piece of work; the result is that of [`Mix::attend`]. `None` where they are not.
    fn attend_projected(
        &mut self,
        _tape: &mut Tape<'_>,
        _layer: usize,
        _x: &Var,
        _maps: &HeadMaps,
        _positions: &Arc<[u32]>,
    ) -> Option<Var> {
        None
    }

    /// Attention: for each of `marked` the share of each head's weights that its tokens get, `[T, heads]`, for the `q` and
    /// `k` of [`Mix::attend`], which has been called for this layer. `None` where keys of earlier tokens are out of
    /// reach.
    fn attention_to(
        &mut self,
        _tape: &mut Tape<'_>,
        _layer: usize,
        _q: &Var,
        _k: &Var,
        _marked: &[Marked],
    ) -> Option<Vec<Var>> {
        None
    }

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

    // Attention mixes values, so where a column of them is 1 at marked tokens and 0 elsewhere, that column of the result
    // is their share. Each column of a head has room for a set.
    fn attention_to(
        &mut self,
        tape: &mut Tape<'_>,
        _layer: usize,
        q: &Var,
        k: &Var,
        marked: &[Marked],
    ) -> Option<Vec<Var>> {
        let (width, dim) = (k.cols(), self.shape.head_dim);
        let mut shares = Vec::with_capacity(marked.len());
        for sets in marked.chunks(dim) {
            let mut flags = Buffer::from(vec![0.0; k.rows() * width]);
            for (index, segment) in self.layout.segments().iter().enumerate() {
                for at in 0..segment.len {
                    let row = &mut flags[(segment.start + at) * width..][..width];
                    for (set, _) in sets.iter().enumerate().filter(|(_, set)| set.contains(index, at)) {
                        row.iter_mut().skip(set).step_by(dim).for_each(|flag| *flag = 1.0);
                    }
                }
            }
            let flags = tape.external(k.rows(), width, flags);
            let mixed = tape.attention(q, k, &flags, self.shape, &self.layout);
            shares.extend((0..sets.len()).map(|set| tape.columns(&mixed, dim, set, 1)));
        }
        Some(shares)
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
