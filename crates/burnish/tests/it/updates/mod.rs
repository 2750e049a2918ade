//! One update on a server beside the same update here.

use std::sync::Arc;

use burnish_model::Model;
use burnish_remote::tinker::{Adam, Bounds, Slope, Tinker, TinkerConfig};
use burnish_rl::{LossConfig, RatioBounds};
use burnish_train::adamw::AdamwConfig;
use burnish_train::{
    PassConfig, Proximal, Sample, Trainer, TrainerConfig, differentiate, score, surrogate, totals,
};
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
        // Some of them so far that they are clipped, upwards where the advantage is positive.
        let to_proximal = if at % 2 == 0 { -0.12 } else { 0.14 };
        sample.proximal = Proximal::Known(moved(to_proximal).collect());
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

/// An objective and its distance from the reference, for which no server has a loss of its own.
pub(crate) fn with_kl(objective: &str) -> LossConfig {
    LossConfig { objective: objective.into(), beta: 0.1, ..LossConfig::default() }
}

/// How far apart an update on the server at `url` and the same update here are, as a share of the one here; a clipped
/// surrogate is the server's own. `read` reads the adapter that the server saved under a name; `change` spoils the
/// derivative of a sequence that is sent.
pub(crate) fn apart(
    url: &str,
    read: &dyn Fn(&str) -> Model,
    loss: &LossConfig,
    change: &dyn Fn(usize, &mut f64),
) -> f64 {
    let config = json!({ "kind": "tinker", "url": url, "rank": RANK });
    let config: TinkerConfig = serde_json::from_value(config).unwrap();
    let objective = loss.build().unwrap();
    let bounds = objective.surrogate().map(|RatioBounds { low, high }| Bounds { low, high });
    let tinker: Arc<Tinker> = Tinker::connect(&config, 11, 256, bounds, None).unwrap();
    let mut model = read(&tinker.serve(0).unwrap());
    let start = model.params.data().to_vec();

    let samples = samples(&model);
    let totals = totals(&samples, &samples, 1, 64, 0);
    let adamw = AdamwConfig { epsilon: EPSILON, ..AdamwConfig::default() };
    let config = TrainerConfig { adamw, grad_norm_max: None, pass: PassConfig::new(4096) };
    let mut own = Trainer::new(&model, config);
    let here = own.update(&mut model, &samples, &*objective, &totals, LEARNING_RATE).unwrap();

    let ids: Vec<&[u32]> = samples.iter().map(|sample| &*sample.ids).collect();
    let known = tinker.score(&ids).unwrap();
    let (logprobs, mut d_logprobs) = match surrogate(&samples, &*objective, &totals).unwrap() {
        Some(surrogate) => (surrogate.proximal, surrogate.d_logprobs),
        None => (known.clone(), differentiate(&samples, &known, &*objective, &totals).unwrap().d_logprobs),
    };
    for (at, derivatives) in d_logprobs.iter_mut().enumerate() {
        derivatives.iter_mut().for_each(|derivative| change(at, derivative));
    }
    let parts = ids.iter().zip(&logprobs).zip(&d_logprobs);
    let slopes: Vec<Slope<'_>> =
        parts.map(|((ids, logprobs), d_logprobs)| Slope { ids, logprobs, d_logprobs }).collect();
    let AdamwConfig { beta1, beta2, epsilon, weight_decay, .. } = adamw;
    let adam =
        Adam { learning_rate: LEARNING_RATE, beta1, beta2, epsilon, weight_decay, grad_norm_max: None };
    match bounds {
        Some(bounds) => {
            assert!(tinker.clips_at(bounds), "{}", tinker.habits());
            assert!(here.metrics["clip_ratio/high_mean"] > 0.0 && here.metrics["clip_ratio/low_mean"] > 0.0);
            let told = tinker.update_clipped(bounds, &slopes, &adam).unwrap();
            for (told, known) in told.iter().flatten().zip(known.iter().flatten()) {
                assert!((told - known).abs() < 1e-4, "{told} for {known}");
            }
        }
        None => tinker.update(&slopes, &adam).unwrap(),
    }
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
