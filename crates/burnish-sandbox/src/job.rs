//! What is run, within which limits, and what became of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A program to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Job<'a> {
    /// Sources that are executed one after the other in one module. The first that raises ends the job.
    pub parts: Vec<Part<'a>>,
    /// Sources that are executed after that, in the same module; each passes or fails by itself.
    pub checks: Vec<&'a str>,
    /// The module's `__name__`. With `__main__`, what stands under `if __name__ == "__main__"` is run.
    pub name: &'a str,
    /// What the program reads from stdin.
    pub stdin: &'a str,
    /// What it may use.
    pub limits: Limits,
}

/// The name of a source in tracebacks, and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Part<'a>(pub &'a str, pub &'a str);

/// What one job may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Seconds by the clock.
    pub wall_seconds: f64,
    /// Seconds of processor time, of all its processes together.
    pub cpu_seconds: f64,
    /// Bytes of address space, of each process.
    pub memory_bytes: u64,
    /// Processes and threads at the same time.
    pub processes: u32,
    /// Bytes written to stdout and stderr together.
    pub output_bytes: u64,
    /// Bytes of each file that it writes.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            // On a busy machine a program takes longer by the clock, so what it computes is bounded by the other.
            wall_seconds: 30.0,
            cpu_seconds: 10.0,
            memory_bytes: 1 << 30,
            processes: 16,
            output_bytes: 1 << 20,
            file_bytes: 16 << 20,
        }
    }
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// How it ended.
    pub outcome: Outcome,
    /// One per check of the job. A check that was not reached is `None`.
    pub checks: Vec<Option<Check>>,
    /// What it wrote to stdout, at most the limit; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// What it wrote to stderr, with the traceback of an exception.
    pub stderr: String,
    /// How long it took.
    pub wall: Duration,
    /// Processor time of all its processes.
    pub cpu: Duration,
}

/// What became of a check.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Check {
    /// It raised nothing.
    pub passed: bool,
    /// What it raised, in one line or a few.
    pub error: Option<String>,
}

/// How a job ended. Each limit has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every part and check was executed to its end.
    Done,
    /// A part raised an exception, which is described.
    Raised(String),
    /// The program ended itself with this status before its end.
    Exited(i32),
    /// A signal killed it (11: the interpreter crashed).
    Killed(i32),
    /// It took too long by the clock.
    WallTime,
    /// It took too much processor time.
    CpuTime,
    /// It asked for too much memory.
    Memory,
    /// It started too many processes or threads.
    Processes,
    /// It wrote too much.
    Output,
    /// It wrote a file that is too large, or too many.
    FileSize,
    /// It ended the interpreter that should have reported on it, twice.
    Lost(String),
}

impl Execution {
    /// Did every part and every check run without an exception, to the end?
    pub fn is_passed(&self) -> bool {
        self.outcome == Outcome::Done && self.passed() == self.checks.len()
    }

    /// Number of checks that passed.
    pub fn passed(&self) -> usize {
        self.checks.iter().flatten().filter(|check| check.passed).count()
    }
}

impl Outcome {
    /// A short name: of the limit, or of how else it ended.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Raised(_) => "raised",
            Outcome::Exited(_) => "exited",
            Outcome::Killed(_) => "killed",
            Outcome::WallTime => "wall_time",
            Outcome::CpuTime => "cpu_time",
            Outcome::Memory => "memory",
            Outcome::Processes => "processes",
            Outcome::Output => "output",
            Outcome::FileSize => "file_size",
            Outcome::Lost(_) => "lost",
        }
    }

    /// Did it exceed a limit?
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Outcome::WallTime
                | Outcome::CpuTime
                | Outcome::Memory
                | Outcome::Processes
                | Outcome::Output
                | Outcome::FileSize
        )
    }

    /// What happened, in words.
    pub fn in_words(&self, limits: &Limits) -> String {
        match self {
            Outcome::Done => "ran to its end".into(),
            Outcome::Raised(error) => format!("raised {error}"),
            Outcome::Exited(status) => format!("ended itself with status {status}"),
            Outcome::Killed(signal) => format!("was killed by signal {signal}"),
            Outcome::WallTime => format!("took more than {} s", limits.wall_seconds),
            Outcome::CpuTime => format!("took more than {} s of processor time", limits.cpu_seconds),
            Outcome::Memory => format!("needed more than {} bytes of memory", limits.memory_bytes),
            Outcome::Processes => format!("started more than {} processes", limits.processes),
            Outcome::Output => format!("wrote more than {} bytes of output", limits.output_bytes),
            Outcome::FileSize => format!("wrote a file of more than {} bytes", limits.file_bytes),
            Outcome::Lost(why) => format!("ended its interpreter: {why}"),
        }
    }
}

/// The interpreter's answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    outcome: String,
    detail: serde_json::Value,
    stdout: String,
    stderr: String,
    checks: Vec<Option<Check>>,
    wall_seconds: f64,
    cpu_seconds: f64,
}

impl Answer {
    /// The execution that it describes.
    ///
    /// # Errors
    /// If it names no outcome.
    pub(crate) fn read(line: &str) -> Result<Execution, String> {
        let answer: Answer = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = || answer.detail.as_str().unwrap_or_default().to_owned();
        let number = || answer.detail.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or(-1);
        let outcome = match answer.outcome.as_str() {
            "done" => Outcome::Done,
            "raised" => Outcome::Raised(text()),
            "exited" => Outcome::Exited(number()),
            "killed" => Outcome::Killed(number()),
            "wall" => Outcome::WallTime,
            "cpu" => Outcome::CpuTime,
            "memory" => Outcome::Memory,
            "processes" => Outcome::Processes,
            "output" => Outcome::Output,
            "file_size" => Outcome::FileSize,
            other => return Err(format!("no outcome is called `{other}`")),
        };
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(Execution {
            outcome,
            checks: answer.checks,
            stdout: answer.stdout,
            stderr: answer.stderr,
            wall: seconds(answer.wall_seconds),
            cpu: seconds(answer.cpu_seconds),
        })
    }
}
