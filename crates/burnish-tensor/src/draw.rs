//! Chooses ids on the GPU that has the logits, so that they need not be copied to the host.

use std::sync::Arc;

use crate::cuda::ops;
use crate::{DeviceError, Var, Vocab};

/// A request for one row of logits. Its steps apply in the order of the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw<'a> {
    /// Which row.
    pub row: usize,
    /// One bit per id, set if the id is allowed; id 0 is the lowest bit of the first word. `None` allows all.
    pub allowed: Option<&'a [u32]>,
    /// Numbers that are added to logits, -inf to forbid an id. No id occurs twice.
    pub added: Vec<(u32, f32)>,
    /// Divides logits above 0 of the ids of `penalties`, and multiplies the others.
    pub repetition: f32,
    /// Numbers that are subtracted after that. No id occurs twice.
    pub penalties: Vec<(u32, f32)>,
    /// The temperature; 0 asks for the likeliest id, the lowest of equal ones.
    pub temperature: f32,
    /// Keeps so many of the likeliest ids, and those that are as likely as the last of them; 0 keeps all.
    pub top_k: usize,
    /// Drops ids from the least likely up, of equal ones the lower first, while what is dropped has at most probability
    /// `1 - top_p`.
    pub top_p: f32,
    /// Drops ids less likely than this share of the likeliest.
    pub min_p: f32,
    /// In `[0, 1)`: looked up in the cumulative distribution, in the order of the ids.
    pub uniform: f64,
    /// The id that is chosen, whatever the rest says.
    pub forced: Option<u32>,
    /// The number of likeliest ids that are reported, with the rank of the chosen one.
    pub likeliest: Option<usize>,
}

impl Draw<'_> {
    /// From the whole vocabulary.
    #[must_use]
    pub fn at(row: usize, temperature: f32, uniform: f64) -> Self {
        Draw {
            row,
            allowed: None,
            added: Vec::new(),
            repetition: 1.0,
            penalties: Vec::new(),
            temperature,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            uniform,
            forced: None,
            likeliest: None,
        }
    }
}

/// An id that was drawn. Log-probs are in nats.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The id, one of the vocabulary's.
    pub id: u32,
    /// Its log-prob under `softmax(logits / temperature)` over the vocabulary, whatever was altered or dropped; for greedy
    /// choices at temperature 1.
    pub model_logprob: f32,
    /// Its log-prob in what it was drawn from; 0 for greedy and forced choices.
    pub sampled_logprob: f32,
    /// How many ids the model finds at least as likely, itself included; 0 if details were not asked for.
    pub rank: usize,
    /// The likeliest ids with the model's log-probs, of equal ones the lower first.
    pub top: Vec<(u32, f32)>,
}

/// Why there is nothing to draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDraw {
    /// The logits are no distribution: one is NaN or infinite, or there are no ids.
    NotFinite,
    /// No id of the vocabulary is allowed, or not the one that is forced.
    NothingAllowed,
}

/// Draws ids from logits `[_, vocab.len()]` on a GPU. A draw does not depend on the other requests. Waits for the GPU.
///
/// # Errors
/// The first failure on the GPU so far.
///
/// # Panics
/// If there is no such row, the logits have another size than the vocabulary or more than 2^20 columns, more than 2048
/// likeliest ids are asked for, or the logits are on the host.
pub fn draw(
    logits: Var,
    vocab: &Vocab,
    asked: &[Draw<'_>],
) -> Result<Vec<Result<Drawn, NoDraw>>, DeviceError> {
    assert_eq!(logits.cols, vocab.len(), "one logit for each id");
    assert!(asked.iter().all(|draw| draw.row < logits.rows), "a row beyond {}", logits.rows);
    Ok(ops::draw::draw(Arc::unwrap_or_clone(logits.data).into_device(), vocab, asked)?)
}
