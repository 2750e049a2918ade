//! pass@k: how often at least one of k answers is right (Chen et al. 2021, arXiv:2107.03374).
//!
//! Of an item's n samples, c are right. Of all ways to choose k of them, the share that contains a right one,
//!
//! ```text
//! pass@k = 1 - C(n - c, k) / C(n, k)
//! ```
//!
//! is an unbiased estimate of the chance that at least one of k fresh samples is right; `1 - (1 - c/n)^k` is biased. An
//! evaluation's pass@k is the mean over its items, with the bootstrap interval over items.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval};

/// The unbiased estimate of pass@k from `samples` answers to one item, `correct` of which are right (equation 1 of
/// the paper). `None` if it is not defined: k is 0 or above `samples`, or `correct` is above `samples`.
///
/// The quotient of the binomials is a product of min(k, correct) factors, none of them above 1, so nothing overflows.
pub fn pass_at_k(samples: usize, correct: usize, k: usize) -> Option<f64> {
    if k == 0 || k > samples || correct > samples {
        return None;
    }
    if samples - correct < k {
        return Some(1.0);
    }
    // C(n - c, k) / C(n, k) is symmetric in c and k, so the shorter of the two products is taken.
    let (few, many) = (k.min(correct), k.max(correct));
    let none_right: f64 =
        (0..few).map(|index| (samples - many - index) as f64 / (samples - index) as f64).product();
    Some(1.0 - none_right)
}

/// How one item was answered.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The labels by which results are broken down.
    pub labels: &'a BTreeMap<String, String>,
    /// Number of samples of the item.
    pub samples: usize,
    /// Number of samples that are right.
    pub correct: usize,
}

/// pass@k of a set of items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PassAtK {
    /// Number of items.
    pub items: usize,
    /// Mean over items by k, with its interval. A k is missing if any item has fewer samples.
    pub pass_at: BTreeMap<usize, Interval>,
}

impl PassAtK {
    /// pass@k of `items` for every k of `ks`. `seed` is an address of `Purpose::Bootstrap`.
    pub fn of(items: &[Counted<'_>], ks: &[usize], seed: u64) -> Self {
        let of = |k: usize| -> Option<Interval> {
            let estimates: Option<Vec<f64>> =
                items.iter().map(|item| pass_at_k(item.samples, item.correct, k)).collect();
            bootstrap::mean(&estimates?, seed)
        };
        PassAtK { items: items.len(), pass_at: ks.iter().filter_map(|&k| Some((k, of(k)?))).collect() }
    }

    /// The same by label and value: `["language"]["de"]`.
    pub fn by_label(
        items: &[Counted<'_>],
        ks: &[usize],
        seed: u64,
    ) -> BTreeMap<String, BTreeMap<String, PassAtK>> {
        let mut slices: BTreeMap<&String, BTreeMap<&String, Vec<Counted<'_>>>> = BTreeMap::new();
        for item in items {
            for (label, value) in item.labels {
                slices.entry(label).or_default().entry(value).or_default().push(*item);
            }
        }
        let of = |items: &Vec<Counted<'_>>| PassAtK::of(items, ks, seed);
        slices
            .into_iter()
            .map(|(label, values)| {
                (label.clone(), values.iter().map(|(value, items)| ((*value).clone(), of(items))).collect())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_estimates_are_those_of_exact_fractions() {
        let golden: Vec<(usize, usize, usize, f64)> =
            serde_json::from_str(include_str!("../tests/golden/pass_at_k.json")).unwrap();
        assert!(golden.len() > 300);
        for (samples, correct, k, expected) in golden {
            let found = pass_at_k(samples, correct, k).unwrap();
            assert!((found - expected).abs() < 1e-12, "{samples} {correct} {k}: {found}, not {expected}");
        }
    }

    #[test]
    fn what_is_not_defined_is_none() {
        for (samples, correct, k) in [(4, 2, 0), (4, 2, 5), (4, 5, 1), (0, 0, 1)] {
            assert_eq!(pass_at_k(samples, correct, k), None);
        }
    }

    #[test]
    fn an_evaluation_is_the_mean_over_items_whole_and_by_label() {
        let label = |value: &str| BTreeMap::from([("language".to_owned(), value.to_owned())]);
        let (german, english) = (label("de"), label("en"));
        let item = |labels, correct| Counted { labels, samples: 4, correct };
        let items = [item(&german, 0), item(&english, 1), item(&english, 4)];
        let whole = PassAtK::of(&items, &[1, 2, 4, 5], 7);
        assert_eq!(whole.items, 3);
        assert_eq!(whole.pass_at.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
        assert!((whole.pass_at[&1].mean - 1.25 / 3.0).abs() < 1e-12);
        assert!((whole.pass_at[&2].mean - 0.5).abs() < 1e-12);
        let slices = PassAtK::by_label(&items, &[4], 7);
        assert_eq!(slices["language"]["de"].pass_at[&4].mean, 0.0);
        let english = &slices["language"]["en"];
        assert_eq!((english.items, english.pass_at[&4]), (2, Interval { mean: 1.0, low: 1.0, high: 1.0 }));
        assert_eq!(PassAtK::of(&[], &[1], 7), PassAtK::default());
    }

    proptest! {
        #[test]
        fn pass_at_k_is_a_probability_that_grows_with_k_and_with_what_is_right(
            samples in 1usize..300, of_correct in 0.0f64..=1.0, of_k in 0.0f64..1.0,
        ) {
            let correct = (of_correct * samples as f64).round() as usize;
            let k = 1 + (of_k * samples as f64) as usize;
            let at = |correct, k| pass_at_k(samples, correct, k).unwrap();
            let value = at(correct, k);
            prop_assert!((0.0..=1.0).contains(&value));
            prop_assert!((at(correct, 1) - correct as f64 / samples as f64).abs() < 1e-12);
            prop_assert_eq!(at(samples, k), 1.0);
            prop_assert_eq!(at(0, k), 0.0);
            prop_assert_eq!(at(correct, samples), f64::from(u8::from(correct > 0)));
            if k < samples {
                prop_assert!(at(correct, k + 1) >= value - 1e-12);
            }
            if correct < samples {
                prop_assert!(at(correct + 1, k) >= value - 1e-12);
            }
        }
    }
}
