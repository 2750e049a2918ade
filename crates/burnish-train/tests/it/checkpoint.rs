use std::fs;
use std::path::Path;

use burnish_model::{Architecture, Dtype, Model};
use burnish_rl::nll::Nll;
use burnish_train::adamw::AdamwConfig;
use burnish_train::checkpoint::{BoxError, Checkpoint, CheckpointError, Checkpoints, latest};
use burnish_train::{Trainer, TrainerConfig};
use serde_json::{Value, json};

use crate::common::{CONFIG, qwen3, random_batch, tiny_model, totals_of};

fn train(model: &mut Model, trainer: &mut Trainer, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let batch = random_batch(seed);
        trainer.update(model, &batch, &Nll, &totals_of(&batch), 1e-2).unwrap();
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn nothing_more(_: &Path) -> Result<(), BoxError> {
    Ok(())
}

fn write_tokenizer(dir: &Path) -> Result<(), BoxError> {
    Ok(fs::write(dir.join("tokenizer.json"), "{}")?)
}

/// Names in a directory, in order.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A model and a trainer in the middle of a run, and a place for its checkpoints.
struct Run {
    dir: tempfile::TempDir,
    model: Model,
    trainer: Trainer,
}

impl Run {
    fn new() -> Self {
        let mut model = qwen3();
        let mut trainer = Trainer::new(&model, CONFIG);
        train(&mut model, &mut trainer, 0..1);
        Run { dir: tempfile::tempdir().unwrap(), model, trainer }
    }

    fn save(&self, step: u64, keep: usize) -> Result<std::path::PathBuf, CheckpointError> {
        let checkpoints = Checkpoints::open(self.dir.path(), keep)?;
        checkpoints.save(step, &self.model, &self.trainer, &Value::Null, &mut write_tokenizer)
    }

    fn latest_step(&self) -> Option<u64> {
        latest(self.dir.path()).unwrap().map(|checkpoint| checkpoint.step())
    }
}

#[test]
fn a_restored_run_continues_to_the_same_bits_whatever_the_type_of_the_file() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let dir = tempfile::tempdir().unwrap();
        let mut model = tiny_model(Architecture::Qwen2, false, dtype);
        let mut trainer = Trainer::new(&model, CONFIG);
        train(&mut model, &mut trainer, 0..3);
        let checkpoints = Checkpoints::open(dir.path().join("checkpoints"), 2).unwrap();
        let state = json!({"seen": [0, 1, 2], "share": 0.1});
        let path = checkpoints.save(3, &model, &trainer, &state, &mut write_tokenizer).unwrap();
        train(&mut model, &mut trainer, 3..5);

        let checkpoint = latest(&dir.path().join("checkpoints")).unwrap().unwrap();
        assert_eq!((checkpoint.path(), checkpoint.step(), checkpoint.state()), (path.as_path(), 3, &state));
        let mut again = Model::load(checkpoint.path()).unwrap();
        let mut trainer_again = Trainer::new(&again, CONFIG);
        checkpoint.restore(&mut again, &mut trainer_again).unwrap();
        assert_eq!(trainer_again.updates(), 3);
        train(&mut again, &mut trainer_again, 3..5);
        assert_eq!(bits(again.params.data()), bits(model.params.data()));
        assert_eq!(trainer_again.adamw(), trainer.adamw());
    }
}

#[test]
fn a_save_that_fails_leaves_the_previous_checkpoint_and_nothing_else() {
    let run = Run::new();
    run.save(1, 1).unwrap();
    let checkpoints = Checkpoints::open(run.dir.path(), 1).unwrap();
    for step in [1, 2] {
        let error = checkpoints
            .save(step, &run.model, &run.trainer, &Value::Null, &mut |dir: &Path| {
                fs::write(dir.join("tokenizer.json"), "{")?;
                Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
            })
            .unwrap_err();
        assert!(matches!(error, CheckpointError::NotSaved { step: at, .. } if at == step), "{error}");
        assert_eq!(names(run.dir.path()), ["step_1"]);
        assert_eq!(run.latest_step(), Some(1));
    }
}

