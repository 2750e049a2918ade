//! Checkpoints that survive crashes: `checkpoints/step_N/` is there completely or not at all.
//!
//! A checkpoint is a Hugging Face directory (`config.json`, `model.safetensors`, tokenizer files) with one more folder:
//! `trainer/trainer.safetensors` holds the f32 masters of the weights and the optimiser's state, `trainer/trainer.json`
//! the counts, the hyperparameters, the caller's own state, and the size and digest of every file. They have a folder
//! of their own because servers take every `*.safetensors` beside `config.json` for weights of the model. A run that is
//! restored from a checkpoint gives the same bits as if it had never stopped.
//!
//! Checkpoints of format 1 (both files beside the weights, sizes without digests) can be read too, and so can digests
//! by the previous rule.
//!
//! A checkpoint is written under a temporary name, synced to the disk and then renamed; only then are old ones removed.
//! So a crash or a full disk at any moment leaves the previous checkpoint intact.

mod digest;
mod directory;
mod tensors;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burnish_core::digest::Rule;
use burnish_model::Model;
use serde::{Deserialize, Serialize};

use crate::Trainer;
use crate::adamw::{AdamwConfig, MomentType};
use directory::io;

const FORMAT: u32 = 2;
/// The format without digests, with record and tensors beside the weights.
const FORMAT_BESIDE: u32 = 1;
/// The folder for what the trainer needs and the model does not.
const TRAINER_DIR: &str = "trainer";
/// Key of the record's own digest in its file.
const DIGEST_KEY: &str = "digest";
const RECORD_FILE: &str = "trainer.json";
const TENSORS_FILE: &str = "trainer.safetensors";

/// Any error from a caller's own writer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Writing failed; earlier checkpoints are intact.
    #[error("the checkpoint of step {step} was not saved (earlier ones are intact): {source}")]
    NotSaved {
        /// Step of the checkpoint.
        step: u64,
        /// Why.
        source: BoxError,
    },
    /// A file is missing, cut off or damaged.
    #[error("{} is not a complete checkpoint: {problem}", path.display())]
    Incomplete {
        /// The checkpoint's directory.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The checkpoint belongs to another model or has other settings.
    #[error("the checkpoint {} does not fit: {problem}", path.display())]
    Mismatch {
        /// The checkpoint's directory.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
}

/// What `trainer.json` holds.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    step: u64,
    updates: u64,
    adamw: AdamwConfig,
    state: serde_json::Value,
    /// Every other file, by its path in the checkpoint.
    files: BTreeMap<String, Stamp>,
}

/// What a file must match.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Stamp {
    /// Format 1: its size in bytes.
    Size(u64),
    /// Its size and the digest of its content.
    Content { bytes: u64, digest: String },
}

impl Stamp {
    fn bytes(&self) -> u64 {
        match self {
            Stamp::Size(bytes) | Stamp::Content { bytes, .. } => *bytes,
        }
    }
}

impl Record {
    /// A record that has nothing but the caller's state.
    fn of(state: &serde_json::Value) -> Self {
        let (adamw, state) = (AdamwConfig::default(), state.clone());
        Record { format: FORMAT, step: 0, updates: 0, adamw, state, files: BTreeMap::new() }
    }

    /// The record with its own digest, as its file holds it.
    fn to_json(&self) -> Result<Vec<u8>, BoxError> {
        let mut value = serde_json::to_value(self)?;
        let digest = digest::of_value(&value, Rule::Xxh3);
        value[DIGEST_KEY] = digest.into();
        Ok(serde_json::to_vec_pretty(&value)?)
    }

    fn from_json(text: &[u8]) -> Result<Self, String> {
        let damaged = |error: serde_json::Error| format!("can't be understood: {error}");
        let mut value: serde_json::Value = serde_json::from_slice(text).map_err(damaged)?;
        let stated = value.as_object_mut().and_then(|record| record.shift_remove(DIGEST_KEY));
        let stated = stated.as_ref().and_then(|digest| digest.as_str());
        let is_intact = stated.is_some_and(|digest| digest::of_value(&value, Rule::of(digest)) == digest);
        let record: Record = serde_json::from_value(value).map_err(damaged)?;
        if record.format != FORMAT_BESIDE && !is_intact {
            return Err("is damaged: its content does not have the digest that it states".into());
        }
        Ok(record)
    }
}

