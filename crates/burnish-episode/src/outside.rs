//! Time, and work that takes time.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A piece of work.
pub type Job = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Id of a piece of work that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// What a job returned, or the message of its panic.
pub type Done = Result<Box<dyn Any + Send>, String>;

/// Where slow work is done, with its clock.
pub trait Outside {
    /// Time since some fixed start.
    fn now(&self) -> Duration;

    /// Begins a piece of work.
    fn begin(&mut self, id: JobId, job: Job);

    /// The finished jobs. If none is finished, waits for one until the time `until`; if that is `None` and work is
    /// under way, waits without limit.
    fn over(&mut self, until: Option<Duration>) -> Vec<(JobId, Done)>;
}

fn guarded(job: Job) -> Done {
    catch_unwind(AssertUnwindSafe(job)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".into())
    })
}

/// Real time, and threads, which are started when there is work and no thread is free.
#[derive(Debug)]
pub struct Threads {
    start: Instant,
    threads_max: usize,
    threads: usize,
    under_way: usize,
    line: Arc<Line>,
    done: Receiver<(JobId, Done)>,
    tell: Sender<(JobId, Done)>,
}

/// Work that no thread has taken yet.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(JobId, Job)>,
    is_closed: bool,
}

/// Slow work mostly waits for something else, so there may be many more threads than cores.
const THREADS_MAX: usize = 1024;

/// A thread's stack. Tools and verifiers need little; the system provides a page only when it is touched.
const STACK_BYTES: usize = 1 << 20;

impl Default for Threads {
    fn default() -> Self {
        Threads::new(THREADS_MAX)
    }
}

impl Threads {
    /// At most this many threads (at least one).
    pub fn new(threads_max: usize) -> Self {
        let (tell, done) = mpsc::channel();
        Threads {
            start: Instant::now(),
            threads_max: threads_max.max(1),
            threads: 0,
            under_way: 0,
            line: Arc::default(),
            done,
            tell,
        }
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of one thread.
    fn work(&self, tell: &Sender<(JobId, Done)>) {
        while let Some((id, job)) = self.next() {
            if tell.send((id, guarded(job))).is_err() {
                return;
            }
        }
    }

    fn next(&self) -> Option<(JobId, Job)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(next) = state.waiting.pop_front() {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Outside for Threads {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn begin(&mut self, id: JobId, job: Job) {
        self.under_way += 1;
        self.line.lock().waiting.push_back((id, job));
        self.line.changed.notify_one();
        if self.threads < self.under_way.min(self.threads_max) {
            let (line, tell) = (Arc::clone(&self.line), self.tell.clone());
            let builder = std::thread::Builder::new().name("outside".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || line.work(&tell)) {
                Ok(_) => self.threads += 1,
                // The system allows no more threads; those that exist do the work.
                Err(_) if self.threads > 0 => self.threads_max = self.threads,
                Err(error) => {
                    if let Some((id, _)) = self.line.lock().waiting.pop_back() {
                        let _ = self.tell.send((id, Err(format!("no thread can be started: {error}"))));
                    }
                }
            }
        }
    }

    fn over(&mut self, until: Option<Duration>) -> Vec<(JobId, Done)> {
        let mut over: Vec<(JobId, Done)> = self.done.try_iter().collect();
        if over.is_empty() {
            let first = match until {
                Some(until) => {
                    let left = until.saturating_sub(self.now());
                    if self.under_way == 0 {
                        std::thread::sleep(left);
                        return over;
                    }
                    if left.is_zero() {
                        return over;
                    }
                    self.done.recv_timeout(left)
                }
                None if self.under_way == 0 => return over,
                None => self.done.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            over.extend(first);
            over.extend(self.done.try_iter());
        }
        self.under_way -= over.len();
        over
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Each thread ends after its current job.
        let mut state = self.line.lock();
        state.waiting.clear();
        state.is_closed = true;
        self.line.changed.notify_all();
    }
}

/// Simulated time, which passes when everybody waits, and work that takes as long as specified.
pub struct Simulated<F> {
    now: Duration,
    takes: F,
    /// By end time; of equal ones, the job that began first.
    under_way: BTreeMap<(Duration, JobId), Done>,
}

impl<F: FnMut(JobId) -> Duration> Simulated<F> {
    /// `takes` says how long each piece of work takes.
    pub fn new(takes: F) -> Self {
        Simulated { now: Duration::ZERO, takes, under_way: BTreeMap::new() }
    }
}

impl<F: FnMut(JobId) -> Duration> Outside for Simulated<F> {
    fn now(&self) -> Duration {
        self.now
    }

    fn begin(&mut self, id: JobId, job: Job) {
        let end = self.now + (self.takes)(id);
        self.under_way.insert((end, id), guarded(job));
    }

    fn over(&mut self, until: Option<Duration>) -> Vec<(JobId, Done)> {
        let next = self.under_way.first_key_value().map(|((end, _), _)| *end);
        let then = match (next, until) {
            (Some(next), Some(until)) => next.min(until),
            (Some(next), None) => next,
            (None, until) => until.unwrap_or(self.now),
        };
        self.now = self.now.max(then);
        let later = self.under_way.split_off(&(self.now + Duration::from_nanos(1), JobId(0)));
        std::mem::replace(&mut self.under_way, later).into_iter().map(|((_, id), done)| (id, done)).collect()
    }
}
