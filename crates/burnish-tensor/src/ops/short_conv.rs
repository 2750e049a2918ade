//! Depthwise causal convolution over a few rows, and SiLU: `y[t, c] = silu(Σ_j w[c, K-1-j] x[t-j, c])`, as before the
//! queries, keys and values of linear attention (Fu et al. 2023, arXiv:2212.14052; Gated DeltaNet, arXiv:2412.06464).
//! `t - j` runs along a sequence's path through a forest of segments, and before its beginning `x` is 0.

use rayon::prelude::*;

use crate::{
    Buffer, Elements, Layout, Param, Params, Segment, parallel,
    vector::{sigmoid, simd},
};

/// The weight of a short convolution, `[columns, taps]`; the last tap is that of the row itself.
#[derive(Clone, Copy, Debug)]
pub struct ConvWeight<'a> {
    /// Row-major.
    pub elements: Elements<'a>,
    /// Rows that a result depends on, 1 or more.
    pub taps: usize,
}

impl<'a> ConvWeight<'a> {
    /// A parameter `[columns, taps]`, or `[columns, 1, taps]` as Hugging Face stores it.
    #[must_use]
    pub fn of(params: &'a Params, weight: Param) -> Self {
        ConvWeight { elements: params.elements(weight), taps: weight.cols }
    }

    /// Columns of the rows that it is for.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.elements.len() / self.taps
    }

    /// Row `j` holds the factors of the row `j` steps back.
    fn by_distance(&self) -> Vec<f32> {
        let (weight, cols, taps) = (self.elements.widened(), self.columns(), self.taps);
        let mut turned = vec![0.0; weight.len()];
        for (column, weight) in weight.chunks_exact(taps).enumerate() {
            for (back, &w) in weight.iter().rev().enumerate() {
                turned[back * cols + column] = w;
            }
        }
        turned
    }
}

/// A row before a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    /// Before the beginning of its sequence, or of what is known of it: zeros, unless rows were given for root `root`
    /// (counted among roots), of which it is row `index`.
    Given { root: usize, index: usize },
    /// A row of the batch.
    Row(usize),
}

/// The `width` rows before each segment, oldest first, and after the last of a segment those that end with it.
struct Pasts {
    before: Vec<Vec<Past>>,
    after: Vec<Vec<Past>>,
}

impl Pasts {
    fn of(layout: &Layout, width: usize) -> Self {
        let segments = layout.segments();
        let mut pasts =
            Pasts { before: Vec::with_capacity(segments.len()), after: Vec::with_capacity(segments.len()) };
        let mut roots = 0;
        for segment in segments {
            let before = match segment.parent {
                Some(parent) => pasts.after[parent].clone(),
                None => {
                    roots += 1;
                    (0..width).map(|index| Past::Given { root: roots - 1, index }).collect()
                }
            };
            let own = segment.rows().skip(segment.len.saturating_sub(width)).map(Past::Row);
            let all: Vec<Past> = before.iter().copied().chain(own).collect();
            pasts.after.push(all[all.len() - width..].to_vec());
            pasts.before.push(before);
        }
        pasts
    }
}

/// For each row and each distance from 1 to `taps - 1` the row that many steps before it; -1 before its sequence.
pub(crate) fn pasts(layout: &Layout, taps: usize) -> Vec<i32> {
    let pasts = Pasts::of(layout, taps - 1);
    let mut rows = Vec::with_capacity(layout.rows() * (taps - 1));
    for (segment, before) in layout.segments().iter().zip(&pasts.before) {
        for at in 0..segment.len {
            rows.extend((1..taps).map(|back| match at.checked_sub(back) {
                Some(at) => (segment.start + at) as i32,
                None => match before[taps - 1 + at - back] {
                    Past::Row(row) => row as i32,
                    Past::Given { .. } => -1,
                },
            }));
        }
    }
    rows
}

/// What all rows of a batch share.
struct Batch<'a> {
    x: &'a [f32],
    cols: usize,
    taps: usize,
    /// See [`ConvWeight::by_distance`].
    weight: Vec<f32>,
    segments: &'a [Segment],
    pasts: Pasts,
    /// The rows before each root.
    starts: &'a [Option<&'a [f32]>],
}

