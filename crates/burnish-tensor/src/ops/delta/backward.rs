//! The gradient of a delta rule, chunk by chunk from the last one, each computed again from the state before it.
//!
//! With the names of `chunk.rs`, `d_S` the gradient of the state after the chunk, and `E = d_V = β ⊙ d_R`:
//!
//! ```text
//! d_U = Pᵀ d_O + (Γ_C / Γ ⊙ K) d_S,   d_R = d_U - Mᵀ E   (row before row: M is strictly lower)
//! d_β = Σ_columns d_R ⊙ Y,   d_P = d_O Uᵀ,   d_M = -E Uᵀ
//! d(Γ ⊙ Q) = d_O S₀ᵀ,   d(Γ ⊙ K) = -E S₀ᵀ,   d(Γ_C / Γ ⊙ K) = U d_Sᵀ
//! d_S₀ = Γ_C ⊙ d_S + (Γ ⊙ Q)ᵀ d_O - (Γ ⊙ K)ᵀ E
//! ```
//!
//! A sum of logarithms `G_r` gets what its factors get times those factors; a logarithm is in all sums from its row on.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Job, Piece, State, States, Task,
    chunk::{Dims, Scratch, add_rows, decay_state},
};
use crate::{
    Buffer,
    gemm::{View, ViewMut, Workers, Write, multiply},
    vector::{self, simd},
};

/// Gradients, shaped like the operands.
pub(crate) struct Gradients {
    pub(crate) q: Buffer,
    pub(crate) k: Buffer,
    pub(crate) v: Buffer,
    pub(crate) log_decay: Buffer,
    pub(crate) beta: Buffer,
}

/// The gradients, given that of the output and what the forward pass kept.
pub(crate) fn backward(job: &Job<'_>, states: &States, d_out: &[f32]) -> Gradients {
    assert_eq!(d_out.len(), job.rows.v.len(), "one derivative for each element");
    let tasks = job.tasks();
    let parts: Vec<Part> = tasks
        .par_iter()
        .zip(&states.0)
        .map(|(task, states)| task_backward(job, task, states, d_out))
        .collect();
    let (shape, group) = (job.shape, job.shape.group());
    Gradients {
        q: job.join(&parts, |part| &part.d_q, shape.key_dim),
        k: job.join(&parts, |part| &part.d_k, shape.key_dim),
        v: job.join(&parts, |part| &part.d_v, group * shape.value_dim),
        log_decay: job.join(&parts, |part| &part.d_log_decay, group * job.channels),
        beta: job.join(&parts, |part| &part.d_beta, group),
    }
}

/// Gradients of a task, each as a matrix without gaps.
struct Part {
    /// `[rows, key_dim]`.
    d_q: Buffer,
    /// `[rows, key_dim]`.
    d_k: Buffer,
    /// `[rows, group · value_dim]`.
    d_v: Buffer,
    /// `[rows, group · channels]`.
    d_log_decay: Buffer,
    /// `[rows, group]`.
    d_beta: Buffer,
}

/// Memory for the gradients of one chunk.
struct Memory {
    /// `[2n, value_dim]`: `d_O`, `E`.
    ends: Buffer,
    /// `[n, value_dim]`: `d_U`, then `d_R`.
    d_r: Buffer,
    /// `[2n, n]`: `d_P`, `d_M`.
    d_pairs: Buffer,
    /// `[2n, n]`: the gradient of `q kᵀ` and `k kᵀ`, over the value heads of a key head.
    d_raw: Buffer,
    /// `[2n, key_dim]`: the gradient of queries and keys.
    d_qk: Buffer,
    /// `[2n, key_dim]`: `d_O S₀ᵀ`, `E S₀ᵀ`.
    d_decayed: Buffer,
    /// `[n, key_dim]`.
    d_lasting: Buffer,
    /// `[n, channels]`.
    d_logs: Vec<f32>,
}

impl Memory {
    fn new(job: &Job<'_>) -> Self {
        let (chunk, Dims { key, value, channels }) = (job.chunk, dims(job));
        Memory {
            ends: Buffer::scratch(2 * chunk * value),
            d_r: Buffer::scratch(chunk * value),
            d_pairs: Buffer::scratch(2 * chunk * chunk),
            d_raw: Buffer::scratch(2 * chunk * chunk),
            d_qk: Buffer::scratch(2 * chunk * key),
            d_decayed: Buffer::scratch(2 * chunk * key),
            d_lasting: Buffer::scratch(chunk * key),
            d_logs: vec![0.0; chunk * channels],
        }
    }
}

fn dims(job: &Job<'_>) -> Dims {
    Dims { key: job.shape.key_dim, value: job.shape.value_dim, channels: job.channels }
}

