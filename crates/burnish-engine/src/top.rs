//! The few greatest of many values.

/// Fills `top` with the indices of the `n` greatest `values`, the greatest first; of equal ones the lower index first.
/// -inf is never among them.
///
/// One pass: each value is compared with the least of the best so far, and only a better one moves anything. For `V`
/// values in random order that happens about `n ln(V / n)` times.
pub(crate) fn likeliest(values: &[f32], n: usize, top: &mut Vec<u32>) {
    top.clear();
    if n == 0 {
        return;
    }
    let mut bar = f32::NEG_INFINITY;
    for (index, &value) in (0u32..).zip(values) {
        // An equal value goes behind the earlier ones.
        if value > bar {
            if top.len() == n {
                top.pop();
            }
            let at = top.partition_point(|&other| values[other as usize] >= value);
            top.insert(at, index);
            if top.len() == n {
                bar = values[top[n - 1] as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_greatest_come_first(values in prop::collection::vec(-5i8..5, 0..200), n in 0usize..30) {
            let values: Vec<f32> =
                values.into_iter().map(|x| if x == -5 { f32::NEG_INFINITY } else { f32::from(x) }).collect();
            let mut expected: Vec<u32> =
                (0..values.len() as u32).filter(|&i| values[i as usize].is_finite()).collect();
            expected.sort_by(|&a, &b| values[b as usize].total_cmp(&values[a as usize]));
            expected.truncate(n);
            let mut top = vec![7];
            likeliest(&values, n, &mut top);
            prop_assert_eq!(top, expected);
        }
    }
}
