//! `items.jsonl`: what was asked, what was answered, and how it was judged; one line an item.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use burnish_core::{Message, StopReason};
use burnish_verify::Reason;
use serde::{Deserialize, Serialize};

use super::language::Spoken;
use super::settings::Settings;
use crate::RunError;
use crate::files::{FileError, remove_leftovers, write_atomic};

const SETTINGS: &str = "eval.json";
const ITEMS: &str = "items.jsonl";
const SUMMARY: &str = "summary.json";

/// An item with its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The item: benchmark, language where there are several, row of the file from 0.
    pub id: String,
    /// By which results are broken down.
    pub labels: BTreeMap<String, String>,
    /// The messages that the policy got, before its chat template.
    pub prompt: Vec<Message>,
    /// What the answers are compared with.
    pub reference: String,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// One answer to an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// What the policy said.
    pub text: String,
    /// Its thoughts, where its chat format keeps them apart; they are not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The final answer that the verifier found in the text.
    pub answer: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// Tokens sampled.
    pub tokens: usize,
    /// Why sampling stopped; `None` where it did not begin.
    pub stop: Option<StopReason>,
    /// Which language text and thoughts are in, where the item is in one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Spoken>,
}

/// What came of a sample. Only [`Outcome::Correct`] counts as right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is the reference.
    Correct,
    /// The answer was read, and is another.
    Different,
    /// There is no answer.
    NoAnswer,
    /// There is an answer that can't be compared.
    Unreadable,
    /// The prompt does not fit the policy's context window: nothing was sampled.
    PromptTooLong,
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Correct => Outcome::Correct,
            Reason::Different => Outcome::Different,
            Reason::NoAnswer => Outcome::NoAnswer,
            Reason::Unreadable => Outcome::Unreadable,
        }
    }
}

impl Record {
    /// Number of right samples.
    pub fn correct(&self) -> usize {
        self.samples.iter().filter(|sample| sample.outcome == Outcome::Correct).count()
    }
}

/// The directory of an evaluation, held by this process: the records file is locked while it is open.
#[derive(Debug)]
pub(super) struct Records {
    dir: PathBuf,
    path: PathBuf,
    file: File,
}

impl Records {
    /// Opens `dir`, new or with the records of an evaluation of equal settings. `ids` are the items in their order, and
    /// `ends` the ends of their chunks. Returns the records of the chunks that are complete; what follows them (the
    /// part of a chunk, half a line) is cut off.
    ///
    /// # Errors
    /// If another evaluation or anything else is there, another process works there, or a record is not what it
    /// must be.
    pub(super) fn open(
        dir: &Path,
        settings: &Settings,
        ids: &[&str],
        ends: &[usize],
    ) -> Result<(Self, Vec<Record>), RunError> {
        fs::create_dir_all(dir).map_err(FileError::on("create directory", dir))?;
        let settings_path = dir.join(SETTINGS);
        let is_new = !settings_path.exists();
        if is_new {
            refuse_other(dir)?;
        }
        let path = dir.join(ITEMS);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(FileError::on("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(RunError::Refused(format!(
                    "`{}` is in use by another burnish process: wait for it or stop it, or choose another --out",
                    dir.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(FileError::on("lock", &path)(error).into()),
        }
        remove_leftovers(dir)?;
        let mut records = Records { dir: dir.to_owned(), path, file };
        if is_new {
            write_atomic(&settings_path, &pretty(settings)?)?;
        } else {
            check_settings(dir, &settings_path, settings)?;
        }
        let kept = records.resume(ids, ends)?;
        Ok((records, kept))
    }

    /// Reads the records and cuts off what does not make a whole chunk.
    fn resume(&mut self, ids: &[&str], ends: &[usize]) -> Result<Vec<Record>, RunError> {
        let failed = || FileError::on("read", &self.path);
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).map_err(failed())?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut kept = Vec::new();
        // Where each record ends.
        let mut offsets = vec![0];
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let number = kept.len() + 1;
            let refuse = |problem: String| {
                RunError::Refused(format!(
                    "{}, line {number}: {problem}; mend it, or choose another --out",
                    self.path.display()
                ))
            };
            let record: Record =
                serde_json::from_slice(line).map_err(|error| refuse(format!("is no record: {error}")))?;
            match ids.get(kept.len()) {
                Some(id) if *id == record.id => {}
                Some(id) => {
                    return Err(refuse(format!(
                        "is the record of `{}`, where that of `{id}` must be",
                        record.id
                    )));
                }
                None => return Err(refuse(format!("there are {} items only", ids.len()))),
            }
            kept.push(record);
            offsets.push(offsets.last().copied().unwrap_or(0) + line.len() as u64);
        }
        let complete = ends.iter().copied().take_while(|end| *end <= kept.len()).last().unwrap_or(0);
        kept.truncate(complete);
        let end = offsets.get(complete).copied().unwrap_or(0);
        self.file.set_len(end).map_err(FileError::on("shorten", &self.path))?;
        self.file.seek(SeekFrom::Start(end)).map_err(failed())?;
        Ok(kept)
    }

    /// Adds the records of a chunk; on return they are on the disk.
    ///
    /// # Errors
    /// If they can't be written.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), RunError> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record).map_err(unwritable)?;
            lines.push(b'\n');
        }
        let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
        Ok(written.map_err(FileError::on("write", &self.path))?)
    }

    /// Writes `summary.json`.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn finish(&self, summary: &impl Serialize) -> Result<(), RunError> {
        Ok(write_atomic(&self.dir.join(SUMMARY), &pretty(summary)?)?)
    }
}

fn pretty(value: &impl Serialize) -> Result<Vec<u8>, RunError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(unwritable)?;
    text.push(b'\n');
    Ok(text)
}

pub(super) fn unwritable(error: serde_json::Error) -> RunError {
    RunError::Refused(format!("can't be written as JSON: {error}"))
}

/// A directory without settings must be empty but for what a false start leaves.
fn refuse_other(dir: &Path) -> Result<(), RunError> {
    for entry in fs::read_dir(dir).map_err(FileError::on("list", dir))? {
        let entry = entry.map_err(FileError::on("list", dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_empty = || entry.metadata().is_ok_and(|metadata| metadata.len() == 0);
        let is_left_over = (name == ITEMS && is_empty()) || name.starts_with(&format!(".{SETTINGS}."));
        if !is_left_over {
            return Err(RunError::Refused(format!(
                "`{}` is not empty (it holds `{name}`) and holds no evaluation: choose another --out, or empty it",
                dir.display()
            )));
        }
    }
    Ok(())
}

fn check_settings(dir: &Path, path: &Path, settings: &Settings) -> Result<(), RunError> {
    let bytes = fs::read(path).map_err(FileError::on("read", path))?;
    let refuse = |problem: String| RunError::Refused(format!("{}: {problem}", path.display()));
    let stored: Settings = serde_json::from_slice(&bytes)
        .map_err(|error| refuse(format!("is no evaluation's: {error}; choose another --out")))?;
    let differences = settings.differences(&stored).map_err(unwritable)?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(RunError::Refused(format!(
        "`{}` holds an evaluation with other settings: {}. Give the same, or choose another --out",
        dir.display(),
        differences.join(", ")
    )))
}
