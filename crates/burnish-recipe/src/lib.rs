//! Recipes: everything that decides a run, in one TOML file.
//!
//! [`Recipe`] is the whole schema. It is read strictly ([`Recipe::read`]): an unknown key, a wrong type, a value out
//! of range or a combination that makes no sense is an error that names the key and its line before anything starts.
//! Paths are relative to the current directory, and `~` is the home directory ([`expand`]).

mod asked;
mod blame;
pub mod bounds;
mod check;
mod critic;
mod data;
mod defaults;
mod difference;
mod dynamic_sampling;
mod engine;
mod env_config;
mod eval_strategy;
mod evaluations;
mod extractor;
mod foreign;
mod judge;
mod latent;
mod make;
mod memory;
mod metrics;
mod optimizer;
pub mod paths;
pub mod plain_words;
mod policy;
mod preset;
pub mod renamed;
mod rounds;
mod sampling;
mod source;
mod span;
pub mod split;
mod stage_use;
mod strategy;
pub mod supply;
mod task_source;
mod teacher;
mod too_short;
mod train;
mod trainer;
mod user;
mod weights;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_remote::endpoint::EndpointConfig;
use burnish_remote::engine::EngineConfig;
use burnish_remote::tinker::TinkerConfig;
use burnish_rl::LossConfig;
use burnish_rl::advantage::AdvantageConfig;
use burnish_rl::gate::GateConfig;
use burnish_rl::overlong::OverlongBuffer;
use burnish_rl::replay::ReplayConfig;
use burnish_rl::rules::{self, Setup};
use burnish_rl::selector::SelectionConfig;
use burnish_systems::PlanConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::split::Split;

pub use bounds::TASKS_MAX;
pub use burnish_reason::MakeKind;
pub use critic::CriticSection;
pub use data::{DataSection, Decontaminate, Demonstrations, OverlapAction, TooLong};
pub use difference::{Difference, all_differences, differences, timeless};
pub use dynamic_sampling::{DynamicSampling, FilterMetric};
pub use eval_strategy::EvalStrategy;
pub use evaluations::EvalSpec;
pub use evaluations::ExtraEvaluation;
pub use extractor::ExtractorSection;
pub use judge::JudgeSection;
pub use judge::PLACES;
pub use latent::{Brevity, LATENT_BREVITY, LATENT_FORMAT, LATENT_USE, LatentPath, LatentSection};
pub use make::{Keep, MakeSection, SuccessRate};
pub use metrics::MetricsSection;
pub use optimizer::OptimizerSection;
pub use paths::expand;
pub use policy::{ComputeType, PolicySection, StageRecipe, TextTokens};
pub use rounds::{RoundStage, RoundsSection};
pub use sampling::{EvalSection, RolloutSection};
pub use source::Source;
pub use span::SpanSection;
pub use stage_use::StageUse;
pub use strategy::{InPlace, StrategySection};
pub use task_source::{StageFile, TaskSource};
pub use teacher::{TeacherContext, TeacherSection};
pub use train::{ActivationCheckpointing, Method, TrainSection};
pub use user::UserSection;
pub use weights::{Calibration, Ingredient, Place, WeightsSection};

/// What is wrong with a recipe, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}{}", help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default())]
pub struct RecipeError {
    /// The file and line, or the override.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub help: Option<String>,
}

impl RecipeError {
    fn file(file: &str, line: Option<usize>, problem: String) -> Self {
        let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
        RecipeError { place, problem, help: None }
    }
}

