//! The parts of a softmax that a sampler needs, computed as in [`Tape::token_scores`](crate::Tape::token_scores).

use crate::vector::{self, simd};

/// Elements summed in f32 before the sum goes to f64.
const SUM_ELEMENTS: usize = 1024;

/// The largest of `values`; -∞ if there are none. A NaN may go unnoticed.
#[must_use]
pub fn maximum(values: &[f32]) -> f32 {
    simd(
        #[inline(always)]
        || vector::max(values),
    )
}

/// `x = (x - shift) / divisor` for each element.
pub fn shift_and_divide(values: &mut [f32], shift: f32, divisor: f32) {
    simd(
        #[inline(always)]
        || {
            for value in values {
                *value = (*value - shift) / divisor;
            }
        },
    );
}

/// `out[i] = e^values[i]`, with a relative error below 2e-7, and 0 below -87.3; returns the sum. A NaN makes the sum
/// NaN.
///
/// # Panics
/// If lengths differ.
pub fn exponentials(values: &[f32], out: &mut [f32]) -> f64 {
    assert_eq!(values.len(), out.len(), "one exponential for each value");
    simd(
        #[inline(always)]
        || {
            let mut total = 0.0;
            for (values, out) in values.chunks(SUM_ELEMENTS).zip(out.chunks_mut(SUM_ELEMENTS)) {
                for (out, &value) in out.iter_mut().zip(values) {
                    *out = vector::exp(value);
                }
                total += f64::from(vector::sum(out));
            }
            total
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;

    #[test]
    fn the_parts_of_a_softmax_are_those_of_plain_loops() {
        for len in [1, 31, 512, 3000] {
            let values: Vec<f32> = random(len as u64, len).iter().map(|value| 20.0 * value).collect();
            let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(maximum(&values), greatest);
            let mut scaled = values.clone();
            shift_and_divide(&mut scaled, greatest, 0.7);
            let expected: Vec<f32> = values.iter().map(|value| (value - greatest) / 0.7).collect();
            assert_eq!(scaled, expected);
            let mut weights = vec![f32::NAN; len];
            let total = exponentials(&scaled, &mut weights);
            let exact: Vec<f64> = scaled.iter().map(|&value| f64::from(value).exp()).collect();
            let sum: f64 = exact.iter().sum();
            assert!((total - sum).abs() <= 1e-6 * sum, "{total} {sum}");
            for (weight, exact) in weights.iter().zip(exact) {
                assert!((f64::from(*weight) - exact).abs() <= 2e-7 * exact, "{weight} {exact}");
            }
        }
        let mut out = [0.0; 2];
        assert!(exponentials(&[0.0, f32::NAN], &mut out).is_nan());
        assert_eq!(exponentials(&[f32::NEG_INFINITY, 0.0], &mut out), 1.0);
    }
}
