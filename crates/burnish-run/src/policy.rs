//! The policy of a run: loaded from a directory, or created from scratch.

use std::path::Path;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{LATENT_TOKENS, Policy};
use burnish_engine::{Limits, LocalPolicy, Stats};
use burnish_model::{
    Chat, ChatTemplate, Loading, Model, ModelConfig, ModelError, ModelShape, TextTokens, Tokenizer,
};

use burnish_recipe::{Method, Recipe};
use burnish_remote::tokens::TokenPolicy;
use burnish_tensor::{Device, Precision, Visibility};

use crate::engine::Engine;
use crate::{RunError, model_path};

/// A model with its tokenizer and chat template.
pub struct LoadedPolicy {
    /// The weights.
    pub model: Arc<Model>,
    /// Tokenizer, template and end tokens.
    pub chat: Arc<Chat>,
    /// What samples in place of this process, if the recipe names an engine.
    pub(crate) engine: Option<Arc<Engine>>,
}

/// Whoever samples from weights.
pub(crate) enum Sampler {
    /// This process.
    Local(Box<LocalPolicy>),
    /// Servers elsewhere.
    Remote(Box<TokenPolicy>),
}

impl Sampler {
    /// The policy itself.
    pub(crate) fn policy(&mut self) -> &mut dyn Policy {
        match self {
            Sampler::Local(policy) => &mut **policy,
            Sampler::Remote(policy) => &mut **policy,
        }
    }

    /// Ends sampling. Returns statistics of what was sampled in this process.
    ///
    /// # Errors
    /// If somebody gave an engine other weights meanwhile.
    pub(crate) fn finish(self) -> Result<Stats, RunError> {
        match self {
            Sampler::Local(policy) => Ok(policy.stats()),
            Sampler::Remote(policy) => {
                policy.confirm().map_err(|error| RunError::Refused(error.to_string()))?;
                Ok(Stats::default())
            }
        }
    }
}

/// Whoever samples from `model`, whose weights have had `version` updates: the engine, if there is one, or this
/// process. Finish it when sampling is done; its packed weights and its cache go then, because the training passes need
/// the room.
///
/// # Errors
/// If an engine can't be given the weights.
pub(crate) fn sampler(
    (model, chat): (&Arc<Model>, &Arc<Chat>),
    engine: Option<&Engine>,
    version: u64,
    limits: Limits,
) -> Result<Sampler, RunError> {
    Ok(match engine {
        Some(engine) => Sampler::Remote(Box::new(engine.policy(model, chat, version)?)),
        None => Sampler::Local(Box::new(LocalPolicy::new(model, chat, version).with_limits(limits))),
    })
}

impl LoadedPolicy {
    /// Loads a Hugging Face model directory, or PEFT's adapter directory with its base. For a run directory, loads
    /// its newest checkpoint; for an id of the hub, what is in the hub's cache. Ids that the tokenizer does not have
    /// can't be sampled.
    ///
    /// # Errors
    /// Names the file, and the key or tensor in it.
    pub fn load(dir: &Path, loading: &Loading) -> Result<Self, RunError> {
        LoadedPolicy::load_over(dir, None, loading)
    }

    /// As [`LoadedPolicy::load`], for a checkpoint of a run that started from the policy in `start`. The base of an
    /// adapter is taken from there, wherever it was when the checkpoint was saved.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`].
    pub fn load_over(dir: &Path, start: Option<&Path>, loading: &Loading) -> Result<Self, RunError> {
        LoadedPolicy::read(dir, start, None, loading)
    }

    /// As [`LoadedPolicy::load`], with `template` in place of the directory's own.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`].
    pub(crate) fn load_with(
        dir: &Path,
        template: &ChatTemplate,
        loading: &Loading,
    ) -> Result<Self, RunError> {
        let policy = LoadedPolicy::read(dir, None, Some(template.clone()), loading)?;
        if policy.model.visibility() == Visibility::Bidirectional {
            return Err(RunError::Refused(format!(
                "{}: its model reads in both directions (`is_causal` is false in its config.json) and gives an answer no \
                 log-prob, so it is neither a reference nor a teacher",
                dir.display()
            )));
        }
        Ok(policy)
    }

    /// Refuses to train a model of masked diffusion by anything but imitation, or to have it sampled elsewhere.
    ///
    /// # Errors
    /// Names the key that asks for it.
    pub(crate) fn refuse_masked_learning(&self, recipe: &Recipe) -> Result<(), RunError> {
        if self.model.visibility() == Visibility::Causal {
            return Ok(());
        }
        let (key, is_asked) = match recipe.train.method {
            Method::Sft | Method::None => ("engine", recipe.engine.is_some()),
            Method::Grpo | Method::Preference | Method::Reward => ("train.method", true),
        };
        if !is_asked {
            return Ok(());
        }
        Err(RunError::Refused(format!(
            "{key}: the policy is a model of masked diffusion (`is_causal` is false in its config.json), which gives an \
             answer no log-prob: it is trained with `train.method = \"sft\"` and answers in this process"
        )))
    }

