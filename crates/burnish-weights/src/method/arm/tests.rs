use burnish_core::rng::Stream;
use proptest::prelude::*;

use super::rotation::Rotation;
use crate::dense::{Columns, svd};
use crate::inputs::Principal;

fn random(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    (0..rows * cols).map(|_| stream.normal() as f32).collect()
}

/// The top `rank` directions of random inputs.
fn directions(inputs: &[f32], width: usize, rank: usize) -> Columns {
    Principal::of_samples(inputs, width).first(rank, 1.0)
}

/// `R`, whose columns are the turned unit vectors.
fn matrix(rotation: &Rotation, width: usize) -> Columns {
    let column = |at: usize| {
        let mut unit = vec![0.0; width];
        unit[at] = 1.0;
        rotation.turn(&mut unit);
        unit.into_iter().map(f64::from)
    };
    Columns { rows: width, data: (0..width).flat_map(column).collect() }
}

fn identity(width: usize) -> Columns {
    Columns::from_fn(width, width, |row, col| f64::from(u8::from(row == col)))
}

fn distance(a: &Columns, b: &Columns) -> f64 {
    assert_eq!((a.rows, a.data.len()), (b.rows, b.data.len()));
    a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn length(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The columns of `a`, then those of `b`.
fn beside(a: &Columns, b: &Columns) -> Columns {
    Columns { rows: a.rows, data: [&a.data[..], &b.data].concat() }
}

/// By elimination with pivots.
fn determinant(matrix: &Columns) -> f64 {
    let mut columns: Vec<Vec<f64>> = (0..matrix.cols()).map(|at| matrix.col(at).to_vec()).collect();
    let mut product = 1.0;
    for at in 0..columns.len() {
        let size = |col: &usize| columns[*col][at].abs();
        let pivot = (at..columns.len()).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap();
        if pivot != at {
            columns.swap(pivot, at);
            product = -product;
        }
        product *= columns[at][at];
        for col in at + 1..columns.len() {
            let factor = columns[col][at] / columns[at][at];
            let from = columns[at].clone();
            columns[col].iter_mut().zip(from).for_each(|(value, from)| *value -= factor * from);
        }
    }
    product
}

/// A width, the ranks of two subspaces in it, and what they are drawn from.
fn subspaces() -> impl Strategy<Value = (usize, usize, usize, u64)> {
    (2..20_usize).prop_flat_map(|width| (Just(width), 1..=width, 1..=width, 0..10_000_u64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_is_the_rotation_of_the_card((width, first, second, seed) in subspaces()) {
        let from = directions(&random(40, width, seed), width, first);
        let to = directions(&random(40, width, seed + 1), width, second);
        let rotation = Rotation::between(&from, &to);
        let whole = matrix(&rotation, width);
        prop_assert!(distance(&whole.transposed_times(&whole), &identity(width)) < 1e-5, "R is orthogonal");
        prop_assert!((determinant(&whole) - 1.0).abs() < 1e-4, "and no reflection");
        // Every principal vector goes to its partner.
        let found = svd(&from.transposed_times(&to));
        let count = first.min(second);
        let (a, b) = (from.times(&found.left.first(count)), to.times(&found.right.first(count)));
        prop_assert!(distance(&whole.times(&a), &b) < 1e-5);
        // What is orthogonal to both subspaces stays, up to rounding.
        let mut all = beside(&beside(&from, &to), &identity(width));
        all.orthonormalize();
        let rest: Vec<f64> = (first + second..all.cols()).flat_map(|at| all.col(at).to_vec()).collect();
        let rest = Columns { rows: width, data: rest };
        prop_assert!(distance(&whole.times(&rest), &rest) < 1e-5);
        // Rows of an increment keep their lengths.
        for row in random(5, width, seed + 2).chunks(width) {
            let mut turned = row.to_vec();
            rotation.turn(&mut turned);
            let [before, after] = [row, &turned].map(|row| length(row.iter().map(|value| f64::from(*value))));
            prop_assert!((before - after).abs() < 1e-5 * before);
        }
    }

    #[test]
    fn it_turns_if_and_only_if_the_subspaces_differ((width, rank, _, seed) in subspaces()) {
        let inputs = random(40, width, seed);
        let from = directions(&inputs, width, rank);
        let same = matrix(&Rotation::between(&from, &from), width);
        prop_assert!(distance(&same, &identity(width)) < 1e-5);
        // Other inputs in the same directions: another basis of the same subspace, and other signs.
        let mixed: Vec<f32> = inputs.chunks(2 * width).flat_map(|two| {
            let (one, other) = two.split_at(width);
            let sum = one.iter().zip(other).map(|(a, b)| -0.6 * a - 0.8 * b);
            let difference = one.iter().zip(other).map(|(a, b)| 0.8 * a - 0.6 * b);
            sum.chain(difference).collect::<Vec<f32>>()
        }).collect();
        let mixed = directions(&mixed, width, rank);
        prop_assert!(distance(&matrix(&Rotation::between(&from, &mixed), width), &identity(width)) < 1e-3);
        // All of the space is one subspace; less of it is another one for other inputs.
        let to = directions(&random(40, width, seed + 1), width, rank);
        let turned = matrix(&Rotation::between(&from, &to), width);
        let outside = length((0..rank).flat_map(|at| {
            let own = Columns { rows: width, data: from.col(at).to_vec() };
            let inside = to.times(&to.transposed_times(&own));
            own.data.iter().zip(&inside.data).map(|(a, b)| a - b).collect::<Vec<f64>>()
        }));
        prop_assert_eq!(outside > 1e-4, distance(&turned, &identity(width)) > 1e-4 / 4.0, "{}", outside);
    }

    #[test]
    fn signs_and_bases_are_no_matter((width, first, second, seed) in subspaces(), signs in 0..u64::MAX) {
        let from = directions(&random(40, width, seed), width, first);
        let to = directions(&random(40, width, seed + 1), width, second);
        let plain = matrix(&Rotation::between(&from, &to), width);
        let flipped = |columns: &Columns, shift: usize| {
            let sign = |col: usize| if signs >> (col + shift) & 1 == 1 { -1.0 } else { 1.0 };
            Columns::from_fn(width, columns.cols(), |row, col| sign(col) * columns.col(col)[row])
        };
        let other = matrix(&Rotation::between(&flipped(&from, 0), &flipped(&to, 30)), width);
        prop_assert!(distance(&plain, &other) < 1e-4);
    }

    #[test]
    fn nearly_opposite_pairs_are_left_alone(width in 2..12_usize, seed in 0..1000_u64, cosine in -1.0..1.0_f64) {
        let mut axes = directions(&random(40, width, seed), width, 2);
        axes.orthonormalize();
        let a = Columns { rows: width, data: axes.col(0).to_vec() };
        let sine = (1.0 - cosine * cosine).sqrt();
        let b = axes.col(0).iter().zip(axes.col(1)).map(|(a, other)| cosine * a + sine * other).collect();
        let b = Columns { rows: width, data: b };
        let whole = matrix(&Rotation::of_pairs(&a, &b), width);
        let expected = if cosine < -0.9 { a.clone() } else { b };
        prop_assert!(distance(&whole.times(&a), &expected) < 1e-5);
        prop_assert!(distance(&whole.transposed_times(&whole), &identity(width)) < 1e-5);
    }
}

#[test]
fn orthogonal_subspaces_are_turned_by_right_angles() {
    // Two directions that have nothing in common with two others: all cosines are 0.
    let axes = |axes: &[usize]| -> Vec<f32> {
        axes.iter().flat_map(|axis| (0..5).map(move |at| f32::from(u8::from(at == *axis)))).collect()
    };
    let rotation =
        matrix(&Rotation::between(&directions(&axes(&[0, 1]), 5, 2), &directions(&axes(&[2, 3]), 5, 2)), 5);
    assert!(distance(&rotation.transposed_times(&rotation), &identity(5)) < 1e-6);
    assert!((determinant(&rotation) - 1.0).abs() < 1e-6);
    assert!(rotation.col(4)[4] == 1.0 && rotation.col(0)[0].abs() < 1e-6);
}

#[test]
fn directions_have_the_energy_that_is_asked_for() {
    // Squares 16, 4, 1: 76 %, 95 %, 100 %.
    let inputs = [4.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0];
    let count = |rank, energy| Principal::of_samples(&inputs, 3).first(rank, energy).cols();
    assert_eq!((count(3, 0.7), count(3, 0.9), count(3, 1.0), count(1, 0.9)), (1, 2, 3, 1));
    assert_eq!(directions(&[0.0; 9], 3, 3).cols(), 0, "nothing has no direction");
}
