//! The group of a task while a plan plays it.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use burnish_core::{Episode, Message, Note, Task, Verdict};

use super::{Request, Role, Spawned};
use crate::SettingError;

/// A future of a plan.
pub type Waited<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a plan does for one task.
pub type Program<'a> = Waited<'a, Result<(), PlanError>>;

/// Why a group can't be played.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A setting does not fit the environment.
    #[error("plan.{0}")]
    Setting(#[from] SettingError),
    /// An episode could not be played.
    #[error("{0}")]
    World(#[source] Box<dyn Error>),
}

/// The environment of a group.
pub trait World {
    /// The messages with which an episode of the task opens.
    ///
    /// # Errors
    /// If it can't play the task.
    fn opening(&self) -> Result<Vec<Message>, PlanError>;

    /// The task turned round ([`COUNTERPART`](crate::fact::COUNTERPART)).
    ///
    /// # Errors
    /// If it can't turn tasks round.
    fn counterpart(&self) -> Result<Task, PlanError>;

    /// The other direction of `task`, built from what an answer to it states; `None` if the answer states nothing that
    /// could be asked for.
    fn reversed(&self, task: &Task, answer: &str) -> Option<Task>;

    /// The notes of the memory that are nearest to what is asked about, at most `count`; none that were made of the task.
    ///
    /// # Errors
    /// If the memory can't be read.
    fn recall(&self, about: &str, count: usize) -> Result<Vec<Note>, PlanError>;

    /// Plays episodes of `group` side by side, until all are over. They come in the order of the requests. Each request
    /// is given with the number of episodes of its role that were requested before, so that no two draw the same
    /// numbers.
    fn play<'a>(
        &'a self,
        group: &'a Group<'a>,
        requests: &'a [(Request, usize)],
    ) -> Waited<'a, Result<Vec<Episode>, PlanError>>;
}

/// The group of a task while it is played: what a plan sees of it, and its way of having episodes played.
pub struct Group<'a> {
    /// The task.
    pub task: &'a Task,
    /// How many rollouts of each task the recipe asks for.
    pub rollouts: usize,
    /// Steps done, as a share of the run's steps: 0 at the first step, below 1 at the last.
    pub progress: f64,
    /// Seed of the plan's random choices about this task in this step.
    pub seed: u64,
    world: &'a dyn World,
    episodes: RefCell<Vec<Spawned>>,
    /// How many were requested of each role.
    requested: RefCell<BTreeMap<Role, usize>>,
}

impl<'a> Group<'a> {
    /// The group of `task`, of which `episodes` are played already.
    pub fn new(
        task: &'a Task,
        (rollouts, progress, seed): (usize, f64, u64),
        world: &'a dyn World,
        episodes: Vec<Spawned>,
    ) -> Self {
        let mut requested = BTreeMap::new();
        for own in &episodes {
            *requested.entry(own.role).or_default() += 1;
        }
        let (episodes, requested) = (RefCell::new(episodes), RefCell::new(requested));
        Group { task, rollouts, progress, seed, world, episodes, requested }
    }

    /// The messages with which an episode of the task opens.
    ///
    /// # Errors
    /// If the environment can't play the task.
    pub fn opening(&self) -> Result<Vec<Message>, PlanError> {
        self.world.opening()
    }

    /// The task turned round. It needs [`COUNTERPART`](crate::fact::COUNTERPART).
    ///
    /// # Errors
    /// If the environment can't turn tasks round.
    pub fn counterpart(&self) -> Result<Arc<Task>, PlanError> {
        self.world.counterpart().map(Arc::new)
    }

    /// The other direction of the task of an episode, built from its last answer; `None` if that states nothing that
    /// could be asked for. It needs [`COUNTERPART`](crate::fact::COUNTERPART).
    pub fn reversed(&self, at: usize) -> Option<Arc<Task>> {
        let episodes = self.episodes();
        let own = &episodes[at];
        let answer = &own.episode.answers.last()?.content;
        self.world.reversed(own.task.as_deref().unwrap_or(self.task), answer).map(Arc::new)
    }

    /// The notes of the memory that are nearest to what is asked about: at most `count`, and none that were made of
    /// this task. It needs a memory ([`RolloutPlan::recalls`](super::RolloutPlan::recalls)).
    ///
    /// # Errors
    /// If it can't be read. It is for whoever runs the plan, which returns it.
    pub fn recall(&self, about: &str, count: usize) -> Result<Vec<Note>, PlanError> {
        self.world.recall(about, count)
    }

    /// The episodes so far, in the order in which they were requested.
    pub fn episodes(&self) -> Ref<'_, [Spawned]> {
        Ref::map(self.episodes.borrow(), |episodes| &episodes[..])
    }

    /// An episode.
    pub fn episode(&self, at: usize) -> Arc<Episode> {
        Arc::clone(&self.episodes()[at].episode)
    }

    /// The places of the episodes of a role.
    pub fn of_role(&self, role: Role) -> Vec<usize> {
        self.episodes().iter().enumerate().filter(|(_, own)| own.role == role).map(|(at, _)| at).collect()
    }

    /// Plays episodes side by side, until all are over. Returns their places, in the order of the requests. Only this
    /// group waits for them.
    ///
    /// # Errors
    /// If one can't be played. It is for whoever runs the plan, which returns it.
    pub async fn play(&self, requests: impl IntoIterator<Item = Request>) -> Result<Vec<usize>, PlanError> {
        let numbered = |request: Request| {
            let mut requested = self.requested.borrow_mut();
            let before = requested.entry(request.role).or_default();
            let first = *before;
            *before += request.count;
            (request, first)
        };
        let requests: Vec<(Request, usize)> = requests.into_iter().map(numbered).collect();
        let mut played = self.world.play(self, &requests).await?.into_iter();
        let mut episodes = self.episodes.borrow_mut();
        let mut places = Vec::new();
        for (Request { role, task, start, count, weight, .. }, _) in requests {
            for episode in played.by_ref().take(count) {
                let task = task.clone();
                let new = Spawned { role, task, episode: Arc::new(episode), weight };
                match start.replaces() {
                    // It goes on where that one ended.
                    Some(of) => {
                        let task = episodes[of].task.take();
                        episodes[of] = Spawned { task, ..new };
                        places.push(of);
                    }
                    None => {
                        places.push(episodes.len());
                        episodes.push(new);
                    }
                }
            }
        }
        Ok(places)
    }

    /// Replaces the verdict on an episode.
    pub fn judge(&self, at: usize, verdict: Verdict) {
        Arc::make_mut(&mut self.episodes.borrow_mut()[at].episode).verdict = verdict;
    }

    /// All episodes, of a group that is over.
    pub fn finish(self) -> Vec<Spawned> {
        self.episodes.into_inner()
    }
}
