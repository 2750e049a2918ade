//! The processes of a verifier command, and how requests are distributed to them.
//!
//! Requests come from many threads at once and are judged as they come: each goes to a free process, or waits for one
//! in order of arrival. The result of a request depends on the request alone: not on the number of processes, the order
//! of arrival or of answers, or which requests were sent together.
//!
//! There are no threads besides those that ask. A thread that asks waits for an [`Order`]: to ask a free process, for
//! itself and for the requests sent together with its own, or to take its verdict. So no lock is held while a process
//! is asked.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burnish_core::Verdict;
use serde::Serialize;

use super::choice::CommandConfig;
use super::lanes::{Lane, Program, Sent};
use super::queue::{HANGS_MAX, Pulse, Queue, Waiting};
use super::verifier::Request;
use crate::EnvError;
use crate::digest::digest;
use crate::settings::config_error;

/// A command and its processes; each is started when there is a request for it, and again after it failed.
#[derive(Debug)]
pub(super) struct Pool {
    program: Program,
    requests: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// Processes that wait for requests. The one that answered last is asked first.
    free: Vec<Lane>,
    /// Number of processes that are being asked.
    busy: usize,
    /// The rows of the requests that they are being asked about.
    asked: Vec<String>,
    pulse: Pulse,
}

/// What a waiting thread is told.
#[derive(Debug)]
pub(super) enum Order {
    /// To ask a process.
    Ask(Errand),
    /// The verdict on the request.
    Told(Verdict),
}

/// Requests that are sent together, and the process for them.
#[derive(Debug)]
pub(super) struct Errand {
    lane: Lane,
    /// The first is the request of the thread that runs the errand.
    batch: Vec<Waiting>,
}

/// Version of requests and answers. A process may refuse requests of a version that it does not know.
const PROTOCOL: u32 = 1;

/// A line to the verifier, or an entry of a line.
#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    #[serde(flatten)]
    request: &'a Request<'a>,
    protocol: u32,
}

impl Pool {
    /// A pool without processes. The command is under `key` in the configuration.
    ///
    /// # Errors
    /// If there is no such program.
    pub(super) fn new(folder: Option<&Path>, command: &CommandConfig, key: &str) -> Result<Self, EnvError> {
        let program = Program::new(command, folder)
            .map_err(|problem| config_error(&format!("{key}.command"), &problem))?;
        Ok(Pool { program, requests: AtomicU64::new(0), state: Mutex::default() })
    }

