use burnish_core::{Sampling, TokenLogprobs};
use burnish_tensor::{Vocab, softmax};

use crate::control::Steer;
use crate::past::Past;
use crate::{filters, top};

/// A token that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Its id.
    pub id: u32,
    /// Its log-probability in nats under softmax(logits / temperature) over the allowed vocabulary, before
    /// penalties and filters: what the trainer recomputes. Greedy choices are recorded at temperature 1.
    pub model_logprob: f32,
    /// Its log-probability in nats under the distribution that it was drawn from; 0 for greedy choices.
    pub sampled_logprob: f32,
}

/// Chooses tokens from logits; its buffers are reused from choice to choice.
#[derive(Debug, Default)]
pub struct Chooser {
    /// `(logit - max) / temperature`, as the trainer computes it; -inf where the id is not allowed. `[V]`
    scaled: Vec<f32>,
    /// The same for the logits as the past altered them, if it did. `[V]`
    altered: Vec<f32>,
    /// Probabilities up to a common factor, where the likeliest is 1; 0 where a filter dropped the id. `[V]`
    weights: Vec<f32>,
    scratch: filters::Scratch,
    whole: Whole,
}

/// The model's own distribution.
#[derive(Debug, Default)]
struct Whole {
    temperature: f64,
    /// The greatest logit.
    max: f64,
    /// Logarithm of the sum of weights.
    log_total: f64,
}

impl Whole {
    fn logprob(&self, logit: f32) -> f32 {
        ((f64::from(logit) - self.max) / self.temperature - self.log_total) as f32
    }
}

impl Chooser {
    /// Chooses one id of `vocab` from `logits` `[V]`, with the random number `uniform` in `[0, 1)`.
    ///
    /// First `past` alters the logits. At temperature 0 the likeliest id is then chosen, of equal ones the lowest.
    /// Otherwise the filters apply in the order temperature, top-k, top-p, min-p, and `uniform` is looked up in the
    /// cumulative distribution over the ids in order. An id of probability zero is never chosen.
    ///
    /// `None` if the logits can't be normalised: one is NaN or infinite, or no id is allowed.
    pub fn choose(
        &mut self,
        logits: &[f32],
        vocab: &Vocab,
        sampling: &Sampling,
        past: Past<'_>,
        uniform: f64,
    ) -> Option<Choice> {
        let is_greedy = sampling.temperature == 0.0;
        let temperature = if is_greedy { 1.0 } else { sampling.temperature };
        copy_allowed(&mut self.scaled, logits, vocab);
        let mut likeliest = scale(&mut self.scaled, temperature)?;
        let mut mass = weigh(&mut self.weights, &self.scaled);
        if !mass.is_finite() {
            return None;
        }
        let max = f64::from(logits[likeliest]);
        self.whole = Whole { temperature: f64::from(temperature), max, log_total: mass.ln() };

        let is_altered = past.is_altering(sampling);
        if is_altered {
            copy_allowed(&mut self.altered, logits, vocab);
            past.alter(&mut self.altered, sampling);
            likeliest = scale(&mut self.altered, temperature)?;
            mass = weigh(&mut self.weights, &self.altered);
        }
        if !is_greedy && sampling.is_truncating() {
            let scaled = if is_altered { &self.altered } else { &self.scaled };
            filters::truncate(scaled, &mut self.weights, sampling, &mut self.scratch);
            mass = self.weights.iter().map(|&weight| f64::from(weight)).sum();
        }
        let id = if is_greedy { likeliest } else { pick(&self.weights, uniform * mass)? };
        let model_logprob = self.whole.logprob(logits[id]);
        let sampled_logprob = if is_greedy {
            0.0
        } else if is_altered || sampling.is_truncating() {
            (f64::from(self.weights[id]) / mass).ln() as f32
        } else {
            model_logprob
        };
        Some(Choice { id: id as u32, model_logprob, sampled_logprob })
    }

    /// The choice of an id of `vocab` that was decided on. `None` if the logits can't be normalised, or the id is not
    /// in the vocabulary.
    pub fn force(&mut self, logits: &[f32], vocab: &Vocab, sampling: &Sampling, id: u32) -> Option<Choice> {
        let alone = Steer::only(id);
        let certain = Sampling { temperature: sampling.temperature, ..Sampling::at(1.0, 1) };
        let choice = self.choose(logits, vocab, &certain, Past { seen: None, steer: Some(&alone) }, 0.0)?;
        Some(Choice { sampled_logprob: 0.0, ..choice })
    }

