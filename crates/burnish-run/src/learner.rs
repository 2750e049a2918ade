//! Who has the weights that are trained, and changes them: this process, or a server.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::LATENT_TOKENS;
use burnish_engine::Limits;
use burnish_model::{Chat, ChatTemplate, Model, ModelConfig};
use burnish_recipe::{Method, Recipe};
use burnish_rl::gate::Proposal;
use burnish_rl::{Objective, Totals};
use burnish_tensor::Device;
use burnish_train::checkpoint::{BoxError, Checkpoint, Checkpoints};
use burnish_train::{
    Checkpointing, Pass, Sample, Trainer, TrainerConfig, Update, measure, score, score_base,
};
use serde_json::Value;

use crate::RunError;
use crate::engine::Engine;
use crate::memory::{self, free_bytes};
use crate::offline::Corpus;
use crate::policy::{LoadedPolicy, Sampler, sampler};
use crate::trainer::{TRAINER, TrainingServer};
use crate::watch::{Event, Watch};

/// The policy that a run trains.
pub(crate) enum Learner {
    /// This process has it.
    Here(Box<Here>),
    /// A server has it.
    There(There),
}

/// The policy in this process, and what trains it.
pub(crate) struct Here {
    pub(crate) policy: LoadedPolicy,
    pub(crate) trainer: Trainer,
}

/// The policy on a server, with what this process has of it.
pub(crate) struct There {
    chat: Arc<Chat>,
    server: Arc<TrainingServer>,
    /// This process computes nothing but losses.
    device: Device,
}

/// Weights that are sampled from.
#[derive(Clone)]
pub(crate) enum Weights {
    /// This process has them, and an engine may be given them.
    Here { model: Arc<Model>, engine: Option<Arc<Engine>> },
    /// A server has them.
    There(Arc<TrainingServer>),
}

impl Weights {
    /// Whoever samples from them; they have had `version` updates ([`sampler`]).
    ///
    /// # Errors
    /// If somebody else can't be given them.
    pub(crate) fn sampler(
        &self,
        chat: &Arc<Chat>,
        version: u64,
        limits: Limits,
    ) -> Result<Sampler, RunError> {
        match self {
            Weights::Here { model, engine } => sampler((model, chat), engine.as_deref(), version, limits),
            Weights::There(server) => server.sampler(chat, version),
        }
    }

    /// The weights themselves.
    ///
    /// # Errors
    /// If a server has them.
    pub(crate) fn model(&self) -> Result<&Arc<Model>, RunError> {
        match self {
            Weights::Here { model, .. } => Ok(model),
            Weights::There(_) => Err(not_here()),
        }
    }
}

/// The refusal of something that needs the weights themselves. Recipes are checked for it before they run.
fn not_here() -> RunError {
    RunError::Refused("trainer: this needs the weights in this process, but a server has them".into())
}

impl Learner {
    /// The policy that a recipe trains: that of a checkpoint, or the one that the recipe starts from. `template`
    /// replaces the chat template of the latter; a new policy gets its tokenizer from `corpus`.
    ///
    /// # Errors
    /// If its files can't be read, or a server can't be used.
    pub(crate) fn load(
        recipe: &Recipe,
        checkpoint: Option<&Checkpoint>,
        template: Option<ChatTemplate>,
        corpus: &Corpus,
        device: &Device,
        watch: &mut dyn Watch,
    ) -> Result<Self, RunError> {
        match &recipe.trainer {
            Some(_) => there(recipe, checkpoint, template, watch),
            None => here(recipe, checkpoint, template, corpus, device, watch),
        }
    }

    /// Tokenizer, template and end tokens.
    pub(crate) fn chat(&self) -> &Arc<Chat> {
        match self {
            Learner::Here(here) => &here.policy.chat,
            Learner::There(there) => &there.chat,
        }
    }

    /// The tokenizer and the template, to be changed before anything is sampled.
    pub(crate) fn chat_mut(&mut self) -> &mut Chat {
        match self {
            Learner::Here(here) => Arc::make_mut(&mut here.policy.chat),
            Learner::There(there) => Arc::make_mut(&mut there.chat),
        }
    }

    /// Number of updates made.
    pub(crate) fn updates(&self) -> u64 {
        match self {
            Learner::Here(here) => here.trainer.updates(),
            Learner::There(there) => there.server.updates(),
        }
    }

    /// Most tokens that the policy reads.
    pub(crate) fn context_tokens_max(&self) -> usize {
        match self {
            Learner::Here(here) => here.policy.model.context_tokens_max(),
            Learner::There(there) => there.server.context_tokens_max(),
        }
    }

