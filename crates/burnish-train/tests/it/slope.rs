//! Derivatives that leave the process.

use burnish_core::rng::Stream;
use burnish_rl::catalogue::OBJECTIVES;
use burnish_rl::{Evaluation, LossConfig, Objective, Streams, Totals};
use burnish_train::{Proximal, Sample, TrainError, differentiate, score, surrogate};
use serde_json::json;

use crate::common::{qwen3, random_batch, totals_of};
use crate::gradient::{gradient, relative_distance};

/// A loss with this derivative by the log-prob of each scored token.
struct Linear(Vec<f64>);

impl Objective for Linear {
    fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
        Evaluation { d_policy: self.0.clone(), ..Evaluation::zero(streams.policy.len()) }
    }
}

fn batch() -> Vec<Sample> {
    let mut batch = random_batch(8);
    let mut random = Stream::new(9);
    for (at, sample) in batch.iter_mut().enumerate() {
        sample.teacher = Some(sample.ids.iter().map(|_| (random.normal() - 3.0) as f32).collect());
        sample.group = at / 4;
    }
    // A sample without a scored token, in the middle.
    batch[3].loss_mask.fill(false);
    batch
}

#[test]
fn the_derivative_fed_into_a_backward_pass_is_the_gradient_of_every_objective_on_log_probs() {
    let (model, batch) = (qwen3(), batch());
    let known = score(&model, &batch, 1000).unwrap();
    for entry in OBJECTIVES {
        let loss = LossConfig { objective: entry.card.id.into(), beta: 0.1, ..LossConfig::default() };
        let objective = loss.build().unwrap();
        let slope = differentiate(&batch, &known, &*objective, &totals_of(&batch)).unwrap();
        let (pass, expected) = gradient(&model, &batch, &*objective, 1000);
        let scored = batch.iter().zip(&slope.d_logprobs);
        let linear = scored.flat_map(|(sample, slope)| sample.scored().map(|at| slope[at]));
        let (_, found) = gradient(&model, &batch, &Linear(linear.collect()), 1000);
        assert!(relative_distance(&expected, &found) < 1e-5, "{}", entry.card.id);
        assert!((pass.loss - slope.loss).abs() < 1e-6, "{}", entry.card.id);
        assert_eq!((pass.drift, pass.tokens_scored), (slope.drift, slope.tokens_scored));
        let mut named = pass.metrics;
        named.retain(|name, _| !name.starts_with("entropy"));
        assert_eq!(named, slope.metrics, "{}", entry.card.id);
    }
}

#[test]
fn what_is_only_known_where_the_model_is_is_refused() {
    let (model, batch) = (qwen3(), batch());
    let known = score(&model, &batch, 1000).unwrap();
    let plain = LossConfig::default();
    for (loss, word) in [
        (LossConfig { entropy_coef: 0.1, ..plain.clone() }, "entropies"),
        (LossConfig { top_entropy_quantile: 0.5, ..plain.clone() }, "entropies"),
        (
            LossConfig {
                objective: "sdar".into(),
                config: json!({"gate": "entropy", "vocabulary": 19}),
                ..plain.clone()
            },
            "entropies",
        ),
        (LossConfig { objective: "gkd".into(), ..plain }, "whole distributions"),
    ] {
        let error = differentiate(&batch, &known, &*loss.build().unwrap(), &totals_of(&batch)).unwrap_err();
        assert!(matches!(error, TrainError::Elsewhere { needs } if needs == word), "{error}");
    }
}

#[test]
fn a_clipped_surrogate_is_known_before_the_log_probs_are() {
    let (model, batch) = (qwen3(), batch());
    let (known, totals) = (score(&model, &batch, 1000).unwrap(), totals_of(&batch));
    let objective = LossConfig::default().build().unwrap();
    let expected = differentiate(&batch, &known, &*objective, &totals).unwrap().d_logprobs;
    let found = surrogate(&batch, &*objective, &totals).unwrap().unwrap();
    let mut clipped = 0;
    for (at, sample) in batch.iter().enumerate() {
        for token in 0..sample.ids.len() {
            let ratio = f64::from(known[at][token] - found.proximal[at][token]).exp();
            let slope = found.d_logprobs[at][token];
            let is_beyond = if slope < 0.0 { ratio > found.bounds.high } else { ratio < found.bounds.low };
            clipped += usize::from(is_beyond && slope != 0.0);
            let own = if is_beyond { 0.0 } else { ratio * slope };
            assert!((own - expected[at][token]).abs() < 1e-6, "{own} for {}", expected[at][token]);
        }
    }
    assert!(clipped > 0);

    let with_kl = LossConfig { beta: 0.1, ..LossConfig::default() }.build().unwrap();
    assert_eq!(surrogate(&batch, &*with_kl, &totals).unwrap(), None);
    // What moves with the policy is no constant.
    let mut moving = batch;
    moving[0].proximal = Proximal::Between(vec![0.5; moving[0].ids.len()]);
    assert_eq!(surrogate(&moving, &*objective, &totals).unwrap(), None);
}
