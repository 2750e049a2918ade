//! A process that answers lines: a line in, a line out, within a time limit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::running::{Hear, Line, Running, builder};

/// Longest line that may be asked for.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// Why a request got no answer. After any of these the process can't be used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// It ended, or closed its stdout.
    #[error("ended without an answer")]
    Ended,
    /// It did not answer in time.
    #[error("gave no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// Its output is not text, or a line is too long.
    #[error("wrote output that can't be read: {0}")]
    Unreadable(String),
}

/// A running process. Dropping it kills it and what it has started. It is also killed if this process is.
#[derive(Debug)]
pub struct Process {
    running: Running,
    /// Lines from stdout; closed at its end.
    answers: Receiver<Line>,
}

impl Process {
    /// Starts `command` (program first) in `folder`, where relative paths are looked up. A line of more than
    /// `line_bytes_max` bytes is refused.
    ///
    /// # Errors
    /// If there is no such program, or it can't be started.
    pub fn start(command: &[String], folder: Option<&Path>, line_bytes_max: u64) -> std::io::Result<Self> {
        let builder = builder(command, folder)?;
        Process::with(|hear| Running::guarded(builder, line_bytes_max, hear))
    }

    /// Starts a program that ends by itself when its stdin is closed.
    ///
    /// # Errors
    /// If it can't be started.
    pub(crate) fn spawn(builder: Command) -> std::io::Result<Self> {
        Process::with(|hear| Running::start(builder, LINE_BYTES_MAX, hear))
    }

    fn with(start: impl FnOnce(Hear) -> std::io::Result<Running>) -> std::io::Result<Self> {
        let (sender, answers) = sync_channel(1);
        let running = start(Box::new(move |line| sender.send(line).is_ok()))?;
        Ok(Process { running, answers })
    }

    /// Sends one line and waits for one line.
    ///
    /// # Errors
    /// If there is none; the process is then of no further use.
    pub fn ask(&mut self, line: String, patience: Duration) -> Result<String, Silence> {
        self.tell(line);
        self.hear(patience)
    }

    /// Sends one line; [`Process::hear`] waits for its answer.
    pub fn tell(&mut self, line: String) {
        // The queue holds one line and is empty between requests, so this does not block. A closed queue means that the
        // command no longer reads; its stdout then shows what happened.
        let _ = self.running.say(line);
    }

    /// Waits for one line.
    ///
    /// # Errors
    /// As [`Process::ask`].
    pub fn hear(&mut self, patience: Duration) -> Result<String, Silence> {
        match self.answers.recv_timeout(patience) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(problem)) => Err(Silence::Unreadable(problem)),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Timeout(patience)),
            Err(RecvTimeoutError::Disconnected) => {
                self.running.wait_for_stderr();
                Err(Silence::Ended)
            }
        }
    }

    /// Is the command still running?
    pub fn is_running(&mut self) -> bool {
        self.running.is_running()
    }

    /// Forgets what it wrote to stderr so far, which was about something else than what comes.
    pub fn forget_stderr(&self) {
        self.running.forget_stderr();
    }

    /// Kills the command. Returns the end of what it wrote to stderr.
    pub fn stop(self) -> String {
        self.running.stop()
    }
}

/// The file of a command's program. A relative path is looked up in `folder`, a bare name in PATH, as usual.
///
/// # Errors
/// If there is no such file, or it may not be executed.
pub fn find_program(command: &[String], folder: Option<&Path>) -> std::io::Result<PathBuf> {
    let program = command.first().ok_or(std::io::ErrorKind::InvalidInput)?;
    if program.contains('/') {
        let path = std::path::absolute(folder.unwrap_or(Path::new("")))
            .or_else(|_| std::env::current_dir())?
            .join(program);
        return check_executable(&path).map(|()| path);
    }
    let mut refused = std::io::Error::from(std::io::ErrorKind::NotFound);
    for place in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        match check_executable(&place.join(program)) {
            Ok(()) => return Ok(place.join(program)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

fn check_executable(path: &Path) -> std::io::Result<()> {
    let file = std::fs::metadata(path)?;
    if !file.is_file() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o111 == 0 {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}
