//! Root-mean-square normalisation, and sums over rows.

use std::sync::Arc;

use crate::cuda::{
    Buffer, Cuda, Slice, SliceMut, int,
    launch_shape::{LaunchShape, Parts, norm_lanes},
    long,
    modules::Program::Norm,
    values::{Elements, ElementsMut, Values},
};

fn plan(groups: usize, width: usize) -> LaunchShape {
    LaunchShape::blocks(groups.div_ceil(256 / norm_lanes(width)), 1, 256)
}

/// Most groups of a sum and its norm that get a block each: a decoding step's, which wait for memory, not for each other.
const GROUPS_BY_BLOCKS_MAX: usize = 512;

/// What a norm multiplies by: `weight + offset`.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a> {
    pub(crate) weight: Slice<'a, f32>,
    pub(crate) offset: f32,
}

/// The normalised `x`, and `1 / sqrt(mean(x²) + eps)` of each group of as many columns as there are factors.
pub(crate) fn forward(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    factors: Factors<'_>,
    eps: f32,
) -> (Values, Buffer<f32>) {
    let width = factors.weight.len();
    assert!(x.len().is_multiple_of(width), "{} elements are no groups of {width}", x.len());
    let groups = x.len() / width;
    let (mut y, mut inverse_rms) =
        (Values::uninit(cuda, x.precision(), x.len()), Buffer::uninit(cuda, groups));
    let arguments = &mut [
        y.all_mut().into(),
        inverse_rms.all_mut().into(),
        x.into(),
        factors.weight.into(),
        factors.offset.into(),
        eps.into(),
        long(groups),
        int(width),
        int(norm_lanes(width)),
    ];
    cuda.launch(Norm, x.kernel(["norm_forward_f32", "norm_forward_bf16"]), plan(groups, width), arguments);
    (y, inverse_rms)
}

/// `a + b`, and the results of [`forward`] for it, to the bit.
pub(crate) fn add_forward(
    cuda: &Arc<Cuda>,
    a: Elements<'_>,
    b: Elements<'_>,
    factors: Factors<'_>,
    eps: f32,
) -> (Values, Values, Buffer<f32>) {
    let (n, width) = (a.len(), factors.weight.len());
    assert!(b.len() == n && n.is_multiple_of(width), "{n} and {} elements in groups of {width}", b.len());
    let groups = n / width;
    let [mut sum, mut y] = [(); 2].map(|()| Values::uninit(cuda, a.precision(), n));
    let mut inverse_rms = Buffer::uninit(cuda, groups);
    let mut arguments = vec![
        y.all_mut().into(),
        sum.all_mut().into(),
        inverse_rms.all_mut().into(),
        a.into(),
        b.into(),
        factors.weight.into(),
        factors.offset.into(),
        eps.into(),
    ];
    if norm_lanes(width) == 32 && groups <= GROUPS_BY_BLOCKS_MAX {
        arguments.push(int(width));
        let name = a.kernel(["add_norm_by_blocks_f32", "add_norm_by_blocks_bf16"]);
        cuda.launch(Norm, name, LaunchShape::blocks(groups, 1, 256), &mut arguments);
    } else {
        arguments.extend([long(groups), int(width), int(norm_lanes(width))]);
        let name = a.kernel(["add_norm_f32", "add_norm_bf16"]);
        cuda.launch(Norm, name, plan(groups, width), &mut arguments);
    }
    (sum, y, inverse_rms)
}

