//! Singular vectors and values of what changed between two matrices, which is never stored whole.
//!
//! Randomised subspace iteration (Halko, Martinsson and Tropp 2011, arXiv:0909.4061): a random sketch, two rounds of power
//! iteration, and the decomposition of what is left. For a change of rank at most that of the sketch it is exact up to
//! rounding; else values are underestimated, those at the end most. The order of all sums is fixed.

use burnish_core::rng::{Address, Purpose, Stream};
use rayon::prelude::*;

use crate::WeightsError;
use crate::checkpoint::View;
use crate::dense::{Columns, Svd, svd};

/// Columns of the sketch beyond the rank that is asked for.
const OVERSAMPLING: usize = 16;
/// Rounds of power iteration.
const ROUNDS: usize = 2;
/// Elements that are read at a time.
const BLOCK: usize = 1 << 18;
/// Partial sums of a product over the rows; more would need more memory.
const PARTS: usize = 8;

/// `to − from`, matrices of one shape.
pub(crate) struct Change<'a> {
    from: View<'a>,
    to: View<'a>,
    rows: usize,
    cols: usize,
}

/// The largest singular values, in descending order, with their vectors as columns.
pub(crate) struct Spectrum {
    pub(crate) left: Columns,
    pub(crate) values: Vec<f64>,
    pub(crate) right: Columns,
}

/// A matrix of few columns, row by row.
struct Panel {
    width: usize,
    data: Vec<f32>,
}

impl Panel {
    fn new(rows: usize, width: usize) -> Self {
        Panel { width, data: vec![0.0; rows * width] }
    }

    fn columns(&self) -> Columns {
        let rows = self.data.len() / self.width;
        Columns::from_fn(rows, self.width, |row, col| f64::from(self.data[row * self.width + col]))
    }

    /// The columns, made orthonormal.
    fn orthonormal(&self) -> Panel {
        let mut columns = self.columns();
        columns.orthonormalize();
        let mut panel = Panel::new(columns.rows, self.width);
        for (row, values) in panel.data.chunks_mut(self.width).enumerate() {
            values.iter_mut().enumerate().for_each(|(col, value)| *value = columns.col(col)[row] as f32);
        }
        panel
    }
}

impl<'a> Change<'a> {
    /// `None` unless both are matrices of one shape with at least one element.
    pub(crate) fn of(from: View<'a>, to: View<'a>) -> Option<Self> {
        let [rows, cols] = *from.shape else { return None };
        (from.shape == to.shape && rows * cols > 0).then_some(Change { from, to, rows, cols })
    }

    /// The `rank` largest singular values, or all if there are fewer.
    ///
    /// # Errors
    /// If the numbers are not finite.
    pub(crate) fn spectrum(&self, rank: usize) -> Result<Spectrum, WeightsError> {
        let width = (rank + OVERSAMPLING).min(self.rows).min(self.cols);
        let mut stream = Stream::new(Address::new(0, Purpose::Init).seed());
        let mut sketch = Panel::new(self.cols, width);
        sketch.data.fill_with(|| stream.normal() as f32);
        let mut basis = self.times(&sketch)?.orthonormal();
        for _ in 0..ROUNDS {
            let across = self.transposed_times(&basis)?.orthonormal();
            basis = self.times(&across)?.orthonormal();
        }
        // Δ ≈ Q (Δᵀ Q)ᵀ, and Δᵀ Q = P R with R = U S Vᵀ, so Δ ≈ (Q V) S (P U)ᵀ. Jacobi's method on the small R takes a
        // fraction of the time that it takes on Δᵀ Q.
        let across = self.transposed_times(&basis)?.columns();
        let mut along = across.clone();
        along.orthonormalize();
        let Svd { left, mut values, right } = svd(&along.transposed_times(&across));
        let count = rank.min(width);
        values.truncate(count);
        let left = along.times(&left.first(count));
        Ok(Spectrum { left: basis.columns().times(&right.first(count)), values, right: left })
    }

    /// Calls `visit` with blocks of rows of the change: the first row, and the values of all.
    fn blocks(
        &self,
        rows: std::ops::Range<usize>,
        mut visit: impl FnMut(usize, &[f32]),
    ) -> Result<(), WeightsError> {
        let step = (BLOCK / self.cols).clamp(1, rows.len().max(1));
        let mut from = vec![0.0; step * self.cols];
        let mut to = vec![0.0; step * self.cols];
        let mut first = rows.start;
        while first < rows.end {
            let count = step.min(rows.end - first);
            let elements = first * self.cols..(first + count) * self.cols;
            let size = elements.len();
            self.from.read(elements.clone(), &mut from[..size])?;
            self.to.read(elements, &mut to[..size])?;
            to[..size].iter_mut().zip(&from).for_each(|(to, from)| *to -= from);
            visit(first, &to[..size]);
            first += count;
        }
        Ok(())
    }

    /// Ranges of rows that are worked on in parallel.
    fn parts(&self) -> Vec<std::ops::Range<usize>> {
        let step = self.rows.div_ceil(PARTS);
        (0..self.rows).step_by(step).map(|first| first..(first + step).min(self.rows)).collect()
    }

    fn times(&self, right: &Panel) -> Result<Panel, WeightsError> {
        let width = right.width;
        let of_part = |rows: std::ops::Range<usize>| {
            let begin = rows.start;
            let mut out = vec![0.0; rows.len() * width];
            self.blocks(rows, |first, block| {
                let out = out[(first - begin) * width..].chunks_mut(width);
                for (out, row) in out.zip(block.chunks(self.cols)) {
                    for (value, right) in row.iter().zip(right.data.chunks(width)) {
                        out.iter_mut().zip(right).for_each(|(out, right)| *out += value * right);
                    }
                }
            })?;
            Ok(out)
        };
        let parts: Result<Vec<Vec<f32>>, WeightsError> = self.parts().into_par_iter().map(of_part).collect();
        Ok(Panel { width, data: parts?.concat() })
    }

    fn transposed_times(&self, right: &Panel) -> Result<Panel, WeightsError> {
        let width = right.width;
        let of_part = |rows: std::ops::Range<usize>| {
            let mut out = vec![0.0; self.cols * width];
            self.blocks(rows, |first, block| {
                let right = right.data[first * width..].chunks(width);
                for (right, row) in right.zip(block.chunks(self.cols)) {
                    for (value, out) in row.iter().zip(out.chunks_mut(width)) {
                        out.iter_mut().zip(right).for_each(|(out, right)| *out += value * right);
                    }
                }
            })?;
            Ok(out)
        };
        let parts: Result<Vec<Vec<f32>>, WeightsError> = self.parts().into_par_iter().map(of_part).collect();
        let mut sum = Panel::new(self.cols, width);
        for part in parts? {
            sum.data.iter_mut().zip(part).for_each(|(sum, term)| *sum += term);
        }
        Ok(sum)
    }
}
