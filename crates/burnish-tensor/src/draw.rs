//! Chooses ids on the GPU that has the logits, so that they need not be copied to the host.

use std::sync::Arc;

use crate::cuda::ops;
use crate::{DeviceError, Var, Vocab};

/// A request for one row of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Which row.
    pub row: usize,
    /// The temperature; 0 asks for the likeliest id, the lowest of equal ones.
    pub temperature: f32,
    /// In `[0, 1)`: looked up in the cumulative distribution, in the order of the ids.
    pub uniform: f64,
}

/// An id that was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// The id, one of the vocabulary's.
    pub id: u32,
    /// Its log-prob in nats under `softmax(logits / temperature)` over the vocabulary; for greedy choices at
    /// temperature 1.
    pub logprob: f32,
}

/// Draws ids from logits `[_, vocab.len()]` on a GPU; `None` for rows that are no distribution, because a logit is NaN
/// or infinite. A draw does not depend on the other requests. Waits for the GPU.
///
/// # Errors
/// The first failure on the GPU so far.
///
/// # Panics
/// If there is no such row, the logits have another size than the vocabulary, or they are on the host.
pub fn draw(logits: Var, vocab: &Vocab, asked: &[Draw]) -> Result<Vec<Option<Drawn>>, DeviceError> {
    assert_eq!(logits.cols, vocab.len(), "one logit for each id");
    assert!(asked.iter().all(|draw| draw.row < logits.rows), "a row beyond {}", logits.rows);
    Ok(ops::draw::draw(Arc::unwrap_or_clone(logits.data).into_device(), vocab, asked)?)
}