/// Turns `d`, the gradient of the output, into that of the input, and adds that of the weight to `d_weight`.
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    inverse_rms: Slice<'_, f32>,
    factors: Factors<'_>,
    mut d: ElementsMut<'_>,
    d_weight: Option<SliceMut<'_, f32>>,
) {
    let (width, groups) = (factors.weight.len(), inverse_rms.len());
    assert_eq!((x.len(), d.len()), (groups * width, groups * width), "elements of a norm");
    if let Some(d_weight) = d_weight {
        let Parts { each, count } = Parts::of(groups);
        let mut partial = Buffer::uninit(cuda, count * width);
        let arguments = &mut [
            partial.all_mut().into(),
            d.read().into(),
            x.into(),
            inverse_rms.into(),
            long(groups),
            long(each),
            int(width),
        ];
        let name = x.kernel(["norm_weight_partial_f32", "norm_weight_partial_bf16"]);
        cuda.launch(Norm, name, LaunchShape::blocks(width.div_ceil(32), count, 256), arguments);
        add_partials(cuda, d_weight, &partial, count);
    }
    let arguments = &mut [
        d.again().into(),
        x.into(),
        inverse_rms.into(),
        factors.weight.into(),
        factors.offset.into(),
        long(groups),
        int(width),
        int(norm_lanes(width)),
    ];
    cuda.launch(Norm, x.kernel(["norm_backward_f32", "norm_backward_bf16"]), plan(groups, width), arguments);
}

/// `out += Σ rows of d`.
pub(crate) fn add_row_sums(cuda: &Arc<Cuda>, out: SliceMut<'_, f32>, d: Elements<'_>) {
    let width = out.len();
    assert!(d.len().is_multiple_of(width), "{} elements are no rows of {width}", d.len());
    let rows = d.len() / width;
    let Parts { each, count } = Parts::of(rows);
    let mut partial = Buffer::uninit(cuda, count * width);
    let arguments = &mut [partial.all_mut().into(), d.into(), long(rows), long(each), int(width)];
    let plan = LaunchShape::blocks(width.div_ceil(32), count, 256);
    cuda.launch(Norm, d.kernel(["rows_partial_f32", "rows_partial_bf16"]), plan, arguments);
    add_partials(cuda, out, &partial, count);
}