impl<'a> Batch<'a> {
    fn new(
        x: &'a [f32],
        weight: ConvWeight<'_>,
        layout: &'a Layout,
        starts: &'a [Option<&'a [f32]>],
    ) -> Self {
        let (cols, taps) = (weight.columns(), weight.taps);
        assert_eq!(x.len(), layout.rows() * cols, "rows of a convolution with {cols} columns");
        let pasts = Pasts::of(layout, taps - 1);
        Batch { x, cols, taps, weight: weight.by_distance(), segments: layout.segments(), pasts, starts }
    }

    fn resolve(&self, past: Past) -> Option<&'a [f32]> {
        let (data, row) = match past {
            Past::Row(row) => (self.x, row),
            Past::Given { root, index } => (self.starts.get(root).copied().flatten()?, index),
        };
        Some(&data[row * self.cols..][..self.cols])
    }

    /// The row `back` steps before row `at` of a segment; `None` stands for zeros.
    fn earlier(&self, segment: usize, at: usize, back: usize) -> Option<&'a [f32]> {
        let past = match at.checked_sub(back) {
            Some(at) => Past::Row(self.segments[segment].start + at),
            None => self.pasts.before[segment][self.taps - 1 + at - back],
        };
        self.resolve(past)
    }

    /// Calls `body(segment, row of the segment, row of the range)` for the rows of a range of the batch.
    #[inline(always)]
    fn walk(&self, first: usize, rows: usize, mut body: impl FnMut(usize, usize, usize)) {
        let mut segment = self.segments.partition_point(|segment| segment.rows().end <= first);
        for row in 0..rows {
            while self.segments[segment].rows().end <= first + row {
                segment += 1;
            }
            body(segment, first + row - self.segments[segment].start, row);
        }
    }

    fn factors(&self, back: usize) -> &[f32] {
        &self.weight[back * self.cols..][..self.cols]
    }

    /// The sum before SiLU, of one row.
    #[inline(always)]
    fn sum(&self, z: &mut [f32], segment: usize, at: usize) {
        z.fill(0.0);
        for back in 0..self.taps {
            if let Some(x) = self.earlier(segment, at, back) {
                multiply_add(z, x, self.factors(back));
            }
        }
    }

    fn forward(&self) -> Buffer {
        let mut y = Buffer::scratch(self.x.len());
        parallel::for_rows(&mut y, self.cols, |first, y| {
            simd(
                #[inline(always)]
                || {
                    let cols = self.cols;
                    self.walk(
                        first,
                        y.len() / cols,
                        #[inline(always)]
                        |segment, at, row| {
                            let y = &mut y[row * cols..][..cols];
                            self.sum(y, segment, at);
                            silu(y);
                        },
                    );
                },
            );
        });
        y
    }

    /// The last rows of the path that ends with each segment.
    fn ends(&self) -> impl Iterator<Item = Vec<f32>> {
        self.pasts.after.iter().map(|rows| {
            let mut end = Vec::with_capacity(rows.len() * self.cols);
            for &row in rows {
                match self.resolve(row) {
                    Some(row) => end.extend_from_slice(row),
                    None => end.resize(end.len() + self.cols, 0.0),
                }
            }
            end
        })
    }
}

/// `z += x ⊙ w`.
#[inline(always)]
fn multiply_add(z: &mut [f32], x: &[f32], w: &[f32]) {
    for ((z, &x), &w) in z.iter_mut().zip(x).zip(w) {
        *z = x.mul_add(w, *z);
    }
}

#[inline(always)]
fn silu(z: &mut [f32]) {
    for z in z {
        *z *= sigmoid(*z);
    }
}

pub(crate) fn forward(x: &[f32], weight: ConvWeight<'_>, layout: &Layout) -> Buffer {
    Batch::new(x, weight, layout, &[]).forward()
}

/// The gradient of `x`; that of the weight is added to `d_weight`. With `z` the sums and `e = d σ(z) (1 + z (1 -
/// σ(z)))`: `d_x[s] = Σ_j w[K-1-j] e[s+j]` over all sequences that go on from row `s`, `d_w[K-1-j] = Σ_t e[t] x[t-j]`.
pub(crate) fn backward(
    x: &[f32],
    weight: ConvWeight<'_>,
    layout: &Layout,
    d: &[f32],
    d_weight: Option<&mut [f32]>,
) -> Buffer {
    let batch = Batch::new(x, weight, layout, &[]);
    let (cols, taps) = (batch.cols, batch.taps);
    let each = parallel::task_rows(cols);
    let mut e = Buffer::scratch(x.len());
    let is_trained = d_weight.is_some();
    let partial_sums: Vec<Vec<f32>> = e
        .par_chunks_mut(each * cols)
        .enumerate()
        .map(|(task, e)| {
            let mut sums = vec![0.0; if is_trained { taps * cols } else { 0 }];
            simd(
                #[inline(always)]
                || {
                    batch.walk(
                        task * each,
                        e.len() / cols,
                        #[inline(always)]
                        |segment, at, row| {
                            let e = &mut e[row * cols..][..cols];
                            batch.sum(e, segment, at);
                            for (e, &d) in e.iter_mut().zip(&d[(task * each + row) * cols..][..cols]) {
                                let s = sigmoid(*e);
                                *e = d * s * (1.0 - s).mul_add(*e, 1.0);
                            }
                            for (back, sums) in sums.chunks_exact_mut(cols).enumerate() {
                                if let Some(x) = batch.earlier(segment, at, back) {
                                    multiply_add(sums, x, e);
                                }
                            }
                        },
                    );
                },
            );
            sums
        })
        .collect();
    if let Some(d_weight) = d_weight {
        for (column, d_weight) in d_weight.chunks_exact_mut(taps).enumerate() {
            for (back, d_w) in d_weight.iter_mut().rev().enumerate() {
                *d_w += partial_sums.iter().map(|sums| sums[back * cols + column]).sum::<f32>();
            }
        }
    }
    let mut d_x = within_segments(&batch, &e);
    across_segments(&batch, &e, &mut d_x);
    d_x
}

