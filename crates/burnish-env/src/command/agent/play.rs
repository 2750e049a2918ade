//! An episode: a process that plays it, and its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use burnish_core::{Message, Repeating, Task, Trace, TurnOutput, Verdict};
use burnish_serve::{ChatRequest, Refusal, Reply, Spoken};

use super::super::peer::{Failure, Peer};
use super::super::play::posed as task_of;
use super::super::pool::Pool;
use super::super::wire::{Fields, Request};
use super::MODEL;
use super::doors::{Door, Doors};
use super::posed::posed;
use crate::rows::read_verdict;
use crate::{EnvError, Environment, Step};

/// How often the thread that waits for a process looks whether it still should.
const GLANCE: Duration = Duration::from_millis(50);

/// Most requests of an episode that are refused before it ends.
const REFUSED_MAX: usize = 16;

/// What happens in an episode.
#[derive(Debug)]
pub(super) enum Event {
    /// The program asks.
    Asked(Box<ChatRequest>, Reply),
    /// The process has answered `run`, or was given up (`None`).
    Over(Box<Peer>, Option<Result<Fields, Failure>>),
}

/// Plays one task in a process of its own.
pub(super) struct Asking {
    pool: Arc<Pool>,
    doors: Arc<Doors>,
    /// The task and the seed of the episode.
    task: Option<(Task, u64)>,
    running: Option<Running>,
    /// The answer to `run`.
    over: Option<Result<Fields, String>>,
}

/// A `run` under way.
struct Running {
    door: Door,
    events: Receiver<Event>,
    /// Tells the thread that waits for the process to give it up.
    is_given_up: Arc<AtomicBool>,
    /// The request that the policy answers now.
    asked: Option<Reply>,
    refused: usize,
}

impl Asking {
    pub(super) fn new(pool: Arc<Pool>, doors: Arc<Doors>) -> Self {
        Asking { pool, doors, task: None, running: None, over: None }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.pool.config.timeout_seconds)
    }

    /// What the program does next. The first time, `is_first`, it has to ask.
    fn next(&mut self, is_first: bool) -> Result<Step, EnvError> {
        let patience = self.patience();
        let due = Instant::now() + patience;
        loop {
            let Some(running) = &mut self.running else { return Ok(Step::Done) };
            match running.events.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Event::Asked(_, reply)) if reply.is_given_up() => {
                    running.door.waiting.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(Event::Asked(request, reply)) => match posed(*request) {
                    Ok(posed) => {
                        running.asked = Some(reply);
                        return Ok(Step::Turn(posed));
                    }
                    Err(refusal) => {
                        running.refused += 1;
                        let is_last = running.refused >= REFUSED_MAX;
                        let problem = format!("{REFUSED_MAX} requests were refused, the last one: {refusal}");
                        running.answer(reply, Err(refusal));
                        if is_last {
                            return Err(self.give_up(&problem));
                        }
                    }
                },
                Ok(Event::Over(peer, answer)) => {
                    self.finish(*peer, answer);
                    let answered = match &self.over {
                        Some(Err(problem)) => return Err(EnvError::Failed(problem.clone())),
                        answered => answered.is_some(),
                    };
                    if is_first && answered {
                        let problem = "the program ended without having asked the policy: its requests go to `base_url`";
                        return Err(EnvError::Failed(problem.to_owned()));
                    }
                    return Ok(Step::Done);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let problem = format!(
                        "the environment's process did nothing within {} s; raise timeout_seconds if it needs longer",
                        patience.as_secs_f64()
                    );
                    return Err(self.give_up(&problem));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(EnvError::Failed("the process that played this episode is gone".to_owned()));
                }
            }
        }
    }

    /// Takes in the end of the run.
    fn finish(&mut self, peer: Peer, answer: Option<Result<Fields, Failure>>) {
        self.running = None;
        self.over = Some(match answer {
            Some(Ok(fields)) => {
                self.pool.give_back(peer);
                Ok(fields)
            }
            Some(Err(Failure::Said(problem))) => {
                self.pool.give_back(peer);
                Err(problem)
            }
            Some(Err(Failure::Broken(problem))) => Err(peer.stop(&problem)),
            None => Err(peer.stop("the process was given up")),
        });
    }

    /// Kills the process, and adds the end of its stderr to the problem.
    fn give_up(&mut self, problem: &str) -> EnvError {
        let Some(running) = self.running.take() else { return EnvError::Failed(problem.to_owned()) };
        running.is_given_up.store(true, Ordering::Relaxed);
        let due = Instant::now() + 4 * GLANCE;
        loop {
            match running.events.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Event::Over(peer, _)) => return EnvError::Failed(peer.stop(problem)),
                Ok(Event::Asked(..)) => {}
                Err(_) => return EnvError::Failed(problem.to_owned()),
            }
        }
    }
}

