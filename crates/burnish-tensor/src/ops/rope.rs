//! Rotary position embedding, in place.

use crate::{parallel, rope::Rope, vector::simd};

/// The direction of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// By the angle of the position.
    Forward,
    /// By its negative: the transpose, which is the backward pass.
    Back,
}

/// Rotates every head of `x` `[positions.len(), cols]`:
/// `(a, b) -> (a cos - b sin, b cos + a sin)` for elements `i` and `i + pairs` of a head.
pub(crate) fn rotate(
    x: &mut [f32],
    cols: usize,
    head_dim: usize,
    rope: &Rope,
    positions: &[u32],
    turn: Turn,
) {
    let pairs = rope.pairs();
    assert!(
        2 * pairs <= head_dim && cols.is_multiple_of(head_dim),
        "{pairs} pairs do not fit heads of {head_dim} elements in rows of {cols}"
    );
    assert_eq!(x.len(), positions.len() * cols, "one position for each row");
    let table = rope.table(positions);
    let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
    parallel::for_rows(x, cols, |first, x| {
        simd(
            #[inline(always)]
            || {
                for (row, &position) in x.chunks_exact_mut(cols).zip(&positions[first..]) {
                    let (cos, sin) = table.at(position);
                    for head in row.chunks_exact_mut(head_dim) {
                        let (a, rest) = head.split_at_mut(pairs);
                        rotate_pairs(a, &mut rest[..pairs], cos, sin, sign);
                    }
                }
            },
        );
    });
}

#[inline(always)]
fn rotate_pairs(a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    for (((a, b), &cos), &sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        let sin = sign * sin;
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, random_ids, weighted, wide},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn the_rotation_and_its_transpose_are_those_of_the_reference(
            rows in 1_usize..8, heads in 1_usize..4, pairs in 1_usize..9, unrotated in 0_usize..3, scaled: bool,
        ) {
            let head_dim = 2 * pairs + unrotated;
            let cols = heads * head_dim;
            let scaling = if scaled { 1.25 } else { 1.0 };
            let inv_freq: Vec<f32> = (0..pairs).map(|i| 100_f32.powf(-(i as f32) / pairs as f32)).collect();
            let rope = Rope::new(inv_freq.clone(), scaling);
            let positions = random_ids(1, rows, 3000);
            let x = random(2, rows * cols);
            let d_y = random(3, x.len());
            let rotated = |x: &[f64]| reference::rope(x, cols, head_dim, &inv_freq, f64::from(scaling), &positions);

            let mut y = x.clone();
            rotate(&mut y, cols, head_dim, &rope, &positions, Turn::Forward);
            assert_close(&y, &rotated(&wide(&x)), 1e-6);
            let mut d_x = d_y.clone();
            rotate(&mut d_x, cols, head_dim, &rope, &positions, Turn::Back);
            assert_gradient(&d_x, &x, |x| weighted(&d_y, &rotated(x)), 1e-5);
        }
    }

    #[test]
    fn scores_depend_on_the_distance_of_positions_alone() {
        let rope = Rope::new(vec![1.0, 0.1], 1.0);
        let score = |query_at: u32, key_at: u32| -> f32 {
            let mut rows = [random(1, 4), random(2, 4)].concat();
            rotate(&mut rows, 4, 4, &rope, &[query_at, key_at], Turn::Forward);
            rows[..4].iter().zip(&rows[4..]).map(|(q, k)| q * k).sum()
        };
        assert!((score(9, 4) - score(1005, 1000)).abs() < 1e-4);
        assert!((score(9, 4) - score(9, 5)).abs() > 1e-2);
    }
}
