//! Near-duplicates: MinHash with bands (Broder 1997; Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", 3.4).
//!
//! A text is its set of shingles: runs of a few terms. The share of hash functions under which two sets have the same
//! least value estimates their Jaccard similarity; texts that agree in all rows of a band are looked at, and it is
//! their exact similarity that decides. So what is dropped is a duplicate for certain; one of similarity `s` is missed
//! with probability `(1 - s^rows)^bands`.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::{bits, fold_bytes};
use serde::{Deserialize, Serialize};

use crate::text::terms;

/// How duplicates are found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Duplicates {
    /// Terms per shingle.
    pub shingle: usize,
    /// Bands of the signature.
    pub bands: usize,
    /// Hash functions per band.
    pub rows: usize,
    /// Smallest Jaccard similarity of duplicates.
    pub similarity: f64,
}

impl Default for Duplicates {
    fn default() -> Self {
        Duplicates { shingle: 5, bands: 32, rows: 4, similarity: 0.8 }
    }
}

/// The shingles of `text`, hashed. A text of fewer terms than a shingle has is one shingle; one without terms has none.
pub fn shingles(text: &str, size: usize) -> BTreeSet<u64> {
    let terms = terms(text);
    let size = size.clamp(1, terms.len().max(1));
    terms
        .windows(size)
        .map(|window| {
            let joined = window.join(" ");
            fold_bytes(joined.len() as u64, joined.as_bytes())
        })
        .collect()
}

/// The least hash of `shingles` under each of `functions` hash functions of `seed`.
pub fn signature(shingles: &BTreeSet<u64>, functions: usize, seed: u64) -> Vec<u64> {
    (0..functions as u64)
        .map(|function| {
            let key = bits(seed, function);
            shingles.iter().map(|shingle| bits(key, *shingle)).min().unwrap_or(u64::MAX)
        })
        .collect()
}

/// The share of common shingles among all; 0 if there are none.
pub fn jaccard(left: &BTreeSet<u64>, right: &BTreeSet<u64>) -> f64 {
    let common = left.intersection(right).count();
    let all = left.len() + right.len() - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

impl Duplicates {
    /// For each text the place of the earlier one that it duplicates. Only texts that are kept have duplicates, so
    /// chains of ever less similar texts do not collapse into their first.
    pub fn find(&self, texts: &[&str], seed: u64) -> Vec<Option<usize>> {
        let rows = self.rows.max(1);
        let sets: Vec<BTreeSet<u64>> = texts.iter().map(|text| shingles(text, self.shingle)).collect();
        let mut buckets: BTreeMap<(usize, Vec<u64>), Vec<usize>> = BTreeMap::new();
        let mut found = Vec::with_capacity(texts.len());
        for (place, set) in sets.iter().enumerate() {
            let signature = signature(set, self.bands * rows, seed);
            let keys: Vec<_> = signature.chunks(rows).map(<[u64]>::to_vec).enumerate().collect();
            let candidates: BTreeSet<usize> =
                keys.iter().filter_map(|key| buckets.get(key)).flatten().copied().collect();
            let earlier =
                candidates.into_iter().find(|earlier| jaccard(set, &sets[*earlier]) >= self.similarity);
            if earlier.is_none() {
                for key in keys {
                    buckets.entry(key).or_default().push(place);
                }
            }
            found.push(earlier);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        let left = shingles("a b c d", 2);
        let right = shingles("B c D e", 2);
        // ab bc cd against bc cd de: two of four.
        assert_eq!(jaccard(&left, &right), 0.5);
        assert_eq!(shingles("a b", 5).len(), 1);
        assert!(shingles("", 5).is_empty());
    }

    #[test]
    fn duplicates_point_at_the_first_that_is_kept() {
        let long = "the quick brown fox jumps over the lazy dog near the old river bank at dawn while nobody watches \
                    from the hill beyond the quiet town that sleeps";
        let almost = format!("{long} soundly");
        let other =
            "an entirely different sentence about steam engines and how their boilers were built by hand";
        let found = Duplicates::default().find(&[long, other, &almost, long, "", ""], 7);
        assert_eq!(found, [None, None, Some(0), Some(0), None, None]);
    }

    #[test]
    fn equal_minima_are_as_frequent_as_the_similarity() {
        let left: BTreeSet<u64> = (0..60).collect();
        let right: BTreeSet<u64> = (20..80).collect();
        let functions = 4000;
        let (a, b) = (signature(&left, functions, 3), signature(&right, functions, 3));
        let equal = a.iter().zip(&b).filter(|(a, b)| a == b).count() as f64 / functions as f64;
        // 40 of 80 are common; four standard errors are 0.032.
        assert!((equal - 0.5).abs() < 0.032, "{equal}");
    }

    proptest! {
        #[test]
        fn what_is_dropped_is_similar_to_something_kept(
            texts in prop::collection::vec("([abc] ){1,8}", 0..14), similarity in 0.1f64..1.0, seed: u64,
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let duplicates = Duplicates { shingle: 2, similarity, ..Duplicates::default() };
            let found = duplicates.find(&texts, seed);
            prop_assert_eq!(&found, &duplicates.find(&texts, seed));
            for (place, earlier) in found.iter().enumerate() {
                if let Some(earlier) = *earlier {
                    prop_assert!(earlier < place && found[earlier].is_none());
                    prop_assert!(jaccard(&shingles(texts[place], 2), &shingles(texts[earlier], 2)) >= similarity);
                } else {
                    // An exact copy is never missed.
                    prop_assert!((0..place).all(|other| found[other].is_some() || texts[other] != texts[place]));
                }
            }
        }
    }
}
