//! One update on a server beside the same update here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use burnish_model::Model;
use burnish_remote::tinker::{Adam, Slope, Tinker, TinkerConfig};
use burnish_rl::LossConfig;
use burnish_train::adamw::AdamwConfig;
use burnish_train::{PassConfig, Proximal, Sample, Trainer, TrainerConfig, differentiate, score, totals};
use serde_json::json;

/// Rank of the adapters.
pub(crate) const RANK: usize = 4;

/// Samples of a policy that has moved a little since.
fn samples(model: &Model) -> Vec<Sample> {
    let texts: [&[u32]; 4] =
        [&[30, 41, 52, 63, 74], &[30, 41, 99, 17], &[60, 41, 52, 18, 30, 31, 32], &[60, 41, 52]];
    let mut samples: Vec<Sample> = texts.iter().map(|ids| Sample::of_text(ids.to_vec())).collect();
    let known = score(model, &samples, 4096).unwrap();
    for (at, (sample, known)) in samples.iter_mut().zip(known).enumerate() {
        let moved =
            |scale: f32| known.iter().zip(0u8..).map(move |(own, place)| own + scale * f32::from(place % 3));
        sample.model_logprobs = moved(0.1).collect();
        sample.proximal = Proximal::Known(moved(-0.08).collect());
        sample.reference = Some(moved(0.2).collect());
        sample.teacher = Some(moved(0.3).collect());
        sample.loss_mask[1] = at % 2 == 0;
        sample.advantages = vec![[1.0, -0.5, 2.0, -1.0][at]; sample.ids.len()];
        sample.group = at / 2;
    }
    samples
}

/// With an ε far above the gradient, a step is proportional to it.
const EPSILON: f64 = 1e4;
const LEARNING_RATE: f64 = 3.0;

/// How far apart an update on the server at `url` and the same update here are, as a share of the one here. `read` reads
/// the adapter that the server saved under a name; `change` spoils the derivative of a sequence that is sent.
pub(crate) fn apart(
    url: &str,
    read: &dyn Fn(&str) -> Model,
    objective: &str,
    change: &dyn Fn(usize, &mut f64),
) -> f64 {
    let config = json!({ "kind": "tinker", "url": url, "rank": RANK });
    let config: TinkerConfig = serde_json::from_value(config).unwrap();
    let tinker: Arc<Tinker> = Tinker::connect(&config, 11, 256, None).unwrap();
    let mut model = read(&tinker.serve(0).unwrap());
    let start = model.params.data().to_vec();

    let samples = samples(&model);
    let loss = LossConfig { objective: objective.into(), beta: 0.1, ..LossConfig::default() };
    let (objective, totals) = (loss.build().unwrap(), totals(&samples, &samples, 1, 64, 0));
    let adamw = AdamwConfig { beta1: 0.9, beta2: 0.999, epsilon: EPSILON, weight_decay: 0.0 };
    let config = TrainerConfig { adamw, grad_norm_max: None, pass: PassConfig::new(4096) };
    let mut own = Trainer::new(&model, config);
    own.update(&mut model, &samples, &*objective, &totals, LEARNING_RATE).unwrap();

    let ids: Vec<&[u32]> = samples.iter().map(|sample| &*sample.ids).collect();
    let known = tinker.score(&ids).unwrap();
    let mut slope = differentiate(&samples, &known, &*objective, &totals).unwrap();
    for (at, derivatives) in slope.d_logprobs.iter_mut().enumerate() {
        derivatives.iter_mut().for_each(|derivative| change(at, derivative));
    }
    let parts = ids.iter().zip(&known).zip(&slope.d_logprobs);
    let slopes: Vec<Slope<'_>> =
        parts.map(|((ids, logprobs), d_logprobs)| Slope { ids, logprobs, d_logprobs }).collect();
    let AdamwConfig { beta1, beta2, epsilon, weight_decay } = adamw;
    let adam =
        Adam { learning_rate: LEARNING_RATE, beta1, beta2, epsilon, weight_decay, grad_norm_max: None };
    tinker.update(&slopes, &adam).unwrap();
    let there = read(&tinker.serve(1).unwrap());
    tinker.close();
    let (mut off, mut whole) = (0.0, 0.0);
    for ((there, here), start) in there.params.data().iter().zip(model.params.data()).zip(&start) {
        off += f64::from(there - here).powi(2);
        whole += f64::from(here - start).powi(2);
    }
    assert!(whole > 0.0);
    f64::sqrt(off / whole)
}