    /// The mask of a model of masked diffusion; `None` for one that reads from left to right.
    pub(crate) fn mask_token_id(&self) -> Option<u32> {
        match self {
            Learner::Here(here) => here.policy.model.config.mask_token_id,
            Learner::There(_) => None,
        }
    }

    /// The device of this process that computes.
    pub(crate) fn device(&self) -> &Device {
        match self {
            Learner::Here(here) => here.policy.model.params.device(),
            Learner::There(there) => &there.device,
        }
    }

    /// The policy in this process.
    ///
    /// # Errors
    /// If a server has it.
    pub(crate) fn here(&self) -> Result<&Here, RunError> {
        match self {
            Learner::Here(here) => Ok(here),
            Learner::There(_) => Err(not_here()),
        }
    }

    /// The present weights.
    pub(crate) fn weights(&self) -> Weights {
        match self {
            Learner::Here(here) => {
                let LoadedPolicy { model, engine, .. } = &here.policy;
                Weights::Here { model: Arc::clone(model), engine: engine.clone() }
            }
            Learner::There(there) => Weights::There(Arc::clone(&there.server)),
        }
    }

    /// Whoever samples from the present weights.
    ///
    /// # Errors
    /// If somebody else can't be given them.
    pub(crate) fn sampler(&self, limits: Limits) -> Result<Sampler, RunError> {
        self.weights().sampler(self.chat(), self.updates(), limits)
    }

    /// The log-probs of samples under the present weights, one entry per token ([`score`]).
    ///
    /// # Errors
    /// If a sample does not fit the model, or the server fails.
    pub(crate) fn score<S: Borrow<Sample>>(
        &self,
        samples: &[S],
        tokens_max: usize,
    ) -> Result<Vec<Vec<f32>>, RunError> {
        match self {
            Learner::Here(here) => Ok(score(&here.policy.model, samples, tokens_max)?),
            Learner::There(there) => there.server.score(samples),
        }
    }

    /// As [`Learner::score`], without the adapter that is trained.
    ///
    /// # Errors
    /// As [`Learner::score`].
    pub(crate) fn score_base<S: Borrow<Sample>>(
        &self,
        samples: &[S],
        tokens_max: usize,
    ) -> Result<Vec<Vec<f32>>, RunError> {
        match self {
            Learner::Here(here) => Ok(score_base(&here.policy.model, samples, tokens_max)?),
            Learner::There(there) => there.server.score_base(samples),
        }
    }

    /// The value of an objective, and its numbers, on each group of samples that nothing is learned from ([`measure`]).
    ///
    /// # Errors
    /// If a sample does not fit the model or the objective, or the server fails.
    pub(crate) fn measure(
        &self,
        samples: &[Sample],
        objective: &dyn Objective,
        totals: &Totals,
        tokens_max: usize,
    ) -> Result<Vec<Pass>, RunError> {
        match self {
            Learner::Here(here) => Ok(measure(&here.policy.model, samples, objective, totals, tokens_max)?),
            Learner::There(there) => there.server.measure(samples, objective, totals),
        }
    }

    /// One update at learning rate `lr`, if `gate` allows it ([`Trainer::update_gated`]).
    ///
    /// # Errors
    /// If a sample does not fit the model or the objective, a number is not finite, or the server fails.
    pub(crate) fn update(
        &mut self,
        minibatch: &[&Sample],
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
        gate: Option<&mut dyn FnMut(&Proposal) -> bool>,
    ) -> Result<Update, RunError> {
        match self {
            Learner::Here(here) => {
                let Here { policy, trainer } = &mut **here;
                let model = policy.model_mut();
                Ok(match gate {
                    Some(gate) => trainer.update_gated(model, minibatch, objective, totals, lr, gate)?,
                    None => trainer.update(model, minibatch, objective, totals, lr)?,
                })
            }
            Learner::There(_) if gate.is_some() => Err(not_here()),
            Learner::There(there) => there.server.update(minibatch, objective, totals, lr),
        }
    }

    /// How the policy is trained.
    pub(crate) fn trainer_config(&self, recipe: &Recipe) -> TrainerConfig {
        match self {
            Learner::Here(here) => *here.trainer.config(),
            Learner::There(_) => recipe.trainer_config(Checkpointing::Off.always()),
        }
    }

    /// The name of the present weights on the server that has them, under which they are sampled from.
    ///
    /// # Errors
    /// If the server can't make them ready.
    pub(crate) fn served_as(&self) -> Result<Option<String>, RunError> {
        match self {
            Learner::Here(_) => Ok(None),
            Learner::There(there) => there.server.served_as().map(Some),
        }
    }

