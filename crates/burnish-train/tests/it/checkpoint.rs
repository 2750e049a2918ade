use std::fs;
use std::path::Path;

use burnish_core::rng::fold_bytes;
use burnish_model::{Architecture, Dtype, Model};
use burnish_rl::nll::Nll;
use burnish_train::adamw::{AdamwConfig, MomentType};
use burnish_train::checkpoint::{BoxError, Checkpoint, CheckpointError, Checkpoints, Extent, Newest};
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

/// The newest checkpoint that is wholly intact.
fn latest(dir: &Path) -> Result<Option<Newest>, CheckpointError> {
    burnish_train::checkpoint::latest(dir, Extent::Whole)
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
        latest(self.dir.path()).unwrap().map(|newest| newest.checkpoint.step())
    }
}

#[test]
fn a_restored_run_continues_to_the_same_bits_whatever_the_type_of_the_file() {
    use MomentType::{EightBit, F32};
    for (dtype, moments) in [(Dtype::F32, F32), (Dtype::Bf16, F32), (Dtype::Bf16, EightBit)] {
        let config = TrainerConfig { adamw: AdamwConfig { moments, ..CONFIG.adamw }, ..CONFIG };
        let dir = tempfile::tempdir().unwrap();
        let mut model = tiny_model(Architecture::Qwen2, false, dtype);
        let mut trainer = Trainer::new(&model, config);
        train(&mut model, &mut trainer, 0..3);
        let checkpoints = Checkpoints::open(dir.path().join("checkpoints"), 2).unwrap();
        let state = json!({"seen": [0, 1, 2], "share": 0.1});
        let path = checkpoints.save(3, &model, &trainer, &state, &mut write_tokenizer).unwrap();
        train(&mut model, &mut trainer, 3..5);

        let checkpoint = latest(&dir.path().join("checkpoints")).unwrap().unwrap().checkpoint;
        assert_eq!((checkpoint.path(), checkpoint.step(), checkpoint.state()), (path.as_path(), 3, &state));
        let mut again = Model::load(checkpoint.path()).unwrap();
        let mut trainer_again = Trainer::new(&again, config);
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
    latest(run.dir.path()).unwrap().unwrap().checkpoint.restore(&mut model, &mut trainer).unwrap();
    assert_eq!(bits(model.params.data()), bits(run.model.params.data()));
    assert_eq!(trainer.updates(), 2);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_an_earlier_one_and_named_where_there_is_none() {
    let run = Run::new();
    run.save(1, 0).unwrap();
    let newer = run.save(2, 0).unwrap();
    let tensors = newer.join("trainer/trainer.safetensors");
    let bytes = fs::read(&tensors).unwrap();
    fs::write(&tensors, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(run.latest_step(), Some(1));
    fs::remove_file(run.dir.path().join("step_1/tokenizer.json")).unwrap();
    let error = latest(run.dir.path()).unwrap_err().to_string();
    assert!(error.contains("step_2") && error.contains("trainer/trainer.safetensors has"), "{error}");
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
    let adamw = AdamwConfig { moments: MomentType::EightBit, ..CONFIG.adamw };
    let moments = restore_refused(qwen3(), TrainerConfig { adamw, ..CONFIG });
    assert!(moments.contains("moments f32, but 8bit is asked for"), "{moments}");
    let adamw = AdamwConfig { beta2: 0.5, ..CONFIG.adamw };
    let setting = restore_refused(qwen3(), TrainerConfig { adamw, ..CONFIG });
    assert!(
        setting.contains("beta2 0.95, but 0.5 is asked for") && !setting.contains("AdamwConfig"),
        "{setting}"
    );
}

#[test]
fn a_run_without_tokenizer_files_can_be_saved() {
    let run = Run::new();
    let checkpoints = Checkpoints::open(run.dir.path(), 0).unwrap();
    let path = checkpoints.save(0, &run.model, &run.trainer, &Value::Null, &mut nothing_more).unwrap();
    assert_eq!(names(&path), ["config.json", "model.safetensors", "trainer"]);
    assert_eq!(names(&path.join("trainer")), ["trainer.json", "trainer.safetensors"]);
}

/// Every file under a directory.
fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_bit_that_flips_in_any_file_is_found_named_and_passed_over() {
    let run = Run::new();
    run.save(1, 0).unwrap();
    let newer = run.save(2, 0).unwrap();
    let all = files(&newer);
    assert_eq!(all.len(), 5, "{all:?}");
    for file in all {
        let name = file.strip_prefix(&newer).unwrap().to_str().unwrap().to_owned();
        let whole = fs::read(&file).unwrap();
        // Digits of the record are changed to others, so that it can still be read.
        let places: Vec<usize> = match name.as_str() {
            "trainer/trainer.json" => (0..whole.len()).filter(|at| whole[*at].is_ascii_digit()).collect(),
            _ => vec![0, whole.len() / 2, whole.len() - 1],
        };
        for at in places {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file, &damaged).unwrap();
            let newest = latest(run.dir.path()).unwrap().unwrap();
            let notes = newest.notes().join("\n");
            assert_eq!(newest.checkpoint.step(), 1, "{name}, byte {at}");
            assert!(notes.contains("step_2") && notes.contains(&name), "{name}, byte {at}: {notes}");
            // Sampling from the model needs nothing of the trainer's.
            let of_model = burnish_train::checkpoint::latest(run.dir.path(), Extent::Model).unwrap().unwrap();
            let is_trainers = name == "trainer/trainer.safetensors";
            assert_eq!(of_model.checkpoint.step(), if is_trainers { 2 } else { 1 }, "{name}, byte {at}");
        }
        fs::write(&file, &whole).unwrap();
        assert!(latest(run.dir.path()).unwrap().unwrap().passed_over.is_empty());
    }
}

/// Turns a checkpoint into one of format 1: the trainer's files beside the weights, and sizes without digests.
fn as_before(path: &Path) {
    let record = fs::read(path.join("trainer/trainer.json")).unwrap();
    let mut record: Value = serde_json::from_slice(&record).unwrap();
    record["format"] = 1.into();
    let record = record.as_object_mut().unwrap();
    record.shift_remove("digest");
    let files = record["files"].as_object().unwrap().iter();
    let sizes = files.map(|(name, stamp)| (name.replace("trainer/", ""), stamp["bytes"].clone()));
    record["files"] = Value::Object(sizes.collect());
    fs::rename(path.join("trainer/trainer.safetensors"), path.join("trainer.safetensors")).unwrap();
    fs::write(path.join("trainer.json"), serde_json::to_vec_pretty(&record).unwrap()).unwrap();
    fs::remove_dir_all(path.join("trainer")).unwrap();
}

#[test]
fn a_checkpoint_of_the_layout_before_is_restored() {
    let mut run = Run::new();
    let path = run.save(1, 0).unwrap();
    as_before(&path);
    assert!(names(&path).contains(&"trainer.safetensors".to_owned()));
    let mut model = qwen3();
    let mut trainer = Trainer::new(&model, CONFIG);
    let newest = latest(run.dir.path()).unwrap().unwrap();
    newest.checkpoint.restore(&mut model, &mut trainer).unwrap();
    train(&mut run.model, &mut run.trainer, 1..3);
    train(&mut model, &mut trainer, 1..3);
    assert_eq!(bits(model.params.data()), bits(run.model.params.data()));
    // The next one has today's layout.
    let next = run.save(2, 1).unwrap();
    assert!(!next.join("trainer.safetensors").exists());
    assert_eq!(names(run.dir.path()), ["step_2"]);
}

/// A digest by the first rule, which every checkpoint of format 2 had before there were others.
fn folded(content: &[u8]) -> String {
    format!("{:016x}", fold_bytes(content.len() as u64, content))
}

/// Gives a checkpoint the digests that were written before.
fn with_folded_digests(path: &Path) {
    let place = path.join("trainer/trainer.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    for (name, stamp) in record["files"].as_object_mut().unwrap() {
        assert!(stamp["digest"].as_str().unwrap().starts_with("xxh3:"));
        stamp["digest"] = folded(&fs::read(path.join(name)).unwrap()).into();
    }
    record.as_object_mut().unwrap().shift_remove("digest");
    record["digest"] = folded(record.to_string().as_bytes()).into();
    fs::write(&place, serde_json::to_vec_pretty(&record).unwrap()).unwrap();
}

#[test]
fn digests_of_the_rule_before_are_checked_by_that_rule() {
    let mut run = Run::new();
    let older = run.save(1, 0).unwrap();
    let newer = run.save(2, 0).unwrap();
    with_folded_digests(&older);
    with_folded_digests(&newer);
    let newest = latest(run.dir.path()).unwrap().unwrap();
    assert_eq!((newest.checkpoint.step(), newest.passed_over.len()), (2, 0));
    let mut model = qwen3();
    let mut trainer = Trainer::new(&model, CONFIG);
    newest.checkpoint.restore(&mut model, &mut trainer).unwrap();
    train(&mut run.model, &mut run.trainer, 1..3);
    train(&mut model, &mut trainer, 1..3);
    assert_eq!(bits(model.params.data()), bits(run.model.params.data()));
    for file in files(&newer) {
        let whole = fs::read(&file).unwrap();
        // A digit of the record is changed to another, so that it can still be read.
        let at = whole.iter().rposition(u8::is_ascii_digit).filter(|_| file.ends_with("trainer.json"));
        let mut damaged = whole.clone();
        damaged[at.unwrap_or(whole.len() / 2)] ^= 1;
        fs::write(&file, &damaged).unwrap();
        assert_eq!(run.latest_step(), Some(1), "{}", file.display());
        fs::write(&file, &whole).unwrap();
    }
}
