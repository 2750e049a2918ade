//! Loops that the compiler turns into vector instructions, selected at run time.
//!
//! [`simd`] runs a closure compiled for the machine's best instruction set. That applies only to what is inlined into
//! it: the closure needs `#[inline(always)]`, and so does everything that it calls. Inside it, use plain `for` loops
//! instead of `for_each`, `map` and the like, whose closures may become functions of their own, compiled for the oldest
//! machine (some thirty times slower: every `mul_add` becomes a library call).
//!
//! Sums are kept in [`LANES`] partial sums, because the compiler may not reorder a sum of floats. A sum therefore does
//! not depend on the machine's vector width either.

use pulp::Arch;

/// Partial sums of a reduction.
pub(crate) const LANES: usize = 32;

/// Runs `body` compiled for the widest vector instructions of this machine.
#[inline(always)]
pub(crate) fn simd<R>(body: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(body)
}

/// `e^x` with a relative error below 2e-7; 0 below -87.3 (no subnormal results), `e^88` above 88; NaN stays NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`, `e^r` by a polynomial of degree 6 (Cephes `expf`; S. L. Moshier), `2^n`
/// through the exponent bits. Branch-free, so that loops over it vectorise.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23: adding it leaves the nearest integer in the low bits
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: 355/512 has so few digits that n · LN_2_HIGH is exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bounded = if x > 88.0 { 88.0 } else { x };
    let bounded = if bounded < -87.3 { -87.3 } else { bounded };
    let shifted = bounded.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_HIGH, bounded);
    let r = n.mul_add(-LN_2_LOW, r);
    let mut p = 1.987_569_1e-4_f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 0.5);
    let e_r = (p * r).mul_add(r, r) + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < -87.3 { 0.0 } else { e_r * power }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `ln(1 + e^x)`, with a relative error below 4e-7 down to the smallest results.
///
/// `max(x, 0) + ln(1 + e^-|x|)`, the logarithm as `2 atanh(y / (2 + y))`: its argument is at most 1/3, where the series
/// needs eight terms.
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    let y = exp(-x.abs());
    let t = y / (2.0 + y);
    let square = t * t;
    let mut p = 1.0 / 15.0_f32;
    p = p.mul_add(square, 1.0 / 13.0);
    p = p.mul_add(square, 1.0 / 11.0);
    p = p.mul_add(square, 1.0 / 9.0);
    p = p.mul_add(square, 1.0 / 7.0);
    p = p.mul_add(square, 1.0 / 5.0);
    p = p.mul_add(square, 1.0 / 3.0);
    p = p.mul_add(square, 1.0);
    (2.0 * t).mul_add(p, if x < 0.0 { 0.0 } else { x })
}

#[inline(always)]
fn fold_lanes(lanes: [f32; LANES], tail: f32) -> f32 {
    let mut width = LANES / 2;
    let mut lanes = lanes;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0] + tail
}

/// Σ xᵢ yᵢ.
#[inline(always)]
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (x_blocks, x_tail) = x.as_chunks::<LANES>();
    let (y_blocks, y_tail) = y[..x.len()].as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for lane in 0..LANES {
            lanes[lane] = x[lane].mul_add(y[lane], lanes[lane]);
        }
    }
    let mut tail = 0.0_f32;
    for (&x, &y) in x_tail.iter().zip(y_tail) {
        tail = x.mul_add(y, tail);
    }
    fold_lanes(lanes, tail)
}

/// Σ xᵢ.
#[inline(always)]
pub(crate) fn sum(x: &[f32]) -> f32 {
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] += block[lane];
        }
    }
    let mut tail = 0.0;
    for &x in rest {
        tail += x;
    }
    fold_lanes(lanes, tail)
}

/// The largest element; -∞ if there is none. A NaN may go unnoticed.
#[inline(always)]
pub(crate) fn max(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (blocks, tail) = x.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = if block[lane] > lanes[lane] { block[lane] } else { lanes[lane] };
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane = if x > *lane { x } else { *lane };
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = if lanes[lane + width] > lanes[lane] { lanes[lane + width] } else { lanes[lane] };
        }
        width /= 2;
    }
    lanes[0]
}

