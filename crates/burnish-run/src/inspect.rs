//! Looks at a policy or a run without training: sampled episodes, stored episodes, evaluations.

use std::path::{Path, PathBuf};

use burnish_core::{Episode, Task};
use burnish_env::Generator;
use burnish_env::rollout::{RolloutSpec, SeedPlace, Spawn};
use burnish_model::Loading;
use burnish_remote::endpoint::EndpointConfig;
use burnish_tensor::Device;
use burnish_train::checkpoint::{self, Checkpoint, Extent};
use serde_json::Value;

use crate::RunError;
use crate::model_path;
use crate::online::supply::{saved_library, share_library};
use crate::policy::{LoadedPolicy, named_template};
use crate::stages;
use crate::stored::{self, Found};
use crate::tasks::Tasks;
use burnish_recipe::paths::ENV_PATH;
use burnish_recipe::{PolicySection, Recipe, Source, StageUse, Use};
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};
use burnish_rundir::text::{shell_path, shell_word};

/// An episode, ready to be displayed.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The task.
    pub task: Task,
    /// What happened.
    pub episode: Episode,
    /// The task as the environment renders it, with the effect of the last answer.
    pub drawing: String,
    /// Its weighted reward, if it could be judged.
    pub reward: Option<f64>,
    /// Its advantage, if it was trained on.
    pub advantage: Option<f64>,
    /// Index of the task among those of the step.
    pub task_index: usize,
    /// The step of the run that it belongs to; `None` if it was sampled just now.
    pub step: Option<u64>,
}

/// A recipe and the policy to look at.
pub struct Target {
    recipe: Recipe,
    player: Player,
    /// The policy that the run started from, if this is the policy of a run.
    start: Option<PathBuf>,
    /// The recipe's chat template, if this is not the policy of a run: checkpoints have their own.
    template: Option<PathBuf>,
    notes: Vec<String>,
}

/// The policy that plays.
pub(crate) enum Player {
    /// A model directory.
    Model {
        dir: PathBuf,
        /// Number of updates that the weights have had in their run; 0 for a policy that is of no run.
        version: u64,
    },
    /// A server.
    Endpoint(EndpointConfig),
}

impl Target {
    /// Opens `path`: a recipe, with its `policy.path`, or a run directory, with its checkpoint after `step` (default:
    /// the newest).
    ///
    /// # Errors
    /// If the recipe is wrong or there is no such checkpoint.
    pub fn open(path: &Path, overrides: &[String], step: Option<u64>) -> Result<Self, RunError> {
        if !path.is_dir() {
            let mut recipe = recipe_in(path, overrides)?;
            let changes = overrides.iter().map(|change| format!(" {}", shell_word(change)));
            let train = format!("burnish train {}{}", shell_path(path), changes.collect::<String>());
            let made = stages::made(&mut recipe, &train)?;
            let policy_dir = made.or_else(|| recipe.policy.path.clone()).ok_or_else(|| {
                RunError::Refused(format!("{}: gives no `policy.path` to look at", path.display()))
            })?;
            let player = Player::Model { dir: policy_dir, version: 0 };
            let template = recipe.policy.chat_template.clone();
            return Ok(Target { recipe, player, start: None, template, notes: Vec::new() });
        }
        let Found { recipe, mut notes } = stored::evaluate(path, overrides)?;
        let Saved { dir, version, notes: of_checkpoint } = checkpoint_of(path, step)?;
        notes.extend(of_checkpoint);
        let start = start_of(path, &recipe);
        Ok(Target { recipe, player: Player::Model { dir, version }, start, template: None, notes })
    }

    /// As [`Target::open`], with another policy than that of the recipe or run: a model directory, or a run directory
    /// with its checkpoint after `step` (default: the newest).
    ///
    /// # Errors
    /// If the recipe is wrong, or there is no policy.
    pub fn with_policy(
        path: &Path,
        overrides: &[String],
        policy: &Path,
        step: Option<u64>,
    ) -> Result<Self, RunError> {
        let Found { recipe, notes } = recipe_of(path, overrides)?;
        let mut target = Target::playing(recipe, policy, step)?;
        target.notes.splice(0..0, notes);
        Ok(target)
    }

    /// As [`Target::with_policy`], with a recipe that was already read.
    ///
    /// # Errors
    /// If there is no policy.
    pub fn playing(recipe: Recipe, policy: &Path, step: Option<u64>) -> Result<Self, RunError> {
        let FoundPolicy { dir, version, start, notes, .. } = policy_of(policy, step)?;
        let template = recipe.policy.chat_template.clone().filter(|_| !is_run(policy));
        Ok(Target { recipe, player: Player::Model { dir, version }, start, template, notes })
    }