/// Which part of a checkpoint is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The model with its tokenizer.
    Model,
    /// All of it, to go on with training.
    Whole,
}

/// The steps that have a checkpoint in `dir`, whole or not, in ascending order.
///
/// # Errors
/// If the directory can't be read.
pub fn steps(dir: &Path) -> Result<Vec<u64>, CheckpointError> {
    directory::steps(dir)
}

/// The directory that holds a run's checkpoints. One process at a time may have it open.
#[derive(Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// Opens `dir`, creates it if it is missing, and clears away what an interrupted save left behind. The newest
    /// `keep` checkpoints are kept; 0 keeps all.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn open(dir: impl Into<PathBuf>, keep: usize) -> Result<Self, CheckpointError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        directory::recover(&dir)?;
        Ok(Checkpoints { dir, keep })
    }

    /// Saves `model` and `trainer` as `step_N` and returns the new directory. `state` is whatever the caller wants
    /// back; `write_more` adds further files (such as the tokenizer's) to the directory that it is given. A checkpoint
    /// of the same step is replaced.
    ///
    /// # Errors
    /// If anything could not be written. Earlier checkpoints are then intact.
    pub fn save(
        &self,
        step: u64,
        model: &Model,
        trainer: &Trainer,
        state: &serde_json::Value,
        write_more: &mut dyn FnMut(&Path) -> Result<(), BoxError>,
    ) -> Result<PathBuf, CheckpointError> {
        self.publish(step, |partial| write(partial, step, model, trainer, state, write_more))
    }

    /// As [`Checkpoints::save`], where another machine has the weights, which have had `updates` updates by `adamw`: the
    /// caller's `state` says where they are. The directory has no model in it.
    ///
    /// # Errors
    /// As [`Checkpoints::save`].
    pub fn save_elsewhere(
        &self,
        step: u64,
        updates: u64,
        adamw: AdamwConfig,
        state: &serde_json::Value,
        write_more: &mut dyn FnMut(&Path) -> Result<(), BoxError>,
    ) -> Result<PathBuf, CheckpointError> {
        self.publish(step, |partial| {
            directory::make_empty(partial)?;
            write_more(partial)?;
            directory::make_empty(&partial.join(TRAINER_DIR))?;
            write_record(partial, Record { step, updates, adamw, ..Record::of(state) })
        })
    }

    /// Lets `write` fill a directory, which becomes the checkpoint of a step.
    fn publish(
        &self,
        step: u64,
        write: impl FnOnce(&Path) -> Result<(), BoxError>,
    ) -> Result<PathBuf, CheckpointError> {
        let partial = directory::partial(&self.dir, step);
        let written = write(&partial).and_then(|()| Ok(directory::publish(&self.dir, step)?));
        match written {
            Ok(path) => {
                directory::prune(&self.dir, self.keep, step)?;
                Ok(path)
            }
            Err(source) => {
                // A failure to clean up must not hide why the save failed; the next `open` tries again.
                let _ = fs::remove_dir_all(&partial);
                Err(CheckpointError::NotSaved { step, source })
            }
        }
    }
}

fn write(
    partial: &Path,
    step: u64,
    model: &Model,
    trainer: &Trainer,
    state: &serde_json::Value,
    write_more: &mut dyn FnMut(&Path) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    directory::make_empty(partial)?;
    model.params.fetch()?;
    model.save(partial)?;
    write_more(partial)?;
    let own = partial.join(TRAINER_DIR);
    directory::make_empty(&own)?;
    tensors::write(&own.join(TENSORS_FILE), &model.params, trainer.adamw())?;
    let (updates, adamw) = (trainer.updates(), trainer.config().adamw);
    write_record(partial, Record { step, updates, adamw, ..Record::of(state) })
}