    /// Details of the newest choice, which was made from `logits`: its rank in the whole distribution, and the `n`
    /// likeliest ids.
    pub fn details(&self, logits: &[f32], choice: Choice, n: usize) -> TokenLogprobs {
        let chosen = self.scaled[choice.id as usize];
        let rank = self.scaled.iter().filter(|&&value| value >= chosen).count();
        let mut top = Vec::with_capacity(n);
        top::likeliest(&self.scaled, n, &mut top);
        let top = top.into_iter().map(|id| (id, self.whole.logprob(logits[id as usize]))).collect();
        TokenLogprobs { rank, top, sampled: choice.sampled_logprob }
    }
}

/// Copies the logits, with -inf for ids that are not allowed.
fn copy_allowed(to: &mut Vec<f32>, logits: &[f32], vocab: &Vocab) {
    to.clear();
    to.extend_from_slice(logits);
    for &id in vocab.excluded() {
        to[id as usize] = f32::NEG_INFINITY;
    }
}

/// Turns logits into `(logit - max) / temperature`; returns the first index of the greatest.
fn scale(logits: &mut [f32], temperature: f32) -> Option<usize> {
    let max = softmax::maximum(logits);
    if !max.is_finite() {
        return None;
    }
    let likeliest = logits.iter().position(|&logit| logit == max);
    softmax::shift_and_divide(logits, max, temperature);
    likeliest
}

/// Fills `weights` and returns their sum, which is NaN if a logit is NaN.
fn weigh(weights: &mut Vec<f32>, scaled: &[f32]) -> f64 {
    weights.resize(scaled.len(), 0.0);
    softmax::exponentials(scaled, weights)
}