    /// Judges a request. Waits until a process is free, and for its answer.
    pub(super) fn judge(&self, request: &Request<'_>) -> Verdict {
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let line = match burnish_core::json::text(&Line { id, request, protocol: PROTOCOL }) {
            Ok(line) => line,
            Err(error) => return Verdict::unscored(error.to_string()),
        };
        let row = digest(request.task.to_string().as_bytes());
        let (asker, orders) = channel();
        let mut state = self.state();
        if state.pulse.is_broken() {
            return Verdict::unscored(self.broken());
        }
        state.queue.push(Waiting { id, line, row, is_alone: false, asker });
        self.hand_out(&mut state);
        drop(state);
        loop {
            match orders.recv() {
                Ok(Order::Ask(errand)) => self.run(errand),
                Ok(Order::Told(verdict)) => return verdict,
                // The thread that held the request has dropped it.
                Err(_) => return Verdict::unscored("the verifier was not asked"),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives requests to processes, as long as there are both.
    fn hand_out(&self, state: &mut State) {
        while state.busy < self.program.workers()
            && let Some(batch) = state.queue.take(self.program.batch(), &state.pulse)
        {
            let Some(asker) = batch.first().map(|first| first.asker.clone()) else { return };
            state.busy += 1;
            state.asked.extend(batch.iter().map(|waiting| waiting.row.clone()));
            let lane = state.free.pop().unwrap_or_default();
            if let Err(unsent) = asker.send(Order::Ask(Errand { lane, batch })) {
                // The asking thread is gone. The others of the batch are told that nobody was asked.
                let Order::Ask(errand) = unsent.0 else { continue };
                state.take_back(errand.lane, &errand.batch);
            }
        }
    }

    /// Asks the process, tells every thread its result, and serves the next requests.
    fn run(&self, Errand { mut lane, mut batch }: Errand) {
        let sent: Vec<Sent<'_>> =
            batch.iter().map(|waiting| Sent { id: waiting.id, line: &waiting.line }).collect();
        let answer = self.program.ask(&mut lane, &sent);
        let mut state = self.state();
        state.take_back(lane, &batch);
        let is_hang = answer.as_ref().is_err_and(|failure| failure.is_hang);
        if !is_hang {
            state.pulse.reset();
        }
        match answer {
            Ok(verdicts) => batch.iter().zip(verdicts).for_each(|(waiting, verdict)| tell(waiting, verdict)),
            // This does not count as a hang yet: the requests at fault will hang again.
            Err(_) if batch.len() > 1 => state.queue.push_again(batch),
            Err(failure) => {
                if let Some(waiting) = batch.pop() {
                    if is_hang {
                        let State { pulse, queue, asked, .. } = &mut *state;
                        let others = queue.rows().chain(asked.iter().map(String::as_str));
                        pulse.hung(waiting.row.clone(), others);
                    }
                    tell(&waiting, Verdict::unscored(failure.problem));
                }
            }
        }
        if state.pulse.is_broken() {
            let broken = self.broken();
            state.queue.drain().for_each(|waiting| tell(&waiting, Verdict::unscored(broken.clone())));
        }
        // As far as can be seen, a step ends here: the next requests find out anew whether the command is broken. Until
        // then it is not tried again, unless one of the requests under way is answered after all.
        if state.busy == 0 && state.queue.is_empty() {
            state.pulse.reset();
        }
        self.hand_out(&mut state);
    }

    fn broken(&self) -> String {
        format!(
            "the verifier gave no answer in time to {HANGS_MAX} requests one after the other, so the rest of this step was \
             not sent to it; see whether `{}` answers every line that it reads, or raise verifier.timeout_seconds",
            self.program.name()
        )
    }
}

impl State {
    /// A process is no longer being asked about `batch`.
    fn take_back(&mut self, lane: Lane, batch: &[Waiting]) {
        self.busy -= 1;
        for waiting in batch {
            if let Some(at) = self.asked.iter().position(|row| *row == waiting.row) {
                self.asked.swap_remove(at);
            }
        }
        if lane.is_started() {
            self.free.push(lane);
        }
    }
}

/// A thread that no longer listens does not need it.
fn tell(to: &Waiting, verdict: Verdict) {
    let _ = to.asker.send(Order::Told(verdict));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    /// Answers once there is a file `go`, and writes down how many requests the line held. It crashes on an answer that
    /// says so.
    const HELD: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    requests = json.loads(line)
    with open("asked", "a") as log:
        print(len(requests), file=log)
    while not os.path.exists("go"):
        time.sleep(0.01)
    if any(request["completion"] == "crash" for request in requests):
        os._exit(3)
    print(json.dumps([{"id": request["id"], "reward": request["task"]["row"]} for request in requests]))
"#;

    fn judge(pool: &Pool, row: usize, completion: &str) -> Verdict {
        let task = json!({ "row": row });
        pool.judge(&Request {
            task: &task,
            prompt: &[],
            completion,
            messages: &[],
            answer: None,
            extracted: None,
            workspaces: &BTreeMap::new(),
        })
    }

    /// The verdicts on 27 requests, and the sizes of the lists: 3 processes hold one request each until 24 wait.
    fn held(answers: &[&'static str]) -> Option<(Vec<Verdict>, Vec<usize>)> {
        let command: Vec<String> = ["python3", "reward.py"].map(str::to_owned).into();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("reward.py"), HELD).unwrap();
        let config = CommandConfig {
            command,
            timeout_seconds: 120.0,
            workers: Some(3),
            batch: Some(8),
            ..CommandConfig::default()
        };
        let Ok(pool) = Pool::new(Some(folder.path()), &config, "verifier") else {
            println!("skipped: python3 can't be run");
            return None;
        };
        let pool = &pool;
        let verdicts = std::thread::scope(|scope| {
            let end = Instant::now() + Duration::from_secs(60);
            let threads: Vec<_> = answers
                .iter()
                .enumerate()
                .map(|(row, answer)| {
                    let thread = scope.spawn(move || judge(pool, row, answer));
                    // One after the other, so that they arrive in order.
                    while pool.state().queue.len() + 3 < row + 1 || pool.state().busy < 3.min(row + 1) {
                        assert!(Instant::now() < end, "request {row} was not taken on");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    thread
                })
                .collect();
            std::fs::write(folder.path().join("go"), "").unwrap();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
        let mut sizes: Vec<usize> = asked.lines().map(|size| size.parse().unwrap()).collect();
        sizes.sort_unstable();
        let state = pool.state();
        assert!((state.busy, state.asked.len(), state.queue.len()) == (0, 0, 0), "{state:?}");
        Some((verdicts, sizes))
    }

    #[test]
    fn batches_fill_while_processes_work() {
        let Some((verdicts, sizes)) = held(&["fine"; 27]) else { return };
        assert_eq!(sizes, [1, 1, 1, 8, 8, 8]);
        for (row, verdict) in verdicts.iter().enumerate() {
            assert_eq!(verdict.rewards.get("reward"), Some(&(row as f64)), "{verdict:?}");
        }
    }

    #[test]
    fn of_a_batch_that_fails_each_is_asked_again_alone() {
        let mut answers = ["fine"; 27];
        answers[12] = "crash";
        let Some((verdicts, sizes)) = held(&answers) else { return };
        assert_eq!(sizes, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8, 8, 8]);
        for (row, verdict) in verdicts.iter().enumerate() {
            let expected = (row != 12).then_some(row as f64);
            assert_eq!(verdict.rewards.get("reward").copied(), expected, "{verdict:?}");
        }
    }
}
