//! One chunk of a delta rule, all of whose rows are computed from the state `S₀` before it.
//!
//! With `Γ_r = e^(g_1 + … + g_r)`, per head or per channel `c`, everything between two rows of a chunk is
//! `M_ri = Σ_c k_rc k_ic Γ_rc / Γ_ic` for `i < r`, and `P_ri` the same with `q_r` for `i <= r` (0 elsewhere). Then
//!
//! ```text
//! Y = V - (Γ ⊙ K) S₀ - M U,  U = β ⊙ Y      (row after row: M is strictly lower)
//! O = (Γ ⊙ Q) S₀ + P U
//! S = Γ_C ⊙ S₀ + (Γ_C / Γ ⊙ K)ᵀ U
//! ```
//!
//! (Yang et al. 2024, arXiv:2406.06484 and 2412.06464). Ratios are made from differences of logarithms, which are
//! never above 0, so none overflows. The sums of logarithms are f64: behind a decay that forgets everything, those that
//! follow would lose their digits otherwise.

use std::ops::Range;

use super::{DeltaShape, Job, pairs};
use crate::{
    Buffer,
    gemm::{View, ViewMut, Workers, Write, multiply},
    vector::{self, simd},
};

/// Logarithms below this are taken for it: `e^x` is 0 in f32 long before, and infinities have no differences.
const FORGOTTEN: f32 = -1e4;

/// Memory for the computations of one task, reused from chunk to chunk. `n` is the number of rows of the chunk; where
/// queries and keys are treated alike, one matrix has `n` rows of the former and then `n` of the latter.
pub(super) struct Scratch {
    pub(super) n: usize,
    pub(super) dims: Dims,
    /// `[2n, key_dim]`: queries, keys.
    pub(super) qk: Buffer,
    /// `[2n, n]`: `q kᵀ`, `k kᵀ`, if decays are per head.
    pub(super) raw: Buffer,
    /// `[n, channels]`: sums of the logarithms from the chunk's first row on.
    pub(super) logs: Vec<f64>,
    /// `[2n, n]`: `P`, `M`.
    pub(super) pairs: Buffer,
    /// `[2n, key_dim]`: `Γ ⊙ Q`, `-Γ ⊙ K`.
    pub(super) decayed: Buffer,
    /// `[n, key_dim]`: `Γ_C / Γ ⊙ K`.
    pub(super) lasting: Buffer,
    /// `[n, channels]`: `Γ`.
    pub(super) factors: Vec<f32>,
    /// `[n, channels]`: `Γ_C / Γ`.
    pub(super) rests: Vec<f32>,
    /// `[2n, value_dim]`: `decayed · S₀`.
    pub(super) read: Buffer,
    /// `[n, value_dim]`.
    pub(super) y: Buffer,
    /// `[n, value_dim]`.
    pub(super) u: Buffer,
    pub(super) pair_scratch: pairs::Scratch,
}

/// Sizes of one head.
#[derive(Clone, Copy)]
pub(super) struct Dims {
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) channels: usize,
}

impl Scratch {
    pub(super) fn new(shape: DeltaShape, channels: usize, chunk: usize) -> Self {
        let (key, value) = (shape.key_dim, shape.value_dim);
        Scratch {
            n: 0,
            dims: Dims { key, value, channels },
            qk: Buffer::scratch(2 * chunk * key),
            raw: Buffer::scratch(2 * chunk * chunk),
            logs: vec![0.0; chunk * channels],
            pairs: Buffer::scratch(2 * chunk * chunk),
            decayed: Buffer::scratch(2 * chunk * key),
            lasting: Buffer::scratch(chunk * key),
            factors: vec![0.0; chunk * channels],
            rests: vec![0.0; chunk * channels],
            read: Buffer::scratch(2 * chunk * value),
            y: Buffer::scratch(chunk * value),
            u: Buffer::scratch(chunk * value),
            pair_scratch: pairs::Scratch::new(chunk, key, channels),
        }
    }

