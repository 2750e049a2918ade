//! Checkpoints that survive anything: `checkpoints/step_N/`, there completely or not at all.
//!
//! A checkpoint is a Hugging Face directory (`config.json`, `model.safetensors`, tokenizer files) with two
//! files more: `trainer.safetensors` holds the f32 masters of the weights and the optimiser's state,
//! `trainer.json` the counts, the hyperparameters, the caller's own state and the size of every file. A run
//! that is restored from it continues to the same bits as if it had never stopped.
//!
//! It is written beside its place, synced to the disk, and then renamed; only then are old ones removed. So
//! a crash or a full disk at any moment leaves the previous checkpoint intact.

mod directory;
mod tensors;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burnish_model::Model;
use serde::{Deserialize, Serialize};

use crate::Trainer;
use crate::adamw::AdamwConfig;
use directory::io;

const FORMAT: u32 = 1;
const RECORD_FILE: &str = "trainer.json";
const TENSORS_FILE: &str = "trainer.safetensors";

/// Any error of a caller's own writer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("could not {action} {path}: {source}")]
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
    #[error("{path} is not a complete checkpoint: {problem}; use an earlier one")]
    Incomplete {
        /// The checkpoint's directory.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The checkpoint is of another model or another setting.
    #[error("the checkpoint {path} does not fit: {problem}")]
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
    /// Size in bytes of every other file.
    files: BTreeMap<String, u64>,
}

/// The directory that holds a run's checkpoints. One process at a time may have it open.
#[derive(Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// Opens `dir`, makes it where it is missing, and clears away what an interrupted save left. Of the saved
    /// checkpoints the newest `keep` stay; 0 keeps all.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn open(dir: impl Into<PathBuf>, keep: usize) -> Result<Self, CheckpointError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        directory::recover(&dir)?;
        Ok(Checkpoints { dir, keep })
    }

    /// Saves `model` and `trainer` as `step_N` and gives the new directory. `state` is whatever the caller
    /// wants back; `write_more` adds further files (the tokenizer's) to the directory it is given. A
    /// checkpoint of the same step is replaced.
    ///
    /// # Errors
    /// If anything could not be written. What was there before is intact then.
    pub fn save(
        &self,
        step: u64,
        model: &Model,
        trainer: &Trainer,
        state: &serde_json::Value,
        write_more: &mut dyn FnMut(&Path) -> Result<(), BoxError>,
    ) -> Result<PathBuf, CheckpointError> {
        let partial = directory::partial(&self.dir, step);
        let written = write(&partial, step, model, trainer, state, write_more)
            .and_then(|()| Ok(directory::publish(&self.dir, step)?));
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
    tensors::write(&partial.join(TENSORS_FILE), &model.params, trainer.adamw())?;
    let record = Record {
        format: FORMAT,
        step,
        updates: trainer.updates(),
        adamw: trainer.config().adamw,
        state: state.clone(),
        files: directory::sizes(partial)?,
    };
    fs::write(partial.join(RECORD_FILE), serde_json::to_vec_pretty(&record)?)?;
    Ok(directory::sync(partial)?)
}

/// Writes a further model with its trainer into `dir`, a new folder of the checkpoint that [`Checkpoints::save`] is
/// writing. [`Checkpoint::open`] reads it.
///
/// # Errors
/// If anything can't be written.
pub fn write_part(dir: &Path, step: u64, model: &Model, trainer: &Trainer) -> Result<(), BoxError> {
    write(dir, step, model, trainer, &serde_json::Value::Null, &mut |_| Ok(()))
}

/// Writes the f32 masters of a model of other weights than the checkpoint's own as `file`, a new file of the checkpoint
/// that [`Checkpoints::save`] is writing. [`Checkpoint::restore_weights`] reads it.
///
/// # Errors
/// If it can't be written.
pub fn write_weights(file: &Path, model: &Model) -> Result<(), BoxError> {
    tensors::write_masters(file, &model.params)
}

/// The newest complete checkpoint in `dir`; `None` where there is none. Changes nothing.
///
/// # Errors
/// If the file system refuses, or there are checkpoints but none is complete.
pub fn latest(dir: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
    if !dir.exists() {
        return Ok(None);
    }
    let mut newest_error = None;
    for step in directory::steps(dir)?.into_iter().rev() {
        match Checkpoint::open(&directory::place(dir, step)) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(error) => newest_error = newest_error.or(Some(error)),
        }
    }
    newest_error.map_or(Ok(None), Err)
}

/// A complete checkpoint on the disk.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    record: Record,
}

impl Checkpoint {
    /// Opens the checkpoint directory `path` and checks that every file is there in full.
    ///
    /// # Errors
    /// If a file is missing, unreadable, or has another size than when it was saved.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let incomplete = |problem| CheckpointError::Incomplete { path: path.to_owned(), problem };
        let text = fs::read(path.join(RECORD_FILE))
            .map_err(|error| incomplete(format!("{RECORD_FILE} can't be read: {error}")))?;
        let record: Record = serde_json::from_slice(&text)
            .map_err(|error| incomplete(format!("{RECORD_FILE} can't be understood: {error}")))?;
        if record.format != FORMAT {
            let problem = format!("it has format {}, but this version reads {FORMAT}", record.format);
            return Err(CheckpointError::Mismatch { path: path.to_owned(), problem });
        }
        for (name, &size) in &record.files {
            let found = fs::metadata(path.join(name))
                .map_err(|error| incomplete(format!("{name} can't be read: {error}")))?
                .len();
            if found != size {
                return Err(incomplete(format!("{name} has {found} bytes instead of {size}")));
            }
        }
        Ok(Checkpoint { path: path.to_owned(), record })
    }

    /// The directory, from which [`Model::load`] reads.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The step it was saved as.
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

    /// Puts `model` (loaded from [`path`](Checkpoint::path)) and `trainer` (newly made for it) exactly where
    /// they were when the checkpoint was saved: f32 masters, optimiser state, and counts.
    ///
    /// # Errors
    /// If a tensor is missing, misshapen or unknown, or the optimiser's hyperparameters are others than
    /// those of the checkpoint. Neither `model` nor `trainer` is changed then.
    pub fn restore(&self, model: &mut Model, trainer: &mut Trainer) -> Result<(), CheckpointError> {
        let (saved, wanted) = (&self.record.adamw, &trainer.config().adamw);
        if saved != wanted {
            let problem = format!("it was trained with {saved:?}, but {wanted:?} is asked for");
            return Err(CheckpointError::Mismatch { path: self.path.clone(), problem });
        }
        let path = self.path.join(TENSORS_FILE);
        tensors::read(&path, self.record.updates, &mut model.params, trainer.adamw_mut())
    }

    /// Gives `model` (one like the checkpoint's) the weights that [`write_weights`] wrote as `file` of the checkpoint.
    ///
    /// # Errors
    /// If a tensor is missing, misshapen or unknown. `model` is not changed then.
    pub fn restore_weights(&self, file: &str, model: &mut Model) -> Result<(), CheckpointError> {
        tensors::read_masters(&self.path.join(file), &mut model.params)
    }
}