fn task_backward(job: &Job<'_>, task: &Task, states: &[State], d_out: &[f32]) -> Part {
    let rows = job.island_rows(&task.island);
    let (group, Dims { key, value, channels }) = (job.shape.group(), dims(job));
    let mut part = Part {
        d_q: Buffer::scratch(rows.len() * key),
        d_k: Buffer::scratch(rows.len() * key),
        d_v: Buffer::scratch(rows.len() * group * value),
        d_log_decay: Buffer::scratch(rows.len() * group * channels),
        d_beta: Buffer::scratch(rows.len() * group),
    };
    let mut scratch = Scratch::new(job.shape, channels, job.chunk);
    let mut memory = Memory::new(job);
    let pieces = job.pieces(&task.island);
    let mut pieces = pieces.iter().zip(states).rev().peekable();
    // The gradient of the state after each segment. Segments that go on from one come behind it.
    let mut d_finals: Vec<Option<Buffer>> = vec![None; task.island.len()];
    for segment in task.island.clone().rev() {
        let mut d_state = d_finals[segment - task.island.start].take();
        while let Some((piece, before)) = pieces.next_if(|(piece, _)| piece.segment == segment) {
            let chunk = Chunk { job, task, piece, first: rows.start, d_out, before: before.as_deref() };
            d_state = chunk.run(d_state.as_ref(), &mut scratch, &mut memory, &mut part);
        }
        if let (Some(parent), Some(d_state)) = (job.layout.segments()[segment].parent, d_state) {
            match &mut d_finals[parent - task.island.start] {
                Some(sum) => vector::add(sum, &d_state),
                empty => *empty = Some(d_state),
            }
        }
    }
    part
}

/// The chunk that is differentiated.
struct Chunk<'a> {
    job: &'a Job<'a>,
    task: &'a Task,
    piece: &'a Piece,
    /// First row of the island.
    first: usize,
    d_out: &'a [f32],
    /// The state before it.
    before: Option<&'a Buffer>,
}

impl Chunk<'_> {
    fn rows(&self) -> Range<usize> {
        self.piece.rows.clone()
    }

    /// Writes the chunk's rows of the gradients; returns that of the state before it, unless this is constant.
    fn run(
        &self,
        d_after: Option<&Buffer>,
        scratch: &mut Scratch,
        memory: &mut Memory,
        part: &mut Part,
    ) -> Option<Buffer> {
        let Chunk { job, task, .. } = *self;
        let (n, Dims { key, channels, .. }) = (self.rows().len(), dims(job));
        let (group, state_len) = (job.shape.group(), job.shape.head_state_len());
        let mut d_before = self.before.map(|_| Buffer::part(group * state_len));
        memory.d_qk[..2 * n * key].fill(0.0);
        memory.d_raw[..2 * n * n].fill(0.0);
        scratch.load(job, task.key_head, &self.rows());
        for member in 0..group {
            let of_member = member * state_len..(member + 1) * state_len;
            let before = self.before.map(|before| &before[of_member.clone()]);
            let d_after = d_after.map(|d_after| &d_after[of_member.clone()]);
            let head = task.key_head * group + member;
            scratch.decay(job, head, &self.rows());
            scratch.write(job, head, &self.rows(), before);
            self.values(member, d_after, scratch, memory, part);
            memory.pair_gradients(scratch);
            memory.state_gradients(scratch, before, d_after);
            if let (Some(d_before), Some(_)) = (&mut d_before, before) {
                memory.d_before(scratch, d_after, &mut d_before[of_member]);
            }
            self.log_decays(member, scratch, memory, part);
        }
        if channels == 1 {
            memory.raw_backward(scratch);
        }
        let own = (self.rows().start - self.first) * key..(self.rows().end - self.first) * key;
        part.d_q[own.clone()].copy_from_slice(&memory.d_qk[..n * key]);
        part.d_k[own].copy_from_slice(&memory.d_qk[n * key..2 * n * key]);
        d_before
    }

    /// `d_R` and `E`, from which the gradients of values and of `β` are.
    fn values(
        &self,
        member: usize,
        d_after: Option<&[f32]>,
        scratch: &Scratch,
        memory: &mut Memory,
        part: &mut Part,
    ) {
        let Chunk { job, task, first, d_out, .. } = *self;
        let (n, Dims { key, value, .. }) = (scratch.n, scratch.dims);
        let (group, width) = (job.shape.group(), job.shape.value_width());
        let head = task.key_head * group + member;
        let d_r = &mut memory.d_r[..n * value];
        match d_after {
            Some(d_after) => {
                let lasting = View::new(&scratch.lasting[..n * key], n, key);
                let to = ViewMut::new(d_r, n, value);
                multiply(to, Write::Set, 1.0, lasting, View::new(d_after, key, value), Workers::One);
            }
            None => d_r.fill(0.0),
        }
        let (d_o, e) = memory.ends[..2 * n * value].split_at_mut(n * value);
        for (d_o, row) in d_o.chunks_exact_mut(value).zip(self.rows()) {
            d_o.copy_from_slice(&d_out[row * width + head * value..][..value]);
        }
        let (p, m) = scratch.pairs[..2 * n * n].split_at(n * n);
        simd(
            #[inline(always)]
            || {
                for at in (0..n).rev() {
                    let row = self.piece.rows.start + at;
                    let d_r = &mut d_r[at * value..][..value];
                    // Columns of P and M: what later rows took from this one.
                    add_rows(d_r, 1.0, &p[at * n + at..], n, &d_o[at * value..], value);
                    if at + 1 < n {
                        add_rows(d_r, -1.0, &m[(at + 1) * n + at..], n, &e[(at + 1) * value..], value);
                    }
                    let beta = job.rows.beta[row * job.shape.value_heads + head];
                    let d_v = &mut part.d_v[((row - first) * group + member) * value..][..value];
                    for ((e, d_v), &d_r) in e[at * value..][..value].iter_mut().zip(d_v).zip(&*d_r) {
                        *e = beta * d_r;
                        *d_v = *e;
                    }
                    part.d_beta[(row - first) * group + member] =
                        vector::dot(d_r, &scratch.y[at * value..][..value]);
                }
            },
        );
    }

    /// Turns the gradients of sums of logarithms into those of logarithms.
    fn log_decays(&self, member: usize, scratch: &Scratch, memory: &Memory, part: &mut Part) {
        let channels = scratch.dims.channels;
        let group = self.job.shape.group();
        for channel in 0..channels {
            let mut sum = 0.0;
            for (at, row) in self.rows().enumerate().rev() {
                sum += memory.d_logs[at * channels + channel];
                part.d_log_decay[((row - self.first) * group + member) * channels + channel] = sum;
            }
        }
    }
}

