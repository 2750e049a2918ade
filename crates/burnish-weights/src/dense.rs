//! Decompositions of small dense matrices, in f64: what surgery needs and no more.
//!
//! A library of linear algebra would bring some forty crates for three routines on matrices of a few hundred columns.

/// A matrix, column by column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    pub(crate) rows: usize,
    pub(crate) data: Vec<f64>,
}

/// `A = left · diag(values) · rightᵀ`, values in descending order, left and right with orthonormal columns.
#[derive(Debug)]
pub(crate) struct Svd {
    pub(crate) left: Columns,
    pub(crate) values: Vec<f64>,
    pub(crate) right: Columns,
}

/// Sweeps after which Jacobi's method is stopped; it needs about ten.
const SWEEPS_MAX: usize = 60;
/// Columns count as orthogonal when the cosine between them is smaller.
const COSINE_MIN: f64 = 1e-14;
/// A column whose length falls below this share of what it was lies in the span of others.
const DEPENDENT: f64 = 1e-10;

impl Columns {
    pub(crate) fn from_fn(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let data = (0..cols).flat_map(|col| (0..rows).map(move |row| (row, col)));
        Columns { rows, data: data.map(|(row, col)| value(row, col)).collect() }
    }

    pub(crate) fn cols(&self) -> usize {
        self.data.len().checked_div(self.rows).unwrap_or_default()
    }

    pub(crate) fn col(&self, at: usize) -> &[f64] {
        &self.data[at * self.rows..(at + 1) * self.rows]
    }

    fn col_mut(&mut self, at: usize) -> &mut [f64] {
        &mut self.data[at * self.rows..(at + 1) * self.rows]
    }

    fn transposed(&self) -> Self {
        Columns::from_fn(self.cols(), self.rows, |row, col| self.col(row)[col])
    }

    /// The first columns.
    pub(crate) fn first(mut self, cols: usize) -> Self {
        self.data.truncate(cols * self.rows);
        self
    }

    /// `selfᵀ · other`
    pub(crate) fn transposed_times(&self, other: &Columns) -> Columns {
        Columns::from_fn(self.cols(), other.cols(), |row, col| product(self.col(row), other.col(col)))
    }

    /// `self · other`
    pub(crate) fn times(&self, other: &Columns) -> Columns {
        let mut out = Columns { rows: self.rows, data: vec![0.0; self.rows * other.cols()] };
        for col in 0..other.cols() {
            for (at, factor) in other.col(col).iter().enumerate() {
                let term = self.col(at);
                out.col_mut(col).iter_mut().zip(term).for_each(|(out, term)| *out += factor * term);
            }
        }
        out
    }

    /// Makes the columns orthonormal with the same span (Gram and Schmidt, twice). One that lies in the span of those
    /// before it becomes 0.
    pub(crate) fn orthonormalize(&mut self) {
        for at in 0..self.cols() {
            let (before, rest) = self.data.split_at_mut(at * self.rows);
            let own = &mut rest[..self.rows];
            let length = product(own, own).sqrt();
            for _ in 0..2 {
                for other in before.chunks_exact(self.rows.max(1)) {
                    let share = product(own, other);
                    own.iter_mut().zip(other).for_each(|(own, other)| *own -= share * other);
                }
            }
            let left = product(own, own).sqrt();
            let factor = if left > DEPENDENT * length { 1.0 / left } else { 0.0 };
            own.iter_mut().for_each(|own| *own *= factor);
        }
    }

    /// Replaces the columns from `from` on, so that all are orthonormal. The others are.
    fn complete(&mut self, from: usize) {
        let mut unit = 0;
        for at in from..self.cols() {
            loop {
                let (before, rest) = self.data.split_at_mut(at * self.rows);
                let own = &mut rest[..self.rows];
                own.fill(0.0);
                let Some(one) = own.get_mut(unit) else { return };
                *one = 1.0;
                unit += 1;
                for _ in 0..2 {
                    for other in before.chunks_exact(self.rows) {
                        let share = product(own, other);
                        own.iter_mut().zip(other).for_each(|(own, other)| *own -= share * other);
                    }
                }
                let length = product(own, own).sqrt();
                // Some unit vector is at least this far from a span that is not everything.
                if length > 0.5 / (self.rows as f64).sqrt() {
                    own.iter_mut().for_each(|own| *own /= length);
                    break;
                }
            }
        }
    }
}

