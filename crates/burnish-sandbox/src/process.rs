//! A process that answers lines: a line in, a line out, within a time limit.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::shell::Guard;

/// Number of bytes kept from the end of stderr.
const STDERR_BYTES_MAX: usize = 2_048;

/// Longest line that may be asked for.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// How long to wait for the rest of stderr after a command has ended or closed its stdout.
const STDERR_PATIENCE: Duration = Duration::from_millis(500);

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
    child: Child,
    /// Has the child been waited for? Its id may then belong to another process.
    is_reaped: bool,
    /// Kills the command if this process is killed; dropped along with the command.
    guard: Option<Guard>,
    /// Lines on their way to stdin. A separate thread writes them, so that a command that does not read can't block us.
    requests: SyncSender<String>,
    /// Lines from stdout; closed at its end.
    answers: Receiver<Result<String, String>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    /// Closed when stderr has been read to its end.
    stderr_end: Receiver<()>,
}

impl Process {
    /// Starts `command` (program first) in `folder`, where relative paths are looked up. A line of more than
    /// `line_bytes_max` bytes is refused.
    ///
    /// # Errors
    /// If there is no such program, or it can't be started.
    pub fn start(command: &[String], folder: Option<&Path>, line_bytes_max: u64) -> std::io::Result<Self> {
        let (_, arguments) = command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut builder = Command::new(find_program(command, folder)?);
        // Otherwise Python would keep an answer in its buffer until later answers fill it.
        builder.args(arguments).env("PYTHONUNBUFFERED", "1");
        // Otherwise sets of Python would have another order in every process, and answers could not be repeated.
        if std::env::var_os("PYTHONHASHSEED").is_none() {
            builder.env("PYTHONHASHSEED", "0");
        }
        if let Some(folder) = folder {
            builder.current_dir(folder);
        }
        let mut process = Process::spawn_with(builder, line_bytes_max)?;
        process.guard = Some(Guard::over(&process.child));
        Ok(process)
    }

    /// Starts a program that ends by itself when its stdin is closed.
    ///
    /// # Errors
    /// If it can't be started.
    pub(crate) fn spawn(builder: Command) -> std::io::Result<Self> {
        Process::spawn_with(builder, LINE_BYTES_MAX)
    }

    fn spawn_with(mut builder: Command, line_bytes_max: u64) -> std::io::Result<Self> {
        builder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, because Ctrl-C in the terminal is for us to handle, and so that the whole group can be
        // killed.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut builder, 0);
        let mut child = builder.spawn()?;
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let stdin = child.stdin.take().ok_or_else(closed)?;
        let stdout = child.stdout.take().ok_or_else(closed)?;
        let stderr_pipe = child.stderr.take().ok_or_else(closed)?;
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let (end, stderr_end) = sync_channel(0);
        let tail = Arc::clone(&stderr);
        thread::spawn(move || {
            keep_tail(stderr_pipe, &tail);
            drop(end);
        });
        Ok(Process {
            child,
            is_reaped: false,
            guard: None,
            requests: writer(stdin),
            answers: reader(stdout, line_bytes_max),
            stderr,
            stderr_end,
        })
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
        let _ = self.requests.try_send(line);
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
                let _ = self.stderr_end.recv_timeout(STDERR_PATIENCE);
                Err(Silence::Ended)
            }
        }
    }

    /// Is the command still running?
    pub fn is_running(&mut self) -> bool {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        if !is_running {
            self.is_reaped = true;
            self.guard = None;
        }
        is_running
    }

    /// Kills the command. Returns the end of what it wrote to stderr.
    pub fn stop(mut self) -> String {
        self.kill();
        let _ = self.stderr_end.recv_timeout(STDERR_PATIENCE);
        let mut tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(tail.make_contiguous()).trim().to_owned()
    }

    fn kill(&mut self) {
        if self.is_reaped {
            return;
        }
        self.guard = None;
        // Otherwise a shell's children would live on.
        #[cfg(unix)]
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::KILL,
        );
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_reaped = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
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

fn writer(mut stdin: impl Write + Send + 'static) -> SyncSender<String> {
    let (sender, lines) = sync_channel::<String>(1);
    thread::spawn(move || {
        for line in lines {
            let write = stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
            if write.and_then(|()| stdin.flush()).is_err() {
                return;
            }
        }
    });
    sender
}

fn reader(stdout: impl Read + Send + 'static, line_bytes_max: u64) -> Receiver<Result<String, String>> {
    let (sender, answers) = sync_channel(1);
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let line = match read_line(&mut stdout, line_bytes_max) {
                Ok(Some(line)) => Ok(line),
                Ok(None) => return,
                Err(error) => Err(error.to_string()),
            };
            let is_broken = line.is_err();
            if sender.send(line).is_err() || is_broken {
                return;
            }
        }
    });
    answers
}

/// The next line without its line break; `None` at the end of the stream.
fn read_line(stream: &mut impl BufRead, bytes_max: u64) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = stream.by_ref().take(bytes_max + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_none() && read as u64 > bytes_max {
        return Err(std::io::Error::other(format!("a line is longer than {bytes_max} bytes")));
    }
    String::from_utf8(line).map(Some).map_err(|_| std::io::Error::other("a line is not UTF-8"))
}

fn keep_tail(mut stderr: impl Read, tail: &Mutex<VecDeque<u8>>) {
    let mut chunk = [0; 4096];
    loop {
        let read = match stderr.read(&mut chunk) {
            Ok(read @ 1..) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
        };
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(&chunk[..read]);
        let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
}
