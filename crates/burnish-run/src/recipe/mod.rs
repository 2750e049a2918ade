//! Recipes: everything that decides a run, in one TOML file.
//!
//! [`Recipe`] is the whole schema. It is read strictly ([`Recipe::read`]): an unknown key, a wrong type, a value
//! out of range or a combination that makes no sense is an error that names the key and its line, before
//! anything starts. Paths are relative to the current directory.

mod check;
mod critic;
mod difference;
mod dynamic_sampling;
mod evaluations;
mod foreign;
mod judge;
mod metrics;
mod policy;
mod preset;
mod sampling;
mod source;
mod stage_use;
mod teacher;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_data::{Columns, Paths, overlap};
use burnish_rl::LossConfig;
use burnish_rl::advantage::AdvantageConfig;
use burnish_rl::gate::GateConfig;
use burnish_rl::overlong::OverlongBuffer;
use burnish_rl::plan::PlanConfig;
use burnish_rl::rules::{self, Setup};
use burnish_rl::selector::SelectionConfig;
use burnish_train::adamw::AdamwConfig;
use burnish_train::schedule::Decay;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::split::Split;

pub use critic::CriticSection;
pub(crate) use difference::{differences, timeless};
pub use dynamic_sampling::{DynamicSampling, FilterMetric};
pub use evaluations::AlsoSection;
pub(crate) use evaluations::EvalPlan;
pub use judge::JudgeSection;
pub(crate) use judge::PLACES;
pub use metrics::MetricsSection;
pub use policy::{ComputeType, PolicySection, StageRecipe};
pub use sampling::{EvalSection, RolloutSection};
pub use source::Source;
pub(crate) use stage_use::StageUse;
pub use teacher::{TeacherContext, TeacherSection};

/// A recipe is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}{}", help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default())]
pub struct RecipeError {
    /// The file with the line, or the override.
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
    /// Another framework's settings of `[loss]` and `[advantage]`, under what this recipe says itself: an id of
    /// [`burnish_rl::presets`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Combinations that are refused otherwise, by the id in the error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// What computes: `"cpu"`, or an NVIDIA GPU as `"cuda:0"`, which a binary built with `--features cuda` has.
    #[serde(default = "cpu")]
    pub device: String,
    /// Where the run is kept and what makes it repeatable.
    pub run: RunSection,
    /// Which policy is trained.
    pub policy: PolicySection,
    /// What learning does, and for how long.
    pub train: TrainSection,
    /// Which environment is played and evaluated.
    pub env: EnvSection,
    /// How episodes are sampled (GRPO).
    #[serde(default)]
    pub rollout: RolloutSection,
    /// Which tasks are played (GRPO).
    #[serde(default)]
    pub selection: SelectionConfig,
    /// What is sampled beyond that, or begins otherwise (GRPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanConfig>,
    /// Who grades what was sampled, token by token, where the loss needs a teacher (GRPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<TeacherSection>,
    /// How reward components become one number (GRPO).
    #[serde(default)]
    pub reward: RewardSection,
    /// How rewards become advantages (GRPO).
    #[serde(default)]
    pub advantage: AdvantageConfig,
    /// The critic, where advantages need values (PPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic: Option<CriticSection>,
    /// Who compares answers, where advantages come from pairs (GRPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeSection>,
    /// The loss (GRPO).
    #[serde(default)]
    pub loss: LossConfig,
    /// Whether an update is made (GRPO); without it, all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateConfig>,
    /// What is imitated (SFT), and how training data is compared with evaluation data.
    #[serde(default)]
    pub data: DataSection,
    /// The optimiser.
    #[serde(default)]
    pub optimizer: OptimizerSection,
    /// Evaluation on held-out tasks.
    #[serde(default)]
    pub eval: EvalSection,
    /// When the run can be resumed from.
    #[serde(default)]
    pub checkpoint: CheckpointSection,
    /// What is logged.
    #[serde(default)]
    pub metrics: MetricsSection,
}

/// `[run]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// The run directory; made by the run, and refused if it already holds one.
    pub dir: PathBuf,
    /// Where the runs lie that make the policy of `policy.from`.
    #[serde(default = "cache")]
    pub cache: PathBuf,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// Threads; 0 takes every core.
    #[serde(default)]
    pub threads: usize,
}

/// How the policy learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Group-relative policy optimisation on the policy's own episodes.
    Grpo,
    /// Imitation of given answers.
    Sft,
    /// Given answers, of which some are better than others.
    Preference,
}

