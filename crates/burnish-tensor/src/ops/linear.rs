//! `x Wᵀ + b`.

use rayon::prelude::*;

use crate::{
    Buffer, Elements, Precision,
    gemm::{Panels, View, ViewMut, Workers, Write, multiply_in, multiply_packed, product, rows},
    parallel,
    vector::{self, simd},
};

/// Sizes of a linear map of `rows` vectors, and how to compute it.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) precision: Precision,
}

/// The weight of a forward pass, `[outputs, inputs]`.
#[derive(Clone, Copy)]
pub(crate) enum Weight<'a> {
    /// Packed during the product: for many rows.
    AsItLies(Elements<'a>),
    /// Packed beforehand.
    Packed(&'a Panels),
    /// Not packed; each row of the weight is read once: for few rows.
    ReadOnce(Elements<'a>),
}

/// `[rows, outputs]` from `x` `[rows, inputs]`.
pub(crate) fn forward(
    x: &[f32],
    weight: Weight<'_>,
    bias: Option<&[f32]>,
    shape: Shape,
    workers: Workers,
) -> Buffer {
    let Shape { rows, inputs, outputs, precision } = shape;
    let view = View::new(x, rows, inputs);
    let mut y = match weight {
        Weight::AsItLies(weight) => product(precision, view, View::new(weight, outputs, inputs).transposed()),
        Weight::ReadOnce(weight) => rows::product(precision, x, weight, inputs, workers),
        Weight::Packed(panels) => {
            let mut y = Buffer::scratch(rows * outputs);
            multiply_packed(
                ViewMut::new(&mut y, rows, outputs),
                Write::Set,
                1.0,
                view,
                panels.all(),
                workers,
            );
            y
        }
    };
    add_bias(&mut y, bias, outputs);
    y
}

fn add_bias(y: &mut [f32], bias: Option<&[f32]>, outputs: usize) {
    if let Some(bias) = bias {
        parallel::for_rows(y, outputs, |_, y| {
            simd(
                #[inline(always)]
                || {
                    for row in y.chunks_exact_mut(outputs) {
                        vector::add(row, bias);
                    }
                },
            );
        });
    }
}

/// `d_x = d_y W`, in a fresh buffer or added to `d_x`.
pub(crate) fn backward_input(d_y: &[f32], weight: Elements<'_>, shape: Shape, d_x: Option<Buffer>) -> Buffer {
    let Shape { rows, inputs, outputs, precision } = shape;
    let d_y = View::new(d_y, rows, outputs);
    let weight = View::new(weight, outputs, inputs);
    match d_x {
        None => product(precision, d_y, weight),
        Some(mut d_x) => {
            multiply_in(
                precision,
                ViewMut::new(&mut d_x, rows, inputs),
                Write::Add,
                1.0,
                d_y,
                weight,
                Workers::Pool,
            );
            d_x
        }
    }
}

/// `d_weight += d_yᵀ x`.
pub(crate) fn backward_weight(d_y: &[f32], x: &[f32], shape: Shape, d_weight: &mut [f32]) {
    let Shape { rows, inputs, outputs, precision } = shape;
    let d_y = View::new(d_y, rows, outputs).transposed();
    let out = ViewMut::new(d_weight, outputs, inputs);
    multiply_in(precision, out, Write::Add, 1.0, d_y, View::new(x, rows, inputs), Workers::Pool);
}

/// `d_bias += Σ rows of d_y`.
pub(crate) fn backward_bias(d_y: &[f32], outputs: usize, d_bias: &mut [f32]) {
    let partial_sums: Vec<Vec<f32>> = d_y
        .par_chunks(parallel::task_rows(outputs) * outputs)
        .map(|d_y| {
            let mut sum = vec![0.0; outputs];
            simd(
                #[inline(always)]
                || {
                    for row in d_y.chunks_exact(outputs) {
                        vector::add(&mut sum, row);
                    }
                },
            );
            sum
        })
        .collect();
    partial_sums.iter().for_each(|sum| vector::add(d_bias, sum));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_map_and_its_gradients_are_those_of_the_reference(
            rows in 1_usize..40, inputs in 1_usize..20, outputs in 1_usize..20, has_bias: bool,
        ) {
            let shape = Shape { rows, inputs, outputs, precision: Precision::F32 };
            let x = random(1, rows * inputs);
            let weight = random(2, outputs * inputs);
            let bias = has_bias.then(|| random(3, outputs));
            let d_y = random(4, rows * outputs);
            let (wide_x, wide_weight) = (wide(&x), wide(&weight));
            let wide_bias = bias.as_deref().map(wide);

            let y = forward(&x, Weight::AsItLies(Elements::F32(&weight)), bias.as_deref(), shape, Workers::Pool);
            assert_close(&y, &reference::linear(&wide_x, &wide_weight, wide_bias.as_deref(), inputs), 1e-5);

            let fresh = backward_input(&d_y, Elements::F32(&weight), shape, None);
            assert_gradient(&fresh, &x, |x| weighted(&d_y, &reference::linear(x, &wide_weight, None, inputs)), 1e-5);
            let ones = vec![1.0; x.len()].into();
            let added = backward_input(&d_y, Elements::F32(&weight), shape, Some(ones));
            let one_more: Vec<f64> = fresh.iter().map(|&d| f64::from(d) + 1.0).collect();
            assert_close(&added, &one_more, 1e-6);

            let mut d_weight = vec![0.0; weight.len()];
            backward_weight(&d_y, &x, shape, &mut d_weight);
            let of_weight = |weight: &[f64]| weighted(&d_y, &reference::linear(&wide_x, weight, None, inputs));
            assert_gradient(&d_weight, &weight, of_weight, 1e-5);

            if let Some(bias) = bias {
                let mut d_bias = vec![0.0; outputs];
                backward_bias(&d_y, outputs, &mut d_bias);
                let of_bias =
                    |bias: &[f64]| weighted(&d_y, &reference::linear(&wide_x, &wide_weight, Some(bias), inputs));
                assert_gradient(&d_bias, &bias, of_bias, 1e-5);
            }
        }
    }
}
