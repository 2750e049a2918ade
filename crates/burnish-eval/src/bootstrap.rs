//! Percentile bootstrap of a mean (Efron 1979; Efron and Tibshirani 1993, chapter 13).
//!
//! From `n` values, `n` are drawn with replacement and averaged, [`RESAMPLES`] times; the interval lies between the
//! 2.5th and the 97.5th percentile of these means. It needs no assumption about the distribution, but it knows nothing
//! beyond the sample: if all values are equal (or there is only one), it has no width, and with fewer than about 20
//! values it is somewhat too narrow.

use burnish_core::rng::{Stream, bits};
use serde::{Deserialize, Serialize};

/// How often the values are resampled. With this many, the ends of the interval move by about a hundredth of its width
/// from seed to seed.
pub const RESAMPLES: usize = 2000;

/// Share of intervals that should hold the true mean.
pub const LEVEL: f64 = 0.95;

/// A mean and the [`LEVEL`] interval around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean of the values.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Is `value` inside, the ends included?
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The mean of `values` (one per task) with its interval; `None` without values.
///
/// `seed` is an address of `Purpose::Bootstrap`: the same seed and values give the same interval, bit for bit.
pub fn mean(values: &[f64], seed: u64) -> Option<Interval> {
    resampled_mean(values, seed, RESAMPLES)
}

/// The mean of `after - before` over pairs, one per task, with its interval; `None` without pairs.
///
/// The interval is much narrower than the difference of two separate ones, because the difficulty of a task cancels
/// out.
pub fn paired_difference(pairs: &[(f64, f64)], seed: u64) -> Option<Interval> {
    let differences: Vec<f64> = pairs.iter().map(|(before, after)| after - before).collect();
    mean(&differences, seed)
}

fn resampled_mean(values: &[f64], seed: u64, resamples: usize) -> Option<Interval> {
    let first = *values.first()?;
    // Averaging deviations from the first value keeps the interval of equal values at exactly that value.
    let deviations: Vec<f64> = values.iter().map(|value| value - first).collect();
    let count = deviations.len();
    let mut means: Vec<f64> = (0..resamples as u64)
        .map(|resample| {
            let mut stream = Stream::new(bits(seed, resample));
            (0..count).map(|_| deviations[stream.index(count)]).sum::<f64>() / count as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    Some(Interval {
        mean: first + deviations.iter().sum::<f64>() / count as f64,
        low: first + quantile(&means, tail),
        high: first + quantile(&means, 1.0 - tail),
    })
}

/// The `share` quantile of sorted values, with linear interpolation between neighbours.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor();
    let low = sorted[below as usize];
    let high = sorted[position.ceil() as usize];
    low + (high - low) * (position - below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Share of `trials` samples of `count` draws whose interval holds `truth`, and the mean width.
    fn coverage(trials: u64, count: u64, truth: f64, draw: impl Fn(&mut Stream) -> f64) -> (f64, f64) {
        let mut held = 0.0;
        let mut width = 0.0;
        for trial in 0..trials {
            let mut stream = Stream::new(bits(99, trial));
            let values: Vec<f64> = (0..count).map(|_| draw(&mut stream)).collect();
            let interval = resampled_mean(&values, bits(7, trial), 400).unwrap();
            held += f64::from(u8::from(interval.contains(truth)));
            width += interval.high - interval.low;
        }
        (held / trials as f64, width / trials as f64)
    }

    #[test]
    fn about_95_of_100_intervals_hold_the_true_mean() {
        let (rate, width) = coverage(1000, 60, 0.3, |stream| f64::from(u8::from(stream.uniform() < 0.3)));
        // Three standard errors of 1000 trials are 0.02; the percentile interval is known to be a little narrow.
        assert!((0.92..0.97).contains(&rate), "Bernoulli: {rate}");
        let expected = 2.0 * 1.96 * (0.3f64 * 0.7 / 60.0).sqrt();
        assert!((width / expected - 1.0).abs() < 0.05, "width {width}, normal theory {expected}");

        let (rate, _) = coverage(1000, 60, 0.0, Stream::normal);
        assert!((0.92..0.97).contains(&rate), "normal: {rate}");
    }

    #[test]
    fn the_interval_of_a_known_sample_agrees_with_normal_theory() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 4 == 0))).collect();
        let interval = mean(&values, 3).unwrap();
        let half = 1.96 * (0.25f64 * 0.75 / 200.0).sqrt();
        assert_eq!(interval.mean, 0.25);
        assert!((interval.low - (0.25 - half)).abs() < 0.008, "{interval:?}");
        assert!((interval.high - (0.25 + half)).abs() < 0.008, "{interval:?}");
    }

    #[test]
    fn no_values_have_no_interval_and_equal_values_have_one_without_width() {
        assert_eq!(mean(&[], 1), None);
        assert_eq!(paired_difference(&[], 1), None);
        assert_eq!(mean(&[0.3], 1), Some(Interval { mean: 0.3, low: 0.3, high: 0.3 }));
        assert_eq!(mean(&[0.1; 37], 1), Some(Interval { mean: 0.1, low: 0.1, high: 0.1 }));
    }

    #[test]
    fn a_gain_shared_by_all_tasks_is_certain_however_much_the_tasks_differ() {
        let pairs: Vec<(f64, f64)> = (0..40).map(|i| (f64::from(i), f64::from(i) + 0.5)).collect();
        assert_eq!(paired_difference(&pairs, 1), Some(Interval { mean: 0.5, low: 0.5, high: 0.5 }));
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[0.0, 1.0, 2.0], 0.25), 0.5);
        assert_eq!(quantile(&[0.0, 1.0, 2.0], 1.0), 2.0);
        assert_eq!(quantile(&[4.0], 0.3), 4.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn an_interval_holds_its_mean_stays_within_the_values_and_is_reproducible(
            values in prop::collection::vec(-5.0f64..5.0, 1..50), seed: u64,
        ) {
            let interval = mean(&values, seed).unwrap();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let slack = 1e-9;
            prop_assert!(least - slack <= interval.low && interval.low <= interval.mean + slack);
            prop_assert!(interval.mean <= interval.high + slack && interval.high <= most + slack);
            prop_assert_eq!(mean(&values, seed), Some(interval));
        }
    }
}