/// `[train]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSection {
    /// How the policy learns.
    pub method: Method,
    /// Number of steps: one batch of episodes (GRPO) or of sequences (SFT) each.
    pub max_steps: u64,
    /// GRPO: passes over the episodes of a step.
    #[serde(default = "one")]
    pub epochs: usize,
    /// GRPO: optimiser updates in one pass.
    #[serde(default = "one")]
    pub minibatches: usize,
    /// SFT: sequences in a step. Preferences: rows, of one answer or a pair.
    #[serde(default = "sequences")]
    pub sequences_per_step: usize,
    /// Tokens in one forward and backward pass. Bounds memory; never changes a gradient.
    #[serde(default = "micro_batch_tokens")]
    pub micro_batch_tokens: usize,
    /// Keep only the hidden states between layers for the backward pass, which computes each layer again.
    #[serde(default)]
    pub activation_checkpointing: bool,
}

fn cache() -> PathBuf {
    "runs/cache".into()
}

fn cpu() -> String {
    "cpu".to_owned()
}

fn one() -> usize {
    1
}

fn sequences() -> usize {
    64
}

fn micro_batch_tokens() -> usize {
    8192
}

/// `[env]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvSection {
    /// Id of the environment; `burnish env list` shows them.
    pub id: String,
    /// How many different tasks there are to train on.
    #[serde(default = "tasks")]
    pub tasks: usize,
    /// Which part of them is trained on (`docs/split.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The environment's own configuration; `burnish env show ID` shows the keys.
    #[serde(default = "empty")]
    pub config: Value,
}

fn tasks() -> usize {
    2048
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

/// `[reward]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSection {
    /// Weight of each component; one that is not named counts once.
    pub weights: BTreeMap<String, f64>,
    /// Control experiment: deal the rewards of each group out at random, so that nothing can be learnt.
    pub shuffle_within_groups: bool,
    /// What answers near the length limit lose: a component named `overlong`, in training only.
    pub overlong_buffer: OverlongBuffer,
}

/// `[data]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSection {
    /// SFT: a file of answers to imitate (preferences: of pairs, or of answers with a label), or a list of files: jsonl, packed with gzip or not, or parquet.
    #[serde(skip_serializing_if = "Paths::is_empty")]
    pub path: Paths,
    /// SFT: which column is what: `"auto"`, or a table such as `{ prompt = "question", completion = "answer" }`.
    pub columns: Columns,
    /// SFT: answers that an environment's own solver gives.
    pub demonstrations: Vec<Demonstrations>,
    /// Comparison of training rows with evaluation rows, where both come from files.
    pub decontaminate: Decontaminate,
}

/// `[data.decontaminate]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decontaminate {
    /// Words of a run that a training row must not share with an evaluation row.
    pub ngram: usize,
    /// What is done about a training row that overlaps with an evaluation row.
    pub action: OverlapAction,
}

impl Default for Decontaminate {
    fn default() -> Self {
        Decontaminate { ngram: overlap::NGRAM, action: OverlapAction::Report }
    }
}

/// What is done about a training row that overlaps with an evaluation row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlapAction {
    /// It is counted and reported.
    #[default]
    Report,
    /// It is not trained on, either.
    Drop,
}

/// `[[data.demonstrations]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demonstrations {
    /// Id of the environment.
    pub env: String,
    /// How many tasks to solve.
    pub tasks: usize,
    /// Which part of them is imitated (`docs/split.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The environment's own configuration.
    #[serde(default = "empty")]
    pub config: Value,
}

/// `[optimizer]`: AdamW, with a warm-up and a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerSection {
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay; norms and biases are left out.
    pub weight_decay: f64,
    /// Gradients are scaled down to this norm; 0 leaves them.
    pub max_grad_norm: f64,
    /// Updates over which the learning rate rises from 0.
    pub warmup_updates: u64,
    /// How the learning rate falls after the warm-up.
    pub schedule: Decay,
    /// Share of the peak at which it ends.
    pub final_share: f64,
}

impl Default for OptimizerSection {
    fn default() -> Self {
        OptimizerSection {
            learning_rate: 1e-6,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            max_grad_norm: 1.0,
            warmup_updates: 0,
            schedule: Decay::Linear,
            final_share: 0.0,
        }
    }
}

impl OptimizerSection {
    /// AdamW's own settings.
    pub fn adamw(&self) -> AdamwConfig {
        AdamwConfig {
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
        }
    }
}

/// `[checkpoint]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSection {
    /// Steps between checkpoints; 0 saves only at the end and when interrupted.
    pub every: u64,
    /// Newest checkpoints that are kept.
    pub keep: usize,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        CheckpointSection { every: 20, keep: 2 }
    }
}

