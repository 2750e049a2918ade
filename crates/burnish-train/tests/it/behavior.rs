//! Which of a token's two log-probs an objective is given as that of the policy that sampled.

use burnish_core::rng::Stream;
use burnish_model::Model;
use burnish_rl::{LossConfig, Objective};
use burnish_train::{Proximal, Sample, score};
use serde_json::{Value, json};

use crate::common::{qwen3, random_batch};
use crate::gradient::{gradient, relative_distance};

fn reinforce(correction: &Value) -> Box<dyn Objective> {
    let loss = json!({ "objective": "reinforce", "aggregation": "token_sum", "correction": correction });
    serde_json::from_value::<LossConfig>(loss).unwrap().build().unwrap()
}

fn weighted(behavior: &str, level: &str) -> Box<dyn Objective> {
    reinforce(&json!({ "behavior": behavior, "weight": { "level": level, "max": 1e9 } }))
}

#[test]
fn a_weight_is_the_ratio_to_the_log_probs_that_the_recipe_takes_for_those_of_behavior() {
    let model = qwen3();
    let mut batch = random_batch(4);
    let now = score(&model, &batch, 1000).unwrap();
    for (sample, now) in batch.iter_mut().zip(now) {
        let moved = |by: fn(usize) -> f32| now.iter().enumerate().map(|(at, now)| now + by(at)).collect();
        sample.model_logprobs = moved(|at| 0.05 * (at % 4) as f32);
        sample.sampled_logprobs = moved(|at| 0.2 * (at % 5) as f32 - 0.1);
        sample.proximal = Proximal::Known(now);
    }
    type Roll = fn(&Sample) -> &[f32];
    let sources: [(&str, Roll); 2] =
        [("model", |sample| &sample.model_logprobs), ("sampled", |sample| &sample.sampled_logprobs)];
    for (behavior, roll) in sources {
        let objective = weighted(behavior, "token");
        // REINFORCE is linear in the advantage, so the advantage can carry a weight.
        let (mut by_hand, mut sum, mut count) = (batch.clone(), 0.0, 0.0);
        for (sample, weighted) in batch.iter().zip(&mut by_hand) {
            for at in sample.scored() {
                let weight = (sample.old(at) - roll(sample)[at]).exp();
                weighted.advantages[at] *= weight;
                sum += f64::from(weight);
                count += 1.0;
            }
        }
        let (_, expected) = gradient(&model, &by_hand, &*reinforce(&json!({})), 1000);
        for tokens_max in [1, 1000] {
            let (pass, found) = gradient(&model, &batch, &*objective, tokens_max);
            let distance = relative_distance(&expected, &found);
            assert!(distance < 1e-5, "{behavior}, {tokens_max} tokens: {distance}");
            let mean = pass.metrics["rollout_corr/rollout_is_mean"];
            assert!((mean - sum / count).abs() < 1e-6, "{behavior}: {mean}, not {}", sum / count);
            // Sampler and trainer are compared on the same token, however it was drawn.
            assert!((pass.drift.max - 0.15).abs() < 1e-4, "{behavior}: {:?}", pass.drift);
        }
    }
    assert_eq!(weighted("model", "token").needs().behavior, Default::default());
}

/// Every answer of two tokens that can be drawn, and its probabilities.
struct Answers {
    samples: Vec<Sample>,
    /// Under the model, and as it is drawn.
    probabilities: Vec<[f64; 2]>,
}

const PROMPT: [u32; 3] = [1, 2, 3];
const IDS: u32 = 5;

/// Log-probs of the ids after `read`.
fn logprobs(model: &Model, read: &[u32]) -> Vec<f32> {
    let sample = |id: u32| {
        let ids = [read, &[id]].concat();
        let tokens = ids.len();
        Sample {
            loss_mask: (0..tokens).map(|at| at == read.len()).collect(),
            ids,
            model_logprobs: vec![0.0; tokens],
            sampled_logprobs: vec![0.0; tokens],
            temperatures: vec![1.0; tokens],
            advantages: vec![0.0; tokens],
            ..Sample::default()
        }
    };
    let samples: Vec<Sample> = (0..IDS).map(sample).collect();
    score(model, &samples, 1000).unwrap().into_iter().map(|of_sample| of_sample[read.len()]).collect()
}

