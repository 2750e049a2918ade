use burnish_core::Sampling;
use burnish_tensor::Vocab;

use crate::filters;

/// A token that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Its id.
    pub id: u32,
    /// Its log-probability in nats under softmax(logits / temperature) over the allowed vocabulary, before
    /// any filter cuts it: what the trainer recomputes. Greedy choices are recorded at temperature 1.
    pub logprob: f32,
}

/// Chooses tokens from logits, and keeps its buffers from one choice to the next.
#[derive(Debug, Default)]
pub struct Chooser {
    /// `(logit - max) / temperature`, as the trainer computes it; -inf where the id is not allowed. `[V]`
    scaled: Vec<f32>,
    /// Probabilities up to a common factor, the likeliest being 1; 0 where a filter cut. `[V]`
    weights: Vec<f32>,
    scratch: filters::Scratch,
}

impl Chooser {
    /// Chooses one id of `vocab` by `logits` `[V]` with the random number `uniform` in `[0, 1)`.
    ///
    /// Temperature 0 takes the likeliest id, the lowest of equal ones. Otherwise the filters apply in the
    /// order temperature, top-k, top-p, min-p, and `uniform` is looked up in the cumulative distribution in
    /// the order of the ids. An id of probability zero is never chosen.
    ///
    /// `None` if the logits can't be normalised: one is NaN or infinite, or no id is allowed.
    pub fn choose(
        &mut self,
        logits: &[f32],
        vocab: &Vocab,
        sampling: &Sampling,
        uniform: f64,
    ) -> Option<Choice> {
        let is_greedy = sampling.temperature == 0.0;
        let temperature = if is_greedy { 1.0 } else { sampling.temperature };
        let likeliest = self.scale(logits, vocab, temperature)?;
        let total = self.weigh();
        if !total.is_finite() {
            return None;
        }
        let id = if is_greedy {
            likeliest
        } else if sampling.is_truncating() {
            filters::truncate(&self.scaled, &mut self.weights, sampling, &mut self.scratch);
            let kept = self.weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
            pick(&self.weights, uniform * kept)?
        } else {
            pick(&self.weights, uniform * total)?
        };
        let below = f64::from(logits[id]) - f64::from(logits[likeliest]);
        Some(Choice { id: id as u32, logprob: (below / f64::from(temperature) - total.ln()) as f32 })
    }

    /// Fills `scaled`; gives the first index of the greatest.
    fn scale(&mut self, logits: &[f32], vocab: &Vocab, temperature: f32) -> Option<usize> {
        self.scaled.clear();
        self.scaled.extend_from_slice(logits);
        for &id in vocab.excluded() {
            self.scaled[id as usize] = f32::NEG_INFINITY;
        }
        let max = self.scaled.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !max.is_finite() {
            return None;
        }
        let likeliest = self.scaled.iter().position(|&logit| logit == max);
        self.scaled.iter_mut().for_each(|logit| *logit = (*logit - max) / temperature);
        likeliest
    }

    /// Fills `weights`; gives their sum, in the order of the ids. A NaN among the logits makes it NaN.
    fn weigh(&mut self) -> f64 {
        self.weights.clear();
        self.weights.extend(self.scaled.iter().map(|value| value.exp()));
        self.weights.iter().map(|&weight| f64::from(weight)).sum()
    }
}

