//! The directory of an evaluation: `eval.json`, `items.jsonl` with one line per item, `summary.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use burnish_core::json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RunError;
use crate::model_files::policy_digests;
use burnish_rundir::files::{FileError, remove_leftovers, write_atomic};

pub(crate) const SETTINGS: &str = "eval.json";
pub(crate) const ITEMS: &str = "items.jsonl";
pub(crate) const SUMMARY: &str = "summary.json";

/// Keys with paths. They are recorded for people and not compared: digests identify the content.
const PLACES: [&str; 2] = ["path", "base_dir"];

/// The policy that is evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySettings {
    /// Its directory.
    pub path: String,
    /// Digests of the files that decide what it says, each over the file's whole content.
    pub files: BTreeMap<String, String>,
    /// The number type of products with weights.
    pub precision: String,
}

impl PolicySettings {
    /// Reads all files of the policy in `dir`, and of its base if it is an adapter.
    ///
    /// # Errors
    /// Names the file that can't be read.
    pub fn of(dir: &Path, precision: &str) -> Result<Self, RunError> {
        let files = policy_digests(dir)?;
        Ok(PolicySettings { path: dir.display().to_string(), files, precision: precision.to_owned() })
    }
}

/// A line of `items.jsonl`.
pub trait Item: Serialize + DeserializeOwned {
    /// The id of the item that it records.
    fn id(&self) -> &str;
}

/// The end of an evaluation that is played item by item.
#[derive(Debug)]
pub enum Finished<T> {
    /// Every item was played.
    Done(Box<T>),
    /// It was stopped on request.
    Interrupted {
        /// Items that are done, and stored if there is a directory for records.
        done: usize,
        /// Number of all items.
        items: usize,
    },
}

/// The directory of an evaluation. This process holds it: the records file is locked while it is open.
#[derive(Debug)]
pub struct Records {
    dir: PathBuf,
    path: PathBuf,
    file: File,
}

impl Records {
    /// Opens `out`, new or with the records of an evaluation with equal settings; nothing is kept without it. `ids` are
    /// the items in order, and `ends` the ends of their chunks. Returns the records of complete chunks; anything after
    /// them (part of a chunk, half a line) is cut off.
    ///
    /// # Errors
    /// If another evaluation or anything else is there, another process works there, or a record is not valid.
    pub fn open<R: Item, S: Serialize + DeserializeOwned>(
        out: Option<&Path>,
        settings: impl FnOnce() -> Result<S, RunError>,
        ids: &[&str],
        ends: &[usize],
    ) -> Result<(Option<Self>, Vec<R>), RunError> {
        let Some(dir) = out else { return Ok((None, Vec::new())) };
        let settings = &settings()?;
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
        Ok((Some(records), kept))
    }

    /// Reads the records and cuts off what does not form a whole chunk.
    fn resume<R: Item>(&mut self, ids: &[&str], ends: &[usize]) -> Result<Vec<R>, RunError> {
        let failed = || FileError::on("read", &self.path);
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).map_err(failed())?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut kept = Vec::new();
        // The end of each record.
        let mut offsets = vec![0];
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let number = kept.len() + 1;
            let refuse = |problem: String| {
                RunError::Refused(format!(
                    "{}, line {number}: {problem}; repair it, or choose another --out",
                    self.path.display()
                ))
            };
            let record: R = json::read(&String::from_utf8_lossy(line))
                .map_err(|error| refuse(format!("is no record: {error}")))?;
            match ids.get(kept.len()) {
                Some(id) if *id == record.id() => {}
                Some(id) => {
                    return Err(refuse(format!(
                        "is the record of `{}`, where that of `{id}` must be",
                        record.id()
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

    /// Appends the records of a chunk. When it returns, they are on the disk.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn append(&mut self, records: &[impl Item]) -> Result<(), RunError> {
        let lines = records.iter().map(|record| Ok(json::text(record).map_err(unwritable)? + "\n"));
        let lines = lines.collect::<Result<String, RunError>>()?;
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        Ok(written.map_err(FileError::on("write", &self.path))?)
    }

    /// Writes `summary.json`.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn finish(&self, summary: &impl Serialize) -> Result<(), RunError> {
        Ok(write_atomic(&self.dir.join(SUMMARY), &pretty(summary)?)?)
    }
}

fn pretty(value: &impl Serialize) -> Result<Vec<u8>, RunError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(unwritable)?;
    text.push(b'\n');
    Ok(text)
}

pub(crate) fn unwritable(error: serde_json::Error) -> RunError {
    RunError::Refused(format!("can't be written as JSON: {error}"))
}

/// A directory without settings must be empty, except for what a failed start leaves.
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

fn check_settings<S: Serialize + DeserializeOwned>(
    dir: &Path,
    path: &Path,
    settings: &S,
) -> Result<(), RunError> {
    let bytes = fs::read(path).map_err(FileError::on("read", path))?;
    let refuse = |problem: String| RunError::Refused(format!("{}: {problem}", path.display()));
    let stored: S = serde_json::from_slice(&bytes)
        .map_err(|error| refuse(format!("is no evaluation's: {error}; choose another --out")))?;
    let differences = differences(settings, &stored).map_err(unwritable)?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(RunError::Refused(format!(
        "`{}` holds an evaluation with other settings: {}. Give the same, or choose another --out",
        dir.display(),
        differences.join(", ")
    )))
}

/// How `stored` differs from these settings, one line per difference; empty if the records can be used. Paths are not
/// compared.
fn differences<S: Serialize>(settings: &S, stored: &S) -> Result<Vec<String>, serde_json::Error> {
    let (mut before, mut now) = (BTreeMap::new(), BTreeMap::new());
    flatten("", &serde_json::to_value(stored)?, &mut before);
    flatten("", &serde_json::to_value(settings)?, &mut now);
    let absent = "absent".to_owned();
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    Ok(keys
        .into_iter()
        .filter(|key| !key.split('.').any(|part| PLACES.contains(&part)))
        .filter_map(|key| {
            let (was, is) = (before.get(key).unwrap_or(&absent), now.get(key).unwrap_or(&absent));
            (was != is).then(|| format!("`{key}` was {was} and is {is}"))
        })
        .collect())
}

/// Collects every leaf of a value by path. File names contain dots, so each is one leaf.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&below(key), value, leaves)),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| flatten(&below(&index.to_string()), value, leaves));
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.to_string());
        }
    }
}
