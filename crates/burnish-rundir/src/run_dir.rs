//! The directory of a run: its files, and the lock that keeps other processes out.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::files::{self, FileError};
use crate::metrics;
use crate::report;
use crate::text::shell_path;

/// Name of the resolved recipe in a run directory.
pub const RECIPE: &str = "recipe.toml";
/// Name of the record of how the run began in a run directory.
pub const RECORD: &str = "run.json";
/// Name of the directory of all checkpoints in a run directory.
pub const CHECKPOINTS: &str = "checkpoints";
/// Name of the directory with the policy that a run started from, if another recipe made it.
pub const START: &str = "start";
/// Name of the directory with the run's teacher, if another recipe made it.
pub const TEACHER: &str = "teacher";
/// Name of the file of rows that the run made of its episodes.
pub const ROWS: &str = "rows.jsonl";
/// Name of the file of tasks that the run made of its episodes.
pub const TASKS: &str = "tasks.jsonl";
/// Name of the file of the strategy that the run made.
pub const STRATEGY: &str = "strategy.toml";
/// Name of the file of notes that the run made.
pub const MEMORY: &str = "memory.jsonl";
/// Name of the file of the environment's configuration that the run made.
pub const CONFIG: &str = "config.json";
/// Name of the file that says how one of these came about.
pub const MADE: &str = "made.json";
/// Name of the file of what a run's functions were told and have made so far.
pub const MAKING: &str = "making.jsonl";
/// Name of the file of the tasks that have joined a run while it went on.
pub const GROWN: &str = "grown.jsonl";
/// Name of the run's copy of the rows that it learns from, if another recipe made them.
pub const START_ROWS: &str = "start_rows.jsonl";
/// Name of the run's copy of the tasks that it plays, if another recipe made them.
pub const START_TASKS: &str = "start_tasks.jsonl";
/// Name of the run's copy of the strategy by which it is evaluated, if another recipe made it.
pub const START_STRATEGY: &str = "start_strategy.toml";
/// Name of the run's copy of the notes that its programs read, if another recipe made them.
pub const START_MEMORY: &str = "start_memory.jsonl";
/// Name of the run's copy of the configuration that it plays in, if another recipe made it.
pub const START_CONFIG: &str = "start_config.json";
/// Name of the directory of the best checkpoint.
pub const BEST: &str = "best";
const HELD_OUT: &str = "held_out.json";
const LOCK: &str = "run.lock";
const METRICS: &str = "metrics.jsonl";
const TENSORBOARD: &str = "tensorboard";
const JOURNAL: &str = "run.db";
const REPORT: &str = "report.html";

/// What happens to an existing run in the place of a new one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Taken {
    /// It stays, and the new run is refused.
    #[default]
    Refused,
    /// It is removed.
    Removed,
}

/// The directory of a run. This process holds its lock until the value is dropped.
///
/// ```text
/// recipe.toml           the resolved recipe; written last at creation: a directory with it is a run
/// run.json              how the run began: from which folder paths are seen, and digests of all files that decide it
/// metrics.jsonl         one line of numbers per step or evaluation
/// tensorboard/          the same numbers as event files
/// run.db                the journal (SQLite)
/// checkpoints/step_N/   weights and optimiser state
/// start/                the policy that the run started from, where `policy.from` names the recipe that made it
/// teacher/              its teacher, where `teacher.from` names the recipe that made it
/// start_rows.jsonl      the rows that it learns from, where `data.from` names the recipe that made them
/// start_tasks.jsonl     the tasks that it plays, where `env.tasks.from` names the recipe that made them
/// start_strategy.toml   the strategy of its evaluations, where `eval.strategy.from` names the recipe that made it
/// start_memory.jsonl    the notes that its programs read, where `memory.from` names the recipe that made them
/// start_config.json     the configuration that it plays in, where `env.config_from` names the recipe that made it
/// rows.jsonl            the rows that it made of its episodes (`[make]`)
/// tasks.jsonl           the tasks that it made of its episodes (`[make]`)
/// strategy.toml         the strategy that it made (`[make]`)
/// memory.jsonl          the notes that it made (`[make]`)
/// config.json           the configuration of the environment that it made (`[make]`)
/// made.json             how one of these came about
/// grown.jsonl           the tasks that have joined it while it went on (`make.every`)
/// held_out.json         numbers of each held-out row before training, of a run that learns from rows
/// report.html           curves and drawn episodes, and how far the run is
/// run.lock              locked while a process works here
/// ```
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Locked while the file is open. The operating system releases the lock when the process ends, however it ends.
    _lock: File,
}

