//! How much memory a recipe needs on its device, by part, from configurations alone.
//!
//! What a run holds from its beginning to its end is counted apart from what it takes while it samples, scores or
//! trains, because sampling gives back what it took before training begins. Each number is what a part takes at most: a
//! batch may have fewer tokens, and answers may be shorter than the context.

mod free;
mod update;

use std::path::{Path, PathBuf};

use burnish_engine::{Limits, SamplingNeed};
use burnish_model::{Loading, ModelConfig, Outline, Trains};
use burnish_recipe::{ActivationCheckpointing, Method, Recipe, StageUse};
use burnish_train::{Checkpointing, CheckpointingBySize, Place, scoring_need};

use crate::RunError;
use crate::making::teacher_of;
use crate::model_path::locate;
use crate::reference::Reference;
use crate::reward_model::scores_of;
use crate::stages::{Origin, origin};
use crate::watch::{Event, Watch};

pub use free::free_bytes;

/// The activation checkpointing of a run whose policy has the configuration `config` and was loaded as `loading` says, on a
/// device that had `free` bytes free before. Says what `"auto"` comes to, but not where it changes nothing on a CPU.
pub(crate) fn checkpointing(
    recipe: &Recipe,
    config: &ModelConfig,
    loading: &Loading,
    free: Option<usize>,
    watch: &mut dyn Watch,
) -> CheckpointingBySize {
    if let ActivationCheckpointing::Always(level) = recipe.train.activation_checkpointing {
        return level.always();
    }
    let policy = Outline::of_config(config.clone(), loading, Path::new("policy"));
    let planned =
        policy.map_err(RunError::from).and_then(|policy| Memory::of_loaded(recipe, Some(policy), free));
    let (checkpointing, told) = match planned {
        Ok(memory) => (memory.checkpointing, memory.told),
        Err(error) => {
            let told = format!("activation checkpointing is off: memory can't be planned: {error}");
            (Checkpointing::Off.always(), vec![told])
        }
    };
    if recipe.device != "cpu" || checkpointing.of(recipe.train.micro_batch_tokens) != Checkpointing::Off {
        told.into_iter().for_each(|told| watch.event(Event::Note(told)));
    }
    checkpointing
}

/// When a part takes its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// As long as the run.
    Always,
    /// While answers are sampled.
    Sampling,
    /// While log-probs of a reference or a teacher are computed.
    Scoring,
    /// While gradients are computed.
    Training,
}

/// A part of what a run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// When it is there.
    pub when: When,
    /// What it is.
    pub what: String,
    /// Bytes, at most.
    pub bytes: usize,
    /// The keys of the recipe that decide it.
    pub by: &'static str,
}

/// What a recipe needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The device, as the recipe names it.
    pub device: String,
    /// Its parts, those that are always there first.
    pub parts: Vec<Part>,
    /// What a person should know about the numbers.
    pub notes: Vec<String>,
    /// What `train.activation_checkpointing` comes to.
    pub checkpointing: CheckpointingBySize,
    /// The same in words, and what is missing, where the memory of the device is known.
    pub told: Vec<String>,
}

impl Memory {
    /// What `recipe` needs on its device, which has `free` bytes free; `None` if that is not known, because the device may
    /// be in another machine.
    ///
    /// # Errors
    /// If the configuration of a model can't be read, or the recipe does not fit it.
    pub fn of(recipe: &Recipe, free: Option<usize>) -> Result<Self, RunError> {
        Memory::of_loaded(recipe, None, free)
    }

