//! `x Wᵀ + b`.

use std::sync::Arc;

use super::norm::add_row_sums;
use crate::cuda::{
    Buffer, Cuda, Slice, SliceMut, int,
    launch_shape::LaunchShape,
    modules::Program::Elementwise,
    product::{View, Write, multiply, product},
    values::{Elements, Values},
};
use crate::ops::linear::Shape;

/// `[rows, outputs]` from `x` `[rows, inputs]` and `weight` `[outputs, inputs]`.
pub(crate) fn forward(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    weight: Elements<'_>,
    bias: Option<Slice<'_, f32>>,
    shape: Shape,
) -> Values {
    let Shape { rows, inputs, outputs, precision } = shape;
    let weight = View::new(weight, outputs, inputs).transposed();
    let mut y = product(cuda, precision, View::new(x, rows, inputs), weight);
    if let Some(bias) = bias {
        assert_eq!(bias.len(), outputs, "elements of a bias");
        let arguments = &mut [y.all_mut().into(), bias.into(), int(outputs)];
        let name = y.all().kernel(["add_bias_f32", "add_bias_bf16"]);
        cuda.launch(Elementwise, name, LaunchShape::rows(rows, outputs), arguments);
    }
    y
}

/// `x Wᵀ` as in [`forward`], but f32 in every precision: the output of a head.
pub(crate) fn head(cuda: &Arc<Cuda>, x: Elements<'_>, weight: Elements<'_>, shape: Shape) -> Buffer<f32> {
    let Shape { rows, inputs, outputs, precision } = shape;
    let mut y = Buffer::uninit(cuda, rows * outputs);
    let (x, weight) = (View::new(x, rows, inputs), View::new(weight, outputs, inputs).transposed());
    multiply(cuda, precision, y.all_mut(), Write::Set, 1.0, x, weight);
    y
}

/// `d_x = d_y W`, in a fresh buffer or added to `d_x`.
pub(crate) fn backward_input(
    cuda: &Arc<Cuda>,
    d_y: Elements<'_>,
    weight: Elements<'_>,
    shape: Shape,
    d_x: Option<Values>,
) -> Values {
    let Shape { rows, inputs, outputs, precision } = shape;
    let d_y = View::new(d_y, rows, outputs);
    let weight = View::new(weight, outputs, inputs);
    match d_x {
        None => product(cuda, precision, d_y, weight),
        Some(mut d_x) => {
            multiply(cuda, precision, d_x.all_mut(), Write::Add, 1.0, d_y, weight);
            d_x
        }
    }
}

/// `d_weight += d_yᵀ x`.
pub(crate) fn backward_weight(
    cuda: &Arc<Cuda>,
    d_y: Elements<'_>,
    x: Elements<'_>,
    shape: Shape,
    d_weight: SliceMut<'_, f32>,
) {
    let Shape { rows, inputs, outputs, precision } = shape;
    let d_y = View::new(d_y, rows, outputs).transposed();
    multiply(cuda, precision, d_weight, Write::Add, 1.0, d_y, View::new(x, rows, inputs));
}

/// `d_bias += Σ rows of d_y`.
pub(crate) fn backward_bias(cuda: &Arc<Cuda>, d_y: Elements<'_>, d_bias: SliceMut<'_, f32>) {
    add_row_sums(cuda, d_bias, d_y);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Elements as OnCpu, Precision, Workers,
        cuda::{
            testing::{PRECISIONS, device, rounded},
            values::to_bf16,
        },
        ops,
        testing::{assert_close, random, wide},
    };

    fn on_cpu(x: &[f32], weight: OnCpu<'_>, bias: Option<&[f32]>, shape: Shape) -> crate::Buffer {
        ops::linear::forward(x, ops::linear::Weight::AsItLies(weight), bias, shape, Workers::Pool)
    }

    fn check(rows: usize, inputs: usize, outputs: usize, (precision, of_values): (Precision, f64)) {
        let Some(cuda) = device() else { return };
        let shape = Shape { rows, inputs, outputs, precision };
        let (w, b) = (random(2, outputs * inputs), random(3, outputs));
        let x = rounded(precision, random(1, rows * inputs));
        let d_y = rounded(precision, random(4, rows * outputs));
        let [gx, gd] = [&x, &d_y].map(|x| Values::upload(&cuda, precision, x));
        let [gw, gb] = [&w, &b].map(|x| Buffer::upload(&cuda, x));
        let weight = OnCpu::F32(&w);
        // Values are rounded once by the product, and once by what is added to it.
        let of_values = 1e-5 + 2.0 * of_values;

        let y = forward(&cuda, gx.all(), gw.all().into(), Some(gb.all()), shape);
        assert_eq!(y.all().precision(), precision);
        let expected = on_cpu(&x, weight, Some(&b), shape);
        assert_close(&y.download().unwrap(), &wide(&expected), of_values);
        let y = head(&cuda, gx.all(), gw.all().into(), shape);
        let expected = on_cpu(&x, weight, None, shape);
        assert_close(&y.download().unwrap(), &wide(&expected), 1e-5);

        let fresh = backward_input(&cuda, gd.all(), gw.all().into(), shape, None);
        let expected = ops::linear::backward_input(&d_y, weight, shape, None);
        assert_close(&fresh.download().unwrap(), &wide(&expected), of_values);
        let twice = backward_input(&cuda, gd.all(), gw.all().into(), shape, Some(fresh));
        let doubled: Vec<f64> = expected.iter().map(|&d| 2.0 * f64::from(d)).collect();
        assert_close(&twice.download().unwrap(), &doubled, of_values);

        let mut d_weight = Buffer::upload(&cuda, &vec![1.0; w.len()]);
        backward_weight(&cuda, gd.all(), gx.all(), shape, d_weight.all_mut());
        let mut expected = vec![1.0; w.len()];
        ops::linear::backward_weight(&d_y, &x, shape, &mut expected);
        assert_close(&d_weight.download().unwrap(), &wide(&expected), 1e-5);

        let mut d_bias = Buffer::zeros(&cuda, outputs);
        backward_bias(&cuda, gd.all(), d_bias.all_mut());
        let mut expected = vec![0.0; outputs];
        ops::linear::backward_bias(&d_y, outputs, &mut expected);
        assert_close(&d_bias.download().unwrap(), &wide(&expected), 1e-5);
    }

    #[test]
    fn the_map_and_its_gradients_are_those_of_the_cpu() {
        for (rows, inputs, outputs) in [(1, 1, 1), (5, 7, 3), (40, 20, 33), (100, 3, 5), (0, 4, 2)] {
            PRECISIONS.into_iter().for_each(|precision| check(rows, inputs, outputs, precision));
        }
    }

    #[test]
    fn a_weight_in_bf16_may_be_multiplied_in_either_precision() {
        let Some(cuda) = device() else { return };
        let (rows, inputs, outputs) = (6, 10, 4);
        let (x, w) = (random(1, rows * inputs), random(2, outputs * inputs));
        let short: Vec<half::bf16> = w.iter().map(|&w| half::bf16::from_f32(w)).collect();
        let gw = to_bf16(&cuda, Buffer::upload(&cuda, &w).all());
        assert_eq!(gw.download().unwrap(), short);
        for (precision, tolerance) in PRECISIONS {
            let shape = Shape { rows, inputs, outputs, precision };
            let gx = Values::upload(&cuda, precision, &x);
            let y = forward(&cuda, gx.all(), gw.all().into(), None, shape);
            let expected = on_cpu(&x, OnCpu::Bf16(&short), None, shape);
            assert_close(&y.download().unwrap(), &wide(&expected), 1e-5 + tolerance);
        }
    }
}
