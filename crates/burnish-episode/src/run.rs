//! Runs many episodes side by side.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use burnish_core::rng::Address;
use burnish_core::{Answered, Place, Policy, PolicyError, Record, Trace, TurnId};

use crate::desk::{Arrived, Desk, Question, Shared};
use crate::handle::{ContactError, Handle};
use crate::outside::{JobId, Outside};

/// Interval at which servers are polled while there is nothing else to do.
const REMOTE_POLL: Duration = Duration::from_millis(2);

/// Who answers in episodes, by name.
#[derive(Default)]
pub struct Cast<'a> {
    policies: Vec<(String, &'a mut dyn Policy)>,
}

impl<'a> Cast<'a> {
    /// Adds a policy.
    #[must_use]
    pub fn with(mut self, name: &str, policy: &'a mut dyn Policy) -> Self {
        self.policies.push((name.to_owned(), policy));
        self
    }
}

/// What is left of an earlier run of an episode.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Its contacts.
    pub record: Record,
    /// The traces of its agents.
    pub traces: Vec<Trace>,
}

/// An episode to run.
pub struct Started<'f, T, E> {
    pub(crate) desk: Shared,
    pub(crate) future: Pin<Box<dyn Future<Output = Result<T, E>> + 'f>>,
}

impl<'f, T, E> Started<'f, T, E> {
    /// The function `episode` at an address, continuing from what is known.
    pub fn new(
        address: Address,
        known: Known,
        episode: impl AsyncFnOnce(Handle) -> Result<T, E> + 'f,
    ) -> Self {
        let desk = Rc::new(RefCell::new(Desk::new(address, known.record, known.traces)));
        let handle = Handle::new(&desk);
        let future = Box::pin(async move { episode(handle).await });
        Started { desk, future }
    }

    /// Its desk, and those of the episodes within it, with their numbers.
    fn desks(&self) -> Vec<(u32, Shared)> {
        let within = Rc::clone(&self.desk.borrow().within);
        let within = within.borrow();
        let inner = within.open.iter().map(|(number, desk)| (*number, Rc::clone(desk)));
        std::iter::once((0, Rc::clone(&self.desk))).chain(inner).collect()
    }

    fn desk(&self, number: u32) -> Option<Shared> {
        if number == 0 {
            return Some(Rc::clone(&self.desk));
        }
        self.desk.borrow().within.borrow().open.get(&number).cloned()
    }

    /// The desks of episodes within it that are over, each once, and whether they took room.
    fn over(&self) -> Vec<(u32, Shared, bool)> {
        std::mem::take(&mut self.desk.borrow().within.borrow_mut().over)
    }
}

/// A finished episode.
#[derive(Debug)]
pub struct Finished<T> {
    /// What the function returned.
    pub value: T,
    /// Its contacts.
    pub record: Record,
    /// The traces of its agents, in the order of [`Record::agents`].
    pub traces: Vec<Trace>,
}

/// Why episodes could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// A function returned an error.
    #[error(transparent)]
    Episode(E),
    /// A function ended before its record did, or it asks a policy that does not exist.
    #[error("episode {at}: {source}")]
    Contact {
        /// Index of the episode among those that were started.
        at: usize,
        /// What is wrong.
        source: ContactError,
    },
    /// A policy did not answer.
    #[error("the policy has nothing under way, but {turns} turns were not answered")]
    Lost {
        /// Number of turns without an answer.
        turns: usize,
    },
    /// An episode waits for something other than the world.
    #[error("episode {at} waits for something that it has not asked for")]
    Stuck {
        /// Index of the episode among those that were started.
        at: usize,
    },
}

/// Runs episodes to their ends and returns the results in order. Each episode continues as soon as it can.
///
/// # Errors
/// The first error of any episode; everything under way is then cancelled.
pub fn run<T, E>(
    episodes: Vec<Started<'_, T, E>>,
    cast: Cast<'_>,
    outside: &mut dyn Outside,
) -> Result<Vec<Finished<T>>, RunError<E>> {
    run_at_most(usize::MAX, episodes, cast, outside)
}