/// Everything that decides a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Id of one of [`burnish_rl::presets`]: another framework's settings of `[loss]` and `[advantage]`. What the
    /// recipe itself sets wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Combinations to allow that would otherwise be refused, by the ids that the errors name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// The device that computes: `"cpu"`, or an NVIDIA GPU such as `"cuda:0"`.
    #[serde(default = "cpu")]
    pub device: String,
    /// Where the run is stored (`runs/NAME` for a recipe `NAME.toml`), and what makes it repeatable.
    pub run: RunSection,
    /// Which policy is trained.
    #[serde(default)]
    pub policy: PolicySection,
    /// The surgery that makes the policy, if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsSection>,
    /// How the policy learns, and for how long.
    pub train: TrainSection,
    /// What the run makes out of its training episodes, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub make: Option<MakeSection>,
    /// The notes that programs read, if any do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<StageFile>,
    /// Which environment is played and evaluated; not needed to learn from rows.
    #[serde(default, skip_serializing_if = "EnvSection::is_absent")]
    pub env: EnvSection,
    /// How episodes are sampled (GRPO).
    #[serde(default)]
    pub rollout: RolloutSection,
    /// What samples, if not this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineConfig>,
    /// What trains and samples, if not this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainer: Option<TinkerConfig>,
    /// Answers go on in latent steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<LatentSection>,
    /// Which tasks are played (GRPO).
    #[serde(default)]
    pub selection: SelectionConfig,
    /// Episodes that are sampled in addition, or that start differently (GRPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanConfig>,
    /// Who grades each sampled token, if the loss needs a teacher (GRPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<TeacherSection>,
    /// How reward components become one number (GRPO).
    #[serde(default)]
    pub reward: RewardSection,
    /// How rewards become advantages (GRPO).
    #[serde(default)]
    pub advantage: AdvantageConfig,
    /// The critic, if the advantages need values (PPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic: Option<CriticSection>,
    /// Who compares answers, if the advantages come from pairs (GRPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeSection>,
    /// The model that copies final answers out of responses that mark none, if the environment asks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extractor: Option<ExtractorSection>,
    /// Who plays the simulated user, if the environment has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserSection>,
    /// Named spans of answers, which are found by marks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanSection>,
    /// The loss (GRPO).
    #[serde(default)]
    pub loss: LossConfig,
    /// Which earlier members are trained on again (GRPO); without this table, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayConfig>,
    /// Whether an update is made (GRPO); without this table, all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateConfig>,
    /// What is imitated (SFT), and how training rows are compared with evaluation rows.
    #[serde(default)]
    pub data: DataSection,
    /// The optimiser.
    #[serde(default)]
    pub optimizer: OptimizerSection,
    /// Evaluation on held-out tasks.
    #[serde(default)]
    pub eval: EvalSection,
    /// Recipes that are run again and again before this one; without this table, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<RoundsSection>,
    /// When checkpoints are saved to resume from.
    #[serde(default)]
    pub checkpoint: CheckpointSection,
    /// What is logged.
    #[serde(default)]
    pub metrics: MetricsSection,
    /// Data files that have moved since the run began: their present path, and the path by which the run's tasks know
    /// them.
    #[serde(skip)]
    pub moved: BTreeMap<String, String>,
}

/// What a recipe is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// To train, with evaluations in between.
    Training,
    /// To evaluate an existing policy.
    Evaluation,
}

/// `[run]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// The run directory. The run creates it, and refuses one that already holds a run.
    pub dir: PathBuf,
    /// Where the runs that make the policy of `policy.from` are stored.
    #[serde(default = "cache")]
    pub cache: PathBuf,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// Number of threads; 0 takes every core.
    #[serde(default)]
    pub threads: usize,
}

fn cache() -> PathBuf {
    "runs/cache".into()
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// `[env]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvSection {
    /// Id of the environment; `burnish env list` shows them.
    pub id: String,
    /// Number of different tasks to train on, or a file of them.
    #[serde(default = "tasks")]
    pub tasks: TaskSource,
    /// Which part of these tasks is trained on (`docs/split.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The environment's own configuration; `burnish env show ID` shows the keys.
    #[serde(default = "empty")]
    pub config: Value,
    /// The recipe whose run makes the configuration to play in, in place of `config` (`docs/stages.md`). Held-out tasks
    /// stay those of `eval.config`, or of `config` as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_from: Option<StageRecipe>,
    /// The place of what that recipe made, once it is made.
    #[serde(skip)]
    pub config_made: Option<PathBuf>,
}

fn tasks() -> TaskSource {
    TaskSource::Count(2048)
}

impl EnvSection {
    /// Is there no environment?
    pub fn is_absent(&self) -> bool {
        self.id.is_empty()
    }
}

impl Default for EnvSection {
    /// No environment.
    fn default() -> Self {
        let (config_from, config_made) = (None, None);
        EnvSection {
            id: String::new(),
            tasks: tasks(),
            split: None,
            config: empty(),
            config_from,
            config_made,
        }
    }
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

/// `[reward]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSection {
    /// Weight of each component; components that are not named have weight 1.
    pub weights: BTreeMap<String, f64>,
    /// Control experiment: shuffle the rewards within each group, so that nothing can be learnt.
    pub shuffle_within_groups: bool,
    /// Penalty for answers near the length limit: a component named `overlong`, in training only.
    pub overlong_buffer: OverlongBuffer,
    /// A model that judges whole conversations: a component named `reward_model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<RewardModelSection>,
    /// A model that tells how likely a goal is: a component named `goal_information`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalSection>,
}

/// The component of the reward that `[reward.model]` gives.
pub const REWARD_MODEL: &str = "reward_model";

/// `[reward.model]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardModelSection {
    /// A reward model with the policy's tokenizer: a directory, or a run with `train.method = "reward"`.
    pub path: PathBuf,
}

/// The component of the reward that `[reward.goal]` gives.
pub const GOAL_INFORMATION: &str = "goal_information";

/// `[reward.goal]`: a frozen model, which is not trained and does not play, says how likely it takes the goal of a task to be
/// before an episode and after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalSection {
    /// The model: a directory, or a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Or a server that gives log-probs of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// What log-probs of a goal's tokens become.
    #[serde(default)]
    pub over: GoalTokens,
}