    /// As [`Memory::of`], for a run that has loaded its policy.
    pub(crate) fn of_loaded(
        recipe: &Recipe,
        policy: Option<Outline>,
        free: Option<usize>,
    ) -> Result<Self, RunError> {
        let place = if recipe.device == "cpu" { Place::Cpu } else { Place::Gpu };
        let mut count = Count { recipe, place, free, parts: Vec::new(), notes: Vec::new(), told: Vec::new() };
        let mut checkpointing = Checkpointing::Off.always();
        if recipe.trainer.is_some() {
            count.notes.push("a server trains and samples: what that takes is its own affair".to_owned());
            count.others()?;
        } else {
            let work = count.policy(policy)?;
            count.others()?;
            if !work.trained.is_empty() {
                checkpointing = count.updating(&work.trained, work.rows);
            }
            count.sampling(&work);
        }
        if place == Place::Gpu {
            count.add(When::Always, "the driver's context, kernels and cuBLAS, about", CONTEXT_BYTES, "");
        }
        let Count { mut parts, notes, told, .. } = count;
        parts.retain(|part| part.bytes > 0);
        parts.sort_by_key(|part| part.when);
        Ok(Memory { device: recipe.device.clone(), parts, notes, checkpointing, told })
    }

    /// Bytes of the parts of a time.
    pub fn while_(&self, when: When) -> usize {
        bytes_of(&self.parts, when)
    }

    /// The most bytes that are needed at once, and when.
    pub fn most(&self) -> (usize, When) {
        let times = [When::Training, When::Scoring, When::Sampling];
        let most = times.into_iter().map(|when| (self.while_(when), when)).max_by_key(|(bytes, _)| *bytes);
        let (more, when) = most.unwrap_or((0, When::Always));
        (self.while_(When::Always).saturating_add(more), when)
    }
}

/// What a GPU has no buffers for: an estimate.
const CONTEXT_BYTES: usize = 640 << 20;

/// The policy, and what is done with it.
struct Work {
    policy: Outline,
    /// The models that are trained, with their names.
    trained: Vec<(Outline, &'static str)>,
    /// Rows of a micro-batch.
    rows: usize,
    /// Answers that are asked for at once.
    answers: usize,
}

struct Count<'r> {
    recipe: &'r Recipe,
    place: Place,
    /// Bytes that the device has free before the run takes any.
    free: Option<usize>,
    parts: Vec<Part>,
    notes: Vec<String>,
    told: Vec<String>,
}

