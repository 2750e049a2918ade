//! What linear maps read, recorded for methods that turn changes by it: of each map the directions in which its inputs
//! mostly lie, from sums of a fixed size, whatever the number of inputs.

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose, Stream};
use rayon::prelude::*;

use crate::dense::{Columns, Svd, svd};

/// Inputs that are added at a time; they stay in a core's cache.
const BLOCK: usize = 64;
/// Columns of the iteration beyond the number of directions that is asked for.
const OVERSAMPLING: usize = 16;
/// Products between looks at how far the iteration is.
const PRODUCTS: usize = 4;
/// Looks after which it ends. Directions that differ so little in energy are as good as each other.
const LOOKS_MAX: usize = 40;
/// What is left of a direction after its image is taken away, as a share of the largest energy.
const LEFT_MAX: f64 = 1e-10;
/// Directions with less than this share of the energy are rounding.
const ENERGY_MIN: f64 = 1e-20;

/// `Σ x xᵀ` over the inputs `x` of a map, in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct Gram {
    width: usize,
    /// Row by row; only what is on the diagonal or right of it.
    sums: Vec<f64>,
}

impl Gram {
    /// The sum of no inputs of `width` numbers.
    pub fn new(width: usize) -> Self {
        Gram { width, sums: vec![0.0; width * width] }
    }

    /// Bytes of memory that one of this width takes.
    pub fn bytes(width: usize) -> usize {
        width * width * size_of::<f64>()
    }

    /// Length of an input.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds inputs, row by row. The order of the sums is that of the inputs, whatever the number of threads.
    pub fn add(&mut self, inputs: &[f32]) {
        let width = self.width.max(1);
        for block in inputs.chunks(BLOCK * width) {
            let wide: Vec<f64> = block.iter().map(|value| f64::from(*value)).collect();
            self.sums.par_chunks_mut(width).enumerate().for_each(|(at, sums)| {
                for x in wide.chunks_exact(width) {
                    let factor = x[at];
                    sums[at..].iter_mut().zip(&x[at..]).for_each(|(sum, other)| *sum += factor * other);
                }
            });
        }
    }

    /// At most `rank` directions of most energy.
    pub fn principal(&self, rank: usize) -> Principal {
        let all = (0..self.width).map(|at| self.sums[at * self.width + at]).sum();
        let (directions, squares) = self.leading(rank.min(self.width));
        Principal::new(directions, squares, all)
    }

    fn whole(&self) -> Columns {
        let at = |row: usize, col: usize| self.sums[row.min(col) * self.width + row.max(col)];
        Columns::from_fn(self.width, self.width, at)
    }

    /// Eigenvectors of the largest eigenvalues, and these: by iteration of a subspace (Rayleigh and Ritz) where it is
    /// smaller than the whole.
    fn leading(&self, rank: usize) -> (Columns, Vec<f64>) {
        let whole = self.whole();
        let size = rank + OVERSAMPLING;
        if size >= self.width {
            let Svd { left, mut values, .. } = svd(&whole);
            values.truncate(rank);
            return (left.first(rank), values);
        }
        let mut stream = Stream::new(Address::new(0, Purpose::Init).seed());
        let data = (0..self.width * size).map(|_| stream.normal()).collect();
        let mut basis = Columns { rows: self.width, data };
        basis.orthonormalize();
        for look in 1.. {
            for _ in 0..PRODUCTS {
                basis = times_symmetric(&whole, &basis);
                basis.orthonormalize();
            }
            let images = times_symmetric(&whole, &basis);
            let Svd { left, values, .. } = svd(&basis.transposed_times(&images));
            let (found, image) = (basis.times(&left), images.times(&left));
            let left_over = |at: usize| {
                let pairs = image.col(at).iter().zip(found.col(at));
                pairs.map(|(image, own)| (image - values[at] * own).powi(2)).sum::<f64>().sqrt()
            };
            let bound = LEFT_MAX * values.first().copied().unwrap_or_default();
            if look == LOOKS_MAX || (0..rank).all(|at| left_over(at) <= bound) {
                return (found.first(rank), values[..rank].to_vec());
            }
            basis = image;
            basis.orthonormalize();
        }
        (basis, Vec::new())
    }
}

/// `matrix · basis` for a symmetric matrix, whose columns are its rows.
fn times_symmetric(matrix: &Columns, basis: &Columns) -> Columns {
    let of_column =
        |col: usize| matrix.transposed_times(&Columns { rows: basis.rows, data: basis.col(col).to_vec() });
    let columns: Vec<Columns> = (0..basis.cols()).into_par_iter().map(of_column).collect();
    Columns { rows: basis.rows, data: columns.into_iter().flat_map(|column| column.data).collect() }
}

/// The directions in which the inputs of a map mostly lie.
#[derive(Debug, Clone, PartialEq)]
pub struct Principal {
    /// Orthonormal columns, those of most energy first.
    directions: Columns,
    /// The energy of each: the sum of the squares of the inputs along it.
    squares: Vec<f64>,
    /// The energy of all directions, these and others.
    all: f64,
}

impl Principal {
    fn new(directions: Columns, squares: Vec<f64>, all: f64) -> Self {
        Principal { directions, squares, all }
    }

    /// Of inputs `[samples, width]`, row by row: all directions.
    pub(crate) fn of_samples(inputs: &[f32], width: usize) -> Self {
        let samples = inputs.len().checked_div(width).unwrap_or_default();
        let matrix = Columns::from_fn(width, samples, |row, sample| f64::from(inputs[sample * width + row]));
        let found = svd(&matrix);
        let squares: Vec<f64> = found.values.iter().map(|value| value * value).collect();
        let all = squares.iter().sum();
        Principal::new(found.left, squares, all)
    }

