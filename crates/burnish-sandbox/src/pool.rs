//! The guards that are kept, and how a job gets to one.

use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{Answer, Execution, Job, Limits, Outcome};
use crate::process::{Process, Silence};
use crate::python::Interpreter;
use crate::setup::{COMMAND, Greeting, Isolation, Report, Setup, Stage, can_guard};

/// What a sandbox runs, and how strictly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The interpreter: a path, or a name in PATH. It is resolved once.
    pub python: String,
    /// What to do where the system can't isolate.
    pub isolation: Isolation,
    /// Jobs that run side by side. Default: one per core, at most 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { python: "python3".into(), isolation: Isolation::Required, workers: None }
    }
}

/// Why nothing is run here. It is not the program's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SandboxError(pub(crate) String);

/// Runs Python programs where they can reach nothing. Shared by many threads.
#[derive(Debug)]
pub struct Sandbox {
    settings: Settings,
    without: Vec<String>,
    hash_seed: u32,
    python: OnceLock<Result<Interpreter, String>>,
    state: Mutex<State>,
    /// A guard has become free.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Guarded>,
    /// Guards that run a job, or are being started for one.
    busy: usize,
}

/// A guard that waits for jobs.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) process: Process,
    report: Report,
}

/// How long a guard may take until the interpreter is ready.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// What the interpreter gets on top of a job's time, to end its processes and to report.
const REPORT_PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of all files that a job writes: this many of the largest allowed.
const SCRATCH_BYTES: u64 = 64 << 20;

/// Most guards by default; each holds an interpreter in memory.
const WORKERS_MAX: usize = 8;

