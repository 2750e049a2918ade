//! Learning of masked tokens: the loss and the gradient of torch, and who may learn from what.

use std::path::Path;

use burnish_model::Model;
use burnish_rl::Totals;
use burnish_rl::masked_nll::MaskedNll;
use burnish_train::{PassConfig, Sample, TrainError, accumulate, totals};
use serde_json::Value;

use crate::common::qwen3;

/// Made by `golden/make_masked.py`.
fn golden() -> (Model, Value) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden/qwen3-masked");
    let expected: Value = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
    (Model::load(&dir).unwrap(), expected["learned"].clone())
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn sample(learned: &Value) -> Sample {
    let (ids, noised) = (ids(&learned["ids"]), ids(&learned["noised"]));
    let weight = learned["weight"].as_f64().unwrap() as f32;
    Sample {
        loss_mask: noised.iter().map(|id| *id == 66).collect(),
        advantages: vec![weight; ids.len()],
        noised: Some(noised),
        ..Sample::of_text(ids)
    }
}

#[test]
fn loss_and_gradient_are_those_of_torch() {
    let (model, learned) = golden();
    let batch = [sample(&learned), sample(&learned)];
    let mut grads = model.params.zeros_like();
    // In one micro-batch, and each in its own.
    for tokens_max in [100, 1] {
        grads.fill(0.0);
        let totals = Totals { sequences: 2, ..totals(&batch, &batch, 1, 99, 0) };
        let pass =
            accumulate(&model, &batch, &MaskedNll, &totals, PassConfig::new(tokens_max), &mut grads[..])
                .unwrap();
        assert!((pass.loss - learned["loss"].as_f64().unwrap()).abs() < 1e-5, "{}", pass.loss);
        assert_eq!((pass.metrics["masked"], pass.tokens_scored), (3.0, 6));
        for entry in model.params.entries() {
            let own = &grads[entry.param.range()];
            let theirs = learned["gradients"][&*entry.name].as_array().unwrap();
            let theirs: Vec<f64> = theirs.iter().map(|x| x.as_f64().unwrap()).collect();
            let norm = own.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((norm - theirs[0]).abs() < 2e-4 * theirs[0], "{}: {norm} {}", entry.name, theirs[0]);
            for (own, theirs_here) in own.iter().zip(&theirs[1..]) {
                assert!((f64::from(*own) - theirs_here).abs() < 1e-3 * theirs[0], "{}", entry.name);
            }
        }
    }
}

#[test]
fn a_model_learns_only_in_the_direction_in_which_it_reads() {
    let (masked, learned) = golden();
    let learn = |model: &Model, sample: Sample| {
        let batch = [sample];
        let mut grads = model.params.zeros_like();
        let totals = totals(&batch, &batch, 1, 99, 0);
        accumulate(model, &batch, &MaskedNll, &totals, PassConfig::new(99), &mut grads[..]).unwrap_err()
    };
    let plain = Sample { noised: None, ..Sample::of_text(vec![1, 2, 3]) };
    assert_eq!(learn(&masked, plain), TrainError::Direction { sample: 0, is_noised: false });
    assert_eq!(learn(&qwen3(), sample(&learned)), TrainError::Direction { sample: 0, is_noised: true });
    let mut unknown = sample(&learned);
    unknown.noised.as_mut().unwrap()[2] = 67;
    assert_eq!(learn(&masked, unknown), TrainError::UnknownToken { sample: 0, token: 2, id: 67 });
}
