//! The effect of a change, over the seeds of a study.
//!
//! Two arms are trained with the same seeds. A seed is a whole replication: its own starting policy, training tasks,
//! random numbers and held-out tasks, which both arms share. So each seed gives one number per arm and one difference,
//! and the differences are independent draws of one distribution. What varies less than that, such as the episodes of
//! one evaluation, is inside of them.
//!
//! **Interval.** The mean difference `± t(97.5 %, S - 1) s / √S` (Student 1908), with the standard deviation `s` of the
//! `S` differences: exact for normal differences, at any number of seeds. A bootstrap of few seeds is too narrow,
//! because two or three values do not show how wide their distribution is.
//!
//! **Several claims.** [`holm`] keeps the probability that any of several true null hypotheses is rejected below the
//! level (Holm 1979, "A simple sequentially rejective multiple test procedure").
//!
//! **Smallest detectable effect.** `(t(1 - 2.5 % / m, S - 1) + t(80 %, S - 1)) s / √S`, of `m` tests: a true effect of
//! that size is found in about 80 % of studies.

use serde::{Deserialize, Serialize};

use crate::student;

/// Share of intervals that hold the true mean.
const LEVEL: f64 = 0.95;
/// Probability with which the smallest detectable effect is found.
const POWER: f64 = 0.8;

/// A mean over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number of seeds.
    pub seeds: usize,
    /// The mean.
    pub mean: f64,
    /// Standard deviation of the seeds' values (n - 1). `None` of one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

impl Estimate {
    /// The mean of one value for each seed; `None` without any, or if one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let count = values.len() as f64;
        // Deviations from the first value keep the spread of equal values at exactly 0.
        let deviation = values.iter().map(|value| value - values[0]).sum::<f64>() / count;
        let mean = values[0] + deviation;
        let squares: f64 = values.iter().map(|value| (value - values[0] - deviation).powi(2)).sum();
        let spread = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Some(Estimate { seeds: values.len(), mean, spread })
    }

    /// The bounds of the 95 % interval. `None` of one seed.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let half = student::quantile(1.0 - (1.0 - LEVEL) / 2.0, self.freedom()?) * self.standard_error()?;
        Some([self.mean - half, self.mean + half])
    }

    /// The probability of a mean at least this far from 0 if the true mean is 0. `None` of one seed.
    pub fn p_value(&self) -> Option<f64> {
        let (freedom, error) = (self.freedom()?, self.standard_error()?);
        if error == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        Some(student::outside(self.mean / error, freedom))
    }

    /// See [`smallest_detectable`], with the spread that was found.
    pub fn smallest_detectable(&self, tests: usize) -> Option<f64> {
        smallest_detectable(self.spread?, self.seeds, tests)
    }

    fn freedom(&self) -> Option<usize> {
        self.seeds.checked_sub(1).filter(|freedom| *freedom > 0)
    }

    fn standard_error(&self) -> Option<f64> {
        Some(self.spread? / (self.seeds as f64).sqrt())
    }
}

/// The effect that is found with a probability of about 80 % where differences of `seeds` seeds have this standard
/// deviation, and `tests` hypotheses are tested together. `None` of fewer than two seeds.
pub fn smallest_detectable(spread: f64, seeds: usize, tests: usize) -> Option<f64> {
    let freedom = seeds.checked_sub(1).filter(|freedom| *freedom > 0)?;
    let size = (1.0 - LEVEL) / 2.0 / tests.max(1) as f64;
    let multiple = student::quantile(1.0 - size, freedom) + student::quantile(POWER, freedom);
    Some(multiple * spread / (seeds as f64).sqrt())
}

/// Holm's adjusted p-values, in the order of `p`: one that is below 5 % rejects its hypothesis, with a probability of
/// at most 5 % that any of the hypotheses rejected in this way is true.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| p[*one].total_cmp(&p[*other]));
    let mut adjusted = vec![0.0; p.len()];
    let mut highest: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        highest = highest.max((p.len() - rank) as f64 * p[at]).min(1.0);
        adjusted[at] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_interval_is_the_one_of_the_textbook() {
        let found = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((found.seeds, found.mean, found.spread), (5, 3.0, Some(2.5f64.sqrt())));
        // t(97.5 %, 4) = 2.776445; the standard error is √(2.5 / 5).
        let [low, high] = found.interval().unwrap();
        assert!((high - 3.0 - 2.776_445 * 0.5f64.sqrt()).abs() < 1e-5, "{high}");
        assert!((low + high - 6.0).abs() < 1e-12);
        // scipy.stats.ttest_1samp([1, 2, 3, 4, 5], 0).pvalue
        assert!((found.p_value().unwrap() - 0.013_236).abs() < 1e-6, "{:?}", found.p_value());
    }

    #[test]
    fn one_seed_has_no_interval_and_equal_ones_are_certain() {
        let one = Estimate::of(&[0.5]).unwrap();
        assert_eq!((one.interval(), one.p_value(), one.smallest_detectable(1)), (None, None, None));
        assert_eq!((Estimate::of(&[]), Estimate::of(&[1.0, f64::NAN])), (None, None));
        let same = Estimate::of(&[0.1; 5]).unwrap();
        assert_eq!((same.interval(), same.p_value()), (Some([0.1, 0.1]), Some(0.0)));
        assert_eq!(Estimate::of(&[0.0; 5]).unwrap().p_value(), Some(1.0));
    }

    #[test]
    fn holm_is_stepwise() {
        // Holm 1979; R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.2]), [0.2]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn an_interval_leaves_out_0_where_the_p_value_is_below_5_percent(
            values in prop::collection::vec(-1.0f64..1.5, 2..9),
        ) {
            let found = Estimate::of(&values).unwrap();
            let [low, high] = found.interval().unwrap();
            prop_assert_eq!(low > 0.0 || high < 0.0, found.p_value().unwrap() < 0.05);
        }

        #[test]
        fn holm_never_lowers_a_p_value_and_keeps_their_order(p in prop::collection::vec(0.0f64..1.0, 1..6)) {
            let adjusted = holm(&p);
            for (at, adjusted_p) in adjusted.iter().enumerate() {
                prop_assert!(*adjusted_p >= p[at]);
                for (other, other_p) in adjusted.iter().enumerate() {
                    prop_assert!(p[at] > p[other] || adjusted_p <= other_p);
                }
            }
        }
    }
}