impl Count<'_> {
    fn add(&mut self, when: When, what: impl Into<String>, bytes: usize, by: &'static str) {
        self.parts.push(Part { when, what: what.into(), bytes, by });
    }

    fn bytes(&self, when: When) -> usize {
        bytes_of(&self.parts, when)
    }

    /// The policy, what trains it, and what it is compared with. `loaded` is the policy of a run that has begun.
    fn policy(&mut self, loaded: Option<Outline>) -> Result<Work, RunError> {
        let recipe = self.recipe;
        let from = || origin(StageUse::Policy, recipe);
        let method = recipe.train.method;
        let trains = method != Method::None;
        let loading = if trains { recipe.training() } else { recipe.policy.sampling() };
        let mut policy = loaded.map_or_else(|| outline(&from()?, &loading), Ok)?;
        if method == Method::Reward {
            policy = policy.to_value_model()?;
        }
        self.add(
            When::Always,
            format!("the policy, {}", parameters(&policy)),
            policy.parameter_bytes(),
            "policy",
        );
        let sequences = match method {
            _ if recipe.plays() => recipe.rollout.tasks_per_step.saturating_mul(recipe.rollout.group_size),
            Method::Grpo | Method::Sft | Method::Preference | Method::Reward | Method::None => {
                recipe.train.sequences_per_step
            }
        };
        let answers = match method {
            _ if recipe.plays() => sequences.max(recipe.eval.tasks.saturating_mul(recipe.eval.rollouts)),
            Method::Grpo | Method::Sft | Method::Preference | Method::Reward | Method::None => {
                recipe.eval.tasks.saturating_mul(recipe.eval.rollouts)
            }
        };
        let context = policy.config.max_position_embeddings;
        let rows = recipe.train.micro_batch_tokens.min(sequences.saturating_mul(context));
        let mut trained = Vec::new();
        if trains {
            self.held_by_trainer(&policy, "the policy");
            trained.push((policy.clone(), "the policy"));
        }
        if recipe.critic.is_some() && method == Method::Grpo {
            let critic = self.critic(&policy)?;
            let what = format!("the critic, {}", parameters(&critic));
            self.add(When::Always, what, critic.parameter_bytes(), "critic");
            self.held_by_trainer(&critic, "the critic");
            trained.push((critic, "the critic"));
        }
        let is_compared =
            matches!(method, Method::Grpo | Method::Preference) && Reference::is_needed(recipe)?;
        if is_compared {
            let from = from()?;
            let is_copied = match &from {
                Origin::Dir(dir) => Reference::is_copied(recipe, dir)?,
                Origin::New(_) => recipe.policy.lora.is_none(),
            };
            let reference = outline(&from, &recipe.policy.sampling())?;
            if is_copied {
                let what = format!("the reference, {}", parameters(&reference));
                self.add(When::Always, what, reference.parameter_bytes(), "loss.beta, loss.objective");
            }
            self.scoring("the reference", &reference, rows);
        }
        if let Some(teacher) =
            recipe.teacher.as_ref().filter(|teacher| teacher.path.is_some() || teacher.from.is_some())
        {
            let own = outline(&origin(StageUse::Teacher, recipe)?, &recipe.policy.sampling())?;
            let by = if teacher.path.is_some() { "teacher.path" } else { "teacher.from" };
            self.add(When::Always, format!("the teacher, {}", parameters(&own)), own.parameter_bytes(), by);
            self.scoring("the teacher", &own, rows);
        }
        Ok(Work { policy, trained, rows, answers })
    }

    /// What scoring takes: of several models that score, the largest counts.
    fn scoring(&mut self, who: &str, model: &Outline, rows: usize) {
        let bytes = scoring_need(model, rows, self.place);
        let others: usize =
            self.parts.iter().filter(|part| part.when == When::Scoring).map(|part| part.bytes).sum();
        if bytes > others {
            self.parts.retain(|part| part.when != When::Scoring);
            self.add(When::Scoring, format!("log-probs by {who}"), bytes, "train.micro_batch_tokens");
        }
    }

    fn sampling(&mut self, Work { policy, answers, .. }: &Work) {
        let recipe = self.recipe;
        if recipe.engine.is_some() {
            self.notes.push("engines sample: what that takes is their own affair".to_owned());
            return;
        }
        if *answers == 0 || recipe.train.method == Method::Reward {
            return;
        }
        let is_gpu = self.place == Place::Gpu;
        let limits = recipe.rollout.limits();
        let value_bytes = self.place.value_bytes(policy.precision);
        let mut need = SamplingNeed::new(policy, &limits, *answers, value_bytes, is_gpu);
        if policy.config.mask_token_id.is_some() {
            // A model of masked diffusion reads its whole answer again at every step.
            (need.cache, need.packed) = (0, 0);
        }
        if let (true, None, Some(free)) = (is_gpu, limits.cache_bytes, self.free) {
            let left = free.saturating_sub(self.bytes(When::Always));
            need.cache = need.cache.min(Limits::cache_bytes_of(left, need.pass));
        }
        self.add(
            When::Sampling,
            "cache of keys and values",
            need.cache,
            "rollout.cache_mib, rollout.batch_max",
        );
        self.add(When::Sampling, "weights as decoding reads them", need.packed, "policy.precision");
        self.add(
            When::Sampling,
            "a pass over prompts, or the logits of a step",
            need.pass,
            "rollout.batch_max",
        );
        if is_gpu && limits.cache_bytes.is_none() {
            let told = "without `rollout.cache_mib`, the cache takes seven eighths of what the GPU has free then, less a \
                        pass, and no more than is said here";
            self.notes.push(told.to_owned());
        }
    }

    /// Other models of the recipe in this process.
    fn others(&mut self) -> Result<(), RunError> {
        let recipe = self.recipe;
        let plain = Loading { trains: Trains::Nothing, ..Loading::default() };
        let user = recipe.user.as_ref().and_then(|user| user.path.as_ref());
        let extractor = recipe.extractor.as_ref().and_then(|extractor| extractor.path.as_ref());
        let judge = recipe.judge.as_ref().and_then(|judge| judge.path.as_ref());
        let model = recipe.reward.model.as_ref().map(|model| &model.path);
        let ranks_user = scores_of(recipe.user.as_ref().and_then(|user| user.strategy.as_ref()));
        let ranks_judge = scores_of(recipe.judge.as_ref().and_then(|judge| judge.strategy.as_ref()));
        let all = [
            ("the simulated user", user.map(PathBuf::as_path), &plain, "user.path"),
            ("who ranks the user's answers", ranks_user, &plain, "user.strategy.config.score.path"),
            ("who copies answers", extractor.map(PathBuf::as_path), &plain, "extractor.path"),
            ("who makes better answers", teacher_of(recipe), &plain, "make.teacher"),
            ("the judge", judge.map(PathBuf::as_path), &plain, "judge.path"),
            ("who ranks the judge's answers", ranks_judge, &plain, "judge.strategy.config.score.path"),
            ("the reward model", model.map(PathBuf::as_path), &recipe.policy.sampling(), "reward.model.path"),
        ];
        for (what, path, loading, by) in all {
            if let Some(path) = path {
                let own = outline(&Origin::Dir(locate(path)?.dir), loading)?;
                self.add(When::Always, format!("{what}, {}", parameters(&own)), own.parameter_bytes(), by);
            }
        }
        Ok(())
    }

    fn critic(&self, policy: &Outline) -> Result<Outline, RunError> {
        let loading = Loading { precision: policy.precision, ..Loading::default() };
        match self.recipe.critic.as_ref().and_then(|critic| critic.path.as_ref()) {
            Some(path) => outline(&Origin::Dir(locate(path)?.dir), &loading),
            None => Ok(policy.to_value_model()?),
        }
    }
}

