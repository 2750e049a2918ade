//! A run's numbers: `metrics.jsonl` for people, scripts and the report, and event files for TensorBoard.
//!
//! ```text
//! {"step":3,"event":"train","entropy":0.62,"grad_norm":null,"reward":0.41}
//! ```
//!
//! `metrics.jsonl` always has burnish's own names, which are TRL's if TRL has one. Numbers that are not finite become
//! `null` there, which every JSON reader accepts, and are read back as NaN. TensorBoard gets the names of
//! `metrics.names` ([`aliases`]).

pub mod aliases;
mod event;
mod jsonl;
mod tensorboard;

use std::collections::BTreeMap;

use crate::files::{FileError, write_atomic};
use crate::run_dir::RunDir;

use aliases::Aliases;
use jsonl::LinesLog;
use tensorboard::EventsLog;

pub use jsonl::read;

/// The event of a training step.
pub const TRAIN: &str = "train";

/// Numbers by name, in the order of the names.
pub type Values = BTreeMap<String, f64>;

/// The numbers of one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Number of updates that the policy had had at the end of the event.
    pub step: u64,
    /// What happened: "train", "eval" ...
    pub event: String,
    /// The numbers.
    pub values: Values,
}

/// Logs the rows of a run.
#[derive(Debug)]
pub struct MetricsLog {
    lines: LinesLog,
    events: Option<(EventsLog, Aliases)>,
}

impl MetricsLog {
    /// Opens the metrics of the run in `dir`, which has done `step` steps, to append to them. `tensorboard` gives the
    /// names in event files; without it none are written. After an interrupted run, call [`truncate_after`] or
    /// [`clear`] first.
    ///
    /// # Errors
    /// If the files can't be opened.
    pub fn open(dir: &RunDir, tensorboard: Option<Aliases>, step: u64) -> Result<Self, FileError> {
        // A new run starts with an evaluation at step 0.
        let step_first = if step == 0 { 0 } else { step + 1 };
        let events = tensorboard.map(|aliases| (EventsLog::new(dir.tensorboard(), step_first), aliases));
        Ok(MetricsLog { lines: LinesLog::open(&dir.metrics())?, events })
    }

    /// Appends a row. Once written, it survives the end of the process, however that ends.
    ///
    /// # Errors
    /// If the row can't be written.
    pub fn append(&mut self, row: &Row) -> Result<(), FileError> {
        self.lines.append(row)?;
        match &mut self.events {
            Some((events, aliases)) => events.append(row.step, &aliases.tags(row)),
            None => Ok(()),
        }
    }

    /// Makes all rows durable against a power cut. Call it before a checkpoint of their step appears, so that no
    /// checkpoint is ahead of its metrics.
    ///
    /// # Errors
    /// If a file can't be synced.
    pub fn sync(&self) -> Result<(), FileError> {
        self.lines.sync()?;
        self.events.as_ref().map_or(Ok(()), |(events, _)| events.sync())
    }
}

/// Drops what was logged after `step`, and a half-written end. A run calls this when it resumes from the checkpoint
/// of `step`.
///
/// # Errors
/// If a file can't be read or written, or a line is not a row: the error names the line.
pub fn truncate_after(dir: &RunDir, step: u64) -> Result<(), FileError> {
    jsonl::truncate_after(&dir.metrics(), step)?;
    tensorboard::truncate_after(&dir.tensorboard(), step)
}

/// Drops everything that was logged. A run calls this when it begins again.
///
/// # Errors
/// If a file can't be written or removed.
pub fn clear(dir: &RunDir) -> Result<(), FileError> {
    write_atomic(&dir.metrics(), b"")?;
    tensorboard::clear(&dir.tensorboard())
}