    /// As [`Target::open`], with a policy on a server.
    ///
    /// # Errors
    /// If the recipe is wrong.
    pub fn asking(path: &Path, overrides: &[String], endpoint: EndpointConfig) -> Result<Self, RunError> {
        let Found { recipe, notes } = recipe_of(path, overrides)?;
        Ok(Target { notes, ..Target::served(recipe, endpoint) })
    }

    /// As [`Target::asking`], with a recipe that was already read.
    pub fn served(recipe: Recipe, endpoint: EndpointConfig) -> Self {
        let player = Player::Endpoint(endpoint);
        Target { recipe, player, start: None, template: None, notes: Vec::new() }
    }

    /// What to tell a person about the run: what is damaged, and what is no longer at its old place.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The recipe that decides how the policy plays.
    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The policy that plays.
    pub(crate) fn player(&self) -> &Player {
        &self.player
    }

    /// The file of the chat template to use instead of the policy's own.
    pub(crate) fn template(&self) -> Option<&Path> {
        self.template.as_deref()
    }

    /// A text that says where the policy is.
    pub fn policy_shown(&self) -> String {
        match &self.player {
            Player::Model { dir, .. } => dir.display().to_string(),
            Player::Endpoint(endpoint) => format!("{} at {}", endpoint.model, endpoint.url),
        }
    }

    /// Loads the policy.
    ///
    /// # Errors
    /// If it is on a server or can't be loaded.
    pub(crate) fn load(&self) -> Result<LoadedPolicy, RunError> {
        let Player::Model { dir, .. } = &self.player else {
            return Err(RunError::Refused("an endpoint is asked and can't be loaded".into()));
        };
        burnish_tensor::set_threads(self.recipe.run.threads);
        let device = Device::open(&self.recipe.device)?;
        let loading = self.recipe.policy.sampling();
        let policy = match &self.start {
            Some(start) => LoadedPolicy::load_over(dir, Some(start), &loading)?,
            None => LoadedPolicy::begin(dir, named_template(self.template())?, &loading)?,
        };
        Ok(policy.on(&device))
    }

    /// Lets environments read the library of skills that the policy's run had when the policy was saved, if it had one.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn share_library(&self, tasks: &Tasks) -> Result<(), RunError> {
        let Player::Model { dir, .. } = &self.player else { return Ok(()) };
        let Ok(checkpoint) = Checkpoint::open(dir) else { return Ok(()) };
        if let Some(library) = saved_library(&checkpoint.state()["stage"])? {
            share_library(&library, tasks);
        }
        Ok(())
    }

    /// Refuses to evaluate if no tasks are held out.
    ///
    /// # Errors
    /// Names the key.
    pub(crate) fn refuse_nothing_held_out(&self) -> Result<(), RunError> {
        if self.holds_out() {
            return Ok(());
        }
        let problem = if self.recipe.env.is_absent() {
            "env.id: the recipe has no environment to evaluate in; `burnish metrics RUN` has the loss on held-out rows, and \
             `burnish eval gsm8k --policy RUN` evaluates on a benchmark"
        } else {
            "eval.tasks: is 0, so there is nothing to evaluate on; say how many, as in `eval.tasks=200`"
        };
        Err(RunError::Refused(problem.into()))
    }

    /// Samples one episode for each of `count` held-out tasks, at the training temperature. If the recipe holds none
    /// out, uses the first training tasks.
    ///
    /// # Errors
    /// If the policy or the tasks can't be used.
    pub fn sample(&self, count: usize) -> Result<Vec<Shown>, RunError> {
        let recipe = &self.recipe;
        let tasks = Tasks::make(recipe, !self.holds_out())?.with_others(recipe)?;
        let (generator, from) = match tasks.main().filter(|_| self.holds_out()) {
            Some(main) => (&*main.generator, &main.tasks),
            None => (tasks.generator()?, &tasks.train),
        };
        let chosen: Vec<Task> = from.iter().take(count).cloned().collect();
        self.share_library(&tasks)?;
        let policy = self.load()?;
        tasks.others.check(&policy.chat.tokenizer)?;
        let mut local = policy.sampler(self.version(), recipe.rollout.limits());
        let seeds = SeedPlace { run: recipe.run.seed, stage: 0, step: 0, task_offset: 0 };
        let spawns = Spawn::of_tasks(&chosen, 1, &recipe.rollout_sampling(), seeds);
        let (turns_max, overlong) = (recipe.rollout.turns_max, recipe.rollout.overlong);
        let spec = RolloutSpec::new(generator, &spawns, turns_max, overlong);
        let episodes = tasks.others.play(&mut local, &spec)?;
        Ok(chosen
            .into_iter()
            .zip(episodes)
            .enumerate()
            .map(|(task_index, (task, episode))| {
                let (reward, drawing) =
                    (episode.verdict.total(&recipe.reward.weights), rendering(generator, &task, &episode));
                Shown { task, episode, drawing, reward, advantage: None, task_index, step: None }
            })
            .collect())
    }

    fn version(&self) -> u64 {
        match &self.player {
            Player::Model { version, .. } => *version,
            Player::Endpoint(_) => 0,
        }
    }

    /// Whether the recipe holds tasks out for evaluation.
    pub fn holds_out(&self) -> bool {
        self.recipe.eval.tasks > 0
    }
}

