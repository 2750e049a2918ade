//! Rows of a table: token embeddings, and rows picked from a batch.

use crate::{Buffer, Elements, parallel};

/// `[ids.len(), cols]`: row `ids[i]` of `table` at row `i`.
pub(crate) fn forward(table: Elements<'_>, cols: usize, ids: &[u32]) -> Buffer {
    let mut out = Buffer::scratch(ids.len() * cols);
    parallel::for_rows(&mut out, cols, |first, out| {
        for (out, &id) in out.chunks_exact_mut(cols).zip(&ids[first..]) {
            let row = id as usize * cols..(id as usize + 1) * cols;
            out.copy_from_slice(&table.slice(row).widened());
        }
    });
    out
}

/// Adds row `i` of `d_out` to row `ids[i]` of `d_table`. Rows may repeat, so this is not split over threads.
pub(crate) fn backward(d_table: &mut [f32], cols: usize, ids: &[u32], d_out: &[f32]) {
    crate::vector::simd(
        #[inline(always)]
        || {
            for (&id, d_row) in ids.iter().zip(d_out.chunks_exact(cols)) {
                crate::vector::add(&mut d_table[id as usize * cols..][..cols], d_row);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, random_ids, weighted, wide},
    };

    #[test]
    fn rows_and_their_gradients_are_those_of_the_reference() {
        let (rows, cols) = (5, 3);
        let table = random(1, rows * cols);
        let ids = random_ids(2, 12, rows);
        let d_out = random(3, ids.len() * cols);
        assert_close(
            &forward(Elements::F32(&table), cols, &ids),
            &reference::embed(&wide(&table), cols, &ids),
            0.0,
        );

        let mut d_table = vec![0.0; table.len()];
        backward(&mut d_table, cols, &ids, &d_out);
        assert_gradient(
            &d_table,
            &table,
            |table| weighted(&d_out, &reference::embed(table, cols, &ids)),
            1e-6,
        );
    }
}
