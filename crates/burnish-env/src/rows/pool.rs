//! The processes of a verifier command, and how the requests of a step are shared out among them.
//!
//! Requests gather until the first of them is waited for; then all are sent, each to whichever process is free. What comes
//! of a request is a matter of the request alone: not of the number of processes, nor of who answers first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burnish_core::Verdict;
use serde::Serialize;
use serde_json::{Map, Value};

use super::choice::CommandConfig;
use super::process::{Process, Silence, find_program};
use super::verifier::{Request, read_answer, read_answers, read_verdict};
use crate::EnvError;
use crate::settings::config_error;

/// Requests of one step that may go unanswered one after the other, in the order in which they are sent. After them the
/// command is taken to be broken, and the rest of the step is not sent: each would cost its time.
const HANGS_MAX: usize = 8;

/// A command and its processes, each started when there is a request for it, and again when it fails.
#[derive(Debug)]
pub(super) struct Pool {
    config: CommandConfig,
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Lane>,
    waiting: Vec<Waiting>,
    requests: u64,
}

/// The place of one process.
#[derive(Debug, Default)]
struct Lane {
    process: Option<Process>,
    /// Has the process answered since it was started?
    has_answered: bool,
}

/// A request that has not been sent yet.
#[derive(Debug)]
struct Waiting {
    id: u64,
    /// The request as JSON.
    line: String,
    /// The row that it is about.
    row: String,
    /// How many requests about the same row gathered before this one.
    again: usize,
    verdict: Arc<OnceLock<Verdict>>,
}

impl Waiting {
    fn tell(&self, verdict: Verdict) {
        // It is told once; a second verdict would be no news.
        let _ = self.verdict.set(verdict);
    }
}

/// A request that was taken on.
#[derive(Debug)]
pub(super) struct Ticket {
    pool: Arc<Pool>,
    verdict: Arc<OnceLock<Verdict>>,
}

impl Ticket {
    pub(super) fn new(pool: &Arc<Pool>, request: &Request<'_>) -> Self {
        Ticket { verdict: pool.enlist(request), pool: Arc::clone(pool) }
    }

    /// The judgement. The first to wait sends all that has gathered.
    pub(super) fn wait(self) -> Verdict {
        if self.verdict.get().is_none() {
            self.pool.judge_waiting();
        }
        self.verdict.get().cloned().unwrap_or_else(|| Verdict::unscored("the verifier was not asked"))
    }
}

/// A line to the verifier, or an entry of one.
#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    #[serde(flatten)]
    request: &'a Request<'a>,
}

/// Why a request has no verdict.
#[derive(Debug, Clone)]
struct Failure {
    problem: String,
    /// Did the time run out?
    is_hang: bool,
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Failure { problem, is_hang: false }
    }
}

