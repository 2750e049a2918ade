//! The border between a program and its tests: each runs in a sandbox of its own, and lines pass between them.
//!
//! The judge's process runs the tests. A function of the program is a proxy there: a call is a line to the program's
//! process, which never holds a test (`border.py`). The two take turns, so that one of them is always the one to hear.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::job::{Answer, Execution, Job, Limits, Outcome, Part};
use crate::pool::{Guarded, Sandbox, SandboxError, Settings, patience, twice};

/// A program, and what judges it.
#[derive(Debug, Clone, Default)]
pub struct Trial<'a> {
    /// The program: sources that are executed one after the other, apart from everything below.
    pub program: Vec<Part<'a>>,
    /// The judge's own: names that these define are never the program's.
    pub own: Vec<Part<'a>>,
    /// Sources that are executed after that; names that they use and the judge does not have are the program's.
    pub setup: Vec<Part<'a>>,
    /// Sources that are executed after that; each passes or fails by itself.
    pub checks: Vec<&'a str>,
    /// The name that is tested: the program's, whatever else has it.
    pub entry_point: Option<&'a str>,
    /// What each of the two processes may use.
    pub limits: Limits,
}

/// Two sandboxes. Shared by many threads.
#[derive(Debug)]
pub struct Border {
    program: Sandbox,
    judge: Sandbox,
}

/// A job on one side.
#[derive(Serialize)]
struct Side<'a> {
    #[serde(flatten)]
    job: Job<'a>,
    side: &'static str,
    setup: &'a [Part<'a>],
    entry_point: Option<&'a str>,
}

/// Begins a line that crosses.
const RELAYED: char = '>';

/// Tells a side that the other one has ended.
const ENDED: &str = ">null";

/// What the judge gets on top of the program's seconds, so that a program that hangs is ended first.
const JUDGE_SECONDS: f64 = 5.0;

impl Border {
    /// Nothing is started yet.
    pub fn new(settings: &Settings) -> Self {
        Border { program: Sandbox::new(settings.clone()), judge: Sandbox::new(settings.clone()) }
    }

    /// The sandbox of programs, to run one without a judge beside it.
    pub fn programs(&self) -> &Sandbox {
        &self.program
    }

    /// Makes sure that both sides can be started.
    ///
    /// # Errors
    /// As [`Sandbox::report`].
    pub fn ready(&self) -> Result<(), SandboxError> {
        self.program.report()?;
        self.judge.report().map(drop)
    }

    /// Runs a program and its checks. Whatever the program does is an [`Outcome`]; one that ends before its tests do has
    /// not come to its end.
    ///
    /// # Errors
    /// As [`Sandbox::report`].
    pub fn run(&self, trial: &Trial<'_>) -> Result<Execution, SandboxError> {
        let job = |parts, checks, name, limits| Job { parts, checks, name, stdin: "", limits };
        let line =
            |side: &Side<'_>| serde_json::to_string(side).map_err(|error| SandboxError(error.to_string()));
        let program = line(&Side {
            job: job(trial.program.clone(), Vec::new(), "answer", trial.limits),
            side: "answer",
            setup: &[],
            entry_point: None,
        })?;
        let limits = Limits { wall_seconds: trial.limits.wall_seconds + JUDGE_SECONDS, ..trial.limits };
        let judge = line(&Side {
            job: job(trial.own.clone(), trial.checks.clone(), "tests", limits),
            side: "judge",
            setup: &trial.setup,
            entry_point: trial.entry_point,
        })?;
        let patience = patience(&limits)?;
        twice(trial.checks.len(), || {
            // Always in this order, and never more programs than judges: so nobody waits for a guard in vain.
            let mut judging = self.judge.take()?;
            let mut running = match self.program.take() {
                Ok(guard) => guard,
                Err(error) => {
                    self.judge.release(judging);
                    return Err(error);
                }
            };
            running.process.tell(program.clone());
            judging.process.tell(judge.clone());
            match relay(&mut running, &mut judging, Instant::now() + patience) {
                Ok(execution) => {
                    self.program.release(running);
                    self.judge.release(judging);
                    Ok(Ok(execution))
                }
                Err(problem) => {
                    self.judge.lose(judging, String::new());
                    Ok(Err(self.program.lose(running, problem)))
                }
            }
        })
    }
}

/// What a side said.
enum Heard {
    /// A line for the other side.
    Line(String),
    End(Execution),
}

fn hear(guard: &mut Guarded, end: Instant) -> Result<Heard, String> {
    let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let line = guard.process.hear(left).map_err(|silence| silence.to_string())?;
    match line.starts_with(RELAYED) {
        true => Ok(Heard::Line(line)),
        false => Answer::read(&line).map(Heard::End),
    }
}

/// Tells a side that the other one has ended, and waits until it has too.
fn ended(guard: &mut Guarded, end: Instant) -> Result<Execution, String> {
    guard.process.tell(ENDED.to_owned());
    loop {
        if let Heard::End(execution) = hear(guard, end)? {
            return Ok(execution);
        }
    }
}

/// Passes lines between the two until both have ended.
///
/// # Errors
/// If an interpreter is lost.
fn relay(program: &mut Guarded, judge: &mut Guarded, end: Instant) -> Result<Execution, String> {
    loop {
        match hear(judge, end)? {
            Heard::Line(line) => program.process.tell(line),
            Heard::End(judged) => {
                let ran = ended(program, end)?;
                // What the judge was doing when it was stopped says more than that the program was asked no more.
                let outcome = if judged.outcome == Outcome::Done {
                    ran.outcome.clone()
                } else {
                    judged.outcome.clone()
                };
                return Ok(together(ran, judged, outcome));
            }
        }
        match hear(program, end)? {
            Heard::Line(line) => judge.process.tell(line),
            Heard::End(ran) => {
                let judged = ended(judge, end)?;
                // It was asked something and ended instead.
                let outcome =
                    if ran.outcome == Outcome::Done { Outcome::Exited(0) } else { ran.outcome.clone() };
                return Ok(together(ran, judged, outcome));
            }
        }
    }
}

/// The checks of the judge, with what both of them wrote and took.
fn together(ran: Execution, judged: Execution, outcome: Outcome) -> Execution {
    Execution {
        outcome,
        checks: judged.checks,
        stderr: ran.stderr + &judged.stderr,
        cpu: ran.cpu + judged.cpu,
        ..ran
    }
}
