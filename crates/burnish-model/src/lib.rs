//! The policy: architectures, weights, tokenizer, chat template.
//!
//! A model directory has the layout of Hugging Face. [`Model`] reads `config.json` and the weights; [`Chat`] reads
//! `tokenizer.json`, the chat template and the end tokens; [`load_policy`] reads both and checks that they belong
//! together. Both write directories that `transformers` loads.
//!
//! Nothing that changes the computation is ignored: an unknown key of `config.json`, a tensor that does not belong to
//! the architecture, or a tokenizer larger than the model's vocabulary is an error that names it.

mod answers;
mod calls;
mod chat;
mod chat_files;
mod config;
mod conversation;
mod decoder;
mod error;
mod files;
mod freeze;
mod generation;
mod jinja;
mod latent;
mod literal;
mod lora;
mod mix;
mod model;
mod outline;
mod plain;
mod provenance;
mod rope;
mod tap;
mod template;
mod tokenizer;
mod turn;
mod weights;

use std::path::{Path, PathBuf};

use burnish_shards::Shards;
use burnish_tensor::{Elements, ParamEntry};
use rayon::prelude::*;

pub use calls::{
    Answer, AnswerTo, ArgumentShape, ArgumentsShape, CallFormat, CallShape, Recorded, ShapeError, ValueShape,
    read_arguments,
};
pub use chat::Chat;
pub use config::{Architecture, DeltaRuleConfig, Dtype, Head, LayerKind, ModelConfig, ModelShape, Rule};
pub use error::{ChatError, ConfigError, ModelError};
pub use generation::GenerationDefaults;
pub use latent::{LatentGradient, PutInputs};
pub use literal::TextTokens;
pub use lora::{LoraConfig, Targets};
pub use mix::{Mix, Packed};
pub use model::{Loading, Model, Trains};
pub use outline::Outline;
pub use rope::RopeScaling;
pub use tap::{Marked, Tap};
pub use template::{CHATML, ChatTemplate, Rendered};
pub use tokenizer::{Encoded, Tokenizer};
pub use turn::Generated;

/// Reads a whole model directory, to train every parameter in f32.
///
/// # Errors
/// As [`load_policy_as`].
pub fn load_policy(dir: &Path) -> Result<(Model, Chat), ModelError> {
    load_policy_as(dir, &Loading::default())
}

/// Reads a whole model directory, or an adapter's together with its base, and excludes the ids of the head that the
/// tokenizer does not have. If the adapter's directory has no tokenizer, that of its base is used.
///
/// # Errors
/// As [`Model::load_as`] and [`Chat::load`]; also if the tokenizer has ids that the model does not have.
pub fn load_policy_as(dir: &Path, loading: &Loading) -> Result<(Model, Chat), ModelError> {
    load_policy_over(dir, None, None, loading)
}

/// As [`load_policy_as`], for an adapter that was trained from `start`: the base is `start`, or the base of the adapter
/// in `start`, wherever it was at that time. `template` replaces the directory's own, which may then be missing.
///
/// # Errors
/// As [`load_policy_as`].
pub fn load_policy_over(
    dir: &Path,
    start: Option<&Path>,
    template: Option<ChatTemplate>,
    loading: &Loading,
) -> Result<(Model, Chat), ModelError> {
    let (model, chat) = load_model_over(dir, start, template, loading)?;
    if model.is_value_model() {
        let problem = "it is a model of values: nothing can be sampled from it";
        return Err(ModelError::malformed(&dir.join("config.json"), problem));
    }
    Ok((model, chat))
}

/// The tokenizer and the chat template of a model directory or an adapter, without the model. `template` replaces the
/// directory's own.
///
/// # Errors
/// As [`Chat::load`], and if the base of an adapter is not known.
pub fn load_chat(dir: &Path, template: Option<ChatTemplate>) -> Result<Chat, ModelError> {
    Chat::load_with(&chat_dir(dir, Model::base_of(dir)?.as_deref()), template)
}

/// Makes sure that all weights of a model directory, or of an adapter and its base, are finite, without loading them.
///
/// # Errors
/// Names the tensor that is not, or the file that can't be read.
pub fn check_finite(dir: &Path) -> Result<(), ModelError> {
    let base = Model::base_of(dir)?;
    let own = if base.is_some() { dir.join(lora::WEIGHTS_FILE) } else { dir.to_owned() };
    for path in [Some(own), base].into_iter().flatten() {
        if let Some(name) = Shards::open(&path)?.not_finite()? {
            return Err(has_not_finite(&path, &name));
        }
    }
    Ok(())
}

fn has_not_finite(path: &Path, name: &str) -> ModelError {
    let problem =
        format!("`{name}` has values that are no numbers (NaN) or infinite: nothing can be computed with it");
    ModelError::malformed(path, problem)
}

/// An adapter without a tokenizer has that of its base.
fn chat_dir(dir: &Path, base: Option<&Path>) -> PathBuf {
    match base {
        Some(base) if !dir.join("tokenizer.json").exists() => base.to_owned(),
        _ => dir.to_owned(),
    }
}

/// As [`load_policy_over`], for a model of values too, such as a reward model.
///
/// # Errors
/// As [`load_policy_as`].
pub fn load_model_over(
    dir: &Path,
    start: Option<&Path>,
    template: Option<ChatTemplate>,
    loading: &Loading,
) -> Result<(Model, Chat), ModelError> {
    let base = Model::base_or(dir, start)?;
    let chat_dir = chat_dir(dir, base.as_deref());
    let chat = Chat::load_with(&chat_dir, template)?.with_text_tokens(loading.text_tokens);
    let mut model = Model::load_with(dir, base, loading)?;
    let vocab_size = model.config.vocab_size;
    if let Some(id) = chat.tokenizer.id_max().filter(|id| *id as usize >= vocab_size) {
        let problem = format!(
            "the tokenizer has ids up to {id}, but the model only {vocab_size} (`vocab_size` in config.json); \
             they do not belong together"
        );
        return Err(ModelError::malformed(&chat_dir.join("tokenizer.json"), problem));
    }
    if let Some(name) = not_finite(&model) {
        return Err(has_not_finite(dir, name));
    }
    model.restrict_vocab(|id| chat.can_be_sampled(id));
    Ok((model, chat))
}

/// The first tensor with values that are not finite.
fn not_finite(model: &Model) -> Option<&str> {
    let entries = model.params.entries();
    let is_finite = |entry: &ParamEntry| match model.params.elements(entry.param) {
        Elements::F32(values) => values.iter().all(|value| value.is_finite()),
        Elements::Bf16(values) => values.iter().all(|value| value.is_finite()),
    };
    entries.par_iter().find_first(|entry| !is_finite(entry)).map(|entry| entry.name.as_str())
}
