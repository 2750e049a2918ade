//! What rows of a chunk have to do with each other: `P_ri = Σ_c q_rc k_ic e^(G_rc - G_ic)` for `i <= r`, `M_ri` the same
//! with `k_r` for `i < r`, and their gradients. `G` are sums of logarithms of decays, so for `i <= r` the exponent is at
//! most 0.
//!
//! With one decay per head the exponential is a factor of the product `q kᵀ`. With one per channel it is inside the
//! sum. Rows are then taken in blocks: between blocks the exponential is split at the beginning `R` of the later block,
//! `e^(G_r - R) e^(R - G_i)`, neither exponent above 0, so that products remain; within a block it is computed for each
//! pair of rows (Yang et al. 2023, arXiv:2312.06635, section 4.3).

use crate::{
    Buffer,
    gemm::{View, ViewMut, Workers, Write, multiply},
    vector::{self, simd},
};

/// Rows of a block.
const BLOCK: usize = 16;

/// Memory, and what the backward pass uses again.
pub(super) struct Scratch {
    /// `[n, n]`: `e^(G_r - G_i)`, if decays are per head.
    ratios: Buffer,
    /// `[2n, key_dim]`: `q_r e^(G_r - R)` and `k_r e^(G_r - R)`, `R` at the beginning of the row's block.
    rows: Buffer,
    /// `[n, key_dim]`: `e^(G_r - R)`.
    row_decays: Buffer,
    /// `[n, key_dim]`: `k_i e^(R - G_i)`, for one block.
    cols: Buffer,
    /// `[n, key_dim]`: `e^(R - G_i)`, for one block.
    decays: Buffer,
    /// `[n, key_dim]`.
    gradient: Buffer,
}

impl Scratch {
    pub(super) fn new(chunk: usize, key_dim: usize, channels: usize) -> Self {
        let of_channels = if channels == 1 { 0 } else { chunk * key_dim };
        Scratch {
            ratios: Buffer::scratch(if channels == 1 { chunk * chunk } else { 0 }),
            rows: Buffer::scratch(2 * of_channels),
            row_decays: Buffer::scratch(of_channels),
            cols: Buffer::scratch(of_channels),
            decays: Buffer::scratch(of_channels),
            gradient: Buffer::scratch(of_channels),
        }
    }

    /// `P` and `M` `[2n, n]` from `raw`, which is `q kᵀ` and `k kᵀ`, and sums of logarithms `[n]`.
    pub(super) fn of_heads(&mut self, raw: &[f32], logs: &[f64], n: usize, pairs: &mut [f32]) {
        let (raw_p, raw_m) = raw.split_at(n * n);
        let (p, m) = pairs.split_at_mut(n * n);
        let ratios = &mut self.ratios[..n * n];
        simd(
            #[inline(always)]
            || {
                for row in 0..n {
                    let ratios = &mut ratios[row * n..][..n];
                    for i in 0..n {
                        // Above the diagonal the exponent may be of any size.
                        let log = if i <= row { logs[row] - logs[i] } else { 0.0 };
                        ratios[i] = log as f32;
                    }
                    let (p, m) = (&mut p[row * n..][..n], &mut m[row * n..][..n]);
                    let (raw_p, raw_m) = (&raw_p[row * n..][..n], &raw_m[row * n..][..n]);
                    for i in 0..n {
                        let ratio = if i <= row { vector::exp(ratios[i]) } else { 0.0 };
                        ratios[i] = ratio;
                        p[i] = if i <= row { raw_p[i] * ratio } else { 0.0 };
                        m[i] = if i < row { raw_m[i] * ratio } else { 0.0 };
                    }
                }
            },
        );
    }

    /// The backward pass of [`Scratch::of_heads`]: `d` `[2n, n]`, the gradient of `pairs`, becomes a term of that of
    /// `raw`; adds that of the logarithms to `d_logs` `[n]`.
    pub(super) fn of_heads_backward(&self, pairs: &[f32], d: &mut [f32], n: usize, d_logs: &mut [f32]) {
        let (p, m) = pairs.split_at(n * n);
        let (d_p, d_m) = d.split_at_mut(n * n);
        let ratios = &self.ratios[..n * n];
        simd(
            #[inline(always)]
            || {
                for row in 0..n {
                    let range = row * n..(row + 1) * n;
                    let (p, m, ratios) = (&p[range.clone()], &m[range.clone()], &ratios[range.clone()]);
                    let (d_p, d_m) = (&mut d_p[range.clone()], &mut d_m[range]);
                    let mut sum = 0.0;
                    for i in 0..=row {
                        let along = d_p[i].mul_add(p[i], d_m[i] * m[i]);
                        d_logs[i] -= along;
                        sum += along;
                    }
                    d_logs[row] += sum;
                    for i in 0..n {
                        d_p[i] *= ratios[i];
                        // A ratio is 1 on the diagonal, which `M` has not.
                        d_m[i] = if i < row { d_m[i] * ratios[i] } else { 0.0 };
                    }
                }
            },
        );
    }