impl Sandbox {
    /// Nothing is started yet.
    pub fn new(settings: Settings) -> Self {
        Sandbox {
            settings,
            without: Vec::new(),
            hash_seed: 0,
            python: OnceLock::new(),
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// As if the system lacked these: `namespaces`, `landlock`, `seccomp`.
    #[doc(hidden)]
    pub fn without(settings: Settings, parts: &[&str]) -> Self {
        Sandbox { without: parts.iter().map(|part| (*part).to_owned()).collect(), ..Sandbox::new(settings) }
    }

    /// Nothing is started yet; the interpreters have this seed of hashes (`PYTHONHASHSEED`, otherwise 0). Two sandboxes
    /// that differ in it show whether a program depends on the order of sets.
    pub fn with_hash_seed(settings: Settings, hash_seed: u32) -> Self {
        Sandbox { hash_seed, ..Sandbox::new(settings) }
    }

    /// What holds programs back here.
    ///
    /// # Errors
    /// If the interpreter is not found, or the system can't isolate and [`Isolation::Required`] is set: the reason.
    pub fn report(&self) -> Result<Report, SandboxError> {
        let guard = self.take()?;
        let report = guard.report.clone();
        self.give_back(Some(guard));
        Ok(report)
    }

    /// Runs a job. Waits for a free guard, and for the job's end.
    ///
    /// # Errors
    /// As [`Sandbox::report`]. Whatever the program does is an [`Outcome`].
    pub fn run(&self, job: &Job<'_>) -> Result<Execution, SandboxError> {
        let line = serde_json::to_string(job).map_err(|error| SandboxError(error.to_string()))?;
        let wall = patience(&job.limits)?;
        twice(job.checks.len(), || {
            let mut guard = self.take()?;
            let answer = guard.process.ask(line.clone(), wall);
            match answer.map_err(|silence| silence.to_string()).and_then(|line| Answer::read(&line)) {
                Ok(execution) => {
                    self.release(guard);
                    Ok(Ok(execution))
                }
                Err(problem) => Ok(Err(self.lose(guard, problem))),
            }
        })
    }

    /// Takes back a guard whose job is over.
    pub(crate) fn release(&self, guard: Guarded) {
        // Without namespaces only the end of the whole group ends what a job has left behind.
        let is_reusable = guard.report.namespaces;
        self.give_back(is_reusable.then_some(guard));
    }

    /// Ends a guard of no further use. Returns the problem with the end of its stderr.
    pub(crate) fn lose(&self, guard: Guarded, problem: String) -> String {
        let tail = guard.process.stop();
        self.give_back(None);
        if tail.is_empty() { problem } else { format!("{problem}: {tail}") }
    }

    /// A guard for one job; a new one if none is free and there may be more.
    pub(crate) fn take(&self) -> Result<Guarded, SandboxError> {
        let mut state = self.state();
        while state.free.is_empty() && state.busy >= self.workers() {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy += 1;
        let free = state.free.pop();
        drop(state);
        if let Some(mut guard) = free
            && guard.process.is_running()
        {
            return Ok(guard);
        }
        self.start().inspect_err(|_| self.give_back(None))
    }

    fn give_back(&self, guard: Option<Guarded>) {
        let mut state = self.state();
        state.busy -= 1;
        state.free.extend(guard);
        drop(state);
        self.freed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.settings.workers.unwrap_or_else(|| cores().min(WORKERS_MAX)).max(1)
    }

    fn start(&self) -> Result<Guarded, SandboxError> {
        if !cfg!(target_os = "linux") {
            return Err(refused("only Linux can isolate a program in the way that this needs"));
        }
        if !can_guard() {
            return Err(SandboxError(
                "this program can't start guards: its `main` must call burnish_sandbox::enter() first".into(),
            ));
        }
        let python = self.python.get_or_init(|| Interpreter::find(&self.settings.python)).clone();
        let setup = Setup {
            isolation: self.settings.isolation,
            python: python.map_err(SandboxError)?,
            scratch_bytes: SCRATCH_BYTES,
            without: self.without.clone(),
            hash_seed: self.hash_seed,
            stage: Stage::Outside,
            missing: Vec::new(),
        };
        let setup = serde_json::to_string(&setup).map_err(|error| SandboxError(error.to_string()))?;
        // The file that runs, even if another one has its name by now.
        let mut command = Command::new("/proc/self/exe");
        command.args([COMMAND, &setup]).env_clear().current_dir("/");
        let mut process = Process::spawn(command)
            .map_err(|error| SandboxError(format!("the guard of the sandbox can't be started: {error}")))?;
        match greeted(&mut process) {
            Ok(report) => Ok(Guarded { process, report }),
            Err(problem) => {
                let tail = process.stop();
                let tail = if tail.is_empty() { tail } else { format!("; its stderr ends:\n{tail}") };
                Err(SandboxError(format!("{problem}{tail}")))
            }
        }
    }
}

/// How long the answer to a job may take.
pub(crate) fn patience(limits: &Limits) -> Result<Duration, SandboxError> {
    let wall = Duration::try_from_secs_f64(limits.wall_seconds);
    wall.map(|wall| wall + REPORT_PATIENCE).map_err(|error| SandboxError(format!("wall_seconds: {error}")))
}

/// Tries a job again if its interpreter is lost: a guard that was fine may have been killed from outside since. A job
/// that loses two is at fault.
pub(crate) fn twice(
    checks: usize,
    mut attempt: impl FnMut() -> Result<Result<Execution, String>, SandboxError>,
) -> Result<Execution, SandboxError> {
    let mut lost = String::new();
    for _ in 0..2 {
        match attempt()? {
            Ok(execution) => return Ok(execution),
            Err(problem) => lost = problem,
        }
    }
    Ok(Execution {
        outcome: Outcome::Lost(lost),
        checks: vec![None; checks],
        stdout: String::new(),
        stderr: String::new(),
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
    })
}

/// The guard's report, once the interpreter is ready.
fn greeted(process: &mut Process) -> Result<Report, String> {
    let silent = |silence: Silence| format!("the guard of the sandbox {silence}");
    let first = process.hear(START_PATIENCE).map_err(silent)?;
    let report = match serde_json::from_str(&first) {
        Ok(Greeting::Isolated(report)) => report,
        Ok(Greeting::Refused(why)) => return Err(refused(&why).0),
        Err(_) => return Err(format!("the guard of the sandbox said: {first}")),
    };
    let ready = process.hear(START_PATIENCE).map_err(|silence| format!("the interpreter {silence}"))?;
    match ready.contains("\"python\"") {
        true => Ok(report),
        false => Err(format!("the interpreter said: {ready}")),
    }
}

fn refused(why: &str) -> SandboxError {
    SandboxError(format!(
        "programs can't be kept apart here, so none is run: {why}. Set `isolation = \"best_effort\"` to run them with \
         what there is"
    ))
}
