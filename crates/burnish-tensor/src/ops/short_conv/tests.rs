//! The convolution against its definition, along shared prefixes, and row by row.

use proptest::prelude::*;

use super::*;
use crate::{
    reference,
    testing::{assert_close, assert_gradient, forests, random, weighted, wide},
};

fn weight(elements: &[f32], taps: usize) -> ConvWeight<'_> {
    ConvWeight { elements: elements.into(), taps }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_convolution_and_its_gradients_are_those_of_the_reference(
        layout in forests(0..6), taps in 1_usize..6, cols in 1_usize..5,
    ) {
        let x: Vec<f32> = random(1, layout.rows() * cols).iter().map(|x| 3.0 * x).collect();
        let (w, d) = (random(2, cols * taps), random(3, x.len()));
        let (wide_x, wide_w) = (wide(&x), wide(&w));
        let of = |x: &[f64], w: &[f64]| reference::short_conv(x, w, taps, &layout);
        assert_close(&forward(&x, weight(&w, taps), &layout), &of(&wide_x, &wide_w), 1e-6);

        let mut d_w = vec![0.0; w.len()];
        let d_x = backward(&x, weight(&w, taps), &layout, &d, Some(&mut d_w));
        assert_gradient(&d_x, &x, |x| weighted(&d, &of(x, &wide_w)), 1e-5);
        assert_gradient(&d_w, &w, |w| weighted(&d, &of(&wide_x, w)), 1e-5);
    }

    #[test]
    fn going_on_from_the_last_rows_and_row_by_row_give_the_bits_of_one_pass(
        len in 1_usize..20, past in 0_usize..20, taps in 1_usize..6, cols in 1_usize..40,
    ) {
        let past = past % (len + 1);
        let (x, w) = (random(1, len * cols), random(2, cols * taps));
        let whole = forward(&x, weight(&w, taps), &Layout::causal(&[len]));
        let mut ends = Vec::new();
        let go_on = |x: &[f32], start: Option<&[f32]>, ends: &mut Vec<Vec<f32>>| {
            let layout = Layout::causal(&[x.len() / cols]);
            short_conv_continued(x, weight(&w, taps), &layout, &[start], ends)
        };
        let first = go_on(&x[..past * cols], None, &mut ends);
        let state = ends[0].clone();
        let second = go_on(&x[past * cols..], Some(&state), &mut ends);
        prop_assert_eq!([&first[..], &second].concat(), whole.to_vec());

        let mut state = vec![0.0; (taps - 1) * cols];
        let mut out = vec![0.0; cols];
        for (row, expected) in whole.chunks_exact(cols).enumerate() {
            short_conv_step(&x[row * cols..][..cols], weight(&w, taps), &mut [&mut state], &mut out);
            prop_assert_eq!(&out[..], expected);
        }
        prop_assert_eq!(&state, &ends[0]);
    }
}

#[test]
fn a_short_prefix_hands_on_what_its_own_prefix_had() {
    let segment = Segment::causal;
    let segments =
        vec![segment(0, 1, None), segment(1, 1, Some(0)), segment(2, 2, Some(1)), segment(4, 1, Some(1))];
    let layout = Layout::new(segments).unwrap();
    let (x, w) = ([1.0, 10.0, 100.0, 1000.0, 10_000.0], [4.0, 3.0, 2.0, 1.0]);
    let mut ends = Vec::new();
    let start = [7.0, 8.0, 9.0];
    let y = short_conv_continued(&x, weight(&w, 4), &layout, &[Some(&start)], &mut ends);
    assert_eq!(
        *y,
        [28.0 + 24.0 + 18.0 + 1.0, 32.0 + 27.0 + 2.0 + 10.0, 36.0 + 3.0 + 20.0 + 100.0, 1234.0, 10_059.0]
    );
    assert_eq!(
        ends,
        [vec![8.0, 9.0, 1.0], vec![9.0, 1.0, 10.0], vec![10.0, 100.0, 1000.0], vec![1.0, 10.0, 1e4]]
    );
}

#[test]
fn the_gradient_of_the_weight_sums_over_all_tasks() {
    let (rows, cols) = (3 * parallel::task_rows(2) + 1, 2);
    let x = vec![1e3; rows * cols];
    let mut d_w = vec![0.5; cols];
    backward(&x, weight(&[1.0, 1.0], 1), &Layout::causal(&[rows]), &vec![1e-3; x.len()], Some(&mut d_w));
    assert_close(&d_w, &[rows as f64 + 0.5; 2], 1e-5);
}
