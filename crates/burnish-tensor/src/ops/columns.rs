//! Some columns of every period: the parts of a fused projection, side by side or interleaved by head.

use crate::{Buffer, parallel};

/// Of every `period` columns of a row those from `start` on, `width` of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) period: usize,
    pub(crate) start: usize,
    pub(crate) width: usize,
}

/// `[T, C] -> [T, C / period · width]`.
pub(crate) fn forward(x: &[f32], columns: Columns) -> Buffer {
    let Columns { period, start, width } = columns;
    let mut out = Buffer::scratch(x.len() / period * width);
    parallel::for_rows(&mut out, width, |first, out| {
        for (out, x) in out.chunks_exact_mut(width).zip(x[first * period..].chunks_exact(period)) {
            out.copy_from_slice(&x[start..][..width]);
        }
    });
    out
}

/// The gradient of `x`: 0 in the columns that were left out.
pub(crate) fn backward(d: &[f32], columns: Columns) -> Buffer {
    let Columns { period, start, width } = columns;
    let mut d_x = Buffer::scratch(d.len() / width * period);
    parallel::for_rows(&mut d_x, period, |first, d_x| {
        for (d_x, d) in d_x.chunks_exact_mut(period).zip(d[first * width..].chunks_exact(width)) {
            d_x.fill(0.0);
            d_x[start..][..width].copy_from_slice(d);
        }
    });
    d_x
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{assert_gradient, random, weighted};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn columns_are_picked_and_their_gradient_is_put_back(
            rows in 1_usize..9, periods in 1_usize..4, start in 0_usize..5, width in 1_usize..5, rest in 0_usize..4,
        ) {
            let columns = Columns { period: start + width + rest, start, width };
            let cols = periods * columns.period;
            let x = random(1, rows * cols);
            let picked = |x: &[f64]| -> Vec<f64> {
                let is_picked = |column: usize| (start..start + width).contains(&(column % columns.period));
                x.iter().enumerate().filter(|(at, _)| is_picked(at % cols)).map(|(_, &x)| x).collect()
            };
            let y = forward(&x, columns);
            let expected: Vec<f64> = picked(&crate::testing::wide(&x));
            prop_assert_eq!(crate::testing::wide(&y), expected);
            let d = random(2, y.len());
            assert_gradient(&backward(&d, columns), &x, |x| weighted(&d, &picked(x)), 1e-6);
        }
    }
}