impl Pool {
    /// Nothing is started yet. The command stands under `key`.
    ///
    /// # Errors
    /// If there is no such program.
    pub(super) fn new(folder: Option<&Path>, command: &CommandConfig, key: &str) -> Result<Self, EnvError> {
        let pool = Pool {
            config: command.clone(),
            folder: folder.map(Path::to_owned),
            state: Mutex::new(State::default()),
        };
        find_program(&command.command, folder)
            .map_err(|error| config_error(&format!("{key}.command"), &pool.not_started(&error)))?;
        Ok(pool)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enlist(&self, request: &Request<'_>) -> Arc<OnceLock<Verdict>> {
        let mut state = self.state();
        let verdict = Arc::new(OnceLock::new());
        let id = state.requests;
        state.requests += 1;
        match burnish_core::json::text(&Line { id, request }) {
            Ok(line) => {
                let verdict = Arc::clone(&verdict);
                state.waiting.push(Waiting { id, line, row: request.task.to_string(), again: 0, verdict });
            }
            Err(error) => drop(verdict.set(Verdict::unscored(error.to_string()))),
        }
        verdict
    }

    /// Sends all that waits, and hands out the verdicts.
    fn judge_waiting(&self) {
        let mut state = self.state();
        let mut waiting = std::mem::take(&mut state.waiting);
        // Of some, whoever asked has gone.
        waiting.retain(|waiting| Arc::strong_count(&waiting.verdict) > 1);
        spread(&mut waiting);
        let lanes = &mut state.lanes;
        let mut alone: Vec<&Waiting> = Vec::new();
        match self.config.batch {
            Some(size @ 2..) => {
                let batches: Vec<&[Waiting]> = waiting.chunks(size).collect();
                let answered = self.send(lanes, &batches, |lane, batch| self.ask_together(lane, batch));
                for (batch, answered) in batches.into_iter().zip(answered) {
                    match answered {
                        Some(Ok(verdicts)) => {
                            batch.iter().zip(verdicts).for_each(|(to, verdict)| to.tell(verdict))
                        }
                        // One request may be at fault, which the others need not pay for: each is asked again, alone.
                        Some(Err(_)) | None => alone.extend(batch),
                    }
                }
            }
            _ => alone.extend(&waiting),
        }
        let answered = self.send(lanes, &alone, |lane, waiting| self.ask_alone(lane, waiting));
        for (waiting, answered) in alone.into_iter().zip(answered) {
            waiting.tell(match answered {
                Some(Ok(verdict)) => verdict,
                Some(Err(failure)) => Verdict::unscored(failure.problem),
                None => Verdict::unscored(self.broken()),
            });
        }
    }

    /// Has `ask` called for each of `items`, by as many lanes as there may be, in the order of `items`. Where it hangs
    /// on [`HANGS_MAX`] of them one after the other, those after them come to nothing.
    fn send<I: Sync, T: Send>(
        &self,
        lanes: &mut Vec<Lane>,
        items: &[I],
        ask: impl Fn(&mut Lane, &I) -> Result<T, Failure> + Sync,
    ) -> Vec<Option<Result<T, Failure>>> {
        let workers = self.config.workers().min(items.len());
        if lanes.len() < workers {
            lanes.resize_with(workers, Lane::default);
        }
        let round = Mutex::new(Round::of(items.len()));
        let round_now = || round.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |lane: &mut Lane| {
            loop {
                // The lock must not be held while the command is asked.
                let Some(at) = round_now().take() else { return };
                let result = ask(lane, &items[at]);
                round_now().put(at, result);
            }
        };
        let work = &work;
        match &mut lanes[..workers] {
            [lane] => work(lane),
            lanes => std::thread::scope(|scope| {
                for lane in lanes {
                    scope.spawn(move || work(lane));
                }
            }),
        }
        round.into_inner().unwrap_or_else(PoisonError::into_inner).results()
    }

    fn broken(&self) -> String {
        format!(
            "the verifier gave no answer in time to {HANGS_MAX} requests one after the other, so the rest of this step was \
             not sent to it; see whether `{}` answers every line that it reads, or raise verifier.timeout_seconds",
            self.config.command.join(" ")
        )
    }

    fn launch(&self) -> Result<Process, String> {
        Process::start(&self.config.command, self.folder.as_deref()).map_err(|error| self.not_started(&error))
    }

    fn not_started(&self, error: &std::io::Error) -> String {
        let place = self.folder.as_ref().map(|folder| format!(" in {}", folder.display()));
        let command = self.config.command.join(" ");
        format!("`{command}` can't be started{}: {error}", place.unwrap_or_default())
    }

    /// One exchange. A process that fails in it is killed; the next request starts another.
    fn exchange<T>(
        &self,
        lane: &mut Lane,
        line: String,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        // One that has ended since its last answer makes room for another, too.
        let mut process = match lane.process.take_if(|process| process.is_running()) {
            Some(process) => process,
            None => {
                *lane = Lane::default();
                self.launch()?
            }
        };
        let answer = process
            .ask(line, self.config.patience(!lane.has_answered))
            .map_err(|silence| {
                let is_hang = matches!(silence, Silence::Timeout(_));
                Failure { problem: silence.to_string(), is_hang }
            })
            .and_then(|line| Ok(read(&line)?));
        match answer {
            Ok(answer) => {
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

    /// The verdict on a request that has a line of its own.
    fn ask_alone(&self, lane: &mut Lane, waiting: &Waiting) -> Result<Verdict, Failure> {
        if self.config.batch.is_some() {
            let mut verdicts = self.ask_together(lane, std::slice::from_ref(waiting))?;
            return Ok(verdicts.remove(0));
        }
        let answer = self.exchange(lane, waiting.line.clone(), |line| read_answer(line, waiting.id))?;
        Ok(read_verdict(&answer)?)
    }

    /// The verdicts on requests that share a line.
    fn ask_together(&self, lane: &mut Lane, batch: &[Waiting]) -> Result<Vec<Verdict>, Failure> {
        let ids: Vec<u64> = batch.iter().map(|waiting| waiting.id).collect();
        let lines: Vec<&str> = batch.iter().map(|waiting| waiting.line.as_str()).collect();
        let line = format!("[{}]", lines.join(","));
        let answers = self.exchange(lane, line, |line| read_answers(line, &ids))?;
        let verdict = |answer: Result<Map<String, Value>, String>| {
            answer.and_then(|answer| read_verdict(&answer)).unwrap_or_else(Verdict::unscored)
        };
        Ok(answers.into_iter().map(verdict).collect())
    }
}

/// Puts requests about different rows side by side: first one about each row, then a second one ... So a row on which the
/// command hangs does not look like a command that hangs on everything.
fn spread(waiting: &mut [Waiting]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for waiting in waiting.iter_mut() {
        let again = seen.entry(std::mem::take(&mut waiting.row)).or_default();
        waiting.again = *again;
        *again += 1;
    }
    waiting.sort_by_key(|waiting| waiting.again);
}

/// What is sent, and what came of it so far.
#[derive(Debug)]
struct Round<T> {
    /// The next one to be sent.
    next: usize,
    /// None are sent from here on.
    end: usize,
    results: Vec<Option<Result<T, Failure>>>,
}

impl<T> Round<T> {
    fn of(len: usize) -> Self {
        Round { next: 0, end: len, results: (0..len).map(|_| None).collect() }
    }

    /// Which one is to be sent now.
    fn take(&mut self) -> Option<usize> {
        let at = self.next;
        self.next += 1;
        (at < self.end).then_some(at)
    }

    fn put(&mut self, at: usize, result: Result<T, Failure>) {
        self.results[at] = Some(result);
        let mut hangs = 0;
        for (at, result) in self.results.iter().enumerate().take(self.end) {
            let is_hang = matches!(result, Some(Err(Failure { is_hang: true, .. })));
            hangs = if is_hang { hangs + 1 } else { 0 };
            if hangs == HANGS_MAX {
                self.end = at + 1;
                return;
            }
        }
    }

    /// Those that were on their way beyond the end count no more than those that were not sent: who was on the way is a
    /// matter of luck.
    fn results(mut self) -> Vec<Option<Result<T, Failure>>> {
        self.results[self.end..].fill_with(|| None);
        self.results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hang() -> Result<usize, Failure> {
        Err(Failure { problem: "no answer".into(), is_hang: true })
    }

    /// Who is answered when one lane after the other puts what it has in the order `order`.
    fn answered(order: &[usize], hangs: std::ops::Range<usize>) -> Vec<bool> {
        let mut round = Round::of(order.len());
        while round.take().is_some() {}
        for &at in order {
            round.put(at, if hangs.contains(&at) { hang() } else { Ok(at) });
        }
        round.results().iter().map(Option::is_some).collect()
    }

    #[test]
    fn what_is_cut_off_after_hangs_does_not_depend_on_who_answers_first() {
        let forth: Vec<usize> = (0..20).collect();
        let back: Vec<usize> = (0..20).rev().collect();
        let mixed: Vec<usize> = (0..20).map(|at| at * 7 % 20).collect();
        for order in [&forth, &back, &mixed] {
            let expected: Vec<bool> = (0..20).map(|at| at < 3 + HANGS_MAX).collect();
            assert_eq!(answered(order, 3..3 + HANGS_MAX), expected);
            assert!(answered(order, 3..2 + HANGS_MAX).iter().all(|is_answered| *is_answered));
        }
    }

    #[test]
    fn nothing_is_sent_after_too_many_hangs() {
        let mut round = Round::of(20);
        for _ in 0..HANGS_MAX {
            let at = round.take().unwrap();
            round.put(at, hang());
        }
        assert_eq!(round.take(), None);
    }

    #[test]
    fn requests_about_different_rows_go_side_by_side() {
        let waiting = |id: u64, row: &str| Waiting {
            id,
            line: String::new(),
            row: row.to_owned(),
            again: 0,
            verdict: Arc::default(),
        };
        let mut all = [waiting(0, "a"), waiting(1, "a"), waiting(2, "b"), waiting(3, "c"), waiting(4, "a")];
        spread(&mut all);
        assert_eq!(all.map(|waiting| waiting.id), [0, 2, 3, 1, 4]);
    }
}