    /// `P` and `M` `[2n, n]` from `q` and `k` `[2n, key_dim]`, and sums of logarithms `[n, key_dim]`.
    pub(super) fn of_channels(&mut self, qk: &[f32], logs: &[f64], n: usize, key: usize, pairs: &mut [f32]) {
        pairs.fill(0.0);
        let (q, k) = qk.split_at(n * key);
        self.split_rows(qk, logs, n, key);
        for start in (0..n).step_by(BLOCK) {
            let end = n.min(start + BLOCK);
            if start > 0 {
                self.split_cols(k, logs, start, key);
                let cols = View::new(&self.cols[..start * key], start, key).transposed();
                for half in 0..2 {
                    let rows = View::new(&self.rows[(half * n + start) * key..], end - start, key);
                    let to = ViewMut::strided(&mut pairs[(half * n + start) * n..], end - start, start, n);
                    multiply(to, Write::Set, 1.0, rows, cols, Workers::One);
                }
            }
            simd(
                #[inline(always)]
                || {
                    for row in start..end {
                        for i in start..=row {
                            let [of_row, of_i] = [row, i].map(|at| at * key..(at + 1) * key);
                            let (q, k_row, k_i) = (&q[of_row.clone()], &k[of_row.clone()], &k[of_i.clone()]);
                            let (p, m) = products(q, k_row, k_i, &logs[of_row], &logs[of_i]);
                            pairs[row * n + i] = p;
                            pairs[(n + row) * n + i] = if i < row { m } else { 0.0 };
                        }
                    }
                },
            );
        }
    }

    /// The backward pass of [`Scratch::of_channels`]: adds the gradients of `qk` and of the logarithms.
    pub(super) fn of_channels_backward(
        &mut self,
        qk: &[f32],
        logs: &[f64],
        n: usize,
        key: usize,
        d: &[f32],
        d_qk: &mut [f32],
        d_logs: &mut [f32],
    ) {
        let k = &qk[n * key..];
        for start in (0..n).step_by(BLOCK) {
            let end = n.min(start + BLOCK);
            if start > 0 {
                self.split_cols(k, logs, start, key);
                for half in 0..2 {
                    let rows = half * n + start..half * n + end;
                    let d = View::strided(&d[rows.start * n..], rows.len(), start, n);
                    let cols = View::new(&self.cols[..start * key], start, key);
                    let to = ViewMut::new(&mut self.gradient, rows.len(), key);
                    multiply(to, Write::Set, 1.0, d, cols, Workers::One);
                    // d_q += e^(G - R) ⊙ gradient, and d_G the product of that and q: e^(G - R) q is in `rows`.
                    let of_rows = rows.start * key..rows.end * key;
                    let of_logs = start * key..end * key;
                    simd(
                        #[inline(always)]
                        || {
                            let (own, gradient) = (&self.rows[of_rows.clone()], &self.gradient);
                            for (at, d_log) in d_logs[of_logs.clone()].iter_mut().enumerate() {
                                *d_log = own[at].mul_add(gradient[at], *d_log);
                            }
                            let decays = &self.row_decays[of_logs];
                            for (at, d_x) in d_qk[of_rows].iter_mut().enumerate() {
                                *d_x = decays[at].mul_add(gradient[at], *d_x);
                            }
                        },
                    );
                }
                for half in 0..2 {
                    let rows = half * n + start..half * n + end;
                    let write = if half == 0 { Write::Set } else { Write::Add };
                    let d = View::strided(&d[rows.start * n..], rows.len(), start, n).transposed();
                    let own = View::new(&self.rows[rows.start * key..], rows.len(), key);
                    let to = ViewMut::new(&mut self.gradient, start, key);
                    multiply(to, write, 1.0, d, own, Workers::One);
                }
                simd(
                    #[inline(always)]
                    || {
                        let d_k = &mut d_qk[n * key..][..start * key];
                        for at in 0..start * key {
                            let along = self.decays[at] * self.gradient[at];
                            d_k[at] += along;
                            d_logs[at] = (-along).mul_add(k[at], d_logs[at]);
                        }
                    },
                );
            }
            simd(
                #[inline(always)]
                || {
                    for row in start..end {
                        for i in start..=row {
                            let d_p = d[row * n + i];
                            let d_m = if i < row { d[(n + row) * n + i] } else { 0.0 };
                            pair_backward(qk, logs, n, key, (row, i), (d_p, d_m), d_qk, d_logs);
                        }
                    }
                },
            );
        }
    }