/// The recipe in a file or of a run.
///
/// # Errors
/// If it is wrong.
fn recipe_of(path: &Path, overrides: &[String]) -> Result<Found, RunError> {
    if path.is_dir() {
        return stored::evaluate(path, overrides);
    }
    Ok(Found { recipe: recipe_in(path, overrides)?, notes: Vec::new() })
}

/// A recipe file. One without `[train]` is for an evaluation alone.
fn recipe_in(path: &Path, overrides: &[String]) -> Result<Recipe, RunError> {
    let source = Source::read(path, overrides)?;
    let what = if source.get("train").is_some() { Use::Training } else { Use::Evaluation };
    Ok(Recipe::resolve_for(&source, what)?)
}

pub(crate) fn is_run(path: &Path) -> bool {
    path.join(burnish_rundir::run_dir::RECIPE).is_file()
}

/// The policy that the run in `path` started from, which may hold an adapter's base.
fn start_of(path: &Path, recipe: &Recipe) -> Option<PathBuf> {
    let kept = Some(path.join(burnish_rundir::run_dir::START))
        .filter(|_| StageUse::kept(recipe).contains(&StageUse::Policy));
    kept.or_else(|| recipe.policy.path.clone())
}

/// An intact checkpoint.
struct Saved {
    dir: PathBuf,
    /// Updates that the weights have had.
    version: u64,
    /// What to tell a person.
    notes: Vec<String>,
}

/// The checkpoint of a run after `step`; by default, the newest intact one.
fn checkpoint_of(run: &Path, step: Option<u64>) -> Result<Saved, RunError> {
    let checkpoints = run.join(burnish_rundir::run_dir::CHECKPOINTS);
    let (checkpoint, notes) = match step {
        Some(step) => {
            let steps = checkpoint::steps(&checkpoints)?;
            if !steps.contains(&step) {
                let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
                return Err(RunError::Refused(format!(
                    "--step {step}: {} has no checkpoint of that step; there are: {}",
                    run.display(),
                    steps.join(", ")
                )));
            }
            let checkpoint = Checkpoint::open(&checkpoints.join(format!("step_{step}")))?;
            checkpoint.verify(Extent::Model)?;
            (checkpoint, Vec::new())
        }
        None => {
            let newest = checkpoint::latest(&checkpoints, Extent::Model)?
                .ok_or_else(|| RunError::Refused(format!("{} has no checkpoint yet", run.display())))?;
            let notes = newest.notes();
            (newest.checkpoint, notes)
        }
    };
    Ok(Saved { dir: checkpoint.path().to_owned(), version: checkpoint.updates(), notes })
}

/// A policy on disk.
pub struct FoundPolicy {
    /// The model directory.
    pub dir: PathBuf,
    /// How to load it for sampling.
    pub loading: Loading,
    /// The step of its run after which it was saved; 0 for a model directory.
    pub version: u64,
    /// The device of its run.
    pub device: String,
    /// The policy that its run started from, if it is of a run.
    pub start: Option<PathBuf>,
    /// What to tell a person.
    pub notes: Vec<String>,
}

/// Finds the policy in `path`, a model directory or a run directory: where it is, how to load it for sampling, and
/// how many updates it has had in its run.
///
/// # Errors
/// If it is neither, or the run has no such checkpoint.
pub fn policy_of(path: &Path, step: Option<u64>) -> Result<FoundPolicy, RunError> {
    find_policy(path, step, "--policy ")
}

