use half::bf16;
use proptest::prelude::*;

use super::*;
use crate::testing::{assert_close, random, wide};

fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&value| bf16::from_f32(value).to_f32()).collect()
}

/// The product in f64, `[m, n]`.
fn reference(lhs: &[f32], rhs: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
    let (lhs, rhs) = (wide(lhs), wide(rhs));
    let dot = |row: usize, col: usize| (0..k).map(|i| lhs[row * k + i] * rhs[i * n + col]).sum();
    (0..m * n).map(|at| dot(at / n, at % n)).collect()
}

fn transposed<T: Copy>(data: &[T], rows: usize, cols: usize) -> Vec<T> {
    (0..rows * cols).map(|at| data[at % rows * cols + at / rows]).collect()
}

/// `out` after `0.5 lhs rhs` was written or added, by [`multiply_in`] and, if possible, by [`multiply_packed`].
fn check(
    precision: Precision,
    (m, n, k): (usize, usize, usize),
    is_turned: (bool, bool),
    stored_in_bf16: bool,
    write: Write,
    workers: Workers,
) {
    let (a, b, before) = (random(1, m * k), random(2, k * n), random(3, m * n));
    let (a_t, b_t) = (transposed(&a, m, k), transposed(&b, k, n));
    let lhs = match is_turned.0 {
        true => View::new(&*a_t, k, m).transposed(),
        false => View::new(&*a, m, k),
    };
    let stored = if is_turned.1 { &b_t } else { &b };
    let half: Vec<bf16> = stored.iter().map(|&value| bf16::from_f32(value)).collect();
    let data = if stored_in_bf16 { Elements::Bf16(&half) } else { Elements::F32(stored) };
    let rhs = if is_turned.1 { View::new(data, n, k).transposed() } else { View::new(data, k, n) };

    let is_bf16 = precision == Precision::Bf16;
    let left = if is_bf16 { rounded(&a) } else { a.clone() };
    let right = if is_bf16 || stored_in_bf16 { rounded(&b) } else { b.clone() };
    let product = reference(&left, &right, (m, n, k));
    let expected = |scale: f64| -> Vec<f64> {
        let kept = |before: &f32| if write == Write::Add { f64::from(*before) } else { 0.0 };
        product.iter().zip(&before).map(|(product, before)| scale * product + kept(before)).collect()
    };
    let mut out = before.clone();
    multiply_in(precision, ViewMut::new(&mut out, m, n), write, 0.5, lhs, rhs, workers);
    assert_close(&out, &expected(0.5), 1e-5 * (k as f64 / 64.0).max(1.0));

    let panels = Panels::of(precision, rhs, workers);
    let mut out = before.clone();
    multiply_packed(ViewMut::new(&mut out, m, n), write, 0.5, lhs, panels.all(), workers);
    assert_close(&out, &expected(0.5), 1e-5 * (k as f64 / 64.0).max(1.0));
}

#[test]
fn the_beginning_of_a_packed_operand_is_one() {
    let (m, n, k) = (7, 130, 600);
    let (a, b) = (random(1, m * k), random(2, k * n));
    let panels = Panels::of(Precision::F32, View::new(&*b, k, n), Workers::One);
    for (inner, cols) in [(600, 130), (513, 65), (1, 1), (0, 5)] {
        let lhs = View::strided(&*a, m, inner, k);
        let rhs = View::strided(&*b, inner, cols, n);
        let mut expected = vec![f32::NAN; m * cols];
        multiply(ViewMut::new(&mut expected, m, cols), Write::Set, 1.0, lhs, rhs, Workers::One);
        let mut out = vec![f32::NAN; m * cols];
        let packed = panels.first(inner, cols);
        multiply_packed(ViewMut::new(&mut out, m, cols), Write::Set, 1.0, lhs, packed, Workers::One);
        assert_eq!(out, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn products_are_those_of_the_reference_in_every_layout(
        m in 1_usize..30, n in 1_usize..150, k in 0_usize..70, is_turned: (bool, bool), is_bf16: bool,
        stored_in_bf16: bool, adds: bool, alone: bool,
    ) {
        let precision = if is_bf16 { Precision::Bf16 } else { Precision::F32 };
        let write = if adds { Write::Add } else { Write::Set };
        let workers = if alone { Workers::One } else { Workers::Pool };
        check(precision, (m, n, k), is_turned, stored_in_bf16, write, workers);
    }

    /// Batched decoding, and learning from what was decoded, rest on this.
    #[test]
    fn an_element_depends_on_its_row_and_column_alone(
        m in 2_usize..200, n in 1_usize..150, k in 1_usize..1200, is_bf16: bool, row in 0_usize..200, turned: bool,
    ) {
        let precision = if is_bf16 { Precision::Bf16 } else { Precision::F32 };
        let (a, b) = (random(1, m * k), random(2, n * k));
        let row = row % m;
        let rhs = if turned { View::new(&*b, n, k).transposed() } else { View::new(&*b, k, n) };
        let run = |rows: &[f32], workers| {
            let m = rows.len() / k;
            let mut out = vec![f32::NAN; m * n];
            multiply_in(precision, ViewMut::new(&mut out, m, n), Write::Set, 1.0, View::new(rows, m, k), rhs, workers);
            out
        };
        let together = run(&a, Workers::Pool);
        prop_assert_eq!(&run(&a, Workers::One), &together);
        let alone = run(&a[row * k..][..k], Workers::Pool);
        prop_assert_eq!(&alone[..], &together[row * n..][..n]);
    }
}

#[test]
fn blocks_of_rows_columns_and_of_the_inner_dimension_cover_a_large_product() {
    let shape = (TASK_ROWS * 2 + 5, 200, 2 * INNER + 3);
    for is_turned in [(false, false), (true, false), (false, true), (true, true)] {
        check(Precision::F32, shape, is_turned, false, Write::Set, Workers::Pool);
        check(Precision::Bf16, shape, is_turned, false, Write::Add, Workers::One);
    }
    // More panels than are packed at once.
    check(
        Precision::F32,
        (3, PACKED_ELEMENTS / 8000 + 70, 8000),
        (false, true),
        true,
        Write::Set,
        Workers::Pool,
    );
}

#[test]
fn strided_outputs_keep_what_lies_between_their_rows() {
    let (m, n, k, stride) = (9, 5, 7, 8);
    let (a, b) = (random(1, m * k), random(2, k * n));
    let mut out = vec![7.0; m * stride];
    let view = ViewMut::strided(&mut out, m, n, stride);
    multiply(view, Write::Set, 1.0, View::new(&*a, m, k), View::new(&*b, k, n), Workers::One);
    let expected = reference(&a, &b, (m, n, k));
    for (row, values) in out.chunks(stride).enumerate() {
        assert_close(&values[..n], &expected[row * n..][..n], 1e-5);
        assert_eq!(values[n..], [7.0; 3]);
    }
}

#[test]
fn rounding_is_that_of_the_format_and_keeps_what_is_not_finite() {
    for value in [0.0, -0.0, 1.0, 1.003_906_2, 1.011_718_7, -3.4e38, 1e-40, f32::MAX, f32::INFINITY] {
        assert_eq!(pack::round(value), u32::from(bf16::from_f32(value).to_bits()), "{value}");
    }
    assert!(bf16::from_bits(pack::round(f32::NAN) as u16).is_nan());
    assert!(bf16::from_bits(pack::round(f32::from_bits(0x7fff_ffff)) as u16).is_nan());
}
