//! Parameters that are frozen by name keep every bit, and the others learn as they would without them.

use burnish_model::{Architecture, Dtype, Loading, Model, Trains};
use burnish_rl::nll::Nll;
use burnish_tensor::{Params, Precision};
use burnish_train::checkpoint::{Checkpoints, Extent, latest};
use burnish_train::{Checkpointing, PassConfig, Trainer, TrainerConfig};
use serde_json::Value;

use crate::common::{CONFIG, loaded_as, random_batch, tiny_model, totals_of};

/// The embedding is the head too.
const FROZEN: [&str; 4] =
    ["*.q_proj.weight", "*.k_proj.weight", "*.k_proj.bias", "model.embed_tokens.weight"];

fn loading(precision: Precision, trains: Trains) -> Loading {
    Loading { precision, trains, ..Loading::default() }
}

fn except() -> Trains {
    Trains::Except(FROZEN.map(str::to_owned).to_vec())
}

fn train(model: &mut Model, trainer: &mut Trainer, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let batch = random_batch(seed);
        trainer.update(model, &batch, &Nll, &totals_of(&batch), 1e-2).unwrap();
    }
}

/// The bits of each parameter, by name, and whether it is trained.
fn bits(params: &Params) -> Vec<(String, bool, Vec<u32>)> {
    let of = |param| params.get(param).iter().map(|value| value.to_bits()).collect();
    params
        .entries()
        .iter()
        .map(|entry| (entry.name.clone(), entry.param.is_trained(), of(entry.param)))
        .collect()
}

#[test]
fn frozen_parameters_keep_every_bit_and_the_others_move_as_without_them() {
    let model = tiny_model(Architecture::Qwen2, true, Dtype::F32);
    for precision in [Precision::F32, Precision::Bf16] {
        for checkpointing in [Checkpointing::Off, Checkpointing::Selective, Checkpointing::Full] {
            // Clipping would make the update depend on the gradient of what is frozen.
            let pass = PassConfig { checkpointing: checkpointing.always(), ..CONFIG.pass };
            let config = TrainerConfig { grad_norm_max: None, pass, ..CONFIG };
            let updated = |trains, updates| {
                let mut model = loaded_as(&model, &loading(precision, trains));
                let mut trainer = Trainer::new(&model, config);
                train(&mut model, &mut trainer, 0..updates);
                bits(&model.params)
            };
            let before = bits(&model.params);
            let once = updated(except(), 1);
            assert_eq!(once.iter().filter(|(_, is_trained, _)| !is_trained).count(), 1 + 2 * 3);
            for ((name, is_trained, own), (_, _, whole)) in once.iter().zip(updated(Trains::All, 1)) {
                assert!(!is_trained || *own == whole, "{precision:?}: {name} moved otherwise");
            }
            for ((name, is_trained, after), (_, _, before)) in updated(except(), 3).iter().zip(&before) {
                assert_eq!(*is_trained, after != before, "{precision:?}: {name}");
            }
        }
    }
}

#[test]
fn a_run_with_frozen_parameters_is_restored_to_the_same_bits() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let dir = tempfile::tempdir().unwrap();
        let whole = tiny_model(Architecture::Qwen2, true, dtype);
        let mut model = loaded_as(&whole, &loading(Precision::F32, except()));
        let before = bits(&model.params);
        let mut trainer = Trainer::new(&model, CONFIG);
        train(&mut model, &mut trainer, 0..2);
        let checkpoints = Checkpoints::open(dir.path(), 1).unwrap();
        let path = checkpoints.save(2, &model, &trainer, &Value::Null, &mut |_| Ok(())).unwrap();
        train(&mut model, &mut trainer, 2..4);

        let mut again = Model::load_as(&path, &loading(Precision::F32, except())).unwrap();
        again.restrict_vocab(|id| model.vocab().contains(id));
        let mut other = Trainer::new(&again, CONFIG);
        let newest = latest(dir.path(), Extent::Whole).unwrap().unwrap();
        newest.checkpoint.restore(&mut again, &mut other).unwrap();
        train(&mut again, &mut other, 2..4);
        assert_eq!(bits(&again.params), bits(&model.params));
        for ((name, is_trained, after), (_, _, before)) in bits(&again.params).iter().zip(&before) {
            assert_eq!(*is_trained, after != before, "{name}");
        }

        // What the checkpoint has of the optimiser is of the trained parameters alone.
        let mut model = Model::load(&path).unwrap();
        let mut trainer = Trainer::new(&model, CONFIG);
        let error = newest.checkpoint.restore(&mut model, &mut trainer).unwrap_err().to_string();
        assert!(error.contains("tensor master.model.embed_tokens.weight is missing"), "{error}");
    }
}

#[test]
fn a_frozen_name_that_no_parameter_has_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    tiny_model(Architecture::Qwen2, true, Dtype::F32).save(dir.path()).unwrap();
    let refused = |pattern: &str| {
        let trains = Trains::Except(vec![pattern.to_owned()]);
        Model::load_as(dir.path(), &loading(Precision::F32, trains)).unwrap_err().to_string()
    };
    let error = refused("*.self_attn.q_prj.weight");
    assert!(
        error.contains("train.freeze: `*.self_attn.q_prj.weight` is the name of no parameter"),
        "{error}"
    );
    assert!(error.contains("nearest: `*.self_attn.q_proj.weight`"), "{error}");
    assert!(refused("*").contains("leaves no parameter to train"));
}