/// Writes the record of a checkpoint, with the digests of all its files, which must be there.
fn write_record(partial: &Path, record: Record) -> Result<(), BoxError> {
    let record = Record { files: stamps(partial)?, ..record };
    fs::write(partial.join(TRAINER_DIR).join(RECORD_FILE), record.to_json()?)?;
    Ok(directory::sync(partial)?)
}

/// Every file under `dir`, by its path relative to `dir`.
fn stamps(dir: &Path) -> Result<BTreeMap<String, Stamp>, CheckpointError> {
    let stamp = |path: &Path| {
        let (bytes, digest) = digest::of_file(path, Rule::Xxh3).map_err(io("read", path))?;
        Ok(Stamp::Content { bytes, digest })
    };
    directory::files(dir)?.iter().map(|path| Ok((directory::name_in(dir, path), stamp(path)?))).collect()
}

/// Writes another model with its trainer into `dir`, a new folder of the checkpoint that [`Checkpoints::save`] is
/// writing. [`Checkpoint::open`] reads it.
///
/// # Errors
/// If anything can't be written.
pub fn write_part(dir: &Path, step: u64, model: &Model, trainer: &Trainer) -> Result<(), BoxError> {
    write(dir, step, model, trainer, &serde_json::Value::Null, &mut |_| Ok(()))
}

/// Writes the f32 masters of a model with other weights than the checkpoint's own to `file`, a new file of the
/// checkpoint that [`Checkpoints::save`] is writing. [`Checkpoint::restore_weights`] reads it.
///
/// # Errors
/// If it can't be written.
pub fn write_weights(file: &Path, model: &Model) -> Result<(), BoxError> {
    tensors::write_masters(file, &model.params)
}

/// The newest intact checkpoint, and the damaged newer ones.
#[derive(Debug)]
pub struct Newest {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Why each newer one can't be used, the newest first, to be reported.
    pub passed_over: Vec<CheckpointError>,
}

impl Newest {
    /// What to tell the user about the checkpoints that were passed over: one line each.
    pub fn notes(&self) -> Vec<String> {
        let used = self.checkpoint.step();
        self.passed_over
            .iter()
            .map(|error| format!("damaged checkpoint: {error}; the one of step {used} is used instead"))
            .collect()
    }
}

/// The newest checkpoint in `dir` whose files of `extent` are as they were saved; `None` if there are no checkpoints.
/// Changes nothing.
///
/// # Errors
/// If the file system refuses, or there are checkpoints but none is intact.
pub fn latest(dir: &Path, extent: Extent) -> Result<Option<Newest>, CheckpointError> {
    if !dir.exists() {
        return Ok(None);
    }
    let mut passed_over = Vec::new();
    for step in directory::steps(dir)?.into_iter().rev() {
        let intact = Checkpoint::open(&directory::place(dir, step))
            .and_then(|checkpoint| checkpoint.verify(extent).map(|()| checkpoint));
        match intact {
            Ok(checkpoint) => return Ok(Some(Newest { checkpoint, passed_over })),
            Err(error) => passed_over.push(error),
        }
    }
    passed_over.into_iter().next().map_or(Ok(None), Err)
}

/// A complete checkpoint on the disk.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// The folder of the trainer's own files.
    own: PathBuf,
    record: Record,
}