impl Memory {
    /// The gradients of `P` and `M`, and what queries, keys and logarithms get from them. Sets `d_logs`.
    fn pair_gradients(&mut self, scratch: &mut Scratch) {
        let (n, Dims { key, value, channels }) = (scratch.n, scratch.dims);
        let d_pairs = &mut self.d_pairs[..2 * n * n];
        let ends = View::new(&self.ends[..2 * n * value], 2 * n, value);
        let u = View::new(&scratch.u[..n * value], n, value).transposed();
        multiply(ViewMut::new(d_pairs, 2 * n, n), Write::Set, 1.0, ends, u, Workers::One);
        vector::scale(&mut d_pairs[n * n..], -1.0);
        self.d_logs[..n * channels].fill(0.0);
        let d_logs = &mut self.d_logs[..n * channels];
        if channels == 1 {
            scratch.pair_scratch.of_heads_backward(&scratch.pairs[..2 * n * n], d_pairs, n, d_logs);
            vector::add(&mut self.d_raw[..2 * n * n], d_pairs);
        } else {
            let (qk, logs) = (&scratch.qk[..2 * n * key], &scratch.logs[..n * channels]);
            let d_qk = &mut self.d_qk[..2 * n * key];
            scratch.pair_scratch.of_channels_backward(qk, logs, n, key, d_pairs, d_qk, d_logs);
        }
    }

