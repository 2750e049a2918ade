//! The small operations of linear attention and of latent steps: gates, unit heads, decays, columns and rows.

use std::sync::Arc;

use crate::{
    cuda::{
        Argument, Buffer, Cuda, Slice, SliceMut, int,
        launch_shape::LaunchShape,
        long,
        modules::Program::LinearAttention,
        ops::norm,
        values::{Elements, Values, to_bf16},
    },
    ops::{columns::Columns, put_rows::PutRows},
};

/// `σ(x)`.
pub(crate) fn sigmoid(cuda: &Arc<Cuda>, x: Elements<'_>) -> Values {
    let (mut out, n) = (Values::uninit(cuda, x.precision(), x.len()), x.len());
    let arguments = &mut [out.all_mut().into(), x.into(), long(n)];
    cuda.launch(
        LinearAttention,
        x.kernel(["sigmoid_f32", "sigmoid_bf16"]),
        LaunchShape::elements(n),
        arguments,
    );
    out
}

pub(crate) fn sigmoid_backward(cuda: &Arc<Cuda>, x: Elements<'_>, d: Elements<'_>) -> Values {
    let (mut d_x, n) = (Values::uninit(cuda, x.precision(), x.len()), x.len());
    assert_eq!(d.len(), n, "one derivative for each element");
    let arguments = &mut [d_x.all_mut().into(), x.into(), d.into(), long(n)];
    let name = x.kernel(["sigmoid_backward_f32", "sigmoid_backward_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::elements(n), arguments);
    d_x
}

/// What multiplies: `σ(gate)`, or its root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate {
    Sigmoid,
    Root,
}

/// `x ⊙ σ(gate)` or `x ⊙ √σ(gate)`.
pub(crate) fn gated(cuda: &Arc<Cuda>, gate: Gate, [x, by]: [Elements<'_>; 2]) -> Values {
    let (mut out, n) = (Values::uninit(cuda, x.precision(), x.len()), x.len());
    assert_eq!(by.len(), n, "one gate for each element");
    let name = x.kernel(match gate {
        Gate::Sigmoid => ["sigmoid_gate_f32", "sigmoid_gate_bf16"],
        Gate::Root => ["root_gate_f32", "root_gate_bf16"],
    });
    let arguments = &mut [out.all_mut().into(), x.into(), by.into(), long(n)];
    cuda.launch(LinearAttention, name, LaunchShape::elements(n), arguments);
    out
}

/// The gradients of `x` and of the gate.
pub(crate) fn gated_backward(
    cuda: &Arc<Cuda>,
    gate: Gate,
    [x, by]: [Elements<'_>; 2],
    d: Elements<'_>,
) -> [Values; 2] {
    let n = x.len();
    assert_eq!((by.len(), d.len()), (n, n), "one gate and one derivative for each element");
    let [mut d_x, mut d_by] = [(); 2].map(|()| Values::uninit(cuda, x.precision(), n));
    let name = x.kernel(match gate {
        Gate::Sigmoid => ["sigmoid_gate_backward_f32", "sigmoid_gate_backward_bf16"],
        Gate::Root => ["root_gate_backward_f32", "root_gate_backward_bf16"],
    });
    let arguments =
        &mut [d_x.all_mut().into(), d_by.all_mut().into(), x.into(), by.into(), d.into(), long(n)];
    cuda.launch(LinearAttention, name, LaunchShape::elements(n), arguments);
    [d_x, d_by]
}

/// See [`crate::ops::columns`].
pub(crate) fn columns(cuda: &Arc<Cuda>, x: Elements<'_>, columns: Columns) -> Values {
    let Columns { period, start, width } = columns;
    let periods = x.len() / period;
    let mut out = Values::uninit(cuda, x.precision(), periods * width);
    let arguments = &mut [out.all_mut().into(), x.into(), int(period), int(start), int(width)];
    let name = x.kernel(["columns_f32", "columns_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::rows(periods, width), arguments);
    out
}

/// Adds the gradient of picked columns to that of the whole.
pub(crate) fn columns_backward(cuda: &Arc<Cuda>, d_x: &mut Values, d: Elements<'_>, columns: Columns) {
    let Columns { period, start, width } = columns;
    let periods = d.len() / width;
    assert_eq!(d_x.len(), periods * period, "elements of a gradient");
    let arguments = &mut [d_x.all_mut().into(), d.into(), int(period), int(start), int(width)];
    let name = d.kernel(["add_columns_f32", "add_columns_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::rows(periods, width), arguments);
}

/// `x` with rows of `new`, or zeros, at the rows that are replaced.
pub(crate) fn put_rows(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    new: Option<Elements<'_>>,
    put: &PutRows,
) -> Values {
    let rows = x.len() / put.cols;
    let mut from = vec![-1_i32; rows];
    for (at, &row) in put.rows.iter().enumerate() {
        from[row as usize] = at as i32;
    }
    let mut out = Values::uninit(cuda, x.precision(), x.len());
    let none: Argument = match x {
        Elements::F32(_) => Argument::null::<f32>(),
        Elements::Bf16(_) => Argument::null::<half::bf16>(),
    };
    let from = Buffer::upload(cuda, &from);
    let new = new.map_or(none, Argument::from);
    let arguments = &mut [out.all_mut().into(), x.into(), new, from.all().into(), int(put.cols)];
    let name = x.kernel(["put_rows_f32", "put_rows_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::rows(rows, put.cols), arguments);
    out
}

/// See [`crate::ops::unit_heads`].
pub(crate) fn unit_heads(cuda: &Arc<Cuda>, x: Elements<'_>, head_dim: usize, scale: f32) -> Values {
    let (mut y, heads) = (Values::uninit(cuda, x.precision(), x.len()), x.len() / head_dim);
    let arguments = &mut [y.all_mut().into(), x.into(), long(heads), int(head_dim), scale.into()];
    let name = x.kernel(["unit_heads_f32", "unit_heads_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::blocks(heads.div_ceil(8), 1, 256), arguments);
    y
}

pub(crate) fn unit_heads_backward(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    head_dim: usize,
    scale: f32,
    d: Elements<'_>,
) -> Values {
    assert_eq!(d.len(), x.len(), "one derivative for each element");
    let (mut d_x, heads) = (Values::uninit(cuda, x.precision(), x.len()), x.len() / head_dim);
    let arguments = &mut [d_x.all_mut().into(), x.into(), d.into(), long(heads), int(head_dim), scale.into()];
    let name = x.kernel(["unit_heads_backward_f32", "unit_heads_backward_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::blocks(heads.div_ceil(8), 1, 256), arguments);
    d_x
}

/// The parameters of a decay; see [`crate::ops::log_decay`].
#[derive(Clone, Copy)]
pub(crate) struct Rates<'a> {
    pub(crate) a_log: Slice<'a, f32>,
    pub(crate) dt_bias: Slice<'a, f32>,
}

impl Rates<'_> {
    /// Rows of `x`, and columns of a head.
    fn sizes(&self, x: Elements<'_>) -> (usize, usize) {
        (x.len() / self.dt_bias.len(), self.dt_bias.len() / self.a_log.len())
    }
}

/// Logarithms of decays, in f32.
pub(crate) fn log_decay(cuda: &Arc<Cuda>, x: Elements<'_>, rates: Rates<'_>) -> Buffer<f32> {
    let ((rows, channels), cols) = (rates.sizes(x), rates.dt_bias.len());
    let mut out = Buffer::uninit(cuda, x.len());
    let arguments = &mut [
        out.all_mut().into(),
        x.into(),
        rates.a_log.into(),
        rates.dt_bias.into(),
        int(cols),
        int(channels),
    ];
    let name = x.kernel(["log_decay_f32", "log_decay_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::rows(rows, cols), arguments);
    out
}

/// The gradient of `x`; adds those of the parameters.
pub(crate) fn log_decay_backward(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    rates: Rates<'_>,
    d: Slice<'_, f32>,
    [d_a_log, d_dt_bias]: [Option<SliceMut<'_, f32>>; 2],
) -> Values {
    let ((rows, channels), cols) = (rates.sizes(x), rates.dt_bias.len());
    assert_eq!(d.len(), x.len(), "one derivative for each element");
    let [mut d_x, mut d_a] = [(); 2].map(|()| Buffer::<f32>::uninit(cuda, x.len()));
    let arguments = &mut [
        d_x.all_mut().into(),
        d_a.all_mut().into(),
        x.into(),
        rates.a_log.into(),
        rates.dt_bias.into(),
        d.into(),
        int(cols),
        int(channels),
    ];
    let name = x.kernel(["log_decay_backward_f32", "log_decay_backward_bf16"]);
    cuda.launch(LinearAttention, name, LaunchShape::rows(rows, cols), arguments);
    if let Some(d_dt_bias) = d_dt_bias {
        norm::add_row_sums(cuda, d_dt_bias, d_x.all().into());
    }
    if let Some(d_a_log) = d_a_log {
        let mut sums = Buffer::zeros(cuda, cols);
        norm::add_row_sums(cuda, sums.all_mut(), d_a.all().into());
        let heads = d_a_log.len();
        let arguments = &mut [d_a_log.into(), sums.all().into(), int(heads), int(channels)];
        cuda.launch(LinearAttention, "add_neighbours", LaunchShape::elements(heads), arguments);
    }
    match x {
        Elements::F32(_) => d_x.into(),
        Elements::Bf16(_) => to_bf16(cuda, d_x.all()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Precision,
        cuda::testing::{PRECISIONS, TestDevice, device, rounded},
        ops,
        testing::{assert_close, random, wide},
    };

    /// Calls `check` in both precisions with a function that makes numbers which are exact in it.
    fn each(check: impl Fn(&TestDevice, Precision, f64, &dyn Fn(u64, usize) -> Vec<f32>)) {
        let Some(cuda) = device() else { return };
        for (precision, tolerance) in PRECISIONS {
            let numbers = |seed, len| rounded(precision, random(seed, len).iter().map(|x| 4.0 * x).collect());
            check(&cuda, precision, 1e-5 + tolerance, &numbers);
        }
    }

    #[track_caller]
    fn assert_same(ours: &Values, expected: &[f32], tolerance: f64) {
        assert_close(&ours.download().unwrap(), &wide(expected), tolerance);
    }

    #[test]
    fn gates_and_their_gradients_are_those_of_the_cpu() {
        each(|cuda, precision, tolerance, numbers| {
            for n in [0, 1, 701] {
                let [x, mut gate, d] = [1, 2, 3].map(|seed| numbers(seed, n));
                gate.iter_mut().zip([-104.0, -1e4, 200.0]).for_each(|(gate, far)| *gate = far);
                let gate = rounded(precision, gate);
                let [gx, gg, gd] = [&x, &gate, &d].map(|x| Values::upload(cuda, precision, x));
                assert_same(&sigmoid(cuda, gg.all()), &ops::sigmoid::forward(&gate), tolerance);
                let ours = sigmoid_backward(cuda, gg.all(), gd.all());
                assert_same(&ours, &ops::sigmoid::backward(&gate, &d), tolerance);
                let both = [gx.all(), gg.all()];
                let expected = [ops::sigmoid::gate_forward(&x, &gate), ops::root_gate::forward(&x, &gate)];
                let d_expected =
                    [ops::sigmoid::gate_backward(&x, &gate, &d), ops::root_gate::backward(&x, &gate, &d)];
                for (kind, (expected, d_expected)) in
                    [Gate::Sigmoid, Gate::Root].into_iter().zip(expected.iter().zip(&d_expected))
                {
                    assert_same(&gated(cuda, kind, both), expected, tolerance);
                    let ours = gated_backward(cuda, kind, both, gd.all());
                    ours.iter().zip(d_expected).for_each(|(ours, d)| assert_same(ours, d, tolerance));
                }
            }
        });
    }

    #[test]
    fn columns_and_rows_go_where_the_cpu_puts_them() {
        each(|cuda, precision, tolerance, numbers| {
            for (periods, columns) in [
                (0, Columns { period: 3, start: 1, width: 1 }),
                (5, Columns { period: 3, start: 2, width: 1 }),
                (3, Columns { period: 700, start: 0, width: 333 }),
            ] {
                let x = numbers(1, periods * columns.period);
                let d = numbers(2, periods * columns.width);
                let [gx, gd] = [&x, &d].map(|x| Values::upload(cuda, precision, x));
                assert_same(
                    &self::columns(cuda, gx.all(), columns),
                    &ops::columns::forward(&x, columns),
                    0.0,
                );
                let mut d_x = gx.clone();
                columns_backward(cuda, &mut d_x, gd.all(), columns);
                let expected = ops::columns::backward(&d, columns);
                let expected: Vec<f32> = expected.iter().zip(&x).map(|(d, x)| d + x).collect();
                assert_same(&d_x, &expected, tolerance);
            }
            let put = PutRows { rows: vec![4, 0], cols: 300 };
            let (x, new) = (numbers(1, 5 * 300), numbers(2, 2 * 300));
            let [gx, gn] = [&x, &new].map(|x| Values::upload(cuda, precision, x));
            let ours = put_rows(cuda, gx.all(), Some(gn.all()), &put);
            assert_same(&ours, &ops::put_rows::forward(&x, &new, &put), 0.0);
            let [expected, _] = ops::put_rows::backward(&x, &put);
            assert_same(&put_rows(cuda, gx.all(), None, &put), &expected, 0.0);
        });
    }

    #[test]
    fn unit_heads_are_those_of_the_cpu() {
        each(|cuda, precision, tolerance, numbers| {
            for (heads, head_dim) in [(0, 4), (11, 5), (3, 128)] {
                let [mut x, d] = [1, 2].map(|seed| numbers(seed, heads * head_dim));
                // A head without length.
                x.iter_mut().take(head_dim).for_each(|x| *x = 0.0);
                let [gx, gd] = [&x, &d].map(|x| Values::upload(cuda, precision, x));
                let ours = unit_heads(cuda, gx.all(), head_dim, 0.5);
                assert_same(&ours, &ops::unit_heads::forward(&x, head_dim, 0.5), tolerance);
                let ours = unit_heads_backward(cuda, gx.all(), head_dim, 0.5, gd.all());
                assert_same(&ours, &ops::unit_heads::backward(&x, head_dim, 0.5, &d), tolerance);
            }
        });
    }

    #[test]
    fn decays_and_the_gradients_of_their_rates_are_those_of_the_cpu() {
        each(|cuda, precision, tolerance, numbers| {
            for (rows, heads, channels) in [(0, 2, 1), (150, 3, 1), (70, 2, 130)] {
                let cols = heads * channels;
                let mut x = numbers(1, rows * cols);
                x.iter_mut().zip([100.0, -100.0]).for_each(|(x, far)| *x = far);
                let [a_log, dt_bias, d] =
                    [(2, heads), (3, cols), (4, x.len())].map(|(seed, len)| random(seed, len));
                let [ga, gb, gd] = [&a_log, &dt_bias, &d].map(|x| Buffer::upload(cuda, x));
                let gx = Values::upload(cuda, precision, &x);
                let rates = Rates { a_log: ga.all(), dt_bias: gb.all() };
                let of_host = ops::log_decay::Rates { a_log: &a_log, dt_bias: &dt_bias };
                let ours = log_decay(cuda, gx.all(), rates).download().unwrap();
                assert_close(&ours, &wide(&ops::log_decay::forward(&x, of_host)), 1e-5);

                let (mut d_a, mut d_b) = (vec![1.0; heads], vec![1.0; cols]);
                let [mut ga, mut gb] = [&d_a, &d_b].map(|x| Buffer::upload(cuda, x));
                let into = [Some(ga.all_mut()), Some(gb.all_mut())];
                let ours = log_decay_backward(cuda, gx.all(), rates, gd.all(), into);
                let expected = ops::log_decay::backward(&x, of_host, &d, Some(&mut d_a), Some(&mut d_b));
                assert_same(&ours, &expected, tolerance);
                assert_close(&ga.download().unwrap(), &wide(&d_a), 1e-4);
                assert_close(&gb.download().unwrap(), &wide(&d_b), 1e-4);
            }
        });
    }
}