/// What the log-probs of a goal's tokens become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalTokens {
    /// Their mean, so that long goals and short ones have one scale.
    #[default]
    Mean,
    /// Their sum: the log-prob of the goal.
    Sum,
}

/// `[checkpoint]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSection {
    /// Steps between checkpoints; 0 saves only at the end and when interrupted.
    pub every: u64,
    /// How many of the newest checkpoints to keep.
    pub keep: usize,
    /// The number of an evaluation by which a checkpoint is the best one, which is kept too, as `checkpoints/best`:
    /// such as `"loss"` (the less, the better) or `"success"` (the more, the better).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        CheckpointSection { every: 20, keep: 2, best: None }
    }
}

impl Recipe {
    /// Reads a recipe file, applies `key.sub=value` overrides, checks everything that can be checked before the
    /// start, and fills in the environments' defaults.
    ///
    /// # Errors
    /// Names the key, its line or override, and what to do.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, RecipeError> {
        Recipe::resolve(&Source::read(path, overrides)?)
    }

    /// As [`Recipe::read`], from a source that was already read.
    ///
    /// # Errors
    /// As [`Recipe::read`].
    pub fn resolve(source: &Source) -> Result<Self, RecipeError> {
        Recipe::resolve_for(source, Use::Training)
    }

    /// As [`Recipe::resolve`], but checks only the data files that `what` needs.
    pub fn resolve_for(source: &Source, what: Use) -> Result<Self, RecipeError> {
        Recipe::as_written(source, what).map_err(|error| blame::settled(source, what, error))
    }

    /// As [`Recipe::resolve_for`], with errors placed at the keys that they name.
    fn as_written(source: &Source, what: Use) -> Result<Self, RecipeError> {
        let mut source = defaults::under(preset::under(source)?, what)?;
        paths::expand_all(&mut source)?;
        let mut recipe: Recipe = source.decode()?;
        recipe.loss.further = burnish_systems::FURTHER;
        check::check(&mut recipe, &source, what)?;
        Ok(recipe)
    }

    /// Warnings for a person: senseless combinations that this recipe or its preset allows, and settings for which
    /// the run is too short.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = too_short::warnings(self);
        warnings.extend(engine::note(self));
        if self.rollout.grammar.is_some() && self.eval.grammar.is_none() && self.eval.tasks > 0 {
            let note = "`rollout.grammar` holds the answers of training alone: without `eval.grammar`, evaluations are free";
            warnings.push(note.into());
        }
        if self.train.method == Method::Grpo {
            let broken = rules::broken(self.setup(&self.loss, &self.advantage));
            warnings
                .extend(broken.map(|rule| format!("`{}` {} [{}, allowed]", rule.key, rule.reason, rule.id)));
        }
        warnings
    }

    /// Are training tasks played, to learn from them or to make something of them?
    pub fn plays(&self) -> bool {
        self.train.method == Method::Grpo || self.make.is_some()
    }

    /// Whether somebody samples who rounds differently from whoever trains: an engine, or the sampler of a server.
    fn samples_elsewhere(&self) -> bool {
        self.engine.is_some() || self.trainer.is_some()
    }

    /// The input of the rules, with these tables in place of the recipe's.
    fn setup<'a>(&self, loss: &'a LossConfig, advantage: &'a AdvantageConfig) -> Setup<'a> {
        let rollout = &self.rollout;
        let (policy_lag, drops_ties) = (rollout.policy_lag, rollout.dynamic_sampling.is_on());
        let alters_sampling = self.rollout_sampling().check_on_policy().is_err();
        let has_engine = self.samples_elsewhere();
        Setup { policy_lag, drops_ties, alters_sampling, has_engine, ..Setup::on_policy(loss, advantage) }
    }

    /// The recipe as TOML, complete with defaults, as a run directory stores it.
    ///
    /// # Errors
    /// If a value has no TOML form.
    pub fn to_toml(&self) -> Result<String, RecipeError> {
        to_toml(self, "recipe")
    }
}

/// As TOML; `place` names it in errors.
fn to_toml(whole: &impl Serialize, place: &str) -> Result<String, RecipeError> {
    let failed = |error: String| RecipeError {
        place: place.into(),
        problem: format!("can't be written as TOML: {error}"),
        help: None,
    };
    let mut value = serde_json::to_value(whole).map_err(|error| failed(error.to_string()))?;
    tidy(&mut value);
    toml_edit::ser::to_string_pretty(&value).map_err(|error| failed(error.to_string()))
}

/// TOML has no null; an absent key means the same. A number of 32 bits has the digits that tell it from its neighbours: 0.8,
/// not 0.800000011920929.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(table) => {
            table.retain(|_, inner| !inner.is_null());
            table.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) if number.is_f64() => {
            let wide = number.as_f64().unwrap_or_default();
            let short = wide as f32;
            if f64::from(short) == wide
                && let Ok(digits) = short.to_string().parse::<f64>()
            {
                *value = digits.into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