/// The first index at which the running sum exceeds `target`. The sum stands still on a zero weight, so none
/// is ever picked.
fn pick(weights: &[f32], target: f64) -> Option<usize> {
    let mut cumulative = 0.0;
    for (index, &weight) in weights.iter().enumerate() {
        cumulative += f64::from(weight);
        if cumulative > target {
            return Some(index);
        }
    }
    // Only a target that rounding lifted to the whole sum gets here.
    weights.iter().rposition(|&weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::rng;
    use proptest::prelude::*;

    fn choose(logits: &[f32], sampling: &Sampling, uniform: f64) -> Option<Choice> {
        Chooser::default().choose(logits, &Vocab::all(logits.len()), sampling, uniform)
    }

    /// Random logits of the size that a trained model has.
    fn random_logits(seed: u64, n: usize) -> Vec<f32> {
        let mut stream = rng::Stream::new(seed);
        (0..n).map(|_| (stream.normal() * 2.0) as f32).collect()
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let exps: Vec<f64> = logits.iter().map(|&x| (f64::from(x) / temperature).exp()).collect();
        let total: f64 = exps.iter().sum();
        exps.into_iter().map(|e| e / total).collect()
    }

    /// The distribution that `sampling` asks for, written as plainly as possible: each filter renormalises.
    fn filtered_softmax(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
        let mut p = softmax(logits, f64::from(sampling.temperature));
        let renormalise = |p: &mut Vec<f64>| {
            let total: f64 = p.iter().sum();
            p.iter_mut().for_each(|x| *x /= total);
        };
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
        if sampling.top_k > 0 {
            order.iter().skip(sampling.top_k).for_each(|&id| p[id] = 0.0);
            renormalise(&mut p);
        }
        if sampling.top_p < 1.0 {
            let mut reached = 0.0;
            for &id in &order {
                let is_kept = reached < f64::from(sampling.top_p);
                reached += p[id];
                if !is_kept {
                    p[id] = 0.0;
                }
            }
            renormalise(&mut p);
        }
        let bar = f64::from(sampling.min_p) * p.iter().copied().fold(0.0, f64::max);
        p.iter_mut().filter(|x| **x < bar).for_each(|x| *x = 0.0);
        renormalise(&mut p);
        p
    }

    /// Draws 10^5 times, as a request with this seed would at positions 0, 1, 2 ...
    fn check_frequencies(sampling: &Sampling, ids_expected: usize) {
        const DRAWS: u64 = 100_000;
        let logits = random_logits(3, 40);
        let expected = filtered_softmax(&logits, sampling);
        let mut counts = vec![0f64; logits.len()];
        let mut chooser = Chooser::default();
        let vocab = Vocab::all(logits.len());
        for position in 0..DRAWS {
            let choice = chooser.choose(&logits, &vocab, sampling, rng::uniform(17, position)).unwrap();
            counts[choice.id as usize] += 1.0;
        }
        let possible: Vec<usize> = (0..logits.len()).filter(|&id| expected[id] > 0.0).collect();
        assert_eq!(possible.len(), ids_expected, "{sampling:?} cuts otherwise");
        assert_eq!(possible.iter().map(|&id| counts[id]).sum::<f64>(), DRAWS as f64, "{sampling:?}");
        // Ids that are expected fewer than 5 times share one cell, as the chi-square approximation asks.
        let (rare, common): (Vec<usize>, Vec<usize>) =
            possible.into_iter().partition(|&id| expected[id] * (DRAWS as f64) < 5.0);
        let sum_of = |values: &[f64]| rare.iter().map(|&id| values[id]).sum::<f64>();
        let mut cells: Vec<(f64, f64)> =
            common.iter().map(|&id| (counts[id], expected[id] * DRAWS as f64)).collect();
        if !rare.is_empty() {
            cells.push((sum_of(&counts), sum_of(&expected) * DRAWS as f64));
        }
        let chi2: f64 = cells.iter().map(|(n, e)| (n - e).powi(2) / e).sum();
        let freedom = (cells.len() - 1) as f64;
        // 99.9 % quantile of chi-square by Wilson and Hilferty (1931).
        let step = 2.0 / (9.0 * freedom);
        let quantile = freedom * (1.0 - step + 3.09 * step.sqrt()).powi(3);
        assert!(chi2 < quantile, "{sampling:?}: chi-square {chi2:.1} of at most {quantile:.1}");
    }

    #[test]
    fn frequencies_match_the_softmax() {
        check_frequencies(&Sampling::at(1.0, 1), 40);
    }

    #[test]
    fn frequencies_match_the_softmax_at_other_temperatures() {
        check_frequencies(&Sampling::at(0.6, 1), 40);
        check_frequencies(&Sampling::at(1.7, 1), 40);
    }

    #[test]
    fn frequencies_match_the_filtered_softmax() {
        let all = Sampling::at(1.0, 1);
        check_frequencies(&Sampling { top_k: 9, ..all.clone() }, 9);
        check_frequencies(&Sampling { top_p: 0.9, ..all.clone() }, 10);
        check_frequencies(&Sampling { min_p: 0.05, ..all.clone() }, 6);
        check_frequencies(&Sampling { temperature: 1.4, top_k: 30, top_p: 0.95, min_p: 0.04, ..all }, 15);
    }

    #[test]
    fn temperature_zero_takes_the_lowest_of_the_likeliest_ids_and_records_temperature_one() {
        let logits = [0.5, 2.0, -1.0, 2.0];
        let choice = choose(&logits, &Sampling::greedy(1), 0.99).unwrap();
        assert_eq!(choice.id, 1);
        assert!((f64::from(choice.logprob) - softmax(&logits, 1.0)[1].ln()).abs() < 1e-6);
    }

    #[test]
    fn filters_change_what_is_chosen_but_not_its_log_probability() {
        let logits = random_logits(8, 100);
        let filtered = Sampling { top_k: 5, top_p: 0.7, min_p: 0.1, ..Sampling::at(0.8, 1) };
        let choice = choose(&logits, &filtered, 0.3).unwrap();
        let expected = softmax(&logits, 0.8)[choice.id as usize].ln();
        assert!((f64::from(choice.logprob) - expected).abs() < 1e-6);
    }

    #[test]
    fn the_ends_of_the_unit_interval_give_the_first_and_the_last_possible_id() {
        let logits = [f32::MIN, 1.0, 1.0, f32::MIN];
        let almost_one = 1.0 - f64::EPSILON / 2.0;
        assert_eq!(choose(&logits, &Sampling::at(1.0, 1), 0.0).unwrap().id, 1);
        assert_eq!(choose(&logits, &Sampling::at(1.0, 1), almost_one).unwrap().id, 2);
    }

    #[test]
    fn the_lowest_temperatures_choose_as_greedy_does() {
        for temperature in [1e-6, 1e-20, f32::MIN_POSITIVE] {
            let choice = choose(&[3.0, 40.0, -7.0], &Sampling::at(temperature, 1), 0.7).unwrap();
            assert_eq!(choice, Choice { id: 1, logprob: 0.0 });
        }
    }

    #[test]
    fn logits_that_are_no_distribution_are_refused() {
        for bad in [[f32::NAN, 0.0], [f32::INFINITY, 0.0], [f32::NEG_INFINITY; 2]] {
            assert_eq!(choose(&bad, &Sampling::at(1.0, 1), 0.5), None);
            assert_eq!(choose(&bad, &Sampling::greedy(1), 0.5), None);
        }
        let none = Vocab::only(2, |_| false);
        assert_eq!(Chooser::default().choose(&[0.0, 1.0], &none, &Sampling::greedy(1), 0.5), None);
    }

    #[test]
    fn log_probabilities_of_the_whole_qwen3_vocabulary_sum_to_one() {
        let logits = random_logits(4, 151_936);
        let mut chooser = Chooser::default();
        let vocab = Vocab::all(logits.len());
        let choice = chooser.choose(&logits, &vocab, &Sampling::at(1.0, 1), 0.5).unwrap();
        let expected = softmax(&logits, 1.0)[choice.id as usize].ln();
        assert!((f64::from(choice.logprob) - expected).abs() < 1e-5);
    }

    proptest! {
        #[test]
        fn an_excluded_id_is_never_chosen(
            seed in 0u64..1000,
            uniform in 0.0..1.0f64,
            temperature in prop_oneof![Just(0.0f32), 0.1..3.0f32],
            top_k in 0usize..8,
            top_p in prop_oneof![Just(1.0f32), 0.01..1.0f32],
            min_p in prop_oneof![Just(0.0f32), 0.0..1.0f32],
        ) {
            let mut logits = random_logits(seed, 30);
            let vocab = Vocab::only(30, |id| id % 3 == 1);
            // What is excluded would win by far, and what underflows to probability zero is not excluded.
            logits[2] = 60.0;
            logits[4] = -1e4;
            let sampling = Sampling { top_k, top_p, min_p, ..Sampling::at(temperature, 1) };
            let choice = Chooser::default().choose(&logits, &vocab, &sampling, uniform).unwrap();
            prop_assert_eq!(choice.id % 3, 1);
            prop_assert_ne!(choice.id, 4);
            prop_assert!(choice.logprob <= 0.0 && choice.logprob.is_finite());
        }
    }
}
