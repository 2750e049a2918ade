use burnish_core::rng::Stream;

use super::rotation::{Rotation, directions};
use crate::dense::Columns;

fn random(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    (0..rows * cols).map(|_| stream.normal() as f32).collect()
}

fn between(from: &[f32], to: &[f32], width: usize, rank: usize) -> Rotation {
    let of = |inputs| directions(inputs, width, rank, 1.0);
    Rotation::between(&of(from), &of(to))
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
    a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
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

#[test]
fn it_is_a_rotation_that_carries_one_subspace_to_the_other() {
    const WIDTH: usize = 12;
    for rank in [1, 3, 6, 9] {
        let (from, to) = (random(20, WIDTH, 1), random(20, WIDTH, 2));
        let rotation = matrix(&between(&from, &to, WIDTH, rank), WIDTH);
        assert!(distance(&rotation.transposed_times(&rotation), &identity(WIDTH)) < 1e-5);
        assert!((determinant(&rotation) - 1.0).abs() < 1e-4);
        let of = |inputs: &[f32]| directions(inputs, WIDTH, rank, 1.0);
        let (from, to) = (of(&from), of(&to));
        // What is carried over lies in the target: its projection on the target is itself.
        let carried = rotation.times(&from);
        assert!(distance(&to.times(&to.transposed_times(&carried)), &carried) < 1e-5);
    }
}

#[test]
fn orthogonal_subspaces_are_turned_by_right_angles() {
    // Two directions that have nothing in common with two others: all cosines are 0.
    let axes = |axes: &[usize]| -> Vec<f32> {
        axes.iter().flat_map(|axis| (0..5).map(move |at| f32::from(u8::from(at == *axis)))).collect()
    };
    let rotation = matrix(&between(&axes(&[0, 1]), &axes(&[2, 3]), 5, 2), 5);
    assert!(distance(&rotation.transposed_times(&rotation), &identity(5)) < 1e-6);
    assert!((determinant(&rotation) - 1.0).abs() < 1e-6);
    assert!(rotation.col(4)[4] == 1.0 && rotation.col(0)[0].abs() < 1e-6);
}

#[test]
fn lengths_of_rows_stay() {
    let rotation = between(&random(9, 16, 3), &random(9, 16, 4), 16, 5);
    for row in random(6, 16, 5).chunks(16) {
        let mut turned = row.to_vec();
        rotation.turn(&mut turned);
        let square = |row: &[f32]| row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        assert!((square(row) - square(&turned)).abs() < 1e-5 * square(row));
        assert_ne!(row, turned);
    }
}

#[test]
fn the_same_subspace_is_not_turned_and_signs_are_no_matter() {
    const WIDTH: usize = 10;
    let inputs = random(30, WIDTH, 6);
    let same = matrix(&between(&inputs, &inputs, WIDTH, 4), WIDTH);
    assert!(distance(&same, &identity(WIDTH)) < 1e-5);
    // Other inputs with the same directions: as far as R is concerned, the same.
    let scaled: Vec<f32> = inputs.iter().map(|value| -3.0 * value).collect();
    assert!(distance(&matrix(&between(&inputs, &scaled, WIDTH, 4), WIDTH), &same) < 1e-5);
    let other = random(30, WIDTH, 7);
    let (from, to) = (directions(&inputs, WIDTH, 3, 1.0), directions(&other, WIDTH, 3, 1.0));
    let plain = matrix(&Rotation::between(&from, &to), WIDTH);
    // The decomposition may return any signs.
    let sign = |col: usize| if col == 1 { -1.0 } else { 1.0 };
    let flipped = Columns::from_fn(WIDTH, 3, |row, col| sign(col) * from.col(col)[row]);
    assert!(distance(&plain, &matrix(&Rotation::between(&flipped, &to), WIDTH)) < 1e-5);
    assert!(distance(&plain, &same) > 0.1);
}

#[test]
fn directions_have_the_energy_that_is_asked_for() {
    // Squares 16, 4, 1: 76 %, 95 %, 100 %.
    let inputs = [4.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0];
    let count = |rank, energy| directions(&inputs, 3, rank, energy).cols();
    assert_eq!((count(3, 0.7), count(3, 0.9), count(3, 1.0), count(1, 0.9)), (1, 2, 3, 1));
    assert_eq!(directions(&[0.0; 9], 3, 3, 0.9).cols(), 0, "nothing has no direction");
}
