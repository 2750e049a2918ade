//! How well a benchmark tells retrievers apart, with and without polish and topic switches.

use burnish_core::rng::{Address, Purpose, Stream, bits};
use burnish_eval::{Interval, bootstrap};
use serde::{Deserialize, Serialize};

use crate::data::{Benchmark, Chunk, Dialogue};
use crate::retrieve::Arm;
use crate::score::{rankings, recalls, scored_turns};
use crate::switch::{switch_topics, unpolished};
use crate::{Result, wrong};

/// How variants are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompareOptions {
    /// Recall is that among so many chunks.
    pub k: usize,
    /// How often dialogues are resampled.
    pub resamples: usize,
    /// Seed of the intervals.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions { k: 5, resamples: bootstrap::RESAMPLES, seed: 0 }
    }
}

/// One variant of the dialogues.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its dialogues, about the same chunks as the others'.
    pub dialogues: Vec<Dialogue>,
}

/// How far apart the arms lie in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The variant.
    pub variant: String,
    /// The number of its dialogues.
    pub dialogues: usize,
    /// Each arm's recall, in the order in which they were given.
    pub recall: Vec<(String, Interval)>,
    /// The best arm's recall less the worst's. It is never negative, so among equal arms it is positive by chance:
    /// compare it, as [`Spread::beyond`] does, rather than test it against 0.
    pub spread: Interval,
    /// The mean distance of two arms' recall.
    pub distance: Interval,
    /// The number of pairs of arms whose difference, paired by dialogue, has an interval without 0.
    pub told_apart: usize,
    /// The number of pairs of arms.
    pub pairs: usize,
    /// This spread less that of the first variant; `None` for the first.
    pub beyond: Option<Interval>,
}

/// How far apart the arms lie in each variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Recall is that among so many chunks.
    pub k: usize,
    /// One entry per variant, in the order in which they were given.
    pub variants: Vec<Spread>,
}

/// The four variants of polished dialogues without switches: `plain` (as before polishing), `switched`, `polished`, and
/// `polished_switched`. Switches are the same in both that have them; `share` and `seed` are those of
/// [`switch_topics`].
pub fn four_variants(dialogues: &[Dialogue], chunks: &[Chunk], share: f64, seed: u64) -> Vec<Variant> {
    let plain = unpolished(dialogues);
    let switched = switch_topics(&plain, chunks, share, seed);
    let polished_switched = switch_topics(dialogues, chunks, share, seed);
    [
        ("plain", plain),
        ("switched", switched),
        ("polished", dialogues.to_vec()),
        ("polished_switched", polished_switched),
    ]
    .map(|(name, dialogues)| Variant { name: name.to_owned(), dialogues })
    .into()
}