/// The part of `d_x` that comes from rows of the same segment.
fn within_segments(batch: &Batch<'_>, e: &[f32]) -> Buffer {
    let cols = batch.cols;
    let mut d_x = Buffer::scratch(e.len());
    parallel::for_rows(&mut d_x, cols, |first, d_x| {
        simd(
            #[inline(always)]
            || {
                batch.walk(
                    first,
                    d_x.len() / cols,
                    #[inline(always)]
                    |segment, at, row| {
                        let d_x = &mut d_x[row * cols..][..cols];
                        d_x.fill(0.0);
                        let behind = batch.segments[segment].len - at;
                        for back in 0..batch.taps.min(behind) {
                            multiply_add(d_x, &e[(first + row + back) * cols..][..cols], batch.factors(back));
                        }
                    },
                );
            },
        );
    });
    d_x
}

/// Adds the part that comes from the first rows of later segments: few rows, of which several reach the same one, so
/// this is not split over threads.
fn across_segments(batch: &Batch<'_>, e: &[f32], d_x: &mut [f32]) {
    let (cols, taps) = (batch.cols, batch.taps);
    simd(
        #[inline(always)]
        || {
            for (segment, before) in batch.segments.iter().zip(&batch.pasts.before) {
                for at in 0..segment.len.min(taps - 1) {
                    for back in at + 1..taps {
                        if let Past::Row(row) = before[taps - 1 + at - back] {
                            let e = &e[(segment.start + at) * cols..][..cols];
                            multiply_add(&mut d_x[row * cols..][..cols], e, batch.factors(back));
                        }
                    }
                }
            }
        },
    );
}

/// The convolution of rows whose sequences have begun before, without a tape: `x` `[T, columns]`. `starts` has, for
/// each root segment in order, the `taps - 1` rows before it, oldest first (`[taps - 1, columns]`); `None`, and every
/// root behind the end of `starts`, begins a sequence. `ends` becomes the same of each segment: the last rows of the
/// path that ends with it, zeros before its beginning. A row's result equals that of [`Tape::short_conv`] over the
/// whole sequence to the bit.
///
/// [`Tape::short_conv`]: crate::Tape::short_conv
///
/// # Panics
/// If sizes do not fit.
pub fn short_conv_continued(
    x: &[f32],
    weight: ConvWeight<'_>,
    layout: &Layout,
    starts: &[Option<&[f32]>],
    ends: &mut Vec<Vec<f32>>,
) -> Buffer {
    let past = (weight.taps - 1) * weight.columns();
    assert!(
        starts.iter().flatten().all(|start| start.len() == past),
        "rows before a root are [taps - 1, columns]"
    );
    let batch = Batch::new(x, weight, layout, starts);
    ends.clear();
    ends.extend(batch.ends());
    batch.forward()
}

/// One row of each of some sequences: `x` and `out` `[sequences, columns]`, and for each sequence its last `taps - 1`
/// rows, oldest first, which move on by one. A row's result does not depend on the others, and equals that of
/// [`short_conv_continued`] to the bit. Runs on the calling thread.
///
/// # Panics
/// If sizes do not fit.
pub fn short_conv_step(x: &[f32], weight: ConvWeight<'_>, states: &mut [&mut [f32]], out: &mut [f32]) {
    let (cols, taps) = (weight.columns(), weight.taps);
    assert_eq!(x.len(), states.len() * cols, "one row for each sequence");
    assert_eq!(out.len(), x.len(), "one result for each row");
    let factors = weight.by_distance();
    simd(
        #[inline(always)]
        || {
            for ((x, state), out) in x.chunks_exact(cols).zip(states).zip(out.chunks_exact_mut(cols)) {
                assert_eq!(state.len(), (taps - 1) * cols, "a state is [taps - 1, columns]");
                out.fill(0.0);
                multiply_add(out, x, &factors[..cols]);
                for back in 1..taps {
                    multiply_add(
                        out,
                        &state[(taps - 1 - back) * cols..][..cols],
                        &factors[back * cols..][..cols],
                    );
                }
                silu(out);
                if taps > 1 {
                    state.copy_within(cols.., 0);
                    state[(taps - 2) * cols..].copy_from_slice(x);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests;
