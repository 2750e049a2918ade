//! The directory of a run: its files, and the lock that keeps a second process off it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::files::{self, FileError};
use crate::text::shell_path;

/// Name of the resolved recipe in a run directory.
pub const RECIPE: &str = "recipe.toml";
/// Name of the directory of all checkpoints in a run directory.
pub const CHECKPOINTS: &str = "checkpoints";
/// Name of the directory of the policy that a run started from, where another recipe made it.
const START: &str = "start";
/// Name of the directory of its teacher, where another recipe made it.
const TEACHER: &str = "teacher";
const LOCK: &str = "run.lock";

/// The directory of a run, held by this process until the value is dropped.
///
/// ```text
/// recipe.toml           the resolved recipe; written last at creation: a directory with it is a run
/// metrics.jsonl         one line of numbers a step or evaluation
/// tensorboard/          the same numbers as event files
/// run.db                the journal (SQLite)
/// checkpoints/step_N/   weights and optimiser state
/// start/                the policy that the run started from, where `policy.from` names the recipe that made it
/// teacher/              its teacher, where `teacher.from` names the recipe that made it
/// report.html           curves and drawn episodes
/// run.lock              locked while a process works here
/// ```
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Locked while it is open. The operating system frees it when the process ends, however it ends.
    _lock: File,
}

/// A run directory could not be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// A run is there already.
    #[error(
        "`{}` already holds a run: continue it with `burnish train --resume {}`, or choose another `run.dir`",
        path.display(), shell_path(path)
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Something else is there.
    #[error(
        "`{}` is not empty (it holds `{entry}`) and is no run that could be resumed: choose another `run.dir`, \
         or empty it",
        path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// Name of something in it.
        entry: String,
    },
    /// There is no run to resume.
    #[error("`{}` holds no run: it has no `recipe.toml`; is it the `run.dir` of a run?", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// Another process works there.
    #[error(
        "`{}` is in use by another burnish process{}: wait for it or stop it, or choose another `run.dir`",
        path.display(), pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other process, where it could be read.
        pid: Option<u32>,
    },
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
}

impl RunDir {
    /// Checks, without making anything, that a new run may use `path`: that nothing is there yet.
    ///
    /// # Errors
    /// If there is a run or anything else, or it can't be seen.
    pub fn refuse_taken(path: &Path) -> Result<(), RunDirError> {
        let failed = || FileError::on("list", path);
        if path.join(RECIPE).exists() {
            return Err(RunDirError::Exists { path: path.to_owned() });
        }
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed())?,
        };
        for entry in entries {
            let entry = entry.map_err(failed())?;
            if !is_left_by_a_false_start(&entry) {
                let entry = entry.file_name().to_string_lossy().into_owned();
                return Err(RunDirError::NotEmpty { path: path.to_owned(), entry });
            }
        }
        Ok(())
    }

    /// Makes the directory of a new run, with its parents, and takes its lock.
    ///
    /// Write `recipe.toml` last of the files that a run starts with: [`RunDir::open`] takes it as the sign that
    /// there is a run.
    ///
    /// # Errors
    /// If the directory holds a run or anything else, another process holds it, or it can't be made.
    pub fn create(path: &Path) -> Result<Self, RunDirError> {
        // Before anything is made, so that a directory that isn't ours stays as it is; and again under the lock,
        // because another process may have been faster.
        RunDir::refuse_taken(path)?;
        make_dir(path)?;
        let run = RunDir::lock(path)?;
        RunDir::refuse_taken(path)?;
        make_dir(&run.checkpoints())?;
        Ok(run)
    }

    /// Opens the directory of an existing run to continue it, takes its lock, and removes what interrupted
    /// writes left.
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

    /// The directory of TensorBoard's event files; made with the first of them.
    pub fn tensorboard(&self) -> PathBuf {
        self.path.join("tensorboard")
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

    /// The directory of the policy that the run started from, where another recipe made it.
    pub fn start(&self) -> PathBuf {
        self.path.join(START)
    }

    /// The directory of its teacher, where another recipe made it.
    pub fn teacher(&self) -> PathBuf {
        self.path.join(TEACHER)
    }

    /// The report ([`crate::report`]).
    pub fn report(&self) -> PathBuf {
        report_in(&self.path)
    }
}

/// The metrics of the run in `dir`, for readers that need no lock.
pub fn metrics_in(dir: &Path) -> PathBuf {
    dir.join("metrics.jsonl")
}

/// The journal of the run in `dir`, for readers that need no lock.
pub fn journal_in(dir: &Path) -> PathBuf {
    dir.join("run.db")
}

