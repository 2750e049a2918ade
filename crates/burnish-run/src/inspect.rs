//! Looking at a policy or at a run without training: sampled episodes, stored ones, evaluations.

use std::path::{Path, PathBuf};

use burnish_core::{Episode, Task};
use burnish_engine::LocalPolicy;
use burnish_env::Generator;
use burnish_env::rollout::{self, Plan, SeedPlace};
use burnish_model::Loading;
use burnish_tensor::Device;
use burnish_train::checkpoint;

use crate::RunError;
use crate::evaluate::{Evaluation, evaluate};
use crate::journal::{EpisodeKind, Journal};
use crate::policy::LoadedPolicy;
use crate::recipe::{PolicySection, Recipe, Source};
use crate::stages;
use crate::tasks::Tasks;
use crate::text::{shell_path, shell_word};

/// An episode, ready to be shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The task.
    pub task: Task,
    /// What happened.
    pub episode: Episode,
    /// The task drawn, with the effect of the last answer.
    pub drawing: String,
    /// Its advantage, where it was trained on.
    pub advantage: Option<f64>,
}

/// A recipe and the directory of the policy to look at.
pub struct Target {
    recipe: Recipe,
    policy_dir: PathBuf,
    /// Updates that the weights have had in their run; 0 for a policy from elsewhere.
    version: u64,
}

impl Target {
    /// `path` is a recipe, whose `policy.path` is taken, or a run directory, whose checkpoint of `step` (by
    /// default the newest) is taken.
    ///
    /// # Errors
    /// If the recipe is wrong or there is no such checkpoint.
    pub fn open(path: &Path, overrides: &[String], step: Option<u64>) -> Result<Self, RunError> {
        if !path.is_dir() {
            let mut recipe = Recipe::read(path, overrides)?;
            let changes = overrides.iter().map(|change| format!(" {}", shell_word(change)));
            let train = format!("burnish train {}{}", shell_path(path), changes.collect::<String>());
            let made = stages::made(&mut recipe, &train)?;
            let policy_dir = made.or_else(|| recipe.policy.path.clone()).ok_or_else(|| {
                RunError::Refused(format!("{}: gives no `policy.path` to look at", path.display()))
            })?;
            return Ok(Target { recipe, policy_dir, version: 0 });
        }
        let recipe = Recipe::resolve(&Source::read(&path.join(crate::run_dir::RECIPE), overrides)?)?;
        let (policy_dir, version) = checkpoint_of(path, step)?;
        Ok(Target { recipe, policy_dir, version })
    }

    /// Where the policy is.
    pub fn policy_dir(&self) -> &Path {
        &self.policy_dir
    }

    fn load(&self) -> Result<LoadedPolicy, RunError> {
        burnish_tensor::set_threads(self.recipe.run.threads);
        let device = Device::open(&self.recipe.device)?;
        Ok(LoadedPolicy::load(&self.policy_dir, &self.recipe.policy.sampling())?.on(&device))
    }

    /// Evaluates on the recipe's held-out tasks: those of the main evaluation, or of the one of `[[eval.also]]` called
    /// `name`.
    ///
    /// # Errors
    /// If the policy or the tasks can't be used, or no evaluation is called so.
    pub fn evaluate(&self, name: Option<&str>) -> Result<Evaluation, RunError> {
        let tasks = Tasks::make(&self.recipe, false)?;
        evaluate(&self.recipe, &self.load()?, self.version, tasks.evaluation(name)?)
    }

    /// Samples one episode of each of `count` held-out tasks, at the temperature of training.
    ///
    /// # Errors
    /// If the policy or the tasks can't be used.
    pub fn sample(&self, count: usize) -> Result<Vec<Shown>, RunError> {
        let recipe = &self.recipe;
        let tasks = Tasks::make(recipe, false)?;
        let set = tasks.main();
        let chosen: Vec<Task> = set.tasks.iter().take(count).cloned().collect();
        let policy = self.load()?;
        let mut local =
            LocalPolicy::new(&policy.model, &policy.chat, self.version).with_limits(recipe.rollout.limits());
        let episodes = rollout::play(
            &mut local,
            &Plan {
                generator: &*set.generator,
                tasks: &chosen,
                rollouts: 1,
                sampling: &recipe.rollout.sampling(),
                turns_max: recipe.rollout.turns_max,
                overlong: recipe.rollout.overlong,
                openings: &[],
                seeds: SeedPlace { run: recipe.run.seed, stage: 0, step: 0, task_offset: 0 },
            },
        )?;
        Ok(chosen
            .into_iter()
            .zip(episodes)
            .map(|(task, episode)| shown(&*set.generator, task, episode, None))
            .collect())
    }
}

