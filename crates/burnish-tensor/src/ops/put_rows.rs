//! A matrix with some of its rows replaced by those of another.

use crate::Buffer;

/// The rows that are replaced: row `rows[i]` by row `i` of the other matrix. None occurs twice.
#[derive(Clone, Debug)]
pub(crate) struct PutRows {
    pub(crate) rows: Vec<u32>,
    pub(crate) cols: usize,
}

/// `[T, C]` and `[rows.len(), C]` to `[T, C]`.
pub(crate) fn forward(x: &[f32], new: &[f32], put: &PutRows) -> Buffer {
    let mut out = Buffer::from(x.to_vec());
    for (&row, new) in put.rows.iter().zip(new.chunks_exact(put.cols)) {
        out[row as usize * put.cols..][..put.cols].copy_from_slice(new);
    }
    out
}

/// The gradients of both: 0 in the rows of the first that were replaced, and those rows for the second.
pub(crate) fn backward(d: &[f32], put: &PutRows) -> [Buffer; 2] {
    let mut d_x = Buffer::from(d.to_vec());
    let mut d_new = Buffer::from(vec![0.0; put.rows.len() * put.cols]);
    for (&row, d_new) in put.rows.iter().zip(d_new.chunks_exact_mut(put.cols)) {
        let own = &mut d_x[row as usize * put.cols..][..put.cols];
        d_new.copy_from_slice(own);
        own.fill(0.0);
    }
    [d_x, d_new]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{assert_gradient, random, weighted, wide};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn rows_are_replaced_and_each_gradient_goes_where_its_number_came_from(
            total in 1_usize..9, cols in 1_usize..5, mask in any::<u8>(),
        ) {
            // In any order.
            let rows: Vec<u32> = (0..total as u32).rev().filter(|row| mask >> row & 1 == 1).collect();
            let put = PutRows { rows, cols };
            let (x, new) = (random(1, total * cols), random(2, put.rows.len() * cols));
            let expected = |x: &[f64], new: &[f64]| -> Vec<f64> {
                let row = |row: usize| match put.rows.iter().position(|&put| put as usize == row) {
                    Some(at) => new[at * cols..][..cols].to_vec(),
                    None => x[row * cols..][..cols].to_vec(),
                };
                (0..total).flat_map(row).collect()
            };
            let y = forward(&x, &new, &put);
            prop_assert_eq!(wide(&y), expected(&wide(&x), &wide(&new)));
            let d = random(3, y.len());
            let [d_x, d_new] = backward(&d, &put);
            assert_gradient(&d_x, &x, |x| weighted(&d, &expected(x, &wide(&new))), 1e-6);
            if !new.is_empty() {
                assert_gradient(&d_new, &new, |new| weighted(&d, &expected(&wide(&x), new)), 1e-6);
            }
        }
    }
}