/// `Σ a·b`, eight sums at a time.
fn product(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (whole_a, rest_a) = a.as_chunks::<8>();
    let (whole_b, rest_b) = b.as_chunks::<8>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a * b);
    }
    sums.iter_mut().zip(rest_a).zip(rest_b).for_each(|((sum, a), b)| *sum += a * b);
    sums.iter().sum()
}

/// The singular value decomposition by Jacobi's method on the columns (Hestenes 1958), which finds small values as
/// exactly as large ones. There are as many values as the smaller side has elements.
pub(crate) fn svd(matrix: &Columns) -> Svd {
    if matrix.rows < matrix.cols() {
        let Svd { left, values, right } = svd(&matrix.transposed());
        return Svd { left: right, values, right: left };
    }
    let cols = matrix.cols();
    let mut left = matrix.clone();
    let mut right = Columns::from_fn(cols, cols, |row, col| f64::from(u8::from(row == col)));
    for _ in 0..SWEEPS_MAX {
        let mut is_done = true;
        for p in 0..cols {
            for q in p + 1..cols {
                let [a, b, c] = [
                    product(left.col(p), left.col(p)),
                    product(left.col(q), left.col(q)),
                    product(left.col(p), left.col(q)),
                ];
                if c.abs() <= COSINE_MIN * (a * b).sqrt() || c == 0.0 {
                    continue;
                }
                is_done = false;
                let slope = (b - a) / (2.0 * c);
                let tangent = slope.signum() / (slope.abs() + (1.0 + slope * slope).sqrt());
                let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
                rotate(&mut left, p, q, cosine, cosine * tangent);
                rotate(&mut right, p, q, cosine, cosine * tangent);
            }
        }
        if is_done {
            break;
        }
    }
    sorted(&left, &right)
}