    /// What queries, keys and logarithms get from reading the state before the chunk, and from writing the one after.
    fn state_gradients(&mut self, scratch: &Scratch, before: Option<&[f32]>, d_after: Option<&[f32]>) {
        let (n, Dims { key, value, channels }) = (scratch.n, scratch.dims);
        let Memory { ends, d_qk, d_decayed, d_lasting, d_logs, .. } = self;
        if let Some(before) = before {
            let to = ViewMut::new(d_decayed, 2 * n, key);
            let ends = View::new(&ends[..2 * n * value], 2 * n, value);
            let state = View::new(before, key, value).transposed();
            multiply(to, Write::Set, 1.0, ends, state, Workers::One);
        }
        if let Some(d_after) = d_after {
            let u = View::new(&scratch.u[..n * value], n, value);
            let d_state = View::new(d_after, key, value).transposed();
            multiply(ViewMut::new(d_lasting, n, key), Write::Set, 1.0, u, d_state, Workers::One);
        }
        let (d_q, d_k) = d_qk[..2 * n * key].split_at_mut(n * key);
        simd(
            #[inline(always)]
            || {
                for row in 0..n {
                    let at = row * key..(row + 1) * key;
                    let below = (n + row) * key..(n + row + 1) * key;
                    let of_row = row * channels..(row + 1) * channels;
                    if before.is_some() {
                        let factors = &scratch.factors[of_row.clone()];
                        let (d, own) = (&d_decayed[at.clone()], &scratch.decayed[at.clone()]);
                        take(&mut d_q[at.clone()], &mut d_logs[of_row.clone()], d, own, factors, [1.0, 1.0]);
                        let (d, own) = (&d_decayed[below.clone()], &scratch.decayed[below]);
                        take(&mut d_k[at.clone()], &mut d_logs[of_row.clone()], d, own, factors, [-1.0, 1.0]);
                    }
                    if d_after.is_some() {
                        let rests = &scratch.rests[of_row.clone()];
                        let (d, own) = (&d_lasting[at.clone()], &scratch.lasting[at.clone()]);
                        let (d_logs, d_last) = d_logs[..n * channels].split_at_mut((n - 1) * channels);
                        if row + 1 < n {
                            take(&mut d_k[at], &mut d_logs[of_row], d, own, rests, [1.0, -1.0]);
                            add_products(d_last, d, own);
                        } else {
                            // The last row lasts whatever the decays are.
                            vector::add(&mut d_k[at], d);
                        }
                    }
                }
                if let (Some(before), Some(d_after)) = (before, d_after) {
                    let each = key / channels * value;
                    let d_last = &mut d_logs[(n - 1) * channels..][..channels];
                    for (channel, d_last) in d_last.iter_mut().enumerate() {
                        let range = channel * each..(channel + 1) * each;
                        *d_last = scratch.last()[channel]
                            .mul_add(vector::dot(&before[range.clone()], &d_after[range]), *d_last);
                    }
                }
            },
        );
    }

    /// `d_S₀ = Γ_C ⊙ d_S + (Γ ⊙ Q)ᵀ d_O - (Γ ⊙ K)ᵀ E`.
    fn d_before(&self, scratch: &Scratch, d_after: Option<&[f32]>, out: &mut [f32]) {
        let (n, Dims { key, value, .. }) = (scratch.n, scratch.dims);
        let write = if d_after.is_some() { Write::Add } else { Write::Set };
        if let Some(d_after) = d_after {
            decay_state(out, d_after, scratch.last(), value);
        }
        let decayed = View::new(&scratch.decayed[..2 * n * key], 2 * n, key).transposed();
        let ends = View::new(&self.ends[..2 * n * value], 2 * n, value);
        multiply(ViewMut::new(out, key, value), write, 1.0, decayed, ends, Workers::One);
    }

    /// Adds what queries and keys get from `q kᵀ` and `k kᵀ`.
    fn raw_backward(&mut self, scratch: &Scratch) {
        let (n, Dims { key, .. }) = (scratch.n, scratch.dims);
        let d_raw = View::new(&self.d_raw[..2 * n * n], 2 * n, n);
        let qk = &scratch.qk[..2 * n * key];
        let k = View::new(&qk[n * key..], n, key);
        let d_qk = &mut self.d_qk[..2 * n * key];
        multiply(ViewMut::new(d_qk, 2 * n, key), Write::Add, 1.0, d_raw, k, Workers::One);
        let d_k = ViewMut::new(&mut d_qk[n * key..], n, key);
        multiply(d_k, Write::Add, 1.0, d_raw.transposed(), View::new(qk, 2 * n, key), Workers::One);
    }
}

/// `x` entered as `own = sign · factors ⊙ x`: its gradient gets `sign · factors ⊙ d`, and the logarithms of the factors
/// `log_sign · Σ d ⊙ own`, where the sum is over the elements that share one.
#[inline(always)]
fn take(
    d_x: &mut [f32],
    d_logs: &mut [f32],
    d: &[f32],
    own: &[f32],
    factors: &[f32],
    [sign, log_sign]: [f32; 2],
) {
    if let ([d_log], [factor]) = (&mut *d_logs, factors) {
        let factor = sign * factor;
        for (d_x, &d) in d_x.iter_mut().zip(d) {
            *d_x = factor.mul_add(d, *d_x);
        }
        *d_log = log_sign.mul_add(vector::dot(d, own), *d_log);
    } else {
        for c in 0..d_x.len() {
            d_x[c] = (sign * factors[c]).mul_add(d[c], d_x[c]);
            d_logs[c] = (log_sign * d[c]).mul_add(own[c], d_logs[c]);
        }
    }
}

/// Adds `Σ d ⊙ own` to a logarithm, over the elements that share one.
#[inline(always)]
fn add_products(d_logs: &mut [f32], d: &[f32], own: &[f32]) {
    if let [d_log] = d_logs {
        *d_log += vector::dot(d, own);
    } else {
        for ((d_log, &d), &own) in d_logs.iter_mut().zip(d).zip(own) {
            *d_log = d.mul_add(own, *d_log);
        }
    }
}