    /// The policy that a recipe starts from, in `dir`; `template` is the content of its `policy.chat_template`.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`].
    pub(crate) fn begin(
        dir: &Path,
        template: Option<ChatTemplate>,
        loading: &Loading,
    ) -> Result<Self, RunError> {
        LoadedPolicy::read(dir, None, template, loading).map_err(|error| match error {
            RunError::Model(error) => without_template(error),
            error => error,
        })
    }

    /// As [`LoadedPolicy::load_over`], without a chat template: the policy reads text and continues it. The directory
    /// need not have a template.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`].
    pub fn load_plain(dir: &Path, start: Option<&Path>, loading: &Loading) -> Result<Self, RunError> {
        let policy = LoadedPolicy::read(dir, start, Some(ChatTemplate::plain()?), loading)?;
        let chat = Arc::unwrap_or_clone(policy.chat).without_template()?;
        Ok(LoadedPolicy { chat: Arc::new(chat), ..policy })
    }

    fn read(
        dir: &Path,
        start: Option<&Path>,
        template: Option<ChatTemplate>,
        loading: &Loading,
    ) -> Result<Self, RunError> {
        let dir = model_path::locate(dir)?.dir;
        let (model, chat) = burnish_model::load_policy_over(&dir, start, template, loading)?;
        Ok(LoadedPolicy::of(model, chat))
    }

    /// The reward model in `dir`, or one that begins with the weights of the policy there.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`], and if the policy is an adapter.
    pub(crate) fn reward_model(
        dir: &Path,
        start: Option<&Path>,
        template: Option<ChatTemplate>,
        loading: &Loading,
    ) -> Result<Self, RunError> {
        let dir = model_path::locate(dir)?.dir;
        let (model, chat) = burnish_model::load_model_over(&dir, start, template, loading)?;
        let model = if model.is_value_model() { model } else { model.to_value_model()? };
        Ok(LoadedPolicy::of(model, chat))
    }

    /// The model in `dir` whose head gives one number; `None` if it has another head. No chat template is needed.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`].
    pub(crate) fn values(dir: &Path, loading: &Loading) -> Result<Option<Self>, RunError> {
        let dir = model_path::locate(dir)?.dir;
        let (model, chat) =
            burnish_model::load_model_over(&dir, None, Some(ChatTemplate::plain()?), loading)?;
        let is_value_model = model.is_value_model();
        Ok(is_value_model.then(|| LoadedPolicy::of(model, chat)))
    }

    /// Creates a new policy with the ChatML template and a tokenizer trained on `texts`, which has `more_tokens` beside
    /// its special ones. `run_seed` decides its weights.
    ///
    /// # Errors
    /// If there are no texts, or the sizes do not fit together.
    pub fn create(
        shape: &ModelShape,
        texts: &[String],
        run_seed: u64,
        more_tokens: &[&str],
    ) -> Result<Self, RunError> {
        let mask = shape.masked.then_some(MASK);
        let special: Vec<&str> = SPECIAL_TOKENS.iter().chain(more_tokens).copied().chain(mask).collect();
        let tokenizer = Tokenizer::train_bpe(texts, shape.vocab_size, &special)?;
        let tokenizer = tokenizer.with_text_tokens(THINKING)?;
        let chat = Chat::new(tokenizer, ChatTemplate::chatml()?, &[END], PAD)?;
        let mask = mask.and_then(|mask| chat.tokenizer.token_id(mask));
        let config = ModelConfig::new(shape)
            .and_then(|config| mask.map_or(Ok(config.clone()), |mask| config.masked(mask)))
            .map_err(|error| RunError::Refused(format!("policy.new makes no model: {error}")))?;
        let mut model = Model::init(config, Address::new(run_seed, Purpose::Init).seed());
        model.restrict_vocab(|id| chat.can_be_sampled(id));
        Ok(LoadedPolicy::of(model, chat))
    }

