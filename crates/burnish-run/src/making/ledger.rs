//! Everything that functions were told and have made so far: `making.jsonl`, a line each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use burnish_core::json;
use burnish_reason::{Finished, Ledger, Made};
use burnish_rundir::files::FileError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RunError;

/// The log of a run's functions, while the artefact is not complete.
pub(super) struct Log {
    path: PathBuf,
    maker: String,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    finished: BTreeMap<String, Finished>,
    /// By function and number: the question, and the answer.
    told: BTreeMap<(String, u64), (String, Value)>,
    file: Option<File>,
}

/// A line of it.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Digest of the tasks of a function.
    function: String,
    /// Digest of everything else that decides what is made.
    maker: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum What {
    Told { number: u64, question: String, answer: Value },
    Finished { made: Vec<Made>, report: Option<Value> },
}

impl Log {
    /// Reads what the function `maker` was told and has made. A last line that is not complete is cut off.
    ///
    /// # Errors
    /// If the file can't be read, or not be shortened.
    pub(super) fn open(path: PathBuf, maker: String) -> Result<Self, RunError> {
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(FileError::on("read", &path))?,
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < text.len() {
            let cut = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(whole as u64));
            cut.map_err(FileError::on("shorten", &path))?;
        }
        let mut inner = Inner::default();
        let text = String::from_utf8_lossy(&text[..whole]);
        let lines = text.lines().filter_map(|line| json::read::<Line>(line).ok());
        for Line { function, what, .. } in lines.filter(|line| line.maker == maker) {
            match what {
                What::Told { number, question, answer } => {
                    inner.told.insert((function, number), (question, answer));
                }
                What::Finished { made, report } => {
                    inner.finished.insert(function, Finished { made, report });
                }
            }
        }
        Ok(Log { path, maker, inner: RefCell::new(inner) })
    }

    /// Is a function over?
    pub(super) fn is_finished(&self, function: &str) -> bool {
        self.inner.borrow().finished.contains_key(function)
    }

    /// Everything that a function left.
    pub(super) fn take(&self, function: &str) -> Finished {
        self.inner.borrow_mut().finished.remove(function).unwrap_or_default()
    }

    /// Adds what a function left. When it returns, that is on the disk, with everything before it.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn finish(&self, function: &str, finished: Finished) -> Result<(), RunError> {
        let Finished { made, report } = finished.clone();
        self.append(function, What::Finished { made, report })?;
        let mut inner = self.inner.borrow_mut();
        if let Some(file) = &inner.file {
            file.sync_data().map_err(FileError::on("write", &self.path))?;
        }
        inner.finished.insert(function.to_owned(), finished);
        Ok(())
    }

    fn append(&self, function: &str, what: What) -> Result<(), RunError> {
        let failed = || FileError::on("write", &self.path);
        let line = Line { function: function.to_owned(), maker: self.maker.clone(), what };
        let text = json::text(&line).map_err(|error| RunError::Refused(format!("make.program: {error}")))?;
        let file = &mut self.inner.borrow_mut().file;
        if file.is_none() {
            let opened = OpenOptions::new().append(true).create(true).open(&self.path);
            *file = Some(opened.map_err(failed())?);
        }
        if let Some(file) = file {
            file.write_all((text + "\n").as_bytes()).map_err(failed())?;
        }
        Ok(())
    }
}

impl Ledger for Log {
    fn told(&self, function: &str, number: u64, question: &str) -> Option<Value> {
        let inner = self.inner.borrow();
        let (asked, answer) = inner.told.get(&(function.to_owned(), number))?;
        (asked == question).then(|| answer.clone())
    }

    fn keep(&self, function: &str, number: u64, question: &str, answer: Value) -> Result<(), String> {
        let told = What::Told { number, question: question.to_owned(), answer };
        self.append(function, told).map_err(|error| error.to_string())
    }
}