/// `y *= a`.
#[inline(always)]
pub(crate) fn scale(y: &mut [f32], a: f32) {
    for y in y {
        *y *= a;
    }
}

/// `x = e^(x - shift)`; returns the sum.
#[inline(always)]
pub(crate) fn exp_shifted(x: &mut [f32], shift: f32) -> f32 {
    for x in x.iter_mut() {
        *x = exp(*x - shift);
    }
    sum(x)
}

/// `x = e^(scale · x - scale · max x)`; returns the sum: a softmax before its division. The scale is above 0.
#[inline(always)]
pub(crate) fn exp_scaled(x: &mut [f32], scale: f32) -> f32 {
    let shift = -scale * max(x);
    let (blocks, tail) = x.as_chunks_mut::<LANES>();
    let mut lanes = [0.0; LANES];
    for block in blocks {
        for lane in 0..LANES {
            block[lane] = exp(block[lane].mul_add(scale, shift));
            lanes[lane] += block[lane];
        }
    }
    let mut rest = 0.0;
    for x in tail {
        *x = exp(x.mul_add(scale, shift));
        rest += *x;
    }
    fold_lanes(lanes, rest)
}

/// `y += x`.
#[inline(always)]
pub(crate) fn add(y: &mut [f32], x: &[f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulps_of_the_exact_value() {
        let mut worst = 0.0_f64;
        let mut x = -87.25_f32;
        while x < 88.0 {
            let exact = f64::from(x).exp();
            worst = worst.max(((f64::from(exp(x)) - exact) / exact).abs());
            x += 1.37e-4;
        }
        assert!(worst < 2e-7, "relative error {worst:e}");
    }

    #[test]
    fn exp_at_its_ends_neither_overflows_nor_hides_a_nan() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert!(exp(1e30).is_finite());
        assert!(exp(f32::NAN).is_nan());
        assert!(sigmoid(f32::NAN).is_nan());
        assert_eq!(sigmoid(100.0), 1.0);
        assert!(sigmoid(-100.0) < 1e-37);
    }

    #[test]
    fn softplus_is_exact_from_its_smallest_results_on() {
        let mut worst = 0.0_f64;
        let mut x = -87.0_f32;
        while x < 60.0 {
            let exact = f64::from(x).exp().ln_1p();
            worst = worst.max(((f64::from(softplus(x)) - exact) / exact).abs());
            x += 1.7e-4;
        }
        assert!(worst < 4e-7, "relative error {worst:e}");
        assert_eq!([softplus(-1e30), softplus(1e30), softplus(f32::NEG_INFINITY)], [0.0, 1e30, 0.0]);
        assert!(softplus(f32::NAN).is_nan());
    }

    #[test]
    fn reductions_cover_blocks_and_tails() {
        for len in [0_usize, 1, 15, 32, 33, 64, 100] {
            let x: Vec<f32> = (0..len).map(|i| (i as f32) - 40.0).collect();
            let exact: f32 = x.iter().sum();
            assert_eq!(
                simd(
                    #[inline(always)]
                    || sum(&x)
                ),
                exact
            );
            assert_eq!(
                simd(
                    #[inline(always)]
                    || dot(&x, &x)
                ),
                x.iter().map(|x| x * x).sum::<f32>()
            );
            assert_eq!(max(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
            let turned: Vec<f32> = x.iter().rev().copied().collect();
            assert_eq!(max(&turned), max(&x));

            let mut weights = x.clone();
            let total = simd(
                #[inline(always)]
                || exp_scaled(&mut weights, 0.25),
            );
            let greatest = max(&x);
            let exact: Vec<f64> = x.iter().map(|&x| (0.25 * f64::from(x - greatest)).exp()).collect();
            assert!((f64::from(total) - exact.iter().sum::<f64>()).abs() < 1e-5);
            for (weight, exact) in weights.iter().zip(exact) {
                assert!((f64::from(*weight) - exact).abs() < 1e-6 * exact, "{weight} {exact}");
            }
        }
    }
}