/// The report of the run in `dir`, for readers that need no lock: there is one when the run is finished.
pub fn report_in(dir: &Path) -> PathBuf {
    dir.join("report.html")
}

fn make_dir(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(FileError::on("create directory", path))
}

/// A process that stops before it has written its recipe leaves its lock file, the policy to start from, its
/// teacher, and no checkpoints.
fn is_left_by_a_false_start(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
    [LOCK, START, TEACHER].iter().any(|own| name == *own) || (name == CHECKPOINTS && is_empty())
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Where locks are mandatory (Windows), the file of another process can't be read.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_run(path: &Path) -> RunDir {
        let run = RunDir::create(path).unwrap();
        fs::write(run.recipe(), "").unwrap();
        run
    }

    #[test]
    fn a_new_run_gets_its_directory_and_paths_inside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs/first");
        let run = RunDir::create(&path).unwrap();
        assert!(run.checkpoints().is_dir());
        assert_eq!(run.checkpoint(12), path.join("checkpoints/step_12"));
        for file in [run.recipe(), run.metrics(), run.tensorboard(), run.journal(), run.report()] {
            assert_eq!(file.parent(), Some(path.as_path()));
        }
    }

    #[test]
    fn an_existing_run_is_not_overwritten_and_the_error_says_how_to_go_on() {
        let dir = tempfile::tempdir().unwrap();
        drop(create_run(dir.path()));
        let message = RunDir::create(dir.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("--resume {}", dir.path().display())), "{message}");
        assert!(message.contains("`run.dir`"), "{message}");
    }

    #[test]
    fn a_directory_of_something_else_is_refused_and_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        let message = RunDir::create(dir.path()).unwrap_err().to_string();
        assert!(message.contains("thesis.tex"), "{message}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let file = dir.path().join("thesis.tex");
        let message = RunDir::create(&file).unwrap_err().to_string();
        assert!(message.contains("thesis.tex"), "{message}");
    }

    #[test]
    fn a_run_that_stopped_before_it_had_written_anything_can_be_created_again() {
        let dir = tempfile::tempdir().unwrap();
        drop(RunDir::create(dir.path()).unwrap());
        let run = RunDir::create(dir.path()).unwrap();
        fs::create_dir(run.checkpoint(1)).unwrap();
        drop(run);
        let message = RunDir::create(dir.path()).unwrap_err().to_string();
        assert!(message.contains("`checkpoints`"), "{message}");
    }

    #[test]
    fn looking_whether_a_directory_is_taken_makes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/run");
        RunDir::refuse_taken(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_run_can_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("missing")] {
            let error = RunDir::open(&path).unwrap_err();
            assert!(matches!(error, RunDirError::Missing { .. }), "{error}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_lock_keeps_a_second_holder_off_and_ends_with_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let run = create_run(dir.path());
        let error = RunDir::open(dir.path()).unwrap_err();
        assert!(
            matches!(&error, RunDirError::Locked { pid, .. } if *pid == Some(std::process::id())),
            "{error}"
        );
        let message = error.to_string();
        assert!(message.contains(&dir.path().display().to_string()), "{message}");
        drop(run);
        RunDir::open(dir.path()).unwrap();
    }

    #[test]
    fn opening_removes_what_an_interrupted_write_left() {
        let dir = tempfile::tempdir().unwrap();
        drop(create_run(dir.path()));
        let leftover = dir.path().join(".report.html.1-0.burnish-tmp");
        fs::write(&leftover, "half").unwrap();
        RunDir::open(dir.path()).unwrap();
        assert!(!leftover.exists());
    }

    /// The child of `a_lock_of_another_process_is_seen_and_ends_when_that_process_is_killed`; does nothing when
    /// it is run by itself.
    #[test]
    fn in_a_child_that_holds_the_lock() {
        let Some(path) = std::env::var_os("BURNISH_TEST_RUN_DIR") else { return };
        let _run = RunDir::open(Path::new(&path)).unwrap();
        println!("holding");
        // Until the parent kills this process, or goes away itself.
        let _ = io::stdin().read(&mut [0]);
    }

    #[test]
    fn a_lock_of_another_process_is_seen_and_ends_when_that_process_is_killed() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        let dir = tempfile::tempdir().unwrap();
        drop(create_run(dir.path()));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "run_dir::tests::in_a_child_that_holds_the_lock", "--nocapture"])
            .env("BURNISH_TEST_RUN_DIR", dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("holding")));

        let error = RunDir::open(dir.path()).unwrap_err();
        assert!(matches!(&error, RunDirError::Locked { pid, .. } if *pid == Some(child.id())), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
        RunDir::open(dir.path()).unwrap();
    }
}
