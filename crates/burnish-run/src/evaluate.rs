//! Evaluation: episodes on held-out tasks, summarised with intervals.

use std::ops::Range;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Policy, Task};
use burnish_env::rollout::{Overlong, Partners, Playing};
use burnish_eval::{Crossed, Summary};
use burnish_reason::{Player, SettingError, Strategist, Strategy, StrategyConfig};
use burnish_rl::advantage::Phase;
use burnish_rl::plan::{Plain, Role, RolloutPlan};
use burnish_systems::dgpo::CycleCheck;

use crate::RunError;
use crate::eval_set::EvalSet;
use crate::learner::Learner;
use crate::online::plan_of;
use crate::online::scene::{Played, Scene};
use crate::seeds::Draws;
use crate::stages;
use burnish_recipe::{Recipe, StageUse, StrategySection};

/// The results of an evaluation.
pub struct Evaluation {
    /// The episodes, task by task.
    pub episodes: Vec<Episode>,
    /// Rates and intervals.
    pub summary: Summary,
}

/// The seed of the bootstrap in a run's evaluations.
pub fn bootstrap_seed(recipe: &Recipe) -> u64 {
    Address::new(recipe.eval.seed, Purpose::Bootstrap).seed()
}

/// What the episodes of an evaluation say about the policy of `recipe`, with the table of two labels that the tasks'
/// environment names.
pub fn summarise(recipe: &Recipe, tasks: &[Task], episodes: &[Episode]) -> Summary {
    let (weights, seed) = (&recipe.reward.weights, bootstrap_seed(recipe));
    let mut summary = Summary::of(tasks, episodes, weights, seed);
    let kind = tasks.first().and_then(|task| burnish_env::kind(&task.environment).ok());
    if let Some(labels) = kind.and_then(|kind| kind.axes) {
        summary.crossed = Crossed::of(labels, tasks, episodes, weights, seed);
    }
    summary
}

/// Plays every task of a set and summarises the episodes. The same policy always gets the same evaluation, whatever
/// the step.
///
/// # Errors
/// If episodes can't be played.
pub(crate) fn evaluate(recipe: &Recipe, learner: &Learner, set: &EvalSet) -> Result<Evaluation, RunError> {
    let mut sampler = learner.sampler(recipe.rollout.limits())?;
    let strategy = strategy_of(recipe)?;
    let episodes = play(recipe, sampler.policy(), set, 0..set.tasks.len(), strategy.as_ref())?;
    sampler.finish()?;
    let summary = summarise(recipe, &set.tasks, &episodes);
    Ok(Evaluation { episodes, summary })
}

/// Plays some tasks of a set, task by task, plainly or by a strategy ([`strategy_of`]). The episodes of a task do not depend on
/// which other tasks are played.
///
/// # Errors
/// If episodes can't be played.
pub(crate) fn play(
    recipe: &Recipe,
    policy: &mut dyn Policy,
    set: &EvalSet,
    tasks: Range<usize>,
    strategy: Option<&Arc<dyn Strategy>>,
) -> Result<Vec<Episode>, RunError> {
    let Some(strategy) = strategy else { return play_by(recipe, policy, set, tasks, None) };
    let checked = Strategist::new(&mut *policy, Arc::clone(strategy)).check(&set.sampling);
    checked.map_err(of_strategy)?;
    let memory = set.others.memory_for(&**strategy)?;
    let program = Player::new(Arc::clone(strategy), Vec::new()).with_memory(memory);
    let nobody = Partners::default();
    play_by(recipe, policy, set, tasks, Some(Playing { program: &program, others: &nobody }))
}

fn of_strategy(error: SettingError) -> RunError {
    RunError::Refused(format!("eval.strategy.{error}"))
}

/// The strategy by which evaluations of `recipe` are played, if there is one.
///
/// # Errors
/// If it is not made yet, or can't play them.
pub(crate) fn strategy_of(recipe: &Recipe) -> Result<Option<Arc<dyn Strategy>>, RunError> {
    strategy_config(recipe)?.map(|config| built(&config)).transpose()
}

/// The strategy with these settings.
///
/// # Errors
/// If one of them is wrong.
pub(crate) fn built(config: &StrategyConfig) -> Result<Arc<dyn Strategy>, RunError> {
    config.build().map_err(of_strategy)
}

/// Its settings.
///
/// # Errors
/// If it is not made yet, or can't play them.
pub(crate) fn strategy_config(recipe: &Recipe) -> Result<Option<StrategyConfig>, RunError> {
    let Some(strategy) = &recipe.eval.strategy else { return Ok(None) };
    if let Some(named) = strategy.named() {
        return Ok(Some(named));
    }
    let file = match &strategy.made {
        Some(file) => file.clone(),
        None => stages::file_of(recipe, StageUse::Strategy)?,
    };
    let section = StrategySection::read(&file)?;
    let refused = |(key, problem)| RunError::Refused(format!("{}: {key}: {problem}", file.display()));
    section.check_evaluations(recipe).map_err(refused)?;
    Ok(Some(StrategyConfig { strategy: section.strategy, config: section.config }))
}

/// As [`play`], plainly or by a program.
///
/// # Errors
/// As [`play`].
pub(crate) fn play_by(
    recipe: &Recipe,
    policy: &mut dyn Policy,
    set: &EvalSet,
    tasks: Range<usize>,
    program: Option<Playing<'_>>,
) -> Result<Vec<Episode>, RunError> {
    let scene = Scene {
        generator: &*set.generator,
        others: &set.others,
        turns_max: recipe.rollout.turns_max,
        // A held-out task that does not fit the context counts as a failure; it does not end a long run.
        overlong: Overlong::Drop,
        sampling: set.sampling.clone(),
        rollouts: set.rollouts,
        // Evaluation never uses hints.
        chat: None,
        seeds: Draws::Evaluation.place(recipe.eval.seed, set.place(), tasks.start as u64),
        progress: 0.0,
        program,
    };
    let tasks = &set.tasks[tasks];
    let plan: Box<dyn RolloutPlan> = if recipe.eval.draft { plan_of(recipe)? } else { Box::new(Plain) };
    let mut played = scene.play(policy, &*plan, tasks)?;
    if recipe.eval.cycle && set.can_be_turned() {
        played = scene.go_on(policy, &CycleCheck, tasks, played)?;
    }
    Ok(played.into_iter().flat_map(answers).collect())
}

/// The answers to a task. The tokens of drafts count for the first answer that read them.
fn answers(played: Played) -> Vec<Episode> {
    let (mut answers, mut drafts): (Vec<Episode>, Vec<Episode>) = (Vec::new(), Vec::new());
    for spawned in played {
        let role = spawned.role;
        let is_draft = role == Role::Thought || role.phase() == Phase::Upstream;
        if !is_draft && !role.is_member() {
            continue;
        }
        let episode = Arc::unwrap_or_clone(spawned.episode);
        if is_draft { drafts.push(episode) } else { answers.push(episode) }
    }
    if let Some(first) = answers.first_mut() {
        first.traces.extend(drafts.into_iter().flat_map(|draft| draft.traces));
    }
    answers
}