impl Running {
    /// Answers a request.
    fn answer(&self, reply: Reply, answer: Result<Vec<Spoken>, Refusal>) {
        self.door.waiting.fetch_sub(1, Ordering::Relaxed);
        reply.send(answer);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// Waits for the answer to `run`, unless it is given up.
fn wait(mut peer: Peer, pool: &Pool, is_given_up: &AtomicBool, tell: &Sender<Event>) {
    let answer = loop {
        if is_given_up.load(Ordering::Relaxed) {
            break None;
        }
        if let Some(answer) = peer.hear(GLANCE, &pool.config) {
            break Some(answer);
        }
    };
    // If nobody listens any more, the process is dropped with the event, which kills it.
    let _ = tell.send(Event::Over(Box::new(peer), answer));
}

impl Environment for Asking {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        self.task = Some((task.clone(), seed));
        Ok(task.prompt.clone())
    }

    fn stepping(&self) -> Option<Repeating> {
        // Without a hello, the first contact says what is wrong.
        Some(self.pool.hello().map_or(Repeating::Rebuilt, |hello| hello.repeating))
    }

    fn asks(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<Step, EnvError> {
        let Some((task, seed)) = &self.task else {
            return Err(EnvError::Failed("the episode has no task".to_owned()));
        };
        let (tell, events) = channel();
        let door = self.doors.open(tell.clone()).map_err(EnvError::Failed)?;
        let mut peer = self.pool.take().map_err(EnvError::Failed)?;
        let request = Request::Run {
            task: task_of(task),
            seed: (seed >> 32) as u32,
            base_url: &door.url,
            api_key: &door.key,
            model: MODEL,
        };
        if let Err(Failure::Said(problem) | Failure::Broken(problem)) = peer.tell(&request) {
            return Err(EnvError::Failed(peer.stop(&problem)));
        }
        let is_given_up = Arc::new(AtomicBool::new(false));
        let (pool, flag) = (Arc::clone(&self.pool), Arc::clone(&is_given_up));
        std::thread::Builder::new()
            .name("agent".to_owned())
            .spawn(move || wait(peer, &pool, &flag, &tell))
            .map_err(|error| EnvError::Failed(format!("no thread can wait for the process: {error}")))?;
        self.running = Some(Running { door, events, is_given_up, asked: None, refused: 0 });
        self.next(true)
    }

    fn step(&mut self, _: &Message) -> Result<Step, EnvError> {
        Err(EnvError::Failed("the program asks by itself, so it takes no steps".to_owned()))
    }

    fn answer(&mut self, said: &TurnOutput) -> Result<Step, EnvError> {
        let Some(running) = &mut self.running else {
            return Err(EnvError::Failed("the process that played this episode is gone".to_owned()));
        };
        if let Some(reply) = running.asked.take() {
            let spoken = Spoken { trace: Trace::new(), output: said.clone() };
            running.answer(reply, Ok(vec![spoken]));
        }
        self.next(false)
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let message =
            "the episode has no further turn: they are used up, or the conversation does not fit any more";
        let refusal = || Refusal::because(400, "episode_over", message);
        // A program that still asks is told that there is no more, and may come to its end.
        let mut refused = 0;
        while let Some(running) = &mut self.running {
            if let Some(reply) = running.asked.take() {
                running.answer(reply, Err(refusal()));
            }
            match self.next(false)? {
                Step::Turn(_) if refused >= REFUSED_MAX => {
                    return Err(self.give_up("the program goes on asking after the last turn"));
                }
                Step::Turn(_) => refused += 1,
                _ => break,
            }
        }
        match self.over.take() {
            Some(Ok(verdict)) => Ok(read_verdict(&verdict).unwrap_or_else(Verdict::unscored)),
            Some(Err(problem)) => Err(EnvError::Failed(problem)),
            None => Err(EnvError::Failed("the program did not come to its end".to_owned())),
        }
    }
}
