//! `make.every`: tasks that a function makes of a run's latest steps join its training tasks, while it goes on.
//!
//! `grown.jsonl` has a line for each time that tasks joined. A run that is resumed after step `s` reads the lines up to `s`, so it
//! plays what it would have played.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use burnish_core::json;
use burnish_rundir::files::{FileError, write_atomic};
use serde::{Deserialize, Serialize};

use super::is_due;
use crate::RunError;
use crate::making::Grown;
use crate::tasks::Tasks;

/// The tasks that have joined a run.
pub(super) struct Growth {
    path: PathBuf,
    every: u64,
    /// The step after which tasks joined last; 0 before that.
    pub(super) last: u64,
    all: Grown,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    step: u64,
    #[serde(flatten)]
    grown: Grown,
}

impl Growth {
    /// Of a run that goes on after `step`, unless it is over there, and whose tasks may grow every `every` steps: gives `tasks`
    /// those that joined up to then, and forgets later ones.
    ///
    /// # Errors
    /// If the file can't be read or written.
    pub(super) fn open(
        path: PathBuf,
        every: u64,
        (step, is_over): (u64, bool),
        tasks: &mut Tasks,
    ) -> Result<Self, RunError> {
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(FileError::on("read", &path))?,
        };
        // The last line may end within a character.
        let text = String::from_utf8_lossy(&bytes);
        let mut growth = Growth { path, every, last: 0, all: Grown::default() };
        let mut kept = String::new();
        for text in text.lines() {
            // A line that was being written when the run was killed comes again, and so does what joined when a run ended that has
            // more steps now.
            let Ok(line) = json::read::<Line>(text) else { break };
            let is_end = is_over && line.step == step;
            if line.step > step || !(is_end || is_due(line.step, every)) {
                break;
            }
            kept += &(text.to_owned() + "\n");
            growth.add(line, tasks);
        }
        if kept.len() < bytes.len() {
            write_atomic(&growth.path, kept.as_bytes())?;
        }
        Ok(growth)
    }

    /// May tasks join after `step`? They do every so many steps, and when the run is over.
    pub(super) fn is_due(&self, step: u64, is_over: bool) -> bool {
        step > self.last && (is_over || is_due(step, self.every))
    }

    /// Lets `grown` join `tasks` after `step`. When it returns, that is on the disk.
    ///
    /// # Errors
    /// If the file can't be written.
    pub(super) fn join(&mut self, step: u64, grown: Grown, tasks: &mut Tasks) -> Result<(), RunError> {
        let line = Line { step, grown };
        let text = json::text(&line).map_err(|error| RunError::Refused(format!("make.program: {error}")))?;
        let file = OpenOptions::new().append(true).create(true).open(&self.path);
        let write = file.and_then(|mut file| {
            file.write_all((text + "\n").as_bytes())?;
            file.sync_data()
        });
        write.map_err(FileError::on("write", &self.path))?;
        self.add(line, tasks);
        Ok(())
    }

    fn add(&mut self, Line { step, grown }: Line, tasks: &mut Tasks) {
        self.last = step;
        self.all.tasks.extend(grown.tasks.iter().cloned());
        self.all.reports.extend(grown.reports);
        tasks.grow(step, grown.tasks);
    }

    /// Everything that has joined, in its order.
    pub(super) fn grown(&self) -> &Grown {
        &self.all
    }
}