    /// The policy with the tokens of latent steps. Where it lacks them, it gets them if it is to learn them: at the ids
    /// after all others, in rows that its head has beyond its tokens, which begin as copies of the row of a token that
    /// says nothing, a line break (SWITCH, section 3: rows drawn at random collapse).
    ///
    /// # Errors
    /// If it lacks them and can't have them.
    pub(crate) fn with_latent_tokens(self, recipe: &Recipe) -> Result<Self, RunError> {
        let missing: Vec<&str> =
            LATENT_TOKENS.into_iter().filter(|token| self.chat.tokenizer.token_id(token).is_none()).collect();
        if recipe.latent.is_none() || missing.is_empty() {
            return Ok(self);
        }
        let refused = |why: &str| {
            let problem = format!("latent: the policy's tokenizer has no {}, and {why}", missing.join(", "));
            Err(RunError::Refused(problem))
        };
        if recipe.train.method != Method::Sft {
            return refused("only a run with `train.method = \"sft\"` teaches them: begin with such a one");
        }
        if recipe.policy.lora.is_some() {
            return refused(
                "an adapter can't learn them, because its base keeps its embedding: leave `policy.lora` out",
            );
        }
        let tokenizer = self.chat.tokenizer.with_special_tokens(&LATENT_TOKENS)?;
        let seed = tokenizer.encode("\n").ok().and_then(|ids| ids.last().copied());
        let added: Vec<u32> = missing.iter().filter_map(|token| tokenizer.token_id(token)).collect();
        let rows = self.model.vocab().len();
        let (Some(seed), true) = (seed, added.iter().all(|id| (*id as usize) < rows)) else {
            return refused(&format!(
                "its head has {rows} rows, all of which are taken: give it more, such as with `resize_token_embeddings` of \
                 transformers"
            ));
        };
        let mut chat = Arc::unwrap_or_clone(self.chat);
        chat.tokenizer = Arc::new(tokenizer);
        let mut model = Arc::unwrap_or_clone(self.model);
        added.into_iter().for_each(|id| model.copy_token(seed, id));
        model.restrict_vocab(|id| chat.can_be_sampled(id));
        Ok(LoadedPolicy { model: Arc::new(model), chat: Arc::new(chat), engine: self.engine })
    }

    fn of(model: Model, chat: Chat) -> Self {
        LoadedPolicy { model: Arc::new(model), chat: Arc::new(chat), engine: None }
    }

    /// The same policy on `device`.
    #[must_use]
    pub fn on(self, device: &Device) -> Self {
        LoadedPolicy { model: Arc::new(Arc::unwrap_or_clone(self.model).on(device)), ..self }
    }

    /// The same policy with another template, if one is given, reading control tokens of texts so.
    pub(crate) fn with_template(self, template: Option<ChatTemplate>, text_tokens: TextTokens) -> Self {
        let chat = Arc::unwrap_or_clone(self.chat);
        let chat = match template {
            Some(template) => chat.with_template(template),
            None => chat,
        };
        LoadedPolicy { chat: Arc::new(chat.with_text_tokens(text_tokens)), ..self }
    }

    /// The same policy, computed in another precision.
    pub(crate) fn in_precision(mut self, precision: Precision) -> Self {
        let model = self.model_mut();
        model.params = std::mem::take(&mut model.params).in_precision(precision);
        self
    }

    /// Mutable access to the weights. Nobody samples from them meanwhile, so that there is only one copy.
    pub(crate) fn model_mut(&mut self) -> &mut Model {
        debug_assert_eq!(Arc::strong_count(&self.model), 1, "weights that somebody samples from are updated");
        Arc::make_mut(&mut self.model)
    }

    /// A sampler in this process with these weights, which have had `version` updates.
    pub fn sampler(&self, version: u64, limits: Limits) -> LocalPolicy {
        LocalPolicy::new(&self.model, &self.chat, version).with_limits(limits)
    }
}

/// The error, with advice for a recipe whose model has no chat template.
pub(crate) fn without_template(error: ModelError) -> RunError {
    match error {
        ModelError::NoTemplate { .. } => RunError::Refused(format!(
            "{error}; or name the file of one in the recipe: `policy.chat_template`"
        )),
        error => error.into(),
    }
}

/// The chat template in the file that `policy.chat_template` names.
///
/// # Errors
/// If it can't be read or is not a template: names the key and the file.
pub(crate) fn named_template(file: Option<&Path>) -> Result<Option<ChatTemplate>, RunError> {
    let read = file.map(ChatTemplate::read).transpose();
    read.map_err(|error| RunError::Refused(format!("policy.chat_template: {error}")))
}

/// What a model of masked diffusion reads in place of a token that is not known.
const MASK: &str = "<|mask|>";
const PAD: &str = "<|endoftext|>";
const END: &str = "<|im_end|>";
pub(crate) const SPECIAL_TOKENS: &[&str] = &[PAD, "<|im_start|>", END, THINKING[0], THINKING[1]];
/// Each is one token, but part of what is said.
const THINKING: &[&str] = &["<think>", "</think>"];
