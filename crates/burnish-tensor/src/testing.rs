//! Helpers for the tests of this crate.

use burnish_core::rng::Stream;
use proptest::prelude::*;

use crate::{Layout, Segment};

/// Numbers in `[-1, 1)`.
pub(crate) fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    (0..len).map(|_| (2.0 * stream.uniform() - 1.0) as f32).collect()
}

/// Ids below `bound`.
pub(crate) fn random_ids(seed: u64, len: usize, bound: usize) -> Vec<u32> {
    let mut stream = Stream::new(seed);
    (0..len).map(|_| stream.below(bound as u64) as u32).collect()
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// `Σ d ⊙ y`: a scalar whose gradient with respect to `y` is `d`.
pub(crate) fn weighted(d: &[f32], y: &[f64]) -> f64 {
    assert_eq!(d.len(), y.len());
    d.iter().zip(y).map(|(&d, y)| f64::from(d) * y).sum()
}

/// Asserts `|actual - expected| <= tolerance (1 + |expected|)` everywhere.
#[track_caller]
pub(crate) fn assert_close(actual: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    for (index, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let error = (f64::from(actual) - expected).abs();
        assert!(error <= tolerance * (1.0 + expected.abs()), "element {index}: {actual} is not {expected}");
    }
}

/// Asserts that `gradient` is that of `loss` at `x`, by central differences in f64.
#[track_caller]
pub(crate) fn assert_gradient(gradient: &[f32], x: &[f32], loss: impl Fn(&[f64]) -> f64, tolerance: f64) {
    const STEP: f64 = 1e-5;
    let mut moved = wide(x);
    let differences: Vec<f64> = (0..x.len())
        .map(|index| {
            moved[index] = f64::from(x[index]) + STEP;
            let above = loss(&moved);
            moved[index] = f64::from(x[index]) - STEP;
            let below = loss(&moved);
            moved[index] = f64::from(x[index]);
            (above - below) / (2.0 * STEP)
        })
        .collect();
    assert_close(gradient, &differences, tolerance);
}

/// Random forests of up to 5 segments of these lengths.
pub(crate) fn forests(lens: std::ops::Range<usize>) -> impl Strategy<Value = Layout> {
    prop::collection::vec((lens, 0_usize..100), 1..6).prop_map(|draws| {
        let mut start = 0;
        let segment = |(index, (len, draw)): (usize, (usize, usize))| {
            let parent = draw % (index + 1);
            let segment = Segment::causal(start, len, (parent < index).then_some(parent));
            start += len;
            segment
        };
        Layout::new(draws.into_iter().enumerate().map(segment).collect()).unwrap()
    })
}
