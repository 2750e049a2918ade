//! The policy of a run: loaded from a directory, or made from nothing.

use std::path::Path;

use burnish_core::rng::{Address, Purpose};
use burnish_model::{Chat, ChatTemplate, Loading, Model, ModelConfig, ModelShape, Tokenizer};

use burnish_tensor::{Device, Precision};

use crate::{RunError, model_path};

/// A model with its tokenizer and chat template.
pub struct LoadedPolicy {
    /// The weights.
    pub model: Model,
    /// Tokenizer, template and end tokens.
    pub chat: Chat,
}

impl LoadedPolicy {
    /// Loads a Hugging Face model directory, or PEFT's adapter directory with its base; of a run directory its newest
    /// checkpoint, of an id of the hub what lies in the hub's cache. Ids that the tokenizer does not have can't be
    /// sampled.
    ///
    /// # Errors
    /// Names the file, and the key or tensor in it.
    pub fn load(dir: &Path, loading: &Loading) -> Result<Self, RunError> {
        LoadedPolicy::load_over(dir, None, loading)
    }

    /// As [`LoadedPolicy::load`] of a checkpoint of a run that began with the policy in `start`: the base of an adapter is
    /// taken from there, wherever it lay when the checkpoint was saved.
    ///
    /// # Errors
    /// As [`LoadedPolicy::load`].
    pub fn load_over(dir: &Path, start: Option<&Path>, loading: &Loading) -> Result<Self, RunError> {
        let dir = model_path::locate(dir)?.dir;
        let (model, chat) = burnish_model::load_policy_over(&dir, start, loading)?;
        Ok(LoadedPolicy { model, chat })
    }

    /// Makes a new policy with the ChatML template, whose tokenizer is trained on `texts`. `run_seed` decides
    /// its weights.
    ///
    /// # Errors
    /// If there are no texts, or the sizes do not fit each other.
    pub fn create(shape: &ModelShape, texts: &[String], run_seed: u64) -> Result<Self, RunError> {
        let tokenizer = Tokenizer::train_bpe(texts, shape.vocab_size, SPECIAL_TOKENS)?;
        let chat = Chat::new(tokenizer, ChatTemplate::chatml()?, &[END], PAD)?;
        let config = ModelConfig::new(shape)
            .map_err(|error| RunError::Refused(format!("policy.new makes no model: {error}")))?;
        let mut model = Model::init(config, Address::new(run_seed, Purpose::Init).seed());
        model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
        Ok(LoadedPolicy { model, chat })
    }

    /// The same policy, computed with on `device`.
    #[must_use]
    pub fn on(self, device: &Device) -> Self {
        LoadedPolicy { model: self.model.on(device), ..self }
    }

    /// The same policy, computed in another precision.
    pub(crate) fn in_precision(mut self, precision: Precision) -> Self {
        self.model.params = std::mem::take(&mut self.model.params).in_precision(precision);
        self
    }
}

const PAD: &str = "<|endoftext|>";
const END: &str = "<|im_end|>";
const SPECIAL_TOKENS: &[&str] = &[PAD, "<|im_start|>", END, "<think>", "</think>"];