fn rotate(matrix: &mut Columns, p: usize, q: usize, cosine: f64, sine: f64) {
    let (before, rest) = matrix.data.split_at_mut(q * matrix.rows);
    let first = &mut before[p * matrix.rows..(p + 1) * matrix.rows];
    for (x, y) in first.iter_mut().zip(&mut rest[..matrix.rows]) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

/// Columns of length 1 in the order of what their lengths were.
fn sorted(left: &Columns, right: &Columns) -> Svd {
    let lengths: Vec<f64> = (0..left.cols()).map(|at| product(left.col(at), left.col(at)).sqrt()).collect();
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by(|one, other| lengths[*other].total_cmp(&lengths[*one]));
    let values: Vec<f64> = order.iter().map(|&at| lengths[at]).collect();
    let of =
        |matrix: &Columns| -> Vec<f64> { order.iter().flat_map(|&at| matrix.col(at)).copied().collect() };
    let mut left = Columns { rows: left.rows, data: of(left) };
    for (at, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
        left.col_mut(at).iter_mut().for_each(|element| *element /= value);
    }
    // The directions of what is nothing but rounding are rounding themselves.
    let largest = values.first().copied().unwrap_or_default();
    let count = values.iter().filter(|value| **value > 1e-14 * largest).count();
    left.complete(count);
    Svd { left, values, right: Columns { rows: right.rows, data: of(right) } }
}

/// Solves `A X = B` for a symmetric positive definite `A` of `n` rows and a `B` with as many columns, both row by row
/// (Cholesky); `None` if `A` is not definite.
pub(crate) fn solve_definite(a: &[f64], b: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let sum = product(&factor[i * n..i * n + j], &factor[j * n..j * n + j]);
            let rest = a[i * n + j] - sum;
            factor[i * n + j] = if i == j {
                // What is left of a pivot after cancellation means nothing.
                if rest <= 1e-14 * a[i * n + i] {
                    return None;
                }
                rest.sqrt()
            } else {
                rest / factor[j * n + j]
            };
        }
    }
    let mut out = b.to_vec();
    let subtract = |out: &mut [f64], from: usize, to: usize, share: f64| {
        let source = out[from * n..(from + 1) * n].to_vec();
        out[to * n..(to + 1) * n].iter_mut().zip(source).for_each(|(to, from)| *to -= share * from);
    };
    for i in 0..n {
        (0..i).for_each(|j| subtract(&mut out, j, i, factor[i * n + j]));
        out[i * n..(i + 1) * n].iter_mut().for_each(|value| *value /= factor[i * n + i]);
    }
    for i in (0..n).rev() {
        (i + 1..n).for_each(|j| subtract(&mut out, j, i, factor[j * n + i]));
        out[i * n..(i + 1) * n].iter_mut().for_each(|value| *value /= factor[i * n + i]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::rng::Stream;

    fn random(rows: usize, cols: usize, seed: u64) -> Columns {
        let mut stream = Stream::new(seed);
        Columns { rows, data: (0..rows * cols).map(|_| stream.normal()).collect() }
    }

    fn largest(a: &Columns, b: &Columns) -> f64 {
        assert_eq!((a.rows, a.data.len()), (b.rows, b.data.len()));
        a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    fn is_orthonormal(columns: &Columns) -> bool {
        let identity =
            Columns::from_fn(columns.cols(), columns.cols(), |row, col| f64::from(u8::from(row == col)));
        largest(&columns.transposed_times(columns), &identity) < 1e-12
    }

    fn check(matrix: &Columns) -> Svd {
        let found = svd(matrix);
        assert!(is_orthonormal(&found.left) && is_orthonormal(&found.right));
        assert!(found.values.is_sorted_by(|one, other| one >= other));
        let scaled = Columns::from_fn(matrix.rows, found.values.len(), |row, col| {
            found.left.col(col)[row] * found.values[col]
        });
        let size = found.values[0].max(1.0);
        assert!(largest(&scaled.times(&found.right.transposed()), matrix) < 1e-12 * size);
        found
    }

    #[test]
    fn every_shape_and_rank_is_decomposed() {
        for (rows, cols) in [(1, 1), (7, 7), (30, 5), (5, 30), (1, 9), (40, 33)] {
            check(&random(rows, cols, (rows * cols) as u64));
        }
        let low = random(20, 3, 1).times(&random(3, 12, 2));
        let values = check(&low).values;
        assert!(values[2] > 0.1 && values[3] < 1e-12, "{values:?}");
        assert_eq!(check(&Columns { rows: 4, data: vec![0.0; 12] }).values, [0.0; 3]);
        // Known values, far apart.
        let diagonal =
            Columns::from_fn(3, 3, |row, col| if row == col { [1e-9, 3.0, -2.0][row] } else { 0.0 });
        let values = check(&diagonal).values;
        assert!(
            values.iter().zip([3.0, 2.0, 1e-9]).all(|(found, known)| (found / known - 1.0).abs() < 1e-12)
        );
    }

    #[test]
    fn orthonormal_columns_span_what_was_given() {
        let given = random(25, 6, 3);
        let mut found = given.clone();
        found.orthonormalize();
        assert!(is_orthonormal(&found));
        assert!(largest(&found.times(&found.transposed_times(&given)), &given) < 1e-12);
        let mut twice = Columns { rows: 25, data: [given.data.clone(), given.data].concat() };
        twice.orthonormalize();
        assert!(twice.data[6 * 25..].iter().all(|value| *value == 0.0));
    }

    #[test]
    fn a_definite_system_is_solved_and_another_is_refused() {
        const N: usize = 9;
        let factor = random(N + 2, N, 4);
        let (a, x) = (factor.transposed_times(&factor), random(N, N, 5));
        let rows = |columns: &Columns| columns.transposed().data;
        let found = solve_definite(&rows(&a), &rows(&a.times(&x)), N).unwrap();
        assert!(found.iter().zip(rows(&x)).all(|(found, x)| (found - x).abs() < 1e-8));
        let low = random(N - 1, N, 6);
        let a = low.transposed_times(&low);
        assert!(solve_definite(&rows(&a), &rows(&a), N).is_none());
    }
}