/// As [`run`], with at most `at_once` episodes (at least one) under way: the next one starts when one is over.
///
/// # Errors
/// As [`run`].
pub fn run_at_most<T, E>(
    at_once: usize,
    episodes: Vec<Started<'_, T, E>>,
    cast: Cast<'_>,
    outside: &mut dyn Outside,
) -> Result<Vec<Finished<T>>, RunError<E>> {
    run_programs(at_once, usize::MAX, episodes, cast, outside)
}

/// As [`run_at_most`], for functions that play episodes ([`Handle::episode`]), of all of which at most `within` (at least one)
/// run at once.
///
/// # Errors
/// As [`run`].
pub fn run_programs<T, E>(
    at_once: usize,
    within: usize,
    episodes: Vec<Started<'_, T, E>>,
    cast: Cast<'_>,
    outside: &mut dyn Outside,
) -> Result<Vec<Finished<T>>, RunError<E>> {
    let count = episodes.len();
    let mut not_started = at_once.max(1).min(count)..count;
    let mut ready = VecDeque::from_iter(0..not_started.start);
    let mut running: Vec<Option<Started<'_, T, E>>> = episodes.into_iter().map(Some).collect();
    let mut finished: Vec<Option<Finished<T>>> = (0..count).map(|_| None).collect();
    let mut world = World::new(cast, outside, within.max(1));
    let mut left = count;
    let done = loop {
        while let Some(at) = ready.pop_front() {
            let Some(episode) = &mut running[at] else { continue };
            let polled = episode.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            for (number, desk, took_room) in episode.over() {
                world.give_up((at, number), &desk);
                world.waiting.remove(&(at, number));
                world.under_way -= usize::from(took_room);
            }
            match polled {
                Poll::Ready(Ok(value)) => {
                    let closed = episode.desk.borrow_mut().close();
                    world.give_up((at, 0), &episode.desk);
                    running[at] = None;
                    left -= 1;
                    ready.extend(not_started.next());
                    match closed {
                        Ok((record, traces)) => finished[at] = Some(Finished { value, record, traces }),
                        Err(source) => return world.stop(RunError::Contact { at, source }),
                    }
                }
                Poll::Ready(Err(error)) => return world.stop(RunError::Episode(error)),
                Poll::Pending => {
                    for (number, desk) in episode.desks() {
                        world.give_up((at, number), &desk);
                        if let Err(source) = world.ask((at, number), &desk) {
                            return world.stop(RunError::Contact { at, source });
                        }
                    }
                    if !world.is_asked_by(at) {
                        return world.stop(RunError::Stuck { at });
                    }
                }
            }
        }
        if left == 0 {
            break finished;
        }
        match world.listen() {
            Ok(arrived) => {
                let mut woken = BTreeSet::new();
                for ((at, number), place, arrived) in arrived {
                    let desk = running[at].as_ref().and_then(|episode| episode.desk(number));
                    if let Some(desk) = desk {
                        desk.borrow_mut().arrived.insert(place, arrived);
                        if woken.insert(at) {
                            ready.push_back(at);
                        }
                    }
                }
            }
            Err(turns) => return world.stop(RunError::Lost { turns }),
        }
    };
    Ok(done.into_iter().flatten().collect())
}

/// A function, and which of its desks: 0 is its own, others are those of episodes within it.
type Asking = (usize, u32);

/// Desk and place of a question that is not answered yet.
type Asker = (Asking, Place);