/// The log-probs of the distribution that is drawn from after a penalty of 1.2 on `said`, with only the `kept`
/// likeliest tokens kept: -inf where cut.
fn altered(logprobs: &[f32], said: Option<usize>, kept: usize) -> Vec<f32> {
    let mut altered: Vec<f64> = logprobs.iter().map(|logprob| f64::from(*logprob)).collect();
    said.into_iter().for_each(|id| altered[id] -= 1.2);
    let mut order: Vec<usize> = (0..altered.len()).collect();
    order.sort_by(|a, b| altered[*b].total_cmp(&altered[*a]));
    order[kept..].iter().for_each(|id| altered[*id] = f64::NEG_INFINITY);
    let total = altered.iter().map(|logprob| logprob.exp()).sum::<f64>().ln();
    altered.iter().map(|logprob| (logprob - total) as f32).collect()
}

fn answers(model: &Model, kept: usize) -> Answers {
    let mut answers = Answers { samples: Vec::new(), probabilities: Vec::new() };
    let first = logprobs(model, &PROMPT);
    let first_drawn = altered(&first, None, kept);
    for a in 0..IDS as usize {
        let second = logprobs(model, &[&PROMPT[..], &[a as u32]].concat());
        let second_drawn = altered(&second, Some(a), kept);
        for b in 0..IDS as usize {
            let streams = [[first[a], second[b]], [first_drawn[a], second_drawn[b]]];
            if streams[1].contains(&f32::NEG_INFINITY) {
                continue;
            }
            let padded = |two: [f32; 2]| vec![0.0, 0.0, 0.0, two[0], two[1]];
            answers.samples.push(Sample {
                ids: [&PROMPT[..], &[a as u32, b as u32]].concat(),
                loss_mask: vec![false, false, false, true, true],
                model_logprobs: padded(streams[0]),
                sampled_logprobs: padded(streams[1]),
                temperatures: vec![1.0; 5],
                advantages: vec![0.0; 5],
                ..Sample::default()
            });
            answers.probabilities.push(streams.map(|two| two.map(f64::from).iter().sum::<f64>().exp()));
        }
    }
    answers
}

/// The gradient of an expectation over answers: each counts with its probability, which an advantage can carry.
fn expectation(
    model: &Model,
    answers: &Answers,
    rewards: &[f64],
    drawn: bool,
    objective: &dyn Objective,
) -> Vec<f32> {
    let mut samples = answers.samples.clone();
    for ((sample, probabilities), reward) in samples.iter_mut().zip(&answers.probabilities).zip(rewards) {
        sample.advantages.fill((probabilities[usize::from(drawn)] * reward) as f32);
    }
    gradient(model, &samples, objective, 1000).1
}

/// Every answer from a small vocabulary once, instead of random draws.
#[test]
fn in_expectation_weights_to_what_was_drawn_give_the_gradient_on_policy_and_those_to_the_model_do_not() {
    let mut model = qwen3();
    model.restrict_vocab(|id| id < IDS);
    let mut random = Stream::new(3);
    let rewards: Vec<f64> = (0..IDS * IDS).map(|_| random.normal()).collect();
    for (kept, of_all) in [(5, 25), (3, 9)] {
        let answers = answers(&model, kept);
        assert_eq!(answers.samples.len(), of_all);
        let sums: [f64; 2] =
            [0, 1].map(|which| answers.probabilities.iter().map(|both| both[which]).sum::<f64>());
        assert!((sums[1] - 1.0).abs() < 1e-5, "what can be drawn is all that is drawn: {sums:?}");
        // A penalty leaves every answer possible; a filter leaves a share of the model's.
        assert_eq!((sums[0] - 1.0).abs() < 1e-5, kept == 5, "{sums:?}");
        let on_policy = expectation(&model, &answers, &rewards, false, &*reinforce(&json!({})));
        let with = |objective: &dyn Objective| {
            let found = expectation(&model, &answers, &rewards, true, objective);
            relative_distance(&on_policy, &found)
        };
        let sampled = with(&*weighted("sampled", "sequence"));
        assert!(sampled < 1e-4, "{kept} kept: {sampled}");
        // Against the model, every weight is 1: nothing is corrected.
        let (of_model, uncorrected) = (with(&*weighted("model", "sequence")), with(&*reinforce(&json!({}))));
        assert!((of_model - uncorrected).abs() < 1e-6 && of_model > 0.1, "{of_model} {uncorrected}");
    }
}