fn bytes_of(parts: &[Part], when: When) -> usize {
    let parts = parts.iter().filter(|part| part.when == when);
    parts.map(|part| part.bytes).fold(0, usize::saturating_add)
}

pub(crate) fn outline(from: &Origin, loading: &Loading) -> Result<Outline, RunError> {
    match from {
        Origin::Dir(dir) => Ok(Outline::of_dir(dir, loading)?),
        Origin::New(shape) => {
            let config = ModelConfig::new(shape)
                .map_err(|error| RunError::Refused(format!("policy.new makes no model: {error}")))?;
            Ok(Outline::of_config(config, loading, Path::new("policy.new"))?)
        }
    }
}

/// `0.6 billion parameters, 10.1 million of them trained`
fn parameters(model: &Outline) -> String {
    parameters_of(model.parameters(), model.trained())
}

/// The same of a model with `all` parameters.
pub(crate) fn parameters_of(all: usize, trained: usize) -> String {
    match trained {
        0 => format!("{} parameters", many(all)),
        _ if trained == all => format!("{} parameters, all trained", many(all)),
        _ => format!("{} parameters, {} of them trained", many(all), many(trained)),
    }
}

fn many(count: usize) -> String {
    let count = count as f64;
    match count {
        _ if count >= 1e9 => format!("{:.2} billion", count / 1e9),
        _ if count >= 1e6 => format!("{:.1} million", count / 1e6),
        _ => format!("{count}"),
    }
}

/// Bytes as a person reads them.
pub fn mib(bytes: usize) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match mib {
        _ if mib >= 10_240.0 => format!("{:.1} GiB", mib / 1024.0),
        _ if mib >= 100.0 => format!("{mib:.0} MiB"),
        _ => format!("{mib:.1} MiB"),
    }
}