/// The policies and the outside, with everything under way there.
struct World<'a, 'b> {
    policies: Vec<(String, &'a mut dyn Policy)>,
    /// By policy and turn.
    turns: BTreeMap<(usize, TurnId), Asker>,
    outside: &'b mut dyn Outside,
    jobs: BTreeMap<JobId, Asker>,
    jobs_begun: u64,
    timers: BinaryHeap<Reverse<(Duration, Asking, Place)>>,
    /// Episodes within functions: most that may run at once, how many do, and those that would begin.
    within: usize,
    under_way: usize,
    beginning: VecDeque<Asker>,
    /// Those who wait until nothing is running.
    quiet: BTreeSet<Asker>,
    /// What each desk waits for.
    waiting: BTreeMap<Asking, BTreeSet<Place>>,
}

/// Something that arrived for an episode.
type Delivery = (Asking, Place, Arrived);

impl<'a, 'b> World<'a, 'b> {
    fn new(cast: Cast<'a>, outside: &'b mut dyn Outside, within: usize) -> Self {
        World {
            policies: cast.policies,
            turns: BTreeMap::new(),
            outside,
            jobs: BTreeMap::new(),
            jobs_begun: 0,
            timers: BinaryHeap::new(),
            within,
            under_way: 0,
            beginning: VecDeque::new(),
            quiet: BTreeSet::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Passes on an episode's questions.
    fn ask(&mut self, at: Asking, desk: &Shared) -> Result<(), ContactError> {
        let questions = std::mem::take(&mut desk.borrow_mut().outbox);
        for (place, question) in questions {
            match question {
                Question::Turn { policy, turn } => {
                    let known = self.policies.iter().position(|(name, _)| **name == *policy);
                    let Some(policy) = known else {
                        let what = format!("nobody answers as `{policy}`");
                        return Err(PolicyError::Failed(what).into());
                    };
                    let id = self.policies[policy].1.submit(*turn);
                    self.turns.insert((policy, id), (at, place.clone()));
                }
                Question::Work(job) => {
                    let id = JobId(self.jobs_begun);
                    self.jobs_begun += 1;
                    self.outside.begin(id, job);
                    self.jobs.insert(id, (at, place.clone()));
                }
                Question::Wait(time) => {
                    self.timers.push(Reverse((self.outside.now() + time, at, place.clone())));
                }
                Question::Begin => self.beginning.push_back((at, place.clone())),
                Question::Quiet => {
                    self.quiet.insert((at, place.clone()));
                }
            }
            self.waiting.entry(at).or_default().insert(place);
        }
        Ok(())
    }

    fn is_asked_by(&self, at: usize) -> bool {
        self.waiting.range((at, 0)..=(at, u32::MAX)).any(|(_, places)| !places.is_empty())
    }

    /// Cancels what an episode no longer waits for. Work that has begun continues, and its result is dropped.
    fn give_up(&mut self, at: Asking, desk: &Shared) {
        let given_up = std::mem::take(&mut desk.borrow_mut().given_up);
        for place in given_up {
            desk.borrow_mut().outbox.retain(|(asked, _)| *asked != place);
            // It was let in, and does not come.
            let arrived = desk.borrow_mut().arrived.remove(&place);
            self.under_way -= usize::from(matches!(arrived, Some(Arrived::Begun)));
            if let Some(places) = self.waiting.get_mut(&at) {
                places.remove(&place);
            }
            let asker = (at, place);
            let turn = self.turns.iter().find(|(_, by)| **by == asker).map(|(turn, _)| *turn);
            if let Some((policy, id)) = turn {
                self.policies[policy].1.cancel(id);
                self.turns.remove(&(policy, id));
            }
            self.jobs.retain(|_, by| *by != asker);
            self.timers.retain(|Reverse((_, at, place))| (*at, place) != (asker.0, &asker.1));
            self.beginning.retain(|by| *by != asker);
            self.quiet.remove(&asker);
        }
    }

    /// Cancels everything.
    fn stop<T, E>(&mut self, error: RunError<E>) -> Result<T, RunError<E>> {
        for (policy, id) in std::mem::take(&mut self.turns).into_keys() {
            self.policies[policy].1.cancel(id);
        }
        Err(error)
    }

    /// Waits until something arrives.
    ///
    /// # Errors
    /// The number of turns that nobody will answer.
    fn listen(&mut self) -> Result<Vec<Delivery>, usize> {
        loop {
            let mut arrived = self.may_go_on();
            if !arrived.is_empty() {
                return Ok(self.delivered(arrived));
            }
            let mut is_working = false;
            let mut busy = Vec::new();
            for at in 0..self.policies.len() {
                if self.turns.range((at, TurnId(0))..=(at, TurnId(u64::MAX))).next().is_some() {
                    busy.push(at);
                }
            }
            let is_alone = self.jobs.is_empty() && self.timers.is_empty();
            if let (true, &[only]) = (is_alone, &busy[..]) {
                let answers = self.policies[only].1.wait();
                if answers.is_empty() {
                    return Err(self.turns.len());
                }
                self.answered(only, answers, &mut arrived);
            } else {
                for &at in &busy {
                    let answers = self.policies[at].1.poll();
                    self.answered(at, answers, &mut arrived);
                    is_working |= !self.policies[at].1.is_remote();
                }
                let now = self.outside.now();
                let until = match self.timers.peek() {
                    _ if !arrived.is_empty() || is_working => Some(now),
                    Some(Reverse((due, ..))) if busy.is_empty() => Some(*due),
                    Some(Reverse((due, ..))) => Some((*due).min(now + REMOTE_POLL)),
                    None if busy.is_empty() => None,
                    None => Some(now + REMOTE_POLL),
                };
                self.outside_over(until, &mut arrived);
            }
            if !arrived.is_empty() {
                return Ok(self.delivered(arrived));
            }
        }
    }

    /// Those who need not wait for anybody outside: episodes for which there is room, or, where nothing is running,
    /// whoever waited for that. An episode whose room is taken by those who wait for it begins as well.
    fn may_go_on(&mut self) -> Vec<Delivery> {
        let room = self.within.saturating_sub(self.under_way).min(self.beginning.len());
        let mut begun: Vec<Asker> = self.beginning.drain(..room).collect();
        let is_quiet = self.turns.is_empty() && self.jobs.is_empty() && self.timers.is_empty();
        if begun.is_empty() && is_quiet && self.quiet.is_empty() {
            begun.extend(self.beginning.pop_front());
        }
        self.under_way += begun.len();
        if begun.is_empty() && is_quiet {
            let quiet = std::mem::take(&mut self.quiet).into_iter();
            return quiet.map(|(at, place)| (at, place, Arrived::Now)).collect();
        }
        begun.into_iter().map(|(at, place)| (at, place, Arrived::Begun)).collect()
    }

    /// These answers, which nobody waits for any more.
    fn delivered(&mut self, arrived: Vec<Delivery>) -> Vec<Delivery> {
        for (at, place, _) in &arrived {
            if let Some(places) = self.waiting.get_mut(at) {
                places.remove(place);
            }
        }
        arrived
    }

    fn answered(&mut self, policy: usize, answers: Vec<Answered>, arrived: &mut Vec<Delivery>) {
        for Answered { id, trace, result } in answers {
            if let Some((at, place)) = self.turns.remove(&(policy, id)) {
                arrived.push((at, place, Arrived::Turn(Box::new((trace, result)))));
            }
        }
    }

    fn outside_over(&mut self, until: Option<Duration>, arrived: &mut Vec<Delivery>) {
        for (id, done) in self.outside.over(until) {
            if let Some((at, place)) = self.jobs.remove(&id) {
                arrived.push((at, place, Arrived::Work(done)));
            }
        }
        let now = self.outside.now();
        while self.timers.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            let Some(Reverse((_, at, place))) = self.timers.pop() else { break };
            arrived.push((at, place, Arrived::Now));
        }
    }
}