impl Recipe {
    /// Reads a recipe file, applies `key.sub=value` overrides, checks everything that can be checked without
    /// starting, and fills in the environment's defaults.
    ///
    /// # Errors
    /// Names the key, its line or override, and what to do.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, RecipeError> {
        Recipe::resolve(&Source::read(path, overrides)?)
    }

    /// As [`Recipe::read`], from a source that is already there.
    ///
    /// # Errors
    /// As [`Recipe::read`].
    pub fn resolve(source: &Source) -> Result<Self, RecipeError> {
        let source = &preset::under(source)?;
        let mut recipe: Recipe = source.decode()?;
        check::check(&mut recipe, source)?;
        Ok(recipe)
    }

    /// Combinations that make no sense, and that this recipe or its preset allows: what a person should be told.
    pub fn warnings(&self) -> Vec<String> {
        if self.train.method != Method::Grpo {
            return Vec::new();
        }
        let setup = Setup { loss: &self.loss, advantage: &self.advantage };
        rules::broken(setup)
            .map(|rule| format!("`{}` {} [{}, allowed]", rule.key, rule.reason, rule.id))
            .collect()
    }

    /// The recipe as TOML, complete with defaults: what a run directory keeps.
    ///
    /// # Errors
    /// If a value has no TOML form.
    pub fn to_toml(&self) -> Result<String, RecipeError> {
        let failed = |error: String| RecipeError {
            place: "recipe".into(),
            problem: format!("can't be written as TOML: {error}"),
            help: None,
        };
        let mut value = serde_json::to_value(self).map_err(|error| failed(error.to_string()))?;
        drop_nulls(&mut value);
        toml_edit::ser::to_string_pretty(&value).map_err(|error| failed(error.to_string()))
    }
}

/// TOML has no null: a key that is not there says the same.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(table) => {
            table.retain(|_, inner| !inner.is_null());
            table.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SMALL: &str = r#"
