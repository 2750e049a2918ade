//! The group of a task while a plan plays it.

use std::cell::{Ref, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use burnish_core::{Episode, Message, Task, Verdict};

use super::{Request, Role, Spawned};
use crate::SettingError;

/// What a plan does for one task.
pub type Program<'a> = Pin<Box<dyn Future<Output = Result<(), SettingError>> + 'a>>;

/// The messages that open an episode of a task.
pub type Opening<'a> = Box<dyn Fn() -> Result<Vec<Message>, SettingError> + 'a>;

/// The group of a task while it is played: what a plan sees of it, and its way of having episodes played.
///
/// A run plays the episodes that the plan waits for ([`Group::take_requests`]). Meanwhile it has those that there are
/// ([`Group::take_episodes`]); then it gives them back with the new ones ([`Group::give`]).
pub struct Group<'a> {
    /// The task.
    pub task: &'a Task,
    /// How many rollouts of each task the recipe asks for.
    pub rollouts: usize,
    /// Steps done, as a share of the run's steps: 0 at the first step, below 1 at the last.
    pub progress: f64,
    /// Seed of the plan's random choices about this task in this step.
    pub seed: u64,
    opening: Opening<'a>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    episodes: Vec<Spawned>,
    requests: Vec<Request>,
    is_waiting: bool,
}

impl<'a> Group<'a> {
    /// The group of `task`, of which `episodes` are played already.
    pub fn new(
        task: &'a Task,
        (rollouts, progress, seed): (usize, f64, u64),
        opening: Opening<'a>,
        episodes: Vec<Spawned>,
    ) -> Self {
        let state = RefCell::new(State { episodes, ..State::default() });
        Group { task, rollouts, progress, seed, opening, state }
    }

    /// The messages with which an episode of the task opens.
    ///
    /// # Errors
    /// If the environment can't play the task.
    pub fn opening(&self) -> Result<Vec<Message>, SettingError> {
        (self.opening)()
    }

    /// The episodes so far, in the order in which they were requested.
    pub fn episodes(&self) -> Ref<'_, [Spawned]> {
        Ref::map(self.state.borrow(), |state| &state.episodes[..])
    }

    /// An episode.
    pub fn episode(&self, at: usize) -> Arc<Episode> {
        Arc::clone(&self.episodes()[at].episode)
    }

    /// The places of the episodes of a role.
    pub fn of_role(&self, role: Role) -> Vec<usize> {
        self.episodes().iter().enumerate().filter(|(_, own)| own.role == role).map(|(at, _)| at).collect()
    }

    /// Plays episodes side by side, until all are over.
    pub async fn play(&self, requests: impl IntoIterator<Item = Request>) {
        let requests: Vec<Request> = requests.into_iter().collect();
        if requests.is_empty() {
            return;
        }
        {
            let mut state = self.state.borrow_mut();
            state.requests = requests;
            state.is_waiting = true;
        }
        poll_fn(|_| if self.state.borrow().is_waiting { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Replaces the verdict on an episode.
    pub fn judge(&self, at: usize, verdict: Verdict) {
        Arc::make_mut(&mut self.state.borrow_mut().episodes[at].episode).verdict = verdict;
    }

    /// The episodes that the plan waits for; none if it waits for nothing.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.borrow_mut().requests)
    }

    /// All episodes so far.
    pub fn take_episodes(&self) -> Vec<Spawned> {
        std::mem::take(&mut self.state.borrow_mut().episodes)
    }

    /// Gives the plan all episodes so far, those that it waited for included.
    pub fn give(&self, episodes: Vec<Spawned>) {
        let mut state = self.state.borrow_mut();
        state.episodes = episodes;
        state.is_waiting = false;
    }
}
