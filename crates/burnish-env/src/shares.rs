//! Shares of a number of tasks, met exactly up to rounding.

use std::cmp::Reverse;

/// Splits `count` in proportion to `weights`: each part is rounded down, and the remainder goes to the parts with the
/// largest fractions, of equal ones to the first. The weights must have a positive sum.
pub(crate) fn largest_remainder(weights: &[f64], count: usize) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| weight / total * count as f64).collect();
    // An exact part that is an integer up to rounding errors counts as that integer.
    let mut parts: Vec<usize> = exact.iter().map(|part| (part + 1e-9).floor() as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // In integer billionths, so that rounding errors do not break ties; the sort is stable.
    order.sort_by_key(|&i| Reverse(((exact[i] - parts[i] as f64) * 1e9).round() as i64));
    let left = count - parts.iter().sum::<usize>();
    for &i in order.iter().take(left) {
        parts[i] += 1;
    }
    parts
}

/// Which of `weights` each of `count` places gets: overall as often as [`largest_remainder`] says, and spread evenly,
/// so that each stretch of places also gets nearly its share.
pub(crate) fn spread(weights: &[f64], count: usize) -> Vec<usize> {
    let parts = largest_remainder(weights, count);
    // Item `j` of `n` equal ones is placed at the middle of its n-th of the way.
    let mut places: Vec<(f64, usize)> = parts
        .iter()
        .enumerate()
        .flat_map(|(i, &n)| (0..n).map(move |j| ((j as f64 + 0.5) / n as f64, i)))
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    places.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_left_goes_to_the_largest_remainders() {
        assert_eq!(largest_remainder(&[0.4, 0.4, 0.2], 10), [4, 4, 2]);
        assert_eq!(largest_remainder(&[1.0, 1.0, 1.0], 10), [4, 3, 3]);
        assert_eq!(largest_remainder(&[0.25, 0.75], 2), [1, 1]);
        assert_eq!(largest_remainder(&[0.26, 0.74], 2), [1, 1]);
        assert_eq!(largest_remainder(&[0.2, 0.0, 0.8], 1), [0, 0, 1]);
    }

    #[test]
    fn what_is_spread_takes_turns() {
        assert_eq!(spread(&[1.0, 1.0], 6), [0, 1, 0, 1, 0, 1]);
        assert_eq!(spread(&[3.0, 0.0, 1.0], 8), [0, 0, 2, 0, 0, 0, 2, 0]);
        assert!(spread(&[1.0], 0).is_empty());
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_count_and_are_within_one_of_exact(
            weights in prop::collection::vec(0.0f64..1.0, 1..6),
            count in 0usize..5000,
        ) {
            let total: f64 = weights.iter().sum();
            prop_assume!(total > 0.0);
            let parts = largest_remainder(&weights, count);
            prop_assert_eq!(parts.iter().sum::<usize>(), count);
            for (part, weight) in parts.iter().zip(&weights) {
                prop_assert!((*part as f64 - weight / total * count as f64).abs() < 1.0 + 1e-6);
            }
        }

        #[test]
        fn a_spread_is_exact_in_all_and_near_in_each_beginning(
            weights in prop::collection::vec(0.0f64..1.0, 1..5),
            count in 1usize..400,
        ) {
            let total: f64 = weights.iter().sum();
            prop_assume!(total > 0.0);
            let places = spread(&weights, count);
            let parts = largest_remainder(&weights, count);
            let among = |end: usize, i: usize| places[..end].iter().filter(|&&place| place == i).count();
            for (i, &part) in parts.iter().enumerate() {
                prop_assert_eq!(among(count, i), part);
                for end in 0..count {
                    let exact = part as f64 * end as f64 / count as f64;
                    let off = (among(end, i) as f64 - exact).abs();
                    prop_assert!(off <= weights.len() as f64, "{} of {end}: {off} off", i);
                }
            }
        }
    }
}