    /// Fills `rows` and `row_decays`.
    fn split_rows(&mut self, qk: &[f32], logs: &[f64], n: usize, key: usize) {
        let (q, k) = qk.split_at(n * key);
        let (to_q, to_k) = self.rows[..2 * n * key].split_at_mut(n * key);
        simd(
            #[inline(always)]
            || {
                for row in BLOCK.min(n)..n {
                    let from = &logs[(row / BLOCK * BLOCK - 1) * key..][..key];
                    let range = row * key..(row + 1) * key;
                    let (q, k, logs) = (&q[range.clone()], &k[range.clone()], &logs[range.clone()]);
                    let (to_q, to_k) = (&mut to_q[range.clone()], &mut to_k[range.clone()]);
                    let decays = &mut self.row_decays[range];
                    for c in 0..key {
                        decays[c] = vector::exp((logs[c] - from[c]) as f32);
                        to_q[c] = decays[c] * q[c];
                        to_k[c] = decays[c] * k[c];
                    }
                }
            },
        );
    }

    /// Fills `cols` and `decays` for the block that begins at `start`.
    fn split_cols(&mut self, k: &[f32], logs: &[f64], start: usize, key: usize) {
        let to = &logs[(start - 1) * key..][..key];
        simd(
            #[inline(always)]
            || {
                for row in 0..start {
                    let range = row * key..(row + 1) * key;
                    let (k, logs) = (&k[range.clone()], &logs[range.clone()]);
                    let (cols, decays) = (&mut self.cols[range.clone()], &mut self.decays[range]);
                    for c in 0..key {
                        decays[c] = vector::exp((to[c] - logs[c]) as f32);
                        cols[c] = decays[c] * k[c];
                    }
                }
            },
        );
    }
}

/// `Σ q k_i e^(G_r - G_i)` and `Σ k_r k_i e^(G_r - G_i)`.
#[inline(always)]
fn products(q: &[f32], k_row: &[f32], k_i: &[f32], logs_row: &[f64], logs_i: &[f64]) -> (f32, f32) {
    const LANES: usize = 16;
    let (mut p, mut m) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    let mut at = 0;
    let key = q.len();
    while at + LANES <= key {
        for lane in 0..LANES {
            let c = at + lane;
            let along = k_i[c] * vector::exp((logs_row[c] - logs_i[c]) as f32);
            p[lane] = q[c].mul_add(along, p[lane]);
            m[lane] = k_row[c].mul_add(along, m[lane]);
        }
        at += LANES;
    }
    for c in at..key {
        let along = k_i[c] * vector::exp((logs_row[c] - logs_i[c]) as f32);
        p[c - at] = q[c].mul_add(along, p[c - at]);
        m[c - at] = k_row[c].mul_add(along, m[c - at]);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            p[lane] += p[lane + width];
            m[lane] += m[lane + width];
        }
        width /= 2;
    }
    (p[0], m[0])
}

/// Adds the gradients of one pair of rows of a block.
#[inline(always)]
fn pair_backward(
    qk: &[f32],
    logs: &[f64],
    n: usize,
    key: usize,
    (row, i): (usize, usize),
    (d_p, d_m): (f32, f32),
    d_qk: &mut [f32],
    d_logs: &mut [f32],
) {
    let at = |row: usize| row * key..(row + 1) * key;
    let (q, k_row, k_i) = (&qk[at(row)], &qk[at(n + row)], &qk[at(n + i)]);
    let (logs_row, logs_i) = (&logs[at(row)], &logs[at(i)]);
    let (d_q, d_k) = d_qk.split_at_mut(n * key);
    let d_q = &mut d_q[at(row)];
    if i == row {
        // The exponent is 0 whatever the decays are.
        let d_k = &mut d_k[at(row)];
        for c in 0..key {
            d_q[c] = d_p.mul_add(k_i[c], d_q[c]);
            d_k[c] = d_p.mul_add(q[c], d_k[c]);
        }
        return;
    }
    let (d_k_i, d_k_row) = d_k.split_at_mut(row * key);
    let (d_k_i, d_k_row) = (&mut d_k_i[at(i)], &mut d_k_row[..key]);
    let (d_logs_i, d_logs_row) = d_logs.split_at_mut(row * key);
    let (d_logs_i, d_logs_row) = (&mut d_logs_i[at(i)], &mut d_logs_row[..key]);
    for c in 0..key {
        let decay = vector::exp((logs_row[c] - logs_i[c]) as f32);
        let along = decay * k_i[c];
        let from_row = d_p.mul_add(q[c], d_m * k_row[c]);
        d_q[c] = d_p.mul_add(along, d_q[c]);
        d_k_row[c] = d_m.mul_add(along, d_k_row[c]);
        d_k_i[c] = decay.mul_add(from_row, d_k_i[c]);
        d_logs_row[c] = along.mul_add(from_row, d_logs_row[c]);
        d_logs_i[c] = (-along).mul_add(from_row, d_logs_i[c]);
    }
}
