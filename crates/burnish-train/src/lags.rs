//! How the loss depends on attention logits, by how far back they look.
//!
//! With logits `e[t,s] = q_t·k_s / √head_dim`, weights `p[t] = softmax(e[t])` over `s ≤ t`, what is read
//! `o_t = Σ_s p[t,s] v_s` and `g_t = ∂L/∂o_t`,
//!
//! ```text
//! ∂L/∂e[t,s] = p[t,s] (g_t·v_s − g_t·o_t)
//! ```
//!
//! Queries and keys learn through these numbers alone. `τ = t − s` is the lag. This is for looking, not for training:
//! everything but the passes through the model is in f64, one row after the other.

use std::sync::Arc;

use burnish_model::{LayerKind, Mix, Model, Packed};
use burnish_tensor::{DeltaInputs, DeltaShape, HeadShape, Param, Tape, Var, in_pool};

use crate::gradient::{Scores, check, score_rows};
use crate::{Sample, TrainError, pack};

/// The derivatives of the loss by the logits of one token at one head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitGradients<'a> {
    /// The layer's number in the model.
    pub layer: usize,
    /// The query head.
    pub head: usize,
    /// For each token that is read, the first one first; the last one is the token itself.
    pub values: &'a [f64],
}

/// A model with a place where the gradient of what attention reads is collected.
#[derive(Debug)]
pub struct LogitProbe {
    model: Model,
    /// For each layer of attention its number, and zeros that are added to what it reads, `[rows, heads * head_dim]`:
    /// their gradient is `g`.
    probes: Vec<(usize, Param)>,
    rows: usize,
}

impl LogitProbe {
    /// A probe of `model`, which must be on the CPU, for samples of at most `rows` tokens.
    pub fn new(model: &Model, rows: usize) -> Self {
        let mut model = model.clone();
        let HeadShape { heads, head_dim, .. } = model.head_shape();
        let attends = |kind: &LayerKind| *kind == LayerKind::Attention;
        let layers = model.config.layers.iter().enumerate().filter(|(_, kind)| attends(kind));
        let layers: Vec<usize> = layers.map(|(layer, _)| layer).collect();
        let mut add = |layer: usize| {
            let name = format!("gradient of what layer {layer} reads");
            (layer, model.params.add(&name, &[rows, heads * head_dim], false))
        };
        let probes = layers.into_iter().map(&mut add).collect();
        LogitProbe { model, probes, rows }
    }

    /// Differentiates the mean negative log-likelihood of the scored tokens of `sample` by every logit. A sample that
    /// has none is skipped.
    ///
    /// # Errors
    /// If the sample does not fit the model or the probe.
    pub fn differentiate(
        &self,
        sample: &Sample,
        visit: &mut (dyn FnMut(LogitGradients<'_>) + Send),
    ) -> Result<(), TrainError> {
        check(&self.model, &[sample])?;
        let (tokens, tokens_max) = (sample.ids.len(), self.rows);
        if tokens > tokens_max {
            return Err(TrainError::TooLong { sample: 0, tokens, tokens_max });
        }
        in_pool(|| self.differentiate_checked(sample, visit))
    }

    fn differentiate_checked(
        &self,
        sample: &Sample,
        visit: &mut (dyn FnMut(LogitGradients<'_>) + Send),
    ) -> Result<(), TrainError> {
        for batch in pack(&[sample], usize::MAX) {
            let shape = self.model.head_shape();
            let mut mixer = Probing {
                packed: Packed { layout: Arc::clone(&batch.layout), shape },
                probes: &self.probes,
                rows: (0..batch.ids.len() as u32).collect(),
                seen: Vec::new(),
            };
            let mut tape = Tape::recording(&self.model.params);
            let hidden = self.model.forward(&mut tape, &batch.ids, &batch.positions, &mut mixer);
            let seen = mixer.seen;
            let Scores::Tokens(scores) = score_rows(&mut tape, &self.model, &batch, &hidden)? else {
                return Err(TrainError::NoHead { why: "a model of values has none" });
            };
            let d_logprob = vec![-1.0 / batch.targets.len() as f32; batch.targets.len()];
            let mut grads = self.model.params.zeros_like();
            tape.backward(&scores, &d_logprob, &[], &mut grads);
            for ((layer, probe), read) in self.probes.iter().zip(&seen) {
                read.differentiate(*layer, &grads[probe.range()], shape, visit);
            }
        }
        Ok(())
    }
}

/// What a layer of attention reads from: `k` and `v` `[T, kv_heads * head_dim]`, and its queries.
struct Read {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Read {
    /// `gradient` is that of what was read, `[T, heads * head_dim]`, perhaps with more rows.
    fn differentiate(
        &self,
        layer: usize,
        gradient: &[f32],
        shape: HeadShape,
        visit: &mut (dyn FnMut(LogitGradients<'_>) + Send),
    ) {
        let HeadShape { heads, kv_heads, head_dim } = shape;
        let of_query = |from: &[f32], row: usize, head: usize| -> Vec<f64> {
            widened(&from[(row * heads + head) * head_dim..][..head_dim])
        };
        let rows = self.q.len() / (heads * head_dim);
        for head in 0..heads {
            let kv_head = head / (heads / kv_heads);
            let of_key = |from: &[f32], row: usize| -> Vec<f64> {
                widened(&from[(row * kv_heads + kv_head) * head_dim..][..head_dim])
            };
            let keys: Vec<Vec<f64>> = (0..rows).map(|row| of_key(&self.k, row)).collect();
            let values: Vec<Vec<f64>> = (0..rows).map(|row| of_key(&self.v, row)).collect();
            for row in 0..rows {
                let (q, g) = (of_query(&self.q, row, head), of_query(gradient, row, head));
                let scale = 1.0 / (head_dim as f64).sqrt();
                let mut weights: Vec<f64> = keys[..=row].iter().map(|key| scale * dot(&q, key)).collect();
                softmax(&mut weights);
                let gains: Vec<f64> = values[..=row].iter().map(|value| dot(&g, value)).collect();
                let mean: f64 = weights.iter().zip(&gains).map(|(weight, gain)| weight * gain).sum();
                for (weight, gain) in weights.iter_mut().zip(&gains) {
                    *weight *= gain - mean;
                }
                visit(LogitGradients { layer, head, values: &weights });
            }
        }
    }
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn softmax(logits: &mut [f64]) {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f64 = logits.iter().sum();
    logits.iter_mut().for_each(|weight| *weight /= sum);
}

/// Reads as [`Packed`], adds zeros to what attention reads, and keeps what it read from.
struct Probing<'a> {
    packed: Packed,
    probes: &'a [(usize, Param)],
    rows: Vec<u32>,
    seen: Vec<Read>,
}

impl Mix for Probing<'_> {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        self.seen.push(Read { q: q.data().to_vec(), k: k.data().to_vec(), v: v.data().to_vec() });
        let read = self.packed.attend(tape, layer, q, k, v);
        let zeros = tape.embed(self.probes[layer].1, &self.rows);
        tape.add(&read, &zeros)
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        self.packed.convolve(tape, layer, x, weight)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        self.packed.recur(tape, layer, inputs, shape)
    }
}
