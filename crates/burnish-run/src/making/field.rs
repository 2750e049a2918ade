//! The environment of a run, for the functions that make something of it.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_core::{Message, Task, TaskId, Verdict};
use burnish_env::Generator;
use burnish_env::rollout::{
    Given, Overlong, POLICY, Partners, Playing, RolloutSpec, SeedPlace, Spawn, Start, play_within, recite,
};
use burnish_episode::{Handle, Waited};
use burnish_reason::design::Design;
use burnish_reason::{Outcome, Player, StrategyConfig, World};
use burnish_recipe::Recipe;
use serde_json::Value;

use super::{Over, design};
use crate::RunError;
use crate::tasks::{Tasks, as_known, tasks_of};

/// Fewest tasks that are drawn for functions to choose from ([`World::fresh`]).
const STOCK_MIN: usize = 4096;
/// Tasks that are drawn for each one that was played.
const STOCK_PER_TASK: usize = 16;
/// Episodes that functions play at once, in batches of the sampler.
const BATCHES: usize = 4;

/// The environment, for functions.
pub(super) struct Field<'a> {
    recipe: &'a Recipe,
    tasks: &'a Tasks,
    generator: &'a dyn Generator,
    /// Tasks that the run plays or holds out.
    known: &'a BTreeSet<&'a TaskId>,
    place: SeedPlace,
    /// The number of tasks that are drawn.
    stock: usize,
    /// Those of them that are not known, drawn at once, since a generator keeps its shares only in a set that is large.
    drawn: OnceCell<Result<Vec<Task>, String>>,
    /// The run, if more than its tasks is known.
    run: Option<Over<'a>>,
}

impl<'a> Field<'a> {
    /// The environment of a run in which `played` tasks were played. Functions neither draw tasks that are `known`, nor random
    /// numbers outside of `place`.
    ///
    /// # Errors
    /// If the run has no environment.
    pub(super) fn new(
        recipe: &'a Recipe,
        tasks: &'a Tasks,
        known: &'a BTreeSet<&'a TaskId>,
        place: SeedPlace,
        played: usize,
    ) -> Result<Self, RunError> {
        let (generator, stock) = (tasks.generator()?, (played * STOCK_PER_TASK).max(STOCK_MIN));
        Ok(Field { recipe, tasks, generator, known, place, stock, drawn: OnceCell::new(), run: None })
    }

    /// The environment of the run `over`.
    pub(super) fn of(mut self, over: Over<'a>) -> Self {
        self.run = Some(over);
        self
    }

    /// Most episodes that functions may play at once.
    pub(super) fn at_once(&self) -> usize {
        let batches = self.recipe.rollout.batch_max.saturating_mul(BATCHES);
        self.generator.at_once().map_or(batches, |at_once| at_once.min(batches))
    }

    /// Its id.
    pub(super) fn environment(&self) -> &str {
        self.generator.id()
    }

    fn draw(&self) -> Result<Vec<Task>, String> {
        let address = Address { purpose: Purpose::Task, ..self.place.address(0) };
        let drawn = tasks_of(self.generator, address.seed(), self.stock, "env.config");
        let mut drawn = drawn.map_err(|error| error.to_string())?;
        as_known(self.recipe, &mut drawn);
        let mut ids = BTreeSet::new();
        drawn.retain(|task| !self.known.contains(&task.id) && ids.insert(task.id.clone()));
        Ok(drawn)
    }
}

impl World for Field<'_> {
    fn fresh(&self, seed: u64, skip: usize, count: usize) -> Result<Vec<Task>, String> {
        let stock = self.drawn.get_or_init(|| self.draw()).as_ref().map_err(String::clone)?;
        let mut order: Vec<&Task> = stock.iter().collect();
        Stream::new(seed).shuffle(&mut order);
        Ok(order.into_iter().skip(skip).take(count).cloned().collect())
    }

    fn judge(&self, task: &Task, answers: &[Message]) -> Result<Verdict, String> {
        let given = Given { task, place: self.place.address(0), answers };
        let episode = recite(self.generator, &[given]).map_err(|error| error.to_string())?.pop();
        episode.map(|episode| episode.verdict).ok_or_else(|| "no verdict was given".to_owned())
    }

    fn play<'a>(
        &'a self,
        handle: &'a Handle,
        task: &'a Task,
        strategy: &'a StrategyConfig,
    ) -> Waited<'a, Result<Outcome, String>> {
        Box::pin(async move {
            let (recipe, others) = (self.recipe, &self.tasks.others);
            if others.judge_afterwards() {
                return Err(
                    "a function can't play episodes that a reward model or a goal model judges".into()
                );
            }
            let sampling = recipe.rollout_sampling();
            let strategy = strategy.build().map_err(|error| error.to_string())?;
            strategy.check_sampling(&sampling).map_err(|error| error.to_string())?;
            let memory = others.memory_for(&*strategy).map_err(|error| error.to_string())?;
            let player = Player::new(strategy, Vec::new()).with_memory(memory);
            let nobody = Partners::default();
            let playing = Playing { program: &player, others: &nobody };
            let spec = RolloutSpec {
                partners: others.partners(),
                program: Some(playing),
                ..RolloutSpec::new(self.generator, &[], recipe.rollout.turns_max, Overlong::Drop)
            };
            let id = task.id.0.as_bytes();
            let place = Address { task: fold_bytes(id.len() as u64, id), ..self.place.address(0) };
            let spawn = Spawn {
                task,
                start: Start::Opening,
                prefix: Vec::new(),
                role: "episode of a function",
                count: 1,
                sampling: Arc::new(sampling),
                policy: POLICY.into(),
                place,
            };
            let episode = play_within(handle, &spec, &spawn, 0).await;
            let episode = episode.map_err(|error| error.to_string())?;
            let reward = episode.verdict.total(&recipe.reward.weights).filter(|reward| reward.is_finite());
            let tokens = player.take().values().map(|turn| turn.tokens.generated).sum();
            let success = reward.is_some() && episode.verdict.success;
            Ok(Outcome { answers: episode.answers, success, reward: reward.unwrap_or(0.0), tokens })
        })
    }

    fn design(&self, only: &[String]) -> Result<Design, String> {
        let run = self.run.as_ref().ok_or("the run is not known")?;
        design::of(run, self.generator, only).map_err(|error| error.to_string())
    }

    fn check_config(&self, config: &Value) -> Result<Value, String> {
        design::checked(self.recipe, config).map_err(|error| error.to_string())
    }
}