    /// What a person should know since this was last asked.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        match self {
            Learner::Here(here) => {
                let engine = here.policy.engine.as_ref().map(|engine| engine.take_notes());
                let device = here.policy.model.params.device().take_notice();
                engine.unwrap_or_default().into_iter().chain(device).collect()
            }
            Learner::There(there) => there.server.take_notes(),
        }
    }

    /// Gives up what a server has of it. What was saved stays.
    pub(crate) fn close(&self) {
        if let Learner::There(there) = self {
            there.server.close();
        }
    }

    /// Saves the policy and what trains it as step number `step`, with the loop's `state`.
    ///
    /// # Errors
    /// If anything can't be written. Earlier checkpoints are then intact.
    pub(crate) fn save(
        &self,
        checkpoints: &Checkpoints,
        step: u64,
        mut state: Value,
        write_more: &mut dyn FnMut(&Path) -> Result<(), BoxError>,
    ) -> Result<PathBuf, RunError> {
        let mut write = |dir: &Path| {
            self.chat().save(dir)?;
            write_more(dir)
        };
        Ok(match self {
            Learner::Here(here) => {
                checkpoints.save(step, &here.policy.model, &here.trainer, &state, &mut write)?
            }
            Learner::There(there) => {
                let (saved, adamw) = there.server.save()?;
                state[TRAINER] = saved;
                checkpoints.save_elsewhere(step, there.server.updates(), adamw, &state, &mut write)?
            }
        })
    }
}

/// The policy that is trained in this process: that of a checkpoint, or the one that the recipe starts from.
fn here(
    recipe: &Recipe,
    checkpoint: Option<&Checkpoint>,
    template: Option<ChatTemplate>,
    corpus: &Corpus,
    device: &Device,
    watch: &mut dyn Watch,
) -> Result<Learner, RunError> {
    let loading = recipe.training();
    let free = free_bytes(recipe)?;
    let is_reward_model = recipe.train.method == Method::Reward;
    let policy = match (checkpoint, &recipe.policy.path, &recipe.policy.new) {
        (Some(checkpoint), base, _) if is_reward_model => {
            LoadedPolicy::reward_model(checkpoint.path(), base.as_deref(), None, &loading)?
        }
        (None, Some(path), _) if is_reward_model => {
            LoadedPolicy::reward_model(path, None, template, &loading)?
        }
        (Some(checkpoint), base, _) => LoadedPolicy::load_over(checkpoint.path(), base.as_deref(), &loading)?,
        (None, Some(path), _) => LoadedPolicy::begin(path, template, &loading)?,
        (None, None, Some(new)) => {
            watch.event(Event::Doing("training the tokenizer"));
            let latent: &[&str] = if recipe.latent.is_some() { &LATENT_TOKENS } else { &[] };
            let texts = corpus.texts(template.as_ref())?;
            let made = LoadedPolicy::create(new, &texts, recipe.run.seed, latent)?;
            made.with_template(template, loading.text_tokens).in_precision(loading.precision)
        }
        (None, None, None) => return Err(RunError::Refused("policy: needs `path` or `new`".into())),
    };
    policy.refuse_masked_learning(recipe)?;
    let mut policy = policy.with_latent_tokens(recipe)?.on(device);
    let checkpointing = memory::checkpointing(recipe, &policy.model.config, &loading, free, watch);
    let mut trainer = Trainer::new(&policy.model, recipe.trainer_config(checkpointing));
    if let Some(checkpoint) = checkpoint {
        checkpoint.restore(policy.model_mut(), &mut trainer)?;
    }
    Ok(Learner::Here(Box::new(Here { policy, trainer })))
}

/// The policy that a server trains. Here are only its tokenizer and what is known of it.
fn there(
    recipe: &Recipe,
    checkpoint: Option<&Checkpoint>,
    template: Option<ChatTemplate>,
    watch: &mut dyn Watch,
) -> Result<Learner, RunError> {
    let Some(path) = &recipe.policy.path else {
        let problem = "policy.path: must name a directory with the tokenizer and config.json of the model that the \
                       server trains";
        return Err(RunError::Refused(problem.into()));
    };
    let chat = match checkpoint {
        Some(checkpoint) => Chat::load(checkpoint.path())?,
        None => Chat::load_with(path, template)?,
    };
    let chat = chat.with_text_tokens(recipe.policy.text_tokens);
    watch.event(Event::Doing("asking the trainer"));
    let saved = checkpoint.map(|checkpoint| &checkpoint.state()[TRAINER]);
    let server = TrainingServer::connect(recipe, &chat, &ModelConfig::load(path)?, saved)?;
    watch.event(Event::Note(format!("the trainer {}", server.habits())));
    Ok(Learner::There(There { chat: Arc::new(chat), server: Arc::new(server), device: Device::cpu() }))
}
