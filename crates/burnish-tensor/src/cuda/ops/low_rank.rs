//! The low-rank term of an adapted linear map: `y += scale · (drop(x) Aᵀ) Bᵀ`, with `A` `[rank, inputs]` and `B`
//! `[outputs, rank]`; and dropout.

use std::sync::Arc;

use crate::{
    Precision,
    cuda::{
        Cuda, Slice, SliceMut, int,
        launch_shape::LaunchShape,
        modules::Program::Elementwise,
        product::{View, Write, multiply, product},
        values::{Elements, ElementsMut, Values},
    },
    ops::low_rank::mix,
};

/// The term's operands: `x` `[rows, inputs]` after dropout, and both factors.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) x: Elements<'a>,
    pub(crate) rows: usize,
    pub(crate) a: Elements<'a>,
    pub(crate) b: Elements<'a>,
    pub(crate) rank: usize,
    pub(crate) scale: f32,
    pub(crate) precision: Precision,
}

impl<'a> Inputs<'a> {
    fn inputs(&self) -> usize {
        self.a.len() / self.rank
    }

    fn outputs(&self) -> usize {
        self.b.len() / self.rank
    }

    fn x(&self) -> View<'a> {
        View::new(self.x, self.rows, self.inputs())
    }

    fn a(&self) -> View<'a> {
        View::new(self.a, self.rank, self.inputs())
    }

    fn b(&self) -> View<'a> {
        View::new(self.b, self.outputs(), self.rank)
    }
}

/// Adds the term to `y` `[rows, outputs]`; returns `drop(x) Aᵀ` `[rows, rank]`.
pub(crate) fn forward(cuda: &Arc<Cuda>, inputs: Inputs<'_>, y: ElementsMut<'_>) -> Values {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let inner = product(cuda, precision, inputs.x(), inputs.a().transposed());
    let inner_view = View::new(inner.all(), rows, rank);
    multiply(cuda, precision, y, Write::Add, scale, inner_view, inputs.b().transposed());
    inner
}

/// `scale · x Aᵀ`, `[rows, rank]`: for a head, whose second factor is applied with the logits.
pub(crate) fn scaled_inner(cuda: &Arc<Cuda>, inputs: Inputs<'_>) -> Values {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let mut inner = Values::uninit(cuda, precision, rows * rank);
    multiply(cuda, precision, inner.all_mut(), Write::Set, scale, inputs.x(), inputs.a().transposed());
    inner
}

/// Backward of [`scaled_inner`]: adds to `d_x` and `d_a`.
pub(crate) fn scaled_inner_backward(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    d_inner: Elements<'_>,
    d_x: ElementsMut<'_>,
    d_a: Option<SliceMut<'_, f32>>,
) {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let d_inner = View::new(d_inner, rows, rank);
    multiply(cuda, precision, d_x, Write::Add, scale, d_inner, inputs.a());
    if let Some(d_a) = d_a {
        multiply(cuda, precision, d_a, Write::Add, scale, d_inner.transposed(), inputs.x());
    }
}

/// The gradient of `drop(x)`; adds those of the factors to `d_a` and `d_b`. `inner` is the result of [`forward`].
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    inner: Elements<'_>,
    d_y: Elements<'_>,
    d_a: Option<SliceMut<'_, f32>>,
    d_b: Option<SliceMut<'_, f32>>,
) -> Values {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let d_y = View::new(d_y, rows, inputs.outputs());
    let mut d_inner = Values::uninit(cuda, precision, rows * rank);
    multiply(cuda, precision, d_inner.all_mut(), Write::Set, scale, d_y, inputs.b());
    let d_inner = View::new(d_inner.all(), rows, rank);
    if let Some(d_b) = d_b {
        let inner = View::new(inner, rows, rank);
        multiply(cuda, precision, d_b, Write::Add, scale, d_y.transposed(), inner);
    }
    if let Some(d_a) = d_a {
        multiply(cuda, precision, d_a, Write::Add, 1.0, d_inner.transposed(), inputs.x());
    }
    product(cuda, precision, d_inner, inputs.a())
}

/// Dropout exactly as in `crate::ops::low_rank::Dropout`, element by element.
#[derive(Clone, Copy)]
pub(crate) struct Dropout<'a> {
    /// Share of elements that are dropped.
    pub(crate) rate: f32,
    /// A key per row, `[rows]`.
    pub(crate) keys: Slice<'a, u64>,
    /// Which of the model's maps it belongs to.
    pub(crate) site: u64,
}

