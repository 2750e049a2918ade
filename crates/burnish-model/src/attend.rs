//! How queries meet keys and values.

use std::sync::Arc;

use burnish_tensor::{HeadShape, Layout, Tape, Var};

/// How queries meet keys and values at each layer: within a packed batch (training, prefill), or through a
/// cache (decoding).
pub trait Attend {
    /// Mixes the values of one layer.
    ///
    /// # Shapes
    /// `q` `[T, heads * head_dim]` and `k` `[T, kv_heads * head_dim]`, both after norm and rotation; `v` as `k`.
    /// Returns `[T, heads * head_dim]`.
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var;
}

/// Attention within a packed batch; the layout says which rows each row sees.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Which rows see each other.
    pub layout: Arc<Layout>,
    /// Number and width of the heads.
    pub shape: HeadShape,
}

impl Attend for Packed {
    fn attend(&mut self, tape: &mut Tape<'_>, _layer: usize, q: Var, k: Var, v: Var) -> Var {
        tape.attention(&q, &k, &v, self.shape, &self.layout)
    }
}