[run]
dir = "runs/x"
[policy]
path = "models/starter"
[train]
method = "grpo"
max_steps = 3
[env]
id = "countdown"
"#;

    pub(super) fn read(text: &str, overrides: &[&str]) -> Result<Recipe, String> {
        let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
        Source::parse("r.toml", text, &overrides)
            .and_then(|source| Recipe::resolve(&source))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_resolved_recipe_reads_back_as_itself() {
        let recipe = read(SMALL, &[]).unwrap();
        let text = recipe.to_toml().unwrap();
        assert_eq!(read(&text, &[]).unwrap(), recipe, "{text}");
    }

    #[test]
    fn a_device_that_this_program_has_not_is_refused_with_what_to_do() {
        assert_eq!(read(SMALL, &["device=\"cpu\""]).unwrap().device, "cpu");
        for name in ["metal", "gpu", "cuda:one"] {
            let error = read(SMALL, &[&format!("device=\"{name}\"")]).unwrap_err();
            assert!(error.contains("device") && error.contains("cuda:0"), "{error}");
        }
        let gpu = read(&format!("device = \"cuda:0\"\n{SMALL}"), &[]);
        if cfg!(feature = "cuda") {
            assert_eq!(gpu.unwrap().device, "cuda:0");
        } else {
            let error = gpu.unwrap_err();
            assert!(error.starts_with("r.toml:1") && error.contains("--features cuda"), "{error}");
        }
    }

    #[test]
    fn values_out_of_range_name_the_key_and_the_range() {
        for (wrong, key) in [
            ("rollout.temperature=0", "rollout.temperature"),
            ("rollout.group_size=1", "rollout.group_size"),
            ("train.max_steps=0", "train.max_steps"),
            ("train.minibatches=0", "train.minibatches"),
            ("optimizer.learning_rate=-1", "optimizer.learning_rate"),
            ("optimizer.beta2=1", "optimizer.beta2"),
            ("loss.config.epsilon_low=-0.1", "loss.config.epsilon_low"),
            ("checkpoint.keep=0", "checkpoint.keep"),
            ("eval.rollouts=0", "eval.rollouts"),
            ("rollout.cache_mib=0", "rollout.cache_mib"),
            ("rollout.min_tokens=129", "rollout.min_tokens"),
            ("rollout.stop=[\"\"]", "rollout.stop"),
            ("rollout.repetition_penalty=0", "rollout.repetition_penalty"),
            ("rollout.presence_penalty=3", "rollout.presence_penalty"),
            ("rollout.frequency_penalty=-2.1", "rollout.frequency_penalty"),
            ("rollout.frequency_penalty=0.1", "rollout.frequency_penalty"),
            ("eval.top_p=0", "eval.top_p"),
            ("eval.min_p=2", "eval.min_p"),
            ("eval.min_tokens=500", "eval.min_tokens"),
            ("eval.repetition_penalty=-1", "eval.repetition_penalty"),
            ("data.decontaminate.ngram=0", "data.decontaminate.ngram"),
            ("reward.overlong_buffer.length=129", "reward.overlong_buffer.length"),
        ] {
            let error = read(SMALL, &[wrong]).unwrap_err();
            assert!(error.contains(&format!("`{key}`")) && error.contains(wrong), "{wrong}: {error}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_by_key() {
        for (wrong, key) in [
            (
                &["loss.beta=0.1", "loss.kl_estimator=k1", "loss.use_bias_correction_kl=false"][..],
                "loss.kl_estimator",
            ),
            (&["loss.beta=0.1", "loss.use_kl_in_reward=true"], "loss.kl_estimator"),
            (&["loss.adaptive_kl.target_kl=0.1"], "loss.adaptive_kl.target_kl"),
            (&["loss.beta=0.1", "loss.adaptive_kl={target_kl=0.1, horizon=25}"], "loss.adaptive_kl.horizon"),
        ] {
            let error = read(SMALL, wrong).unwrap_err();
            assert!(error.contains(&format!("`{key}`")), "{wrong:?}: {error}");
        }
        assert!(read(SMALL, &["loss.beta=0.1", "loss.adaptive_kl={target_kl=0.1, horizon=26}"]).is_ok());
    }

    #[test]
    fn every_key_of_grpo_is_shown_with_its_default() {
        let text = read(SMALL, &[]).unwrap().to_toml().unwrap();
        for line in [
            "kl_estimator = \"k3\"",
            "use_kl_in_reward = false",
            "mask_truncated_completions = false",
            "[loss.adaptive_kl]",
            "target_kl = 0.0",
            "horizon = 10000.0",
            "[rollout.dynamic_sampling]",
            "max_rounds = 0",
            "[selection]",
            "selector = \"uniform\"",
            "metric = \"reward\"",
            "[reward.overlong_buffer]",
            "length = 0",
            "penalty = 1.0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_selector_is_completed_and_its_keys_are_checked() {
        let text = read(SMALL, &["selection.selector=insight"]).unwrap().to_toml().unwrap();
        for line in ["selector = \"insight\"", "weight = \"additive\"", "pool_factor = 16", "decay = 1.0"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        for (wrong, key) in [
            ("selection.selector=insihgt", "selection.selector"),
            ("selection={selector=\"insight\", config={eta=-1.0}}", "selection.config.eta"),
            (
                "selection={selector=\"mopps\", config={beliefs={decay=2.0}}}",
                "selection.config.beliefs.decay",
            ),
            ("selection={selector=\"mopps\", config={etaa=1.0}}", "selection.config.etaa"),
            ("selection.pool=3", "selection.pool"),
        ] {
            let error = read(SMALL, &[wrong]).unwrap_err();
            assert!(error.contains(&format!("`{key}`")), "{wrong}: {error}");
        }
    }

    #[test]
    fn errors_inside_the_environments_own_table_name_the_whole_path() {
        let text = format!("{SMALL}[env.config]\nnumber = 3\n");
        let error = read(&text, &[]).unwrap_err();
        assert!(error.contains("`env.config.number` is not a known key"), "{error}");
        assert!(error.contains("did you mean `numbers`?"), "{error}");
        assert!(error.contains("env.config") && error.contains("number"), "{error}");
        let error = read(SMALL, &["env.id=countdwn"]).unwrap_err();
        assert!(error.contains("countdown"), "{error}");
    }

    #[test]
    fn a_policy_is_given_exactly_once() {
        let error = read(&SMALL.replace("path = \"models/starter\"", ""), &[]).unwrap_err();
        assert!(error.contains("policy.path") && error.contains("policy.from"), "{error}");
        let both = read(SMALL, &["policy.from=recipes/sft.toml"]).unwrap_err();
        assert!(both.contains("`policy.from` excludes `policy.path`"), "{both}");
    }

    #[test]
    fn the_recipe_that_makes_the_policy_is_a_path_or_a_table_and_reads_back_as_itself() {
        let text = SMALL.replace("path = \"models/starter\"", "from = \"sft.toml\"");
        let short = read(&text, &[]).unwrap();
        assert_eq!(short.policy.from.as_ref().unwrap().recipe, PathBuf::from("sft.toml"));
        assert_eq!(short.run.cache, PathBuf::from("runs/cache"));
        let long = read(&text, &["policy.from={recipe=\"sft.toml\", set=[\"run.seed=2\"]}"]).unwrap();
        assert_eq!(long.policy.from.as_ref().unwrap().set, ["run.seed=2"]);
        for recipe in [short, long] {
            assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
        }
        let error = read(&text, &["policy.from={recipe=\"sft.toml\", sets=[]}"]).unwrap_err();
        assert!(
            error.contains("`policy.from.sets` is not a known key") && error.contains("`set`"),
            "{error}"
        );
        assert!(read(&text, &["policy.from=3"]).unwrap_err().contains("a recipe file, or a table"));
    }
}
