//! The low-rank term of an adapted linear map (LoRA; Hu et al. 2021, arXiv:2106.09685):
//! `y += scale · (drop(x) Aᵀ) Bᵀ`, with `A` `[rank, inputs]` and `B` `[outputs, rank]`.

use crate::{
    Buffer, Precision,
    gemm::{View, ViewMut, Workers, Write, multiply_in, product},
    parallel,
};

/// The term's operands: `x` `[rows, inputs]` after dropout, and both factors.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) rank: usize,
    pub(crate) scale: f32,
    pub(crate) precision: Precision,
}

impl<'a> Inputs<'a> {
    fn x(&self) -> View<'a> {
        View::new(self.x, self.rows, self.a.len() / self.rank)
    }

    fn a(&self) -> View<'a> {
        View::new(self.a, self.rank, self.a.len() / self.rank)
    }

    fn b(&self) -> View<'a> {
        View::new(self.b, self.b.len() / self.rank, self.rank)
    }
}

/// Adds the term to `y` `[rows, outputs]`; returns `drop(x) Aᵀ` `[rows, rank]`.
pub(crate) fn forward(inputs: Inputs<'_>, y: &mut [f32]) -> Buffer {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let inner = product(precision, inputs.x(), inputs.a().transposed());
    let outputs = inputs.b.len() / rank;
    let out = ViewMut::new(y, rows, outputs);
    let inner_view = View::new(&*inner, rows, rank);
    multiply_in(precision, out, Write::Add, scale, inner_view, inputs.b().transposed(), Workers::Pool);
    inner
}

/// `scale · x Aᵀ`, `[rows, rank]`: for a head, whose second factor is applied with the logits.
pub(crate) fn scaled_inner(inputs: Inputs<'_>) -> Buffer {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let mut inner = Buffer::scratch(rows * rank);
    let out = ViewMut::new(&mut inner, rows, rank);
    multiply_in(precision, out, Write::Set, scale, inputs.x(), inputs.a().transposed(), Workers::Pool);
    inner
}

/// Backward of [`scaled_inner`]: adds to `d_x` and `d_a`.
pub(crate) fn scaled_inner_backward(
    inputs: Inputs<'_>,
    d_inner: &[f32],
    d_x: &mut [f32],
    d_a: Option<&mut [f32]>,
) {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let cols = inputs.a.len() / rank;
    let d_inner = View::new(d_inner, rows, rank);
    multiply_in(
        precision,
        ViewMut::new(d_x, rows, cols),
        Write::Add,
        scale,
        d_inner,
        inputs.a(),
        Workers::Pool,
    );
    if let Some(d_a) = d_a {
        let out = ViewMut::new(d_a, rank, cols);
        multiply_in(precision, out, Write::Add, scale, d_inner.transposed(), inputs.x(), Workers::Pool);
    }
}

/// The gradient of `drop(x)`; adds those of the factors to `d_a` and `d_b`. `inner` is the result of [`forward`].
pub(crate) fn backward(
    inputs: Inputs<'_>,
    inner: &[f32],
    d_y: &[f32],
    d_a: Option<&mut [f32]>,
    d_b: Option<&mut [f32]>,
) -> Buffer {
    let Inputs { rows, rank, scale, precision, .. } = inputs;
    let (a, b) = (inputs.a(), inputs.b());
    let outputs = inputs.b.len() / rank;
    let d_y = View::new(d_y, rows, outputs);
    let mut d_inner = Buffer::scratch(rows * rank);
    multiply_in(precision, ViewMut::new(&mut d_inner, rows, rank), Write::Set, scale, d_y, b, Workers::Pool);
    let d_inner = View::new(&*d_inner, rows, rank);
    if let Some(d_b) = d_b {
        let inner = View::new(inner, rows, rank);
        multiply_in(
            precision,
            ViewMut::new(d_b, outputs, rank),
            Write::Add,
            scale,
            d_y.transposed(),
            inner,
            Workers::Pool,
        );
    }
    if let Some(d_a) = d_a {
        let out = ViewMut::new(d_a, rank, inputs.a.len() / rank);
        multiply_in(precision, out, Write::Add, 1.0, d_inner.transposed(), inputs.x(), Workers::Pool);
    }
    product(precision, d_inner, a)
}