/// A run directory could not be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The directory already holds a run.
    #[error(
        "`{}` already holds a run: resume it with `burnish train --resume {}`, remove it and begin again with \
         --overwrite, or choose another `run.dir`",
        path.display(), shell_path(path)
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error(
        "`{}` is not empty: it holds `{entry}`, which no run has written; choose another `run.dir`, or empty it \
         (--overwrite removes runs only)",
        path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// Name of something in it.
        entry: String,
    },
    /// There is no run to resume.
    #[error("`{}` holds no run: it has no `recipe.toml`; is it the `run.dir` of a run? If a run stopped before it had begun, \
             give its command again", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// Another process works in the directory.
    #[error(
        "`{}` is in use by another burnish process{}: wait for it or stop it, or choose another `run.dir`",
        path.display(), pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other process, if its id could be read.
        pid: Option<u32>,
    },
    /// The file system reported an error.
    #[error(transparent)]
    File(#[from] FileError),
}

impl RunDir {
    /// Checks, without creating anything, that a new run may use `path`: it does not exist, is empty, or holds only
    /// what a run wrote that had done no step. If `taken` allows it, it may hold any run.
    ///
    /// # Errors
    /// If it holds a run or anything else, or can't be read.
    pub fn refuse_taken(path: &Path, taken: Taken) -> Result<(), RunDirError> {
        let failed = || FileError::on("list", path);
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed())?,
        };
        // Every run's folder has a lock file. A folder without one is not a run's, whatever its files are called, so
        // it must be empty.
        let (is_run, was_locked) = (path.join(RECIPE).exists(), path.join(LOCK).is_file());
        let mut has_begun = is_run && (!was_locked || has_done_a_step(path));
        for entry in entries {
            let name = entry.map_err(failed())?.file_name();
            let holds = |name: &OsStr| {
                let entry = name.to_string_lossy().into_owned();
                RunDirError::NotEmpty { path: path.to_owned(), entry }
            };
            let is_own = is_written_by_runs(&name) && (was_locked || (is_run && taken == Taken::Refused));
            if !is_own {
                return Err(holds(&name));
            }
            if name == CHECKPOINTS && !is_empty(&path.join(&name)) {
                // Checkpoints without their recipe: keep them, so that nobody loses them by accident.
                if !is_run {
                    return Err(holds(&name));
                }
                has_begun = true;
            }
        }
        match taken {
            Taken::Refused if has_begun => Err(RunDirError::Exists { path: path.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Creates the directory of a new run, with its parents, and takes its lock. Removes the files of a run that had
    /// done no step, or, if `taken` allows it, of any run.
    ///
    /// Of the files that a run starts with, write `recipe.toml` last: [`RunDir::open`] takes it as the sign that
    /// there is a run.
    ///
    /// # Errors
    /// If the directory holds a run or anything else, another process holds it, or it can't be created.
    pub fn create(path: &Path, taken: Taken) -> Result<Self, RunDirError> {
        // Checked before anything is created, so that a directory that isn't ours stays as it is. Checked again under
        // the lock, because another process may have been faster.
        RunDir::refuse_taken(path, taken)?;
        make_dir(path)?;
        let run = RunDir::lock(path)?;
        RunDir::refuse_taken(path, taken)?;
        run.clear()?;
        make_dir(&run.checkpoints())?;
        Ok(run)
    }

    /// Removes all files that runs write, except the lock. The recipe goes first: if the process is killed meanwhile,
    /// the rest is no run any more, and a new run may start there.
    fn clear(&self) -> Result<(), FileError> {
        let recipe = self.recipe();
        if recipe.exists() {
            // Checkpoints without a recipe would be taken for somebody's own, so they go together with it.
            let doomed = self.path.join(format!(".{CHECKPOINTS}.0{}", files::TEMPORARY_SUFFIX));
            if self.checkpoints().exists() {
                remove(&doomed)?;
                fs::rename(self.checkpoints(), &doomed)
                    .map_err(FileError::on("remove", &self.checkpoints()))?;
            }
            remove(&recipe)?;
        }
        for entry in fs::read_dir(&self.path).map_err(FileError::on("list", &self.path))? {
            let entry = entry.map_err(FileError::on("list", &self.path))?;
            if entry.file_name() != LOCK {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Opens the directory of an existing run to continue it, takes its lock, and removes the temporary files of
    /// interrupted writes.
    ///
    /// # Errors
    /// If there is no run, or another process holds it.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        if !path.join(RECIPE).is_file() {
            return Err(RunDirError::Missing { path: path.to_owned() });
        }
        let run = RunDir::lock(path)?;
        files::remove_leftovers(path)?;
        make_dir(&run.checkpoints())?;
        Ok(run)
    }

    fn lock(path: &Path) -> Result<Self, RunDirError> {
        let lock_path = path.join(LOCK);
        let failed = || FileError::on("lock", &lock_path);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(RunDirError::Locked { path: path.to_owned(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(failed()(error).into()),
        }
        write_pid(&mut file).map_err(failed())?;
        Ok(RunDir { path: path.to_owned(), _lock: file })
    }

    /// Removes the report, which may be that of a finished run, if the run goes on.
    ///
    /// # Errors
    /// If the file can't be removed.
    pub fn reopen(&self, goes_on: bool) -> Result<(), FileError> {
        if goes_on { remove(&self.report()) } else { Ok(()) }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved recipe.
    pub fn recipe(&self) -> PathBuf {
        self.path.join(RECIPE)
    }

    /// The metrics ([`crate::metrics`]).
    pub fn metrics(&self) -> PathBuf {
        metrics_in(&self.path)
    }

    /// The directory of TensorBoard's event files; created with the first of them.
    pub fn tensorboard(&self) -> PathBuf {
        self.path.join(TENSORBOARD)
    }

    /// The journal ([`crate::journal`]).
    pub fn journal(&self) -> PathBuf {
        journal_in(&self.path)
    }

    /// The directory of all checkpoints; it exists.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// The directory of the checkpoint after `step` updates.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.checkpoints().join(format!("step_{step}"))
    }

    /// The directory of the checkpoint of the best evaluation, where the recipe says which that is.
    pub fn best(&self) -> PathBuf {
        self.path.join(BEST)
    }

    /// The directory of the policy that the run started from, where another recipe made it.
    pub fn start(&self) -> PathBuf {
        self.path.join(START)
    }

    /// The directory of its teacher, if another recipe made it.
    pub fn teacher(&self) -> PathBuf {
        self.path.join(TEACHER)
    }

    /// The numbers of each held-out row before training.
    pub fn held_out(&self) -> PathBuf {
        self.path.join(HELD_OUT)
    }

    /// The report ([`crate::report`]).
    pub fn report(&self) -> PathBuf {
        report_in(&self.path)
    }
}

/// The metrics of the run in `dir`, for readers that need no lock.
pub fn metrics_in(dir: &Path) -> PathBuf {
    dir.join(METRICS)
}

/// The journal of the run in `dir`, for readers that need no lock.
pub fn journal_in(dir: &Path) -> PathBuf {
    dir.join(JOURNAL)
}

/// The report of the run in `dir`, for readers that need no lock. It is written while the run goes on, too.
pub fn report_in(dir: &Path) -> PathBuf {
    dir.join(REPORT)
}

/// Whether the run in `dir` is finished: it writes its last report last of all.
pub fn is_finished(dir: &Path) -> bool {
    report::is_finished(&report_in(dir))
}

/// Whether a process works on the run in `dir`.
pub fn is_in_use(dir: &Path) -> bool {
    let locked = File::open(dir.join(LOCK)).map(|file| file.try_lock_shared());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

/// The newest checkpoint of the run in `dir` by its name; its files are not looked at.
pub fn newest_checkpoint_in(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir.join(CHECKPOINTS)).ok()?;
    let steps = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("step_")?.parse::<u64>().ok()
    });
    steps.max().map(|step| dir.join(CHECKPOINTS).join(format!("step_{step}")))
}

fn make_dir(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(FileError::on("create directory", path))
}

/// What runs write, beside the files of the journal and temporary ones.
const WRITTEN: [&str; 11] =
    [LOCK, RECIPE, RECORD, METRICS, TENSORBOARD, CHECKPOINTS, BEST, START, TEACHER, HELD_OUT, REPORT];

/// Whether runs write something with this name.
fn is_written_by_runs(name: &OsStr) -> bool {
    let of_journal = name.to_str().and_then(|name| name.strip_prefix(JOURNAL));
    let is_journal = of_journal.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']));
    WRITTEN.iter().any(|own| name == *own) || is_journal || files::is_temporary(name)
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether the run in `dir` has done a step. If that can't be read, assume that it has.
fn has_done_a_step(dir: &Path) -> bool {
    metrics::read(&metrics_in(dir)).map_or(true, |rows| rows.iter().any(|row| row.event == metrics::TRAIN))
}

/// Removes a file, or a directory with its content, if it exists.
fn remove(path: &Path) -> Result<(), FileError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::on("remove", path)(error)),
        _ => Ok(()),
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Where locks are mandatory (Windows), a file that another process has locked can't be read.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests;