/// As [`policy_of`]; errors about the path begin with `option`, the option that it was given with.
pub(crate) fn find_policy(path: &Path, step: Option<u64>, option: &str) -> Result<FoundPolicy, RunError> {
    if is_run(path) {
        let recipe = stored::read(path)?;
        let Saved { dir, version, notes } = checkpoint_of(path, step)?;
        return Ok(FoundPolicy {
            dir,
            loading: recipe.policy.sampling(),
            version,
            start: start_of(path, &recipe),
            device: recipe.device,
            notes,
        });
    }
    let path_shown = path.display();
    let located = model_path::locate(path).map_err(|error| RunError::Refused(format!("{option}{error}")))?;
    if let Some(step) = step {
        return Err(RunError::Refused(format!(
            "--step {step}: {path_shown} is a model directory, which has no steps; give a run directory"
        )));
    }
    let loading = PolicySection::default().sampling();
    let device = "cpu".to_owned();
    let notes = located.note.into_iter().collect();
    Ok(FoundPolicy { dir: located.dir, loading, version: 0, device, start: None, notes })
}

/// The stored episodes of one kind in a run: those of `step`, or of the newest step that has any. Reads only the
/// journal and the recipe, and writes nothing.
///
/// # Errors
/// If there is no run in `dir`, or nothing is stored for the step.
pub fn stored(
    dir: &Path,
    step: Option<u64>,
    kind: &EpisodeKind,
    count: usize,
) -> Result<Vec<Shown>, RunError> {
    let recipe = stored::read(dir)?;
    let journal = Journal::open_to_read(&burnish_rundir::run_dir::journal_in(dir))?;
    let step = recorded_step(dir, &journal, step, kind)?;
    // If tasks are read from files or judged by another program, show the record instead, because neither has to
    // exist any more.
    let (env, config) = environment_of(&recipe, kind);
    let generator = if makes_its_tasks(config) { Some(burnish_env::build(env, config)?) } else { None };
    let episodes = journal.episodes(step, kind.clone())?;
    Ok(episodes
        .into_iter()
        .take(count)
        .map(|StoredEpisode { task, task_index, episode, reward, advantage }| {
            let drawing = match &generator {
                Some(generator) => rendering(&**generator, &task, &episode),
                None => as_recorded(&task, &episode),
            };
            Shown { task, episode, drawing, reward, advantage, task_index, step: Some(step) }
        })
        .collect())
}

/// The step whose episodes of a kind to use: `step`, or the newest that has any.
///
/// # Errors
/// If there are none.
pub(crate) fn recorded_step(
    dir: &Path,
    journal: &Journal,
    step: Option<u64>,
    kind: &EpisodeKind,
) -> Result<u64, RunError> {
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
    match step {
        Some(step) if recorded.contains(&step) => Ok(step),
        Some(step) => Err(nothing(format!(" of step {step}"))),
        None => recorded.last().copied().ok_or_else(|| nothing(String::new())),
    }
}

/// The environment in which episodes of a kind are played, and its configuration.
pub(crate) fn environment_of<'a>(recipe: &'a Recipe, kind: &EpisodeKind) -> (&'a str, &'a Value) {
    let main = recipe.evaluation();
    match kind {
        EpisodeKind::Train => (&*recipe.env.id, &recipe.env.config),
        EpisodeKind::Eval => (main.env, main.config),
        EpisodeKind::Extra(name) => {
            let further = recipe.further_evaluations().into_iter().find(|plan| plan.name == Some(name));
            further.map_or((main.env, main.config), |plan| (plan.env, plan.config))
        }
    }
}

/// Whether an environment with this configuration needs neither files nor a program or a server of somebody's, which may
/// not be there any more.
pub(crate) fn makes_its_tasks(config: &Value) -> bool {
    [ENV_PATH, "command", "url"].iter().all(|key| config.get(*key).is_none())
}

/// The conversation of an episode, in place of a rendering.
fn as_recorded(task: &Task, episode: &Episode) -> String {
    let said = task.prompt.iter().chain(&episode.answers);
    let lines: Vec<String> = said
        .map(|message| {
            let calls = message.tool_calls.iter().map(|call| {
                let arguments = burnish_core::json::text(&call.function.arguments).unwrap_or_default();
                format!(" [{} {arguments}]", call.function.name)
            });
            let calls: String = calls.collect();
            format!("{}: {}{calls}", format!("{:?}", message.role).to_lowercase(), message.content)
        })
        .collect();
    lines.join("\n")
}

/// The task as the environment renders it, with the effect of the episode's last answer.
pub(crate) fn rendering(generator: &dyn Generator, task: &Task, episode: &Episode) -> String {
    generator.draw(task, episode.answers.last().map(|answer| answer.content.as_str()))
}