/// Dropout of the columns of some rows. Which ones are dropped depends on the row's key and the site, not on the row's
/// place in a batch.
#[derive(Clone, Copy)]
pub(crate) struct Dropout<'a> {
    /// Share of elements that are dropped.
    pub(crate) rate: f32,
    /// A key per row, `[rows]`.
    pub(crate) keys: &'a [u64],
    /// Which of the model's maps it belongs to.
    pub(crate) site: u64,
}

impl Dropout<'_> {
    /// Sets dropped elements of `x` `[keys.len(), cols]` to 0 and divides the others by `1 - rate`. As it is linear, it
    /// is also its own backward pass.
    pub(crate) fn apply(self, x: &mut [f32]) {
        let cols = x.len() / self.keys.len().max(1);
        let keep = 1.0 / (1.0 - self.rate);
        let bound = (f64::from(self.rate) * 4_294_967_296.0) as u32;
        parallel::for_rows(x, cols, |first, x| {
            for (row, &key) in x.chunks_exact_mut(cols).zip(&self.keys[first..]) {
                let seed = mix(key ^ mix(self.site.wrapping_add(0x9e37_79b9_7f4a_7c15)));
                for (pair, columns) in row.chunks_mut(2).enumerate() {
                    let bits = mix(seed.wrapping_add(pair as u64));
                    for (half, x) in columns.iter_mut().enumerate() {
                        let is_dropped = ((bits >> (32 * half)) as u32) < bound;
                        *x = if is_dropped { 0.0 } else { *x * keep };
                    }
                }
            }
        });
    }
}

/// A bijection of 64 bits without visible order (the finaliser of SplitMix64; Steele et al. 2014).
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
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
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn the_term_and_its_gradients_are_those_of_the_reference(
            rows in 1_usize..9, inputs in 1_usize..9, outputs in 1_usize..9, rank in 1_usize..5,
        ) {
            let (x, a, b) = (random(1, rows * inputs), random(2, rank * inputs), random(3, outputs * rank));
            let (before, d_y) = (random(4, rows * outputs), random(5, rows * outputs));
            let scale = 0.5;
            let term = |x: &[f64], a: &[f64], b: &[f64]| -> Vec<f64> {
                let inner = reference::linear(x, a, None, inputs);
                reference::linear(&inner, b, None, rank).iter().map(|y| y * f64::from(scale)).collect()
            };
            let operands = Inputs { x: &x, rows, a: &a, b: &b, rank, scale, precision: Precision::F32 };
            let mut y = before.clone();
            let inner = forward(operands, &mut y);
            let (wide_x, wide_a, wide_b) = (wide(&x), wide(&a), wide(&b));
            let sum: Vec<f64> = term(&wide_x, &wide_a, &wide_b)
                .iter().zip(&before).map(|(term, &before)| term + f64::from(before)).collect();
            assert_close(&y, &sum, 1e-5);

            let (mut d_a, mut d_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
            let d_x = backward(operands, &inner, &d_y, Some(&mut d_a), Some(&mut d_b));
            assert_gradient(&d_x, &x, |x| weighted(&d_y, &term(x, &wide_a, &wide_b)), 1e-5);
            assert_gradient(&d_a, &a, |a| weighted(&d_y, &term(&wide_x, a, &wide_b)), 1e-5);
            assert_gradient(&d_b, &b, |b| weighted(&d_y, &term(&wide_x, &wide_a, b)), 1e-5);
        }
    }

    #[test]
    fn dropout_keeps_the_mean_and_follows_the_row_not_its_place() {
        let (rows, cols, rate) = (40, 501, 0.3);
        let keys: Vec<u64> = (0..rows as u64).map(|row| row * 77).collect();
        let drop = |keys: &[u64], site| {
            let mut x = vec![1.0; keys.len() * cols];
            Dropout { rate, keys, site }.apply(&mut x);
            x
        };
        let x = drop(&keys, 1);
        let dropped = x.iter().filter(|x| **x == 0.0).count() as f32 / x.len() as f32;
        assert!((dropped - rate).abs() < 0.02, "{dropped}");
        assert!(x.iter().all(|&x| x == 0.0 || (x - 1.0 / 0.7).abs() < 1e-6));
        assert_eq!(drop(&keys[7..9], 1), x[7 * cols..9 * cols]);
        assert_ne!(drop(&keys[7..9], 2), x[7 * cols..9 * cols]);
        assert_ne!(x[..cols], x[cols..2 * cols]);
    }
}