/// The first index at which the running sum exceeds `target`. A zero weight does not raise the sum, so it is never
/// picked.
fn pick(weights: &[f32], target: f64) -> Option<usize> {
    let mut cumulative = 0.0;
    for (index, &weight) in weights.iter().enumerate() {
        cumulative += f64::from(weight);
        if cumulative > target {
            return Some(index);
        }
    }
    // Reached only if rounding lifted the target to the whole sum.
    weights.iter().rposition(|&weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seen;
    use burnish_core::rng;
    use proptest::prelude::*;

    fn choose(logits: &[f32], sampling: &Sampling, uniform: f64) -> Option<Choice> {
        Chooser::default().choose(logits, &Vocab::all(logits.len()), sampling, Past::default(), uniform)
    }

    /// Random logits of a size typical of a trained model.
    fn random_logits(seed: u64, n: usize) -> Vec<f32> {
        let mut stream = rng::Stream::new(seed);
        (0..n).map(|_| (stream.normal() * 2.0) as f32).collect()
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let exps: Vec<f64> = logits.iter().map(|&x| (f64::from(x) / temperature).exp()).collect();
        let total: f64 = exps.iter().sum();
        exps.into_iter().map(|e| e / total).collect()
    }

    /// The distribution that `sampling` asks for, computed as plainly as possible: each filter renormalises.
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

    /// Draws 10^5 times, as a request with this seed would do at positions 0, 1, 2 ...
    fn check_frequencies(sampling: &Sampling, ids_expected: usize) {
        const DRAWS: u64 = 100_000;
        let logits = random_logits(3, 40);
        let expected = filtered_softmax(&logits, sampling);
        let mut counts = vec![0f64; logits.len()];
        let mut chooser = Chooser::default();
        let vocab = Vocab::all(logits.len());
        for position in 0..DRAWS {
            let choice = chooser
                .choose(&logits, &vocab, sampling, Past::default(), rng::uniform(17, position))
                .unwrap();
            counts[choice.id as usize] += 1.0;
        }
        let possible: Vec<usize> = (0..logits.len()).filter(|&id| expected[id] > 0.0).collect();
        assert_eq!(possible.len(), ids_expected, "{sampling:?} cuts otherwise");
        assert_eq!(possible.iter().map(|&id| counts[id]).sum::<f64>(), DRAWS as f64, "{sampling:?}");
        // Ids that are expected fewer than 5 times share one cell, as the chi-square approximation requires.
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
        assert!((f64::from(choice.model_logprob) - softmax(&logits, 1.0)[1].ln()).abs() < 1e-6);
    }

    #[test]
    fn filters_change_what_is_chosen_but_not_its_log_probability_under_the_model() {
        let logits = random_logits(8, 100);
        let filtered = Sampling { top_k: 5, top_p: 0.7, min_p: 0.1, ..Sampling::at(0.8, 1) };
        let choice = choose(&logits, &filtered, 0.3).unwrap();
        let expected = softmax(&logits, 0.8)[choice.id as usize].ln();
        assert!((f64::from(choice.model_logprob) - expected).abs() < 1e-6);
    }

    #[test]
    fn the_sampled_log_probability_is_that_of_the_filtered_and_penalised_distribution() {
        let logits = random_logits(8, 100);
        let sampling = Sampling {
            top_k: 30,
            top_p: 0.8,
            repetition_penalty: 1.5,
            frequency_penalty: 0.4,
            presence_penalty: -0.3,
            ..Sampling::at(0.8, 1)
        };
        let mut seen = Seen::in_prompt(&(0..50).collect::<Vec<u32>>());
        (20..70).chain(40..60).for_each(|id| seen.push(id));
        let mut steer = Steer::default();
        steer.forbid([3, 55, 1000, 99]);
        let past = Past { seen: Some(&seen), steer: Some(&steer) };

        let mut penalised = logits.clone();
        past.alter(&mut penalised, &sampling);
        let expected = filtered_softmax(&penalised, &sampling);
        let mut chooser = Chooser::default();
        let mut ids = std::collections::BTreeSet::new();
        for position in 0..400 {
            let uniform = rng::uniform(1, position);
            let choice = chooser.choose(&logits, &Vocab::all(100), &sampling, past, uniform).unwrap();
            let id = choice.id as usize;
            assert!((f64::from(choice.sampled_logprob) - expected[id].ln()).abs() < 1e-5);
            assert!((f64::from(choice.model_logprob) - softmax(&logits, 0.8)[id].ln()).abs() < 1e-5);
            ids.insert(id);
        }
        assert!(ids.len() > 5 && ids.iter().all(|id| ![3, 55, 99].contains(id)), "{ids:?}");
        // Where nothing is cut, the two log-probs are equal.
        let choice = choose(&logits, &Sampling::at(0.8, 1), 0.4).unwrap();
        assert_eq!(choice.model_logprob, choice.sampled_logprob);
        assert_eq!(choose(&logits, &Sampling::greedy(1), 0.4).unwrap().sampled_logprob, 0.0);
    }

    #[test]
    fn greedy_choices_heed_penalties_and_forbidden_ids() {
        let logits = [1.0, 3.0, 2.5];
        let sampling = Sampling { presence_penalty: 1.0, ..Sampling::greedy(1) };
        let mut seen = Seen::default();
        seen.push(1);
        let vocab = Vocab::all(3);
        let id = |forbidden: &[u32]| {
            let mut steer = Steer::default();
            steer.forbid(forbidden.iter().copied());
            let past = Past { seen: Some(&seen), steer: Some(&steer) };
            Chooser::default().choose(&logits, &vocab, &sampling, past, 0.0).map(|c| c.id)
        };
        assert_eq!(id(&[]), Some(2));
        assert_eq!(id(&[2]), Some(1));
        assert_eq!(id(&[2, 1, 0]), None);
    }

    #[test]
    fn details_are_those_of_the_whole_distribution() {
        let mut logits = random_logits(2, 60);
        logits[7] = logits[31];
        logits[5] = 90.0;
        let vocab = Vocab::only(60, |id| id != 5);
        let sampling = Sampling { top_k: 12, repetition_penalty: 3.0, ..Sampling::at(1.3, 1) };
        let seen = Seen::in_prompt(&[1, 2, 3, 4]);
        let past = Past { seen: Some(&seen), steer: None };
        let mut allowed = logits.clone();
        allowed[5] = f32::NEG_INFINITY;
        let p = softmax(&allowed, 1.3);
        let mut order: Vec<usize> = (0..60).filter(|&id| id != 5).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
        let mut chooser = Chooser::default();
        for uniform in [0.0, 0.3, 0.6, 0.99] {
            let choice = chooser.choose(&logits, &vocab, &sampling, past, uniform).unwrap();
            for n in [0, 1, 5, 59, 100] {
                let TokenLogprobs { rank, top, sampled } = chooser.details(&logits, choice, n);
                assert_eq!(sampled, choice.sampled_logprob);
                assert_eq!(rank, p.iter().filter(|&&x| x >= p[choice.id as usize]).count());
                let ids: Vec<usize> = top.iter().map(|&(id, _)| id as usize).collect();
                assert_eq!(ids, order[..n.min(59)]);
                for (id, logprob) in top {
                    assert!((f64::from(logprob) - p[id as usize].ln()).abs() < 1e-5);
                }
            }
        }
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
            assert_eq!(choice, Choice { id: 1, model_logprob: 0.0, sampled_logprob: 0.0 });
        }
    }

    #[test]
    fn logits_that_are_no_distribution_are_refused() {
        for bad in [[f32::NAN, 0.0], [f32::INFINITY, 0.0], [f32::NEG_INFINITY; 2]] {
            assert_eq!(choose(&bad, &Sampling::at(1.0, 1), 0.5), None);
            assert_eq!(choose(&bad, &Sampling::greedy(1), 0.5), None);
        }
        let none = Vocab::only(2, |_| false);
        assert_eq!(
            Chooser::default().choose(&[0.0, 1.0], &none, &Sampling::greedy(1), Past::default(), 0.5),
            None
        );
    }

    #[test]
    fn log_probabilities_of_the_whole_qwen3_vocabulary_sum_to_one() {
        let logits = random_logits(4, 151_936);
        let mut chooser = Chooser::default();
        let vocab = Vocab::all(logits.len());
        let choice = chooser.choose(&logits, &vocab, &Sampling::at(1.0, 1), Past::default(), 0.5).unwrap();
        let expected = softmax(&logits, 1.0)[choice.id as usize].ln();
        assert!((f64::from(choice.model_logprob) - expected).abs() < 1e-5);
    }

    proptest! {
        #[test]
        fn one_log_prob_is_the_models_and_the_other_that_of_the_draw(
            seed in 0u64..1000,
            uniform in 0.0..1.0f64,
            temperature in prop_oneof![1 => Just(0.0f32), 4 => 0.3..2.0f32],
            top_k in prop_oneof![Just(0usize), 1usize..30],
            top_p in prop_oneof![Just(1.0f32), 0.1..1.0f32],
            min_p in prop_oneof![Just(0.0f32), 0.0..0.5f32],
            penalties in prop_oneof![Just((1.0f32, 0.0f32, 0.0f32)), (0.6..1.8f32, -1.0..1.0f32, -1.0..1.0f32)],
            forbidden in prop_oneof![Just(Vec::new()), prop::collection::vec(0u32..40, 1..5)],
            biases in prop_oneof![Just(Vec::new()), prop::collection::vec((0u32..40, -3.0..3.0f32), 1..4)],
        ) {
            let logits = random_logits(seed, 40);
            let vocab = Vocab::only(40, |id| id % 7 != 3);
            let (repetition_penalty, frequency_penalty, presence_penalty) = penalties;
            let sampling = Sampling {
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                frequency_penalty,
                presence_penalty,
                ..Sampling::at(temperature, 1)
            };
            let mut seen = Seen::in_prompt(&[1, 2, 5, 8, 13]);
            [8, 21, 34, 21].into_iter().for_each(|id| seen.push(id));
            let mut steer = Steer::default();
            steer.forbid(forbidden.iter().copied());
            biases.iter().for_each(|&(id, by)| steer.bias(id, by));
            let past = Past { seen: Some(&seen), steer: Some(&steer) };
            let choice = Chooser::default().choose(&logits, &vocab, &sampling, past, uniform).unwrap();
            let id = choice.id as usize;

            let is_greedy = temperature == 0.0;
            let scale = if is_greedy { 1.0 } else { temperature };
            let mut allowed = logits;
            vocab.excluded().iter().for_each(|&id| allowed[id as usize] = f32::NEG_INFINITY);
            let model = softmax(&allowed, f64::from(scale))[id].ln();
            prop_assert!((f64::from(choice.model_logprob) - model).abs() < 1e-5, "{choice:?}, not {model}");
            past.alter(&mut allowed, &sampling);
            let drawn = if is_greedy { 0.0 } else { filtered_softmax(&allowed, &sampling)[id].ln() };
            prop_assert!((f64::from(choice.sampled_logprob) - drawn).abs() < 1e-5, "{choice:?}, not {drawn}");
            if sampling.check_on_policy().is_ok() && steer.is_empty() {
                prop_assert_eq!(choice.model_logprob.to_bits(), choice.sampled_logprob.to_bits());
            }
        }

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
            // The excluded id would win by far. An id whose probability underflows to zero is not excluded.
            logits[2] = 60.0;
            logits[4] = -1e4;
            let sampling = Sampling { top_k, top_p, min_p, ..Sampling::at(temperature, 1) };
            let choice = Chooser::default().choose(&logits, &vocab, &sampling, Past::default(), uniform).unwrap();
            prop_assert_eq!(choice.id % 3, 1);
            prop_assert_ne!(choice.id, 4);
            prop_assert!(choice.model_logprob <= 0.0 && choice.model_logprob.is_finite());
        }
    }
}