/// `out += Σ rows of partial`, of which there are `count`.
pub(crate) fn add_partials(cuda: &Arc<Cuda>, out: SliceMut<'_, f32>, partial: &Buffer<f32>, count: usize) {
    let width = out.len();
    let arguments = &mut [out.into(), partial.all().into(), int(count), int(width)];
    cuda.launch(Norm, "add_partials", LaunchShape::blocks(width.div_ceil(32), 1, 256), arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::testing::{PRECISIONS, device, rounded},
        ops, reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    const EPS: f32 = 1e-6;

    #[test]
    fn the_norm_and_its_gradients_are_those_of_the_reference() {
        let Some(cuda) = device() else { return };
        // Groups within a warp and within a block; more groups than a block holds; parts of several chunks.
        for (groups, width) in [(3, 5), (11, 32), (9, 33), (2, 300), (130, 4), (0, 8)] {
            for (precision, tolerance) in PRECISIONS {
                let (x, weight) = (rounded(precision, random(1, groups * width)), random(2, width));
                let d_out = rounded(precision, random(3, x.len()));
                let gw = Buffer::upload(&cuda, &weight);
                let factors = Factors { weight: gw.all(), offset: 1.0 };
                let [gx, mut d] = [&x, &d_out].map(|x| Values::upload(&cuda, precision, x));
                let (y, inverse_rms) = forward(&cuda, gx.all(), factors, EPS);
                let of = |x: &[f64], w: &[f64]| {
                    let w: Vec<f64> = w.iter().map(|w| 1.0 + w).collect();
                    reference::rms_norm(x, &w, f64::from(EPS))
                };
                assert_close(&y.download().unwrap(), &of(&wide(&x), &wide(&weight)), tolerance);

                let mut d_weight = Buffer::zeros(&cuda, width);
                let into = Some(d_weight.all_mut());
                backward(&cuda, gx.all(), inverse_rms.all(), factors, d.all_mut(), into);
                let (d_x, d_weight) = (d.download().unwrap(), d_weight.download().unwrap());
                let sum: f64 = d_weight.iter().map(|&d| f64::from(d)).sum();
                assert!(sum.is_finite());
                if x.len() < 400 {
                    let loss = |x: &[f64]| weighted(&d_out, &of(x, &wide(&weight)));
                    assert_gradient(&d_x, &x, loss, 1e-4 + tolerance);
                }
                // Summed in f32 from bf16 values.
                assert_gradient(&d_weight, &weight, |w| weighted(&d_out, &of(&wide(&x), w)), 1e-4);
            }
        }
    }

    #[test]
    fn a_sum_with_its_norm_has_the_bits_of_both() {
        let Some(cuda) = device() else { return };
        for (groups, width) in
            [(1, 3), (9, 64), (3, 700), (2, 1024), (515, 130), (513, 7), (2, 1030), (2, 4200), (0, 8)]
        {
            for (precision, _) in PRECISIONS {
                let [a, b] = [1, 2].map(|seed| random(seed, groups * width));
                let [a, b] = [a, b].map(|x| Values::upload(&cuda, precision, &x));
                let weight = Buffer::upload(&cuda, &random(3, width));
                let factors = Factors { weight: weight.all(), offset: 1.0 };
                let expected = crate::cuda::ops::elementwise::add(&cuda, a.all(), b.all());
                let (expected_y, expected_rms) = forward(&cuda, expected.all(), factors, EPS);
                let (sum, y, rms) = add_forward(&cuda, a.all(), b.all(), factors, EPS);
                assert_eq!(sum.download().unwrap(), expected.download().unwrap());
                assert_eq!(y.download().unwrap(), expected_y.download().unwrap());
                assert_eq!(rms.download().unwrap(), expected_rms.download().unwrap());
            }
        }
    }

    #[test]
    fn wide_groups_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        // Several steps of a warp, one of a block, several of a block.
        for (groups, width) in [(9, 700), (2, 1030), (2, 4200)] {
            for (precision, tolerance) in PRECISIONS {
                let (x, weight) = (rounded(precision, random(1, groups * width)), random(2, width));
                let d_out = rounded(precision, random(3, x.len()));
                let gw = Buffer::upload(&cuda, &weight);
                let factors = Factors { weight: gw.all(), offset: 0.0 };
                let [gx, mut d] = [&x, &d_out].map(|x| Values::upload(&cuda, precision, x));
                let (y, inverse_rms) = forward(&cuda, gx.all(), factors, EPS);
                let (expected, of_groups) = ops::norm::forward(&x, &weight, EPS);
                assert_close(&y.download().unwrap(), &wide(&expected), tolerance);
                assert_close(&inverse_rms.download().unwrap(), &wide(&of_groups), 1e-6);
                backward(&cuda, gx.all(), inverse_rms.all(), factors, d.all_mut(), None);
                let mut expected = d_out.clone();
                ops::norm::backward(&x, &of_groups, &weight, &mut expected, None);
                assert_close(&d.download().unwrap(), &wide(&expected), 1e-5 + tolerance);
            }
        }
    }

    #[test]
    fn rows_of_zeros_and_of_huge_numbers_stay_finite() {
        let Some(cuda) = device() else { return };
        let x = [vec![0.0; 40], vec![1e18; 40]].concat();
        let gw = Buffer::upload(&cuda, &[1.0; 40]);
        let factors = Factors { weight: gw.all(), offset: 0.0 };
        for (precision, tolerance) in PRECISIONS {
            let gx = Values::upload(&cuda, precision, &x);
            let (y, _) = forward(&cuda, gx.all(), factors, EPS);
            let y = y.download().unwrap();
            assert!(y[..40].iter().all(|&y| y == 0.0));
            assert_close(&y[40..], &[1.0; 40], tolerance);
        }
    }

    #[test]
    fn row_sums_cover_all_rows_and_are_added() {
        let Some(cuda) = device() else { return };
        for (rows, width) in [(1, 1), (200, 33), (513, 5), (0, 4)] {
            for (precision, _) in PRECISIONS {
                let d = rounded(precision, random(1, rows * width));
                let mut out = Buffer::upload(&cuda, &vec![1.0; width]);
                add_row_sums(&cuda, out.all_mut(), Values::upload(&cuda, precision, &d).all());
                let sum =
                    |c: usize| 1.0 + d.iter().skip(c).step_by(width).map(|&d| f64::from(d)).sum::<f64>();
                let expected: Vec<f64> = (0..width).map(sum).collect();
                assert_close(&out.download().unwrap(), &expected, 1e-5);
            }
        }
    }
}
