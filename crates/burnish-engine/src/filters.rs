//! Filters that cut a distribution, each as `transformers` defines it (`generation/logits_process.py`:
//! `TopKLogitsWarper`, `TopPLogitsWarper`, `MinPLogitsWarper`, with `min_tokens_to_keep = 1`).

use burnish_core::Sampling;
use std::cmp::Ordering;

/// Buffers of the filters.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    values: Vec<f32>,
    ranked: Vec<u32>,
    bins: Vec<f64>,
}

/// Sets to 0 the weights that top-k, top-p and min-p drop, in this order; each filter sees what the ones before it
/// left.
///
/// `scaled` holds `(logit - max) / temperature`, `weights` the exponentials. Both `[V]`.
pub(crate) fn truncate(scaled: &[f32], weights: &mut [f32], sampling: &Sampling, scratch: &mut Scratch) {
    if sampling.top_k > 0 && sampling.top_k < scaled.len() {
        keep_top_k(scaled, weights, sampling.top_k, &mut scratch.values);
    }
    if sampling.top_p < 1.0 {
        keep_top_p(scaled, weights, f64::from(sampling.top_p), scratch);
    }
    if sampling.min_p > 0.0 {
        keep_min_p(weights, sampling.min_p);
    }
}

/// Keeps the `k` likeliest ids, and all that are as likely as the last of them.
fn keep_top_k(scaled: &[f32], weights: &mut [f32], k: usize, values: &mut Vec<f32>) {
    values.clear();
    values.extend_from_slice(scaled);
    let (_, &mut kth, _) = values.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    for (weight, &value) in weights.iter_mut().zip(scaled) {
        if value < kth {
            *weight = 0.0;
        }
    }
}

/// Drops ids from the least likely up while the dropped probability is at most `1 - top_p`; of equally likely ids the
/// lower are dropped first (`transformers` leaves their order open). The likeliest always stays.
///
/// Nothing is sorted: the total weight of each bin tells in which bin the dropping ends, and inside that bin each round
/// halves the work.
fn keep_top_p(scaled: &[f32], weights: &mut [f32], top_p: f64, scratch: &mut Scratch) {
    let Scratch { ranked, bins, .. } = scratch;
    bins.clear();
    bins.resize(BINS, 0.0);
    for &weight in weights.iter() {
        bins[bin_of(weight)] += f64::from(weight);
    }
    let dropped_max = (1.0 - top_p) * bins.iter().sum::<f64>();
    let mut dropped = 0.0;
    let mut last = 0;
    while last + 1 < BINS && dropped + bins[last] <= dropped_max {
        dropped += bins[last];
        last += 1;
    }
    ranked.clear();
    for (id, weight) in (0u32..).zip(weights.iter_mut()) {
        match bin_of(*weight).cmp(&last) {
            Ordering::Less => *weight = 0.0,
            Ordering::Equal => ranked.push(id),
            Ordering::Greater => {}
        }
    }
    let by_likelihood = |&a: &u32, &b: &u32| {
        scaled[a as usize].partial_cmp(&scaled[b as usize]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
    };
    // Either the less likely half is dropped as a whole, or the dropping ends within it. The last remaining id is the
    // first that stays.
    let mut ranked = ranked.as_mut_slice();
    while ranked.len() > 1 {
        let middle = ranked.len() / 2;
        ranked.select_nth_unstable_by(middle, by_likelihood);
        let (less, more) = ranked.split_at_mut(middle);
        let mass: f64 = less.iter().map(|&id| f64::from(weights[id as usize])).sum();
        if dropped + mass <= dropped_max {
            dropped += mass;
            less.iter().for_each(|&id| weights[id as usize] = 0.0);
            ranked = more;
        } else {
            ranked = less;
        }
    }
}

/// Bins of the weights 0 to 1.
const BINS: usize = (1f32.to_bits() >> 20) as usize + 1;

/// Weights in one bin share the exponent and the first 3 bits of the mantissa, so bins are ordered by weight.
fn bin_of(weight: f32) -> usize {
    (weight.to_bits() >> 20) as usize
}

/// Drops ids less likely than `min_p` times the likeliest, whose weight is 1.
fn keep_min_p(weights: &mut [f32], min_p: f32) {
    for weight in weights {
        if *weight < min_p {
            *weight = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::rng;
    use proptest::prelude::*;
    use serde::Deserialize;

    /// Written by `tests/golden/warpers.py`.
    #[derive(Deserialize)]
    struct Golden {
        rows: Vec<Vec<Option<f32>>>,
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        row: usize,
        sampling: (f32, usize, f32, f32),
        kept: Vec<usize>,
    }

    #[test]
    fn the_filters_keep_what_transformers_keeps() {
        let golden: Golden = serde_json::from_str(include_str!("../tests/golden/warpers.json")).unwrap();
        assert_eq!(golden.cases.len(), 56);
        for Case { row, sampling: (temperature, top_k, top_p, min_p), kept } in golden.cases {
            let sampling = Sampling { top_k, top_p, min_p, ..Sampling::at(temperature, 1) };
            let logits: Vec<f32> =
                golden.rows[row].iter().map(|logit| logit.unwrap_or(f32::NEG_INFINITY)).collect();
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let scaled: Vec<f32> = logits.iter().map(|logit| (logit - max) / temperature).collect();
            let mut weights: Vec<f32> = scaled.iter().map(|value| value.exp()).collect();
            truncate(&scaled, &mut weights, &sampling, &mut Scratch::default());
            let ours: Vec<usize> = (0..weights.len()).filter(|&id| weights[id] > 0.0).collect();
            assert_eq!(ours, kept, "row {row}, {sampling:?}");
        }
    }

    proptest! {
        #[test]
        fn top_p_drops_what_sorting_drops(seed in 0u64..1000, len in 1usize..400, top_p in 0.001..0.999f32) {
            let mut stream = rng::Stream::new(seed);
            let spread = stream.normal() * 4.0;
            let mut scaled: Vec<f32> = (0..len).map(|_| (stream.normal() * spread) as f32).collect();
            let max = scaled.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            scaled.iter_mut().for_each(|value| *value -= max);
            let weights: Vec<f32> = scaled.iter().map(|value| value.exp()).collect();

            let mut order: Vec<usize> = (0..len).collect();
            order.sort_by(|&a, &b| weights[a].total_cmp(&weights[b]));
            let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
            let mut expected = weights.clone();
            let mut dropped = 0.0;
            for &id in &order[..len - 1] {
                dropped += f64::from(weights[id]);
                if dropped > (1.0 - f64::from(top_p)) * total {
                    break;
                }
                expected[id] = 0.0;
            }
            let mut ours = weights;
            keep_top_p(&scaled, &mut ours, f64::from(top_p), &mut Scratch::default());
            prop_assert_eq!(ours, expected);
        }
    }
}