#[test]
fn a_checkpoint_has_its_name_only_when_it_is_complete() {
    let run = Run::new();
    let checkpoints = Checkpoints::open(run.dir.path(), 0).unwrap();
    let mut seen = Vec::new();
    checkpoints
        .save(7, &run.model, &run.trainer, &Value::Null, &mut |_: &Path| {
            seen = names(run.dir.path());
            assert!(latest(run.dir.path()).unwrap().is_none());
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, [".step_7.partial"]);
    assert_eq!(names(run.dir.path()), ["step_7"]);
}

#[test]
fn what_a_killed_save_left_is_cleared_away_when_the_run_is_opened_again() {
    let run = Run::new();
    let path = run.save(4, 0).unwrap();
    // Killed while writing step 8, and between the two renames that replace step 4.
    fs::create_dir(run.dir.path().join(".step_8.partial")).unwrap();
    fs::write(run.dir.path().join(".step_8.partial/model.safetensors"), "half").unwrap();
    fs::rename(&path, run.dir.path().join(".step_4.replaced")).unwrap();
    Checkpoints::open(run.dir.path(), 0).unwrap();
    assert_eq!(names(run.dir.path()), ["step_4"]);
    assert_eq!(run.latest_step(), Some(4));
}

#[test]
fn only_the_newest_checkpoints_are_kept_in_the_order_of_their_steps() {
    let run = Run::new();
    for step in [8, 9, 10, 11] {
        run.save(step, 2).unwrap();
    }
    assert_eq!(names(run.dir.path()), ["step_10", "step_11"]);
    assert_eq!(run.latest_step(), Some(11));
}

#[test]
fn a_checkpoint_of_the_same_step_is_replaced() {
    let mut run = Run::new();
    run.save(1, 0).unwrap();
    train(&mut run.model, &mut run.trainer, 1..2);
    run.save(1, 0).unwrap();
    assert_eq!(names(run.dir.path()), ["step_1"]);
    let mut model = qwen3();
    let mut trainer = Trainer::new(&model, CONFIG);
    latest(run.dir.path()).unwrap().unwrap().restore(&mut model, &mut trainer).unwrap();
    assert_eq!(bits(model.params.data()), bits(run.model.params.data()));
    assert_eq!(trainer.updates(), 2);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_an_earlier_one_and_named_where_there_is_none() {
    let run = Run::new();
    run.save(1, 0).unwrap();
    let newer = run.save(2, 0).unwrap();
    let tensors = newer.join("trainer.safetensors");
    let bytes = fs::read(&tensors).unwrap();
    fs::write(&tensors, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(run.latest_step(), Some(1));
    fs::remove_file(run.dir.path().join("step_1/tokenizer.json")).unwrap();
    let error = latest(run.dir.path()).unwrap_err().to_string();
    assert!(error.contains("step_2") && error.contains("trainer.safetensors has"), "{error}");
}

#[test]
fn no_directory_and_an_empty_one_have_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    assert!(latest(dir.path()).unwrap().is_none());
    assert!(latest(&dir.path().join("missing")).unwrap().is_none());
}

/// Restores the checkpoint of a small run into another model and trainer, which must stay as they are.
fn restore_refused(mut model: Model, config: TrainerConfig) -> String {
    let run = Run::new();
    let path = run.save(1, 0).unwrap();
    let mut trainer = Trainer::new(&model, config);
    let before = (bits(model.params.data()), trainer.adamw().clone());
    let error = Checkpoint::open(&path).unwrap().restore(&mut model, &mut trainer).unwrap_err();
    assert!(matches!(error, CheckpointError::Mismatch { .. }), "{error}");
    assert_eq!((bits(model.params.data()), trainer.adamw().clone()), before);
    error.to_string()
}

#[test]
fn a_checkpoint_of_another_model_or_setting_is_refused_and_the_difference_named() {
    let biased = restore_refused(tiny_model(Architecture::Qwen2, true, Dtype::F32), CONFIG);
    assert!(biased.contains("master.model.layers.0.self_attn.q_proj.bias is missing"), "{biased}");
    let plain = restore_refused(tiny_model(Architecture::Llama, true, Dtype::F32), CONFIG);
    assert!(plain.contains("k_norm.weight is not a parameter"), "{plain}");
    let adamw = AdamwConfig { beta2: 0.5, ..CONFIG.adamw };
    let setting = restore_refused(qwen3(), TrainerConfig { adamw, ..CONFIG });
    assert!(setting.contains("beta2: 0.5"), "{setting}");
}

#[test]
fn a_run_without_tokenizer_files_can_be_saved() {
    let run = Run::new();
    let checkpoints = Checkpoints::open(run.dir.path(), 0).unwrap();
    let path = checkpoints.save(0, &run.model, &run.trainer, &Value::Null, &mut nothing_more).unwrap();
    assert_eq!(names(&path), ["config.json", "model.safetensors", "trainer.json", "trainer.safetensors"]);
}
