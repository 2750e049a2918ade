//! One process of a verifier command: it is started, asked, and killed if it fails.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burnish_core::Verdict;
use burnish_sandbox::{LINE_BYTES_MAX, Process, Silence, find_program};
use serde_json::{Map, Value};

use super::choice::CommandConfig;
use super::verifier::{read_answer, read_answers, read_verdict};

/// A command, and how it is asked.
#[derive(Debug)]
pub(super) struct Program {
    config: CommandConfig,
    folder: Option<PathBuf>,
    /// The longest time that a new process took for its first answer.
    slowest_start: Mutex<Option<Duration>>,
}

/// The place of one process.
#[derive(Debug, Default)]
pub(super) struct Lane {
    process: Option<Process>,
    /// Has the process answered since it was started?
    has_answered: bool,
}

impl Lane {
    /// Is there a process that can take another request?
    pub(super) fn is_started(&self) -> bool {
        self.process.is_some()
    }
}

/// A request as it is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) id: u64,
    /// The request as JSON, with its id.
    pub(super) line: &'a str,
}

/// Why requests got no verdicts.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) problem: String,
    /// Did it run out of time?
    pub(super) is_hang: bool,
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Failure { problem, is_hang: false }
    }
}

impl Program {
    /// Nothing is started yet.
    ///
    /// # Errors
    /// If there is no such program: why.
    pub(super) fn new(config: &CommandConfig, folder: Option<&Path>) -> Result<Self, String> {
        let program = Program {
            config: config.clone(),
            folder: folder.map(Path::to_owned),
            slowest_start: Mutex::default(),
        };
        match find_program(&config.command, folder) {
            Ok(_) => Ok(program),
            Err(error) => Err(program.not_started(&error)),
        }
    }

    /// Most lanes.
    pub(super) fn workers(&self) -> usize {
        self.config.workers()
    }

    /// Most requests that are sent together.
    pub(super) fn batch(&self) -> usize {
        self.config.batch.unwrap_or(1)
    }

    /// The command as a person would write it.
    pub(super) fn name(&self) -> String {
        self.config.command.join(" ")
    }

    /// The verdicts on requests that are sent together, in order.
    ///
    /// # Errors
    /// If the process gives no line in time, or an unusable one.
    pub(super) fn ask(&self, lane: &mut Lane, requests: &[Sent<'_>]) -> Result<Vec<Verdict>, Failure> {
        let verdict = |answer: Result<Map<String, Value>, String>| {
            answer.and_then(|answer| read_verdict(&answer)).unwrap_or_else(Verdict::unscored)
        };
        // With `batch`, even a single request is sent in a list.
        if let (None, &[Sent { id, line }]) = (self.config.batch, requests) {
            let answer = self.exchange(lane, line.to_owned(), |line| read_answer(line, id))?;
            return Ok(vec![verdict(Ok(answer))]);
        }
        let ids: Vec<u64> = requests.iter().map(|request| request.id).collect();
        let lines: Vec<&str> = requests.iter().map(|request| request.line).collect();
        let line = format!("[{}]", lines.join(","));
        let answers = self.exchange(lane, line, |line| read_answers(line, &ids))?;
        Ok(answers.into_iter().map(verdict).collect())
    }

    /// One exchange. A process that fails is killed, and the next request starts another.
    fn exchange<T>(
        &self,
        lane: &mut Lane,
        line: String,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        // A process that has ended since its last answer is replaced too.
        let mut process = match lane.process.take_if(|process| process.is_running()) {
            Some(process) => process,
            None => {
                *lane = Lane::default();
                self.launch()?
            }
        };
        let startup = match lane.has_answered {
            true => Duration::ZERO,
            false => self.config.startup(*self.slowest_start()),
        };
        let asked = Instant::now();
        let answer = process
            .ask(line, self.config.timeout() + startup)
            .map_err(|silence| {
                let is_hang = matches!(silence, Silence::Timeout(_));
                Failure { problem: format!("the verifier {silence}"), is_hang }
            })
            .and_then(|line| Ok(read(&line)?));
        match answer {
            Ok(answer) => {
                if !lane.has_answered {
                    let mut slowest = self.slowest_start();
                    *slowest = (*slowest).max(Some(asked.elapsed()));
                }
                *lane = Lane { process: Some(process), has_answered: true };
                Ok(answer)
            }
            Err(failure) => match process.stop() {
                tail if tail.is_empty() => Err(failure),
                tail => Err(Failure {
                    problem: format!("{}; its stderr ends:\n{tail}", failure.problem),
                    ..failure
                }),
            },
        }
    }

    fn slowest_start(&self) -> MutexGuard<'_, Option<Duration>> {
        self.slowest_start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self) -> Result<Process, String> {
        Process::start(&self.config.command, self.folder.as_deref(), LINE_BYTES_MAX)
            .map_err(|error| self.not_started(&error))
    }

    fn not_started(&self, error: &std::io::Error) -> String {
        let place = self.folder.as_ref().map(|folder| format!(" in {}", folder.display()));
        format!("`{}` can't be started{}: {error}", self.name(), place.unwrap_or_default())
    }
}