    /// Length of an input.
    pub fn width(&self) -> usize {
        self.directions.rows
    }

    /// The first directions that together have the share `energy` of all energy, at most `rank`.
    pub(crate) fn first(&self, rank: usize, energy: f64) -> Columns {
        let (mut count, mut sum) = (0, 0.0);
        while let Some(square) = self.squares.get(count)
            && count < rank
            && sum < energy * self.all
            && *square > ENERGY_MIN * self.all
        {
            sum += square;
            count += 1;
        }
        self.directions.clone().first(count)
    }
}

/// What the linear maps of a model read, by the names of the maps, without `.weight`.
pub type Recorded = BTreeMap<String, Principal>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn random(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
        let mut stream = Stream::new(seed);
        (0..rows * cols).map(|_| stream.normal() as f32).collect()
    }

    /// Inputs whose energies fall by the factor `fall` from one direction to the next, in directions of their own.
    fn falling(samples: usize, width: usize, fall: f64, seed: u64) -> Vec<f32> {
        let mut axes =
            Columns { rows: width, data: random(width, width, seed).iter().map(|v| f64::from(*v)).collect() };
        axes.orthonormalize();
        let mut inputs = Vec::new();
        for sample in random(samples, width, seed + 1).chunks(width) {
            let scaled: Vec<f64> = sample
                .iter()
                .enumerate()
                .map(|(at, value)| f64::from(*value) * fall.powi(at as i32))
                .collect();
            inputs.extend(axes.times(&Columns { rows: width, data: scaled }).data.iter().map(|v| *v as f32));
        }
        inputs
    }

    fn gram(inputs: &[f32], width: usize) -> Gram {
        let mut gram = Gram::new(width);
        // In two parts, as inputs come.
        let (first, second) = inputs.split_at(inputs.len() / width / 3 * width);
        gram.add(first);
        gram.add(second);
        gram
    }

    /// How far the span of `a` is from that of `b`: the largest share of a direction that lies outside.
    fn apart(a: &Columns, b: &Columns) -> f64 {
        let inside = b.times(&b.transposed_times(a));
        a.data.iter().zip(&inside.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn sums_lead_where_all_inputs_do_whatever_the_width() {
        // The first is decomposed as a whole, the second by iteration.
        for (width, rank, fall) in [(12, 4, 0.7), (90, 6, 0.8)] {
            let inputs = falling(150, width, fall, 3);
            let (exact, found) =
                (Principal::of_samples(&inputs, width), gram(&inputs, width).principal(rank));
            assert_eq!(found.width(), width);
            assert!((found.all / exact.all - 1.0).abs() < 1e-6, "{} {}", found.all, exact.all);
            for (found, exact) in found.squares.iter().zip(&exact.squares) {
                assert!((found / exact - 1.0).abs() < 1e-6, "{found} {exact}");
            }
            let count = found.first(rank, 1.0).cols();
            assert_eq!(count, rank);
            assert!(apart(&found.first(rank, 1.0), &exact.first(rank, 1.0)) < 1e-5);
            let energy = exact.squares[..3].iter().sum::<f64>() / exact.all - 1e-6;
            assert_eq!((found.first(rank, energy).cols(), exact.first(rank, energy).cols()), (3, 3));
        }
    }

    #[test]
    fn the_order_of_sums_does_not_depend_on_threads() {
        let inputs = random(200, 40, 8);
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = one.install(|| gram(&inputs, 40));
        assert_eq!(alone, gram(&inputs, 40));
        assert_eq!(one.install(|| alone.principal(4)), alone.principal(4));
    }

    #[test]
    fn nothing_and_few_inputs_have_few_directions() {
        assert_eq!(Gram::new(70).principal(5).first(5, 1.0).cols(), 0);
        assert_eq!(Gram::new(5).principal(5).first(5, 1.0).cols(), 0);
        assert_eq!(gram(&random(3, 70, 1), 70).principal(9).first(9, 1.0).cols(), 3);
        assert_eq!(Principal::of_samples(&[], 4).first(4, 1.0).cols(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn directions_are_orthonormal_and_have_the_energy_that_is_asked_for(
            seed in 0..1000_u64, width in 2..60_usize, samples in 1..50_usize, rank in 1..20_usize, energy in 0.0..1.0_f64,
        ) {
            let inputs = falling(samples, width, 0.9, seed);
            let principal = gram(&inputs, width).principal(rank);
            let found = principal.first(rank, energy);
            prop_assert!(found.cols() <= rank.min(width).min(samples));
            let products = found.transposed_times(&found);
            for (at, value) in products.data.iter().enumerate() {
                let expected = f64::from(u8::from(at % found.cols() == at / found.cols()));
                prop_assert!((value - expected).abs() < 1e-9, "{}", value);
            }
            // Energy along the directions, counted from the inputs; one direction less would not do.
            let along = |count: usize| -> f64 {
                let columns = found.clone().first(count);
                let of = |x: &[f32]| {
                    let wide = x.iter().map(|value| f64::from(*value)).collect();
                    columns.transposed_times(&Columns { rows: width, data: wide })
                };
                inputs.chunks(width).map(|x| of(x).data.iter().map(|share| share * share).sum::<f64>()).sum()
            };
            let all: f64 = inputs.iter().map(|value| f64::from(*value).powi(2)).sum();
            let is_capped = found.cols() == rank.min(width).min(samples);
            prop_assert!(is_capped || along(found.cols()) >= (energy - 1e-6) * all);
            prop_assert!(found.cols() == 0 || along(found.cols() - 1) <= (energy + 1e-6) * all);
        }
    }
}