    /// Reads the queries and keys of a chunk, for all value heads of a key head.
    pub(super) fn load(&mut self, job: &Job<'_>, key_head: usize, rows: &Range<usize>) {
        let Dims { key, channels, .. } = self.dims;
        let n = rows.len();
        self.n = n;
        let width = job.shape.key_width();
        for (half, data) in [job.rows.q, job.rows.k].into_iter().enumerate() {
            let own = &mut self.qk[half * n * key..][..n * key];
            for (own, row) in own.chunks_exact_mut(key).zip(rows.clone()) {
                own.copy_from_slice(&data[row * width + key_head * key..][..key]);
            }
        }
        if channels == 1 {
            let qk = View::new(&self.qk[..2 * n * key], 2 * n, key);
            let k = View::new(&self.qk[n * key..][..n * key], n, key);
            let raw = ViewMut::new(&mut self.raw, 2 * n, n);
            multiply(raw, Write::Set, 1.0, qk, k.transposed(), Workers::One);
        }
    }

    /// Computes a chunk that was loaded: `out` `[n, group · value_dim]`, and the state after it.
    pub(super) fn forward(
        &mut self,
        job: &Job<'_>,
        key_head: usize,
        rows: &Range<usize>,
        before: Option<&Buffer>,
        after: &mut [f32],
        out: &mut [f32],
    ) {
        let (n, Dims { value, .. }) = (self.n, self.dims);
        let (group, state_len) = (job.shape.group(), job.shape.head_state_len());
        for member in 0..group {
            let head = key_head * group + member;
            let before = before.map(|before| &before[member * state_len..][..state_len]);
            self.decay(job, head, rows);
            self.write(job, head, rows, before);
            let out = &mut out[member * value..];
            simd(
                #[inline(always)]
                || {
                    for row in 0..n {
                        let out = &mut out[row * group * value..][..value];
                        match before {
                            Some(_) => out.copy_from_slice(&self.read[row * value..][..value]),
                            None => out.fill(0.0),
                        }
                        add_rows(out, 1.0, &self.pairs[row * n..][..=row], 1, &self.u, value);
                    }
                },
            );
            self.next_state(before, &mut after[member * state_len..][..state_len]);
        }
    }

    /// Makes everything that depends on the decays of a value head.
    pub(super) fn decay(&mut self, job: &Job<'_>, head: usize, rows: &Range<usize>) {
        let (n, Dims { key, channels, .. }) = (self.n, self.dims);
        let width = job.shape.value_heads * channels;
        for (at, row) in rows.clone().enumerate() {
            let own = &job.rows.log_decay[row * width + head * channels..][..channels];
            for (channel, &log) in own.iter().enumerate() {
                let log = if log < FORGOTTEN { FORGOTTEN } else { log };
                let earlier = if at == 0 { 0.0 } else { self.logs[(at - 1) * channels + channel] };
                self.logs[at * channels + channel] = earlier + f64::from(log);
            }
        }
        let logs = &self.logs[..n * channels];
        let last = &logs[(n - 1) * channels..];
        simd(
            #[inline(always)]
            || {
                let (q, k) = self.qk[..2 * n * key].split_at(n * key);
                let (to_q, to_k) = self.decayed[..2 * n * key].split_at_mut(n * key);
                for row in 0..n {
                    let of_row = row * channels..(row + 1) * channels;
                    let logs = &logs[of_row.clone()];
                    let (factors, rests) = (&mut self.factors[of_row.clone()], &mut self.rests[of_row]);
                    for c in 0..channels {
                        factors[c] = vector::exp(logs[c] as f32);
                        rests[c] = vector::exp((last[c] - logs[c]) as f32);
                    }
                    let at = row * key..(row + 1) * key;
                    let (q, k) = (&q[at.clone()], &k[at.clone()]);
                    let (to_q, to_k) = (&mut to_q[at.clone()], &mut to_k[at.clone()]);
                    scale(to_q, q, factors, 1.0);
                    scale(to_k, k, factors, -1.0);
                    scale(&mut self.lasting[at], k, rests, 1.0);
                }
            },
        );
        if channels == 1 {
            let raw = &self.raw[..2 * n * n];
            self.pair_scratch.of_heads(raw, logs, n, &mut self.pairs[..2 * n * n]);
        } else {
            let qk = &self.qk[..2 * n * key];
            self.pair_scratch.of_channels(qk, logs, n, key, &mut self.pairs[..2 * n * n]);
        }
    }