impl Dropout<'_> {
    /// Sets dropped elements of `x` `[keys.len(), cols]` to 0 and divides the others by `1 - rate`.
    pub(crate) fn apply(self, cuda: &Arc<Cuda>, x: ElementsMut<'_>) {
        let rows = self.keys.len();
        let cols = x.len() / rows.max(1);
        assert_eq!(x.len(), rows * cols, "one key for each row");
        let keep = 1.0 / (1.0 - self.rate);
        let bound = (f64::from(self.rate) * 4_294_967_296.0) as u32;
        let site = mix(self.site.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let name = x.read().kernel(["dropout_f32", "dropout_bf16"]);
        let arguments = &mut [x.into(), self.keys.into(), site.into(), bound.into(), keep.into(), int(cols)];
        cuda.launch(Elementwise, name, LaunchShape::rows(rows, cols), arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::{
            Buffer,
            testing::{PRECISIONS, device, rounded},
        },
        ops,
        testing::{assert_close, random, wide},
    };

    #[test]
    fn the_term_and_its_gradients_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        for (rows, inputs, outputs, rank) in [(1, 1, 1, 1), (9, 5, 7, 3), (0, 3, 3, 2)] {
            for (precision, of_values) in PRECISIONS {
                let random = |seed, len| rounded(precision, random(seed, len));
                let [x, a, b] =
                    [(1, rows * inputs), (2, rank * inputs), (3, outputs * rank)].map(|(s, n)| random(s, n));
                let (before, d_y) = (random(4, rows * outputs), random(5, rows * outputs));
                let [gx, gd, mut y] = [&x, &d_y, &before].map(|x| Values::upload(&cuda, precision, x));
                let [ga, gb] = [&a, &b].map(|x| Buffer::upload(&cuda, x));
                let scale = 0.5;
                let cpu = ops::low_rank::Inputs { x: &x, rows, a: &a, b: &b, rank, scale, precision };
                let gpu = Inputs {
                    x: gx.all(),
                    rows,
                    a: ga.all().into(),
                    b: gb.all().into(),
                    rank,
                    scale,
                    precision,
                };
                // Values between two products are rounded as on the CPU, except for the last bit.
                let close = |gpu: &Values, cpu: &[f32]| {
                    assert_eq!(gpu.all().precision(), precision);
                    assert_close(&gpu.download().unwrap(), &wide(cpu), 1e-5 + 2.0 * of_values);
                };
                let close_wide = |gpu: &Buffer<f32>, cpu: &[f32]| {
                    assert_close(&gpu.download().unwrap(), &wide(cpu), 1e-5 + of_values);
                };

                let inner = forward(&cuda, gpu, y.all_mut());
                let mut expected = before.clone();
                let expected_inner = ops::low_rank::forward(cpu, &mut expected);
                close(&y, &expected);
                close(&inner, &expected_inner);

                let (mut d_a, mut d_b) = (Buffer::zeros(&cuda, a.len()), Buffer::zeros(&cuda, b.len()));
                let into = (Some(d_a.all_mut()), Some(d_b.all_mut()));
                let d_x = backward(&cuda, gpu, inner.all(), gd.all(), into.0, into.1);
                let (mut cpu_a, mut cpu_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
                let into = (Some(&mut *cpu_a), Some(&mut *cpu_b));
                let cpu_x = ops::low_rank::backward(cpu, &expected_inner, &d_y, into.0, into.1);
                close(&d_x, &cpu_x);
                close_wide(&d_a, &cpu_a);
                close_wide(&d_b, &cpu_b);

                close(&scaled_inner(&cuda, gpu), &ops::low_rank::scaled_inner(cpu));
                let d_inner = random(6, rows * rank);
                let (mut d_x, mut d_a) =
                    (Values::zeros(&cuda, precision, x.len()), Buffer::zeros(&cuda, a.len()));
                let on_gpu = Values::upload(&cuda, precision, &d_inner);
                let into = Some(d_a.all_mut());
                scaled_inner_backward(&cuda, gpu, on_gpu.all(), d_x.all_mut(), into);
                let (mut cpu_x, mut cpu_a) = (vec![0.0; x.len()], vec![0.0; a.len()]);
                ops::low_rank::scaled_inner_backward(cpu, &d_inner, &mut cpu_x, Some(&mut cpu_a));
                close(&d_x, &cpu_x);
                close_wide(&d_a, &cpu_a);
            }
        }
    }

    #[test]
    fn dropout_drops_what_the_cpu_drops() {
        let Some(cuda) = device() else { return };
        for (rows, cols, rate, site) in [(6, 501, 0.3, 1), (1, 1, 0.99, u64::MAX), (3, 40, 0.0, 7)] {
            let keys: Vec<u64> = (0..rows as u64).map(|row| row.wrapping_mul(u64::MAX / 3)).collect();
            let on_gpu = Buffer::upload(&cuda, &keys);
            for (precision, _) in PRECISIONS {
                let x = rounded(precision, random(1, rows * cols));
                let mut expected = x.clone();
                ops::low_rank::Dropout { rate, keys: &keys, site }.apply(&mut expected);
                let mut y = Values::upload(&cuda, precision, &x);
                Dropout { rate, keys: on_gpu.all(), site }.apply(&cuda, y.all_mut());
                assert_eq!(y.download().unwrap(), rounded(precision, expected));
            }
        }
    }
}
