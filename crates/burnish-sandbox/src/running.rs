//! A child process with its pipes: lines to it, lines from it, the end of its stderr, and its end.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::find_program;
use crate::shell::Guard;

/// Number of bytes kept from the end of stderr.
const STDERR_BYTES_MAX: usize = 2_048;

/// How long to wait for the rest of stderr after a command has ended or closed its stdout, and before it is forgotten.
const STDERR_PATIENCE: Duration = Duration::from_millis(500);

/// Lines that wait until the process reads its stdin.
const WAITING_MAX: usize = 64;

/// How often a process that is to end by itself is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A line from stdout, or why there are no more.
pub(crate) type Line = Result<String, String>;

/// Takes lines from stdout, on a thread that reads nothing else meanwhile. Returns whether it takes more.
pub(crate) type Hear = Box<dyn FnMut(Line) -> bool + Send>;

/// A child and the threads on its pipes. Dropping it kills it and what it has started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Has the child been waited for? Its id may then belong to another process.
    is_reaped: bool,
    /// Kills the command if this process is killed; dropped along with the command.
    guard: Option<Guard>,
    /// Lines on their way to stdin. A separate thread writes them, so that a command that does not read can't block us.
    requests: Option<SyncSender<String>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    /// The pipe that another thread reads stderr from.
    #[cfg(unix)]
    stderr_pipe: std::os::fd::OwnedFd,
    /// Closed when stderr has been read to its end.
    stderr_end: Receiver<()>,
}

/// What starts `command` (program first) in `folder`.
///
/// # Errors
/// If there is no such program.
pub(crate) fn builder(command: &[String], folder: Option<&Path>) -> std::io::Result<Command> {
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
    Ok(builder)
}

impl Running {
    /// Starts a program that is killed if this process is.
    ///
    /// # Errors
    /// If it can't be started.
    pub(crate) fn guarded(builder: Command, line_bytes_max: u64, hear: Hear) -> std::io::Result<Self> {
        let mut running = Running::start(builder, line_bytes_max, hear)?;
        running.guard = Some(Guard::over(&running.child));
        Ok(running)
    }

    /// Starts a program.
    ///
    /// # Errors
    /// If it can't be started.
    pub(crate) fn start(mut builder: Command, line_bytes_max: u64, hear: Hear) -> std::io::Result<Self> {
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
        #[cfg(unix)]
        let pipe = std::os::fd::AsFd::as_fd(&stderr_pipe).try_clone_to_owned()?;
        let (end, stderr_end) = sync_channel(0);
        let tail = Arc::clone(&stderr);
        thread::spawn(move || {
            keep_tail(stderr_pipe, &tail);
            drop(end);
        });
        thread::spawn(move || read_lines(stdout, line_bytes_max, hear));
        let requests = Some(writer(stdin));
        Ok(Running {
            child,
            is_reaped: false,
            guard: None,
            requests,
            stderr,
            #[cfg(unix)]
            stderr_pipe: pipe,
            stderr_end,
        })
    }

    /// Sends a line. Returns whether there was room for it: a process that does not read gets no more.
    pub(crate) fn say(&self, line: String) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.try_send(line).is_ok())
    }

    /// What lines can be sent through.
    pub(crate) fn requests(&self) -> Option<SyncSender<String>> {
        self.requests.clone()
    }

    /// Is the command still running?
    pub(crate) fn is_running(&mut self) -> bool {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        if !is_running {
            self.is_reaped = true;
            self.guard = None;
        }
        is_running
    }

    /// Waits until stderr has been read, but not long.
    pub(crate) fn wait_for_stderr(&self) {
        let _ = self.stderr_end.recv_timeout(STDERR_PATIENCE);
    }

    /// Forgets what it wrote to stderr so far, also what has not been read yet.
    pub(crate) fn forget_stderr(&self) {
        #[cfg(unix)]
        {
            let until = Instant::now() + STDERR_PATIENCE;
            let is_unread = || rustix::io::ioctl_fionread(&self.stderr_pipe).is_ok_and(|bytes| bytes > 0);
            while is_unread() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Kills the command. Returns the end of what it wrote to stderr.
    pub(crate) fn stop(mut self) -> String {
        self.kill();
        self.wait_for_stderr();
        let mut tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(tail.make_contiguous()).trim().to_owned()
    }

    /// Closes stdin and waits for the command to end by itself; kills it after `patience`. What it has started ends with it.
    pub(crate) fn end(mut self, patience: Duration) {
        self.requests = None;
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < patience {
            thread::sleep(LOOK);
        }
    }

    /// Has the command ended? It is not waited for, so that its group can still be killed under its number.
    #[cfg(unix)]
    fn has_ended(&mut self) -> bool {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.is_reaped || !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    #[cfg(not(unix))]
    fn has_ended(&mut self) -> bool {
        !self.is_running()
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

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn writer(mut stdin: impl Write + Send + 'static) -> SyncSender<String> {
    let (sender, lines) = sync_channel::<String>(WAITING_MAX);
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

fn read_lines(stdout: impl Read, line_bytes_max: u64, mut hear: Hear) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let line = match read_line(&mut stdout, line_bytes_max) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => return,
            Err(error) => Err(error.to_string()),
        };
        let is_broken = line.is_err();
        if !hear(line) || is_broken {
            return;
        }
    }
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