    /// Computes `Y` and `U`, and what the state is read for.
    pub(super) fn write(&mut self, job: &Job<'_>, head: usize, rows: &Range<usize>, before: Option<&[f32]>) {
        let (n, Dims { key, value, .. }) = (self.n, self.dims);
        if let Some(before) = before {
            let decayed = View::new(&self.decayed[..2 * n * key], 2 * n, key);
            let read = ViewMut::new(&mut self.read, 2 * n, value);
            multiply(read, Write::Set, 1.0, decayed, View::new(before, key, value), Workers::One);
        }
        let width = job.shape.value_width();
        simd(
            #[inline(always)]
            || {
                for (at, row) in rows.clone().enumerate() {
                    let v = &job.rows.v[row * width + head * value..][..value];
                    let beta = job.rows.beta[row * job.shape.value_heads + head];
                    let y = &mut self.y[at * value..][..value];
                    y.copy_from_slice(v);
                    if before.is_some() {
                        vector::add(y, &self.read[(n + at) * value..][..value]);
                    }
                    let (earlier, own) = self.u.split_at_mut(at * value);
                    add_rows(y, -1.0, &self.pairs[(n + at) * n..][..at], 1, earlier, value);
                    for (u, &y) in own[..value].iter_mut().zip(&*y) {
                        *u = beta * y;
                    }
                }
            },
        );
    }

    /// `Γ_C` `[channels]`.
    pub(super) fn last(&self) -> &[f32] {
        let channels = self.dims.channels;
        &self.factors[(self.n - 1) * channels..][..channels]
    }

    fn next_state(&self, before: Option<&[f32]>, after: &mut [f32]) {
        let (n, Dims { key, value, .. }) = (self.n, self.dims);
        let write = if before.is_some() { Write::Add } else { Write::Set };
        if let Some(before) = before {
            decay_state(after, before, self.last(), value);
        }
        let lasting = View::new(&self.lasting[..n * key], n, key).transposed();
        let u = View::new(&self.u[..n * value], n, value);
        multiply(ViewMut::new(after, key, value), write, 1.0, lasting, u, Workers::One);
    }
}

/// `out = sign · factors ⊙ x`, with one factor for all or one for each.
#[inline(always)]
fn scale(out: &mut [f32], x: &[f32], factors: &[f32], sign: f32) {
    if let [factor] = factors {
        let factor = sign * factor;
        for (out, &x) in out.iter_mut().zip(x) {
            *out = factor * x;
        }
    } else {
        for ((out, &x), &factor) in out.iter_mut().zip(x).zip(factors) {
            *out = sign * factor * x;
        }
    }
}

/// `out = Γ_C ⊙ state`.
pub(super) fn decay_state(out: &mut [f32], state: &[f32], last: &[f32], value_dim: usize) {
    // One factor for all rows, or one for each.
    let each = out.len() / last.len() / value_dim * value_dim;
    simd(
        #[inline(always)]
        || {
            for ((out, state), &factor) in out.chunks_exact_mut(each).zip(state.chunks_exact(each)).zip(last)
            {
                for (out, &s) in out.iter_mut().zip(state) {
                    *out = factor * s;
                }
            }
        },
    );
}

/// `out += sign · Σ_i factors[i · stride] · rows[i]`, with rows of `out.len()` elements that start `width` apart; as many
/// as there are factors. Sums stay in registers, some columns at a time.
#[inline(always)]
pub(super) fn add_rows(
    out: &mut [f32],
    sign: f32,
    factors: &[f32],
    stride: usize,
    rows: &[f32],
    width: usize,
) {
    let mut column = 0;
    while column + 64 <= out.len() {
        add_columns::<64>(out, column, sign, factors, stride, rows, width);
        column += 64;
    }
    while column + 8 <= out.len() {
        add_columns::<8>(out, column, sign, factors, stride, rows, width);
        column += 8;
    }
    while column < out.len() {
        add_columns::<1>(out, column, sign, factors, stride, rows, width);
        column += 1;
    }
}

#[inline(always)]
fn add_columns<const N: usize>(
    out: &mut [f32],
    column: usize,
    sign: f32,
    factors: &[f32],
    stride: usize,
    rows: &[f32],
    width: usize,
) {
    let out = &mut out[column..column + N];
    let mut sums = [0.0_f32; N];
    sums.copy_from_slice(out);
    for (row, factor) in factors.iter().step_by(stride).enumerate() {
        let factor = sign * factor;
        let row = &rows[row * width + column..][..N];
        for lane in 0..N {
            sums[lane] = factor.mul_add(row[lane], sums[lane]);
        }
    }
    out.copy_from_slice(&sums);
}
