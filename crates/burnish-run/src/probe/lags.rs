//! How far back routing learns to look: the gradient of attention logits by lag, and how fast it falls.

use burnish_core::{Message, Task, Trace};
use burnish_train::{LogitProbe, Sample};
use serde::Serialize;

use crate::RunError;
use crate::policy::LoadedPolicy;

/// One layer of attention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LagProfile {
    /// Its number in the model.
    pub layer: usize,
    /// For each lag `τ`, the mean over tokens, heads and tasks of `|∂L/∂e[t,t−τ]|`: `e` is a logit of attention and
    /// `L` the mean negative log-likelihood of a task's answers.
    pub gradient: Vec<f64>,
    /// Numbers that this is the mean of.
    pub counts: Vec<u64>,
    /// `W` of the curve `c·exp(−τ/W)` that fits from lag 1 on, in tokens; `None` if it does not fall.
    pub window: Option<f64>,
}

impl LagProfile {
    /// The mean gradient over the lags of a range.
    pub fn mean(&self, lags: std::ops::Range<usize>) -> Option<f64> {
        let lags = lags.start..lags.end.min(self.gradient.len());
        let of = |lag: usize| (self.gradient[lag] * self.counts[lag] as f64, self.counts[lag]);
        let (sum, count) =
            lags.map(of).fold((0.0, 0), |(sum, count), (own, of_own)| (sum + own, count + of_own));
        (count > 0).then(|| sum / count as f64)
    }
}

/// The profile of a policy on right answers to tasks; `demonstrate` gives a whole episode.
pub(super) fn profile(
    policy: &LoadedPolicy,
    tasks: &[Task],
    demonstrate: &dyn Fn(&Task) -> Option<Vec<Message>>,
) -> Result<Vec<LagProfile>, RunError> {
    let mut samples = Vec::new();
    for episode in tasks.iter().filter_map(demonstrate) {
        let mut trace = Trace::new();
        policy.chat.demonstrate(&mut trace, &episode, &[])?;
        samples.extend(trace.branches().iter().map(Sample::from_demonstration));
    }
    // The last token of a sample is not read.
    samples.retain(|sample| sample.ids.len() <= policy.model.context_tokens_max() + 1);
    let rows = samples.iter().map(|sample| sample.ids.len()).max().unwrap_or(0);
    let probe = LogitProbe::new(&policy.model, rows);
    let mut sums: Vec<(usize, Vec<f64>, Vec<u64>)> = Vec::new();
    for sample in &samples {
        probe.differentiate(sample, &mut |logits| {
            let at = sums.iter().position(|(layer, ..)| *layer == logits.layer).unwrap_or_else(|| {
                sums.push((logits.layer, vec![0.0; rows], vec![0; rows]));
                sums.len() - 1
            });
            let (_, sum, count) = &mut sums[at];
            for (lag, value) in logits.values.iter().rev().enumerate() {
                sum[lag] += value.abs();
                count[lag] += 1;
            }
        })?;
    }
    Ok(sums.into_iter().map(of_layer).collect())
}

fn of_layer((layer, sums, mut counts): (usize, Vec<f64>, Vec<u64>)) -> LagProfile {
    counts.truncate(counts.iter().take_while(|count| **count > 0).count());
    let gradient: Vec<f64> = sums.iter().zip(&counts).map(|(sum, &count)| sum / count as f64).collect();
    let window = window(&gradient, &counts);
    LagProfile { layer, gradient, counts, window }
}

/// `W` of `c·exp(−τ/W)`: least squares of the logarithm over the lags from 1 on, each with the weight `counts`. `None`
/// if the line does not fall, or there are fewer than two lags with a gradient.
fn window(gradient: &[f64], counts: &[u64]) -> Option<f64> {
    let points: Vec<(f64, f64, f64)> = (0..)
        .zip(gradient)
        .zip(counts)
        .skip(1)
        .filter(|((_, value), _)| **value > 0.0)
        .map(|((lag, value), &count)| (f64::from(lag), value.ln(), count as f64))
        .collect();
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let weight = sum(&|point| point.2);
    let [lag, log] =
        [sum(&|point| point.2 * point.0), sum(&|point| point.2 * point.1)].map(|sum| sum / weight);
    let variance = sum(&|point| point.2 * (point.0 - lag).powi(2));
    let slope = sum(&|point| point.2 * (point.0 - lag) * (point.1 - log)) / variance;
    (slope < 0.0 && slope.is_finite()).then(|| -1.0 / slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_an_exponential_is_found() {
        let falls: Vec<f64> = (0..60).map(|lag| 3.0 * (-f64::from(lag) / 7.5).exp()).collect();
        let found = window(&falls, &[4; 60]).unwrap();
        assert!((found - 7.5).abs() < 1e-9, "{found}");
        // What lies at lag 0, and lags without a gradient, do not count.
        let mut other = falls.clone();
        (other[0], other[9]) = (1e6, 0.0);
        assert!((window(&other, &[4; 60]).unwrap() - 7.5).abs() < 1e-9);
        let rises: Vec<f64> = falls.iter().rev().copied().collect();
        assert_eq!(window(&rises, &[4; 60]), None);
        assert_eq!(window(&[1.0, 0.5], &[2, 1]), None);
        assert_eq!(window(&[], &[]), None);
    }

    #[test]
    fn means_over_lags_are_weighted_by_their_counts() {
        let profile = LagProfile { layer: 0, gradient: vec![4.0, 1.0], counts: vec![1, 3], window: None };
        assert_eq!(profile.mean(0..2), Some(7.0 / 4.0));
        assert_eq!(profile.mean(1..9), Some(1.0));
        assert_eq!(profile.mean(2..9), None);
    }
}