/// The checkpoint of a run after `step`, by default the newest, with the number of its updates.
fn checkpoint_of(run: &Path, step: Option<u64>) -> Result<(PathBuf, u64), RunError> {
    let checkpoints = run.join(crate::run_dir::CHECKPOINTS);
    let checkpoint = match step {
        Some(step) => checkpoint::Checkpoint::open(&checkpoints.join(format!("step_{step}")))?,
        None => checkpoint::latest(&checkpoints)?
            .ok_or_else(|| RunError::Refused(format!("{} has no checkpoint yet", run.display())))?,
    };
    Ok((checkpoint.path().to_owned(), checkpoint.updates()))
}

/// A policy on disk.
pub(crate) struct FoundPolicy {
    /// The model directory.
    pub(crate) dir: PathBuf,
    /// How it is loaded to be sampled from.
    pub(crate) loading: Loading,
    /// The step of the run that it is from; 0 of a model directory.
    pub(crate) version: u64,
    /// What its run computes on.
    pub(crate) device: String,
}

/// The policy in `path`, a model directory or a run directory: where it is, how it is loaded to be sampled from, and
/// how many updates it has had in its run.
///
/// # Errors
/// If it is neither, or the run has no such checkpoint.
pub(crate) fn policy_of(path: &Path, step: Option<u64>) -> Result<FoundPolicy, RunError> {
    let recipe = path.join(crate::run_dir::RECIPE);
    if recipe.is_file() {
        let recipe = Recipe::resolve(&Source::read(&recipe, &[])?)?;
        let (dir, version) = checkpoint_of(path, step)?;
        return Ok(FoundPolicy { dir, loading: recipe.policy.sampling(), version, device: recipe.device });
    }
    let is_model = ["config.json", "adapter_config.json"].iter().any(|file| path.join(file).is_file());
    let path_shown = path.display();
    if !is_model {
        return Err(RunError::Refused(format!(
            "--policy {path_shown}: is neither a model directory (no config.json or adapter_config.json) nor a run \
             directory (no recipe.toml)"
        )));
    }
    if let Some(step) = step {
        return Err(RunError::Refused(format!(
            "--step {step}: {path_shown} is a model directory, which has no steps; give a run directory"
        )));
    }
    let loading = PolicySection::default().sampling();
    Ok(FoundPolicy { dir: path.to_owned(), loading, version: 0, device: "cpu".to_owned() })
}

/// Stored episodes of a run of one kind: of `step`, or of the newest step that has any.
///
/// # Errors
/// If there is no run in `dir`, or nothing is stored for the step.
pub fn stored(
    dir: &Path,
    step: Option<u64>,
    kind: &EpisodeKind,
    count: usize,
) -> Result<Vec<Shown>, RunError> {
    let recipe = Recipe::resolve(&Source::read(&dir.join(crate::run_dir::RECIPE), &[])?)?;
    let journal = Journal::open(&crate::run_dir::journal_in(dir))?;
    let recorded: Vec<u64> =
        journal.steps()?.iter().filter(|entry| entry.kind == *kind).map(|entry| entry.step).collect();
    let nothing = |what: String| {
        let known = match (recorded.first(), recorded.last()) {
            (Some(first), Some(last)) => format!("steps {first} to {last} have some"),
            _ if *kind == EpisodeKind::Train => "those of its evaluations are shown with --eval".to_owned(),
            _ => "it has none at all".to_owned(),
        };
        RunError::Refused(format!("{} has no {kind} episodes{what}; {known}", dir.display()))
    };
    let step = match step {
        Some(step) if recorded.contains(&step) => step,
        Some(step) => return Err(nothing(format!(" of step {step}"))),
        None => *recorded.last().ok_or_else(|| nothing(String::new()))?,
    };
    let main = recipe.evaluation();
    let (env, config) = match kind {
        EpisodeKind::Train => (&*recipe.env.id, &recipe.env.config),
        EpisodeKind::Eval => (main.env, main.config),
        EpisodeKind::Also(name) => {
            let further = recipe.further_evaluations().into_iter().find(|plan| plan.name == Some(name));
            further.map_or((main.env, main.config), |plan| (plan.env, plan.config))
        }
    };
    let generator = burnish_env::build(env, config)?;
    let episodes = journal.episodes(step, kind.clone())?;
    Ok(episodes
        .into_iter()
        .take(count)
        .map(|stored| shown(&*generator, stored.task, stored.episode, stored.advantage))
        .collect())
}

/// Draws an episode with the effect of its last answer.
pub(crate) fn shown(
    generator: &dyn Generator,
    task: Task,
    episode: Episode,
    advantage: Option<f64>,
) -> Shown {
    let answer = episode.answers.last().map(|answer| answer.content.as_str());
    let drawing = generator.draw(&task, answer);
    Shown { task, episode, drawing, advantage }
}