/// Compares how far apart `arms` lie in `variants`, with the first variant as what the others are compared with.
///
/// Variants have different dialogues (a splice makes one of two), so their dialogues are resampled independently: the
/// intervals of [`Spread::beyond`] are wider than pairing would make them.
pub fn compare(
    chunks: &[Chunk],
    variants: &[Variant],
    arms: &[Arm<'_>],
    options: &CompareOptions,
) -> Result<Comparison> {
    if arms.len() < 2 || variants.is_empty() || options.k == 0 || options.resamples == 0 {
        return wrong(
            "a comparison needs at least two retrievers, one variant, `k` and `resamples` of at least 1",
        );
    }
    let mut spreads: Vec<Spread> = Vec::with_capacity(variants.len());
    let mut first_spreads: Vec<f64> = Vec::new();
    for (number, variant) in variants.iter().enumerate() {
        let benchmark = Benchmark::new(chunks.to_vec(), variant.dialogues.clone())
            .or_else(|error| wrong(format!("variant {:?}: {error}", variant.name)))?;
        let turns = scored_turns(&benchmark)?;
        let per_arm: Vec<Vec<f64>> = arms
            .iter()
            .map(|arm| Ok(recalls(&turns, &rankings(&benchmark, &turns, arm, options.k)?, options.k)))
            .collect::<Result<_>>()?;
        let seed = Address { step: number as u64, ..Address::new(options.seed, Purpose::Bootstrap) }.seed();
        let resampled = resampled_means(&per_arm, options.resamples, seed);
        let observed: Vec<f64> = per_arm.iter().map(|values| mean(values)).collect();
        let of =
            |measure: &dyn Fn(&[f64]) -> f64| -> Vec<f64> { resampled.iter().map(|m| measure(m)).collect() };
        let spread_draws = of(&widest);
        let beyond = spreads.first().map(|first| {
            let differences =
                spread_draws.iter().zip(&first_spreads).map(|(own, first)| own - first).collect();
            percentiles(widest(&observed) - first.spread.mean, differences)
        });
        let recall = arms
            .iter()
            .enumerate()
            .map(|(arm, named)| {
                (named.name(), percentiles(observed[arm], resampled.iter().map(|means| means[arm]).collect()))
            })
            .collect();
        let pairs: Vec<(usize, usize)> =
            (0..arms.len()).flat_map(|left| (left + 1..arms.len()).map(move |right| (left, right))).collect();
        let apart = |(left, right): &&(usize, usize)| {
            let draws = resampled.iter().map(|means| means[*left] - means[*right]).collect();
            !percentiles(observed[*left] - observed[*right], draws).contains(0.0)
        };
        spreads.push(Spread {
            variant: variant.name.clone(),
            dialogues: per_arm[0].len(),
            recall,
            spread: percentiles(widest(&observed), spread_draws.clone()),
            distance: percentiles(mean_distance(&observed), of(&mean_distance)),
            told_apart: pairs.iter().filter(apart).count(),
            pairs: pairs.len(),
            beyond,
        });
        if number == 0 {
            first_spreads = spread_draws;
        }
    }
    Ok(Comparison { k: options.k, variants: spreads })
}

/// Each arm's mean, per resample of the dialogues that all arms share.
fn resampled_means(per_arm: &[Vec<f64>], resamples: usize, seed: u64) -> Vec<Vec<f64>> {
    let count = per_arm[0].len();
    (0..resamples as u64)
        .map(|resample| {
            let mut stream = Stream::new(bits(seed, resample));
            let drawn: Vec<usize> = (0..count).map(|_| stream.index(count)).collect();
            let mean_of = |values: &Vec<f64>| drawn.iter().map(|d| values[*d]).sum::<f64>() / count as f64;
            per_arm.iter().map(mean_of).collect()
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn widest(means: &[f64]) -> f64 {
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    means.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least
}

fn mean_distance(means: &[f64]) -> f64 {
    let mut distances = Vec::new();
    for (place, left) in means.iter().enumerate() {
        distances.extend(means[place + 1..].iter().map(|right| (left - right).abs()));
    }
    mean(&distances)
}

/// The interval from `draws`' percentiles, with `observed` as its mean.
fn percentiles(observed: f64, mut draws: Vec<f64>) -> Interval {
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws[(share * (draws.len() - 1) as f64).round() as usize];
    let tail = (1.0 - bootstrap::LEVEL) / 2.0;
    Interval { mean: observed, low: at(tail), high: at(1.0 - tail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_of_known_means() {
        assert_eq!(widest(&[0.2, 0.9, 0.5]), 0.9 - 0.2);
        // 0.7, 0.3, 0.4
        assert!((mean_distance(&[0.2, 0.9, 0.5]) - 1.4 / 3.0).abs() < 1e-12);
        let interval = percentiles(0.5, (0..=1000).rev().map(f64::from).collect());
        assert_eq!((interval.mean, interval.low, interval.high), (0.5, 25.0, 975.0));
    }

    #[test]
    fn arms_are_resampled_together() {
        let means = resampled_means(&[vec![0.0, 1.0, 1.0], vec![0.5, 1.5, 1.5]], 50, 3);
        assert!(means.iter().all(|means| (means[1] - means[0] - 0.5).abs() < 1e-12));
        assert!(means.iter().any(|other| other[0] != means[0][0]));
    }
}
