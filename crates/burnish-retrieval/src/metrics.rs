//! Recall, MRR and nDCG of one ranking.
//!
//! `ranked` are places of chunks, best first, each at most once; `gold` are those that should be found. Without gold
//! every measure is 0. With a single gold chunk at rank `r <= k`, recall is 1, MRR `1 / r`, and nDCG `1 / log2(1 + r)`.

/// The share of `gold` among the first `k`.
pub fn recall(ranked: &[usize], gold: &[usize], k: usize) -> f64 {
    if gold.is_empty() {
        return 0.0;
    }
    let found = ranked.iter().take(k).filter(|place| gold.contains(place)).count();
    found as f64 / gold.len() as f64
}

/// One over the rank of the first of `gold` among the first `k`, or 0.
pub fn reciprocal_rank(ranked: &[usize], gold: &[usize], k: usize) -> f64 {
    let first = ranked.iter().take(k).position(|place| gold.contains(place));
    first.map_or(0.0, |index| 1.0 / (index + 1) as f64)
}

/// Discounted gain of the first `k`, over that of the best possible ranking (Järvelin and Kekäläinen 2002, with gains
/// of 0 and 1).
pub fn ndcg(ranked: &[usize], gold: &[usize], k: usize) -> f64 {
    let discount = |index: usize| 1.0 / ((index + 2) as f64).log2();
    let ideal: f64 = (0..gold.len().min(k)).map(discount).sum();
    if ideal == 0.0 {
        return 0.0;
    }
    let hits = ranked.iter().take(k).enumerate().filter(|(_, place)| gold.contains(place));
    hits.map(|(index, _)| discount(index)).sum::<f64>() / ideal
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::rng::{Stream, bits};
    use proptest::prelude::*;

    #[test]
    fn worked_examples() {
        let ranked = [4, 7, 1, 9, 2];
        assert_eq!(recall(&ranked, &[1], 2), 0.0);
        assert_eq!(recall(&ranked, &[1], 3), 1.0);
        assert_eq!(reciprocal_rank(&ranked, &[1], 5), 1.0 / 3.0);
        assert_eq!(ndcg(&ranked, &[1], 5), 0.5);
        // Two of three within 5, at ranks 2 and 5.
        let gold = [7, 2, 8];
        assert_eq!(recall(&ranked, &gold, 5), 2.0 / 3.0);
        assert_eq!(reciprocal_rank(&ranked, &gold, 5), 0.5);
        // (1/log2 3 + 1/log2 6) / (1 + 1/log2 3 + 1/2) = (0.63093 + 0.38685) / 2.13093
        assert!((ndcg(&ranked, &gold, 5) - 0.477_624).abs() < 1e-6);
        assert_eq!((recall(&ranked, &[], 5), ndcg(&ranked, &[], 5), ndcg(&ranked, &[4], 0)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_random_order_finds_k_of_n() {
        let (count, k, trials) = (20usize, 5, 4000u64);
        let found: f64 = (0..trials)
            .map(|trial| {
                let mut ranked: Vec<usize> = (0..count).collect();
                Stream::new(bits(1, trial)).shuffle(&mut ranked);
                recall(&ranked, &[3], k)
            })
            .sum();
        // Four standard errors are 0.027.
        assert!((found / trials as f64 - 0.25).abs() < 0.027, "{found}");
    }

    proptest! {
        #[test]
        fn measures_stay_in_bounds_and_in_order(
            ranked in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
            gold in prop::collection::btree_set(0usize..12, 1..4),
            k in 1usize..13,
        ) {
            let gold: Vec<usize> = gold.into_iter().collect();
            prop_assert!(recall(&ranked, &gold, k) <= recall(&ranked, &gold, k + 1));
            prop_assert!(reciprocal_rank(&ranked, &gold[..1], k) <= recall(&ranked, &gold[..1], k));
            prop_assert!(ndcg(&ranked, &gold[..1], k) <= recall(&ranked, &gold[..1], k));
            let oracle: Vec<usize> =
                gold.iter().copied().chain(ranked.iter().copied().filter(|p| !gold.contains(p))).collect();
            let (best, share) = (ndcg(&oracle, &gold, k), gold.len().min(k) as f64 / gold.len() as f64);
            prop_assert!((best - 1.0).abs() < 1e-12 && recall(&oracle, &gold, k) == share);
            prop_assert!(ndcg(&ranked, &gold, k) <= best + 1e-12);
        }
    }
}