impl Checkpoint {
    /// Opens the checkpoint directory `path` and checks that every file is there in full size. [`Checkpoint::verify`]
    /// checks the contents.
    ///
    /// # Errors
    /// If a file is missing, unreadable, or has another size than when it was saved.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let incomplete = |problem| CheckpointError::Incomplete { path: path.to_owned(), problem };
        let beside = path.join(RECORD_FILE).is_file();
        let own = if beside { path.to_owned() } else { path.join(TRAINER_DIR) };
        let name = directory::name_in(path, &own.join(RECORD_FILE));
        let text = fs::read(own.join(RECORD_FILE))
            .map_err(|error| incomplete(format!("{name} can't be read: {error}")))?;
        let record = Record::from_json(&text).map_err(|problem| incomplete(format!("{name} {problem}")))?;
        if ![FORMAT_BESIDE, FORMAT].contains(&record.format) {
            let problem = format!("it has format {}, but this version reads {FORMAT}", record.format);
            return Err(CheckpointError::Mismatch { path: path.to_owned(), problem });
        }
        for (name, stamp) in &record.files {
            let size = stamp.bytes();
            let found = fs::metadata(path.join(name))
                .map_err(|error| incomplete(format!("{name} can't be read: {error}")))?
                .len();
            if found != size {
                return Err(incomplete(format!("{name} has {found} bytes instead of {size}")));
            }
        }
        Ok(Checkpoint { path: path.to_owned(), own, record })
    }

    /// Reads the files of `extent` and checks that their contents are as they were saved. Format 1 has no digests to
    /// check them with.
    ///
    /// # Errors
    /// If a file is damaged or can't be read; the error names it.
    pub fn verify(&self, extent: Extent) -> Result<(), CheckpointError> {
        for (name, stamp) in &self.record.files {
            let Stamp::Content { digest, .. } = stamp else { continue };
            if extent == Extent::Model && name.contains('/') {
                continue;
            }
            let file = self.path.join(name);
            let (_, found) = digest::of_file(&file, Rule::of(digest)).map_err(io("read", &file))?;
            if found != *digest {
                let problem = format!("{name} is damaged: its content is not what was saved");
                return Err(CheckpointError::Incomplete { path: self.path.clone(), problem });
            }
        }
        Ok(())
    }

    /// The directory, which [`Model::load`] can read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The step that it was saved as.
    pub fn step(&self) -> u64 {
        self.record.step
    }

    /// Number of updates that the weights have had.
    pub fn updates(&self) -> u64 {
        self.record.updates
    }

    /// The state that the caller gave when saving.
    pub fn state(&self) -> &serde_json::Value {
        &self.record.state
    }

    /// Puts `model` (loaded from [`path`](Checkpoint::path)) and `trainer` (newly made for it) exactly in the state in
    /// which they were saved: f32 masters, optimiser state, and counts.
    ///
    /// # Errors
    /// If a tensor is missing, misshapen or unknown, or the optimiser's hyperparameters differ from those of the
    /// checkpoint. Neither `model` nor `trainer` is changed then.
    pub fn restore(&self, model: &mut Model, trainer: &mut Trainer) -> Result<(), CheckpointError> {
        let (saved, wanted) = (&self.record.adamw, &trainer.config().adamw);
        if saved != wanted {
            let problem = format!("it was trained with {}", differing(saved, wanted));
            return Err(CheckpointError::Mismatch { path: self.path.clone(), problem });
        }
        let path = self.own.join(TENSORS_FILE);
        tensors::read(&path, self.record.updates, &mut model.params, trainer.adamw_mut())
    }

    /// Gives `model` (of the same architecture as the checkpoint's) the weights that [`write_weights`] wrote to `file`
    /// of the checkpoint.
    ///
    /// # Errors
    /// If a tensor is missing, misshapen or unknown. `model` is not changed then.
    pub fn restore_weights(&self, file: &str, model: &mut Model) -> Result<(), CheckpointError> {
        tensors::read_masters(&self.path.join(file), &mut model.params)
    }
}

/// The hyperparameters that differ, under their names in a recipe: `beta2 0.999, but 0.95 is asked for`.
fn differing(saved: &AdamwConfig, wanted: &AdamwConfig) -> String {
    let values = |config: &AdamwConfig| {
        let moments = match config.moments {
            MomentType::F32 => "f32",
            MomentType::EightBit => "8bit",
        };
        [
            ("beta1", config.beta1.to_string()),
            ("beta2", config.beta2.to_string()),
            ("epsilon", config.epsilon.to_string()),
            ("weight_decay", config.weight_decay.to_string()),
            ("moments", moments.to_owned()),
        ]
    };
    let pairs = values(saved).into_iter().zip(values(wanted)).filter(|(saved, wanted)| saved != wanted);
    let said = pairs.map(|((name, saved), (_, wanted))| format!("{name} {saved}, but {wanted} is asked for"));
    said.collect::<Vec<_>>().join("; ")
}
