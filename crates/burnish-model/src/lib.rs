//! The policy: architectures, weights, tokenizer, chat template.
//!
//! A model directory is one of Hugging Face's. [`Model`] reads `config.json` and the weights;
//! [`Chat`] reads `tokenizer.json`, the chat template and the end tokens; [`load_policy`] reads both and checks
//! that they belong together. Both write directories that `transformers` loads.
//!
//! Nothing that changes what is computed is ignored: a key of `config.json` that is unknown, a tensor without a
//! place, or a tokenizer that is larger than the model is an error that names it.

mod answers;
mod attend;
mod chat;
mod chat_files;
mod clock;
mod config;
mod config_keys;
mod decoder;
mod error;
mod files;
mod generation;
mod jinja;
mod model;
mod provenance;
mod pyjson;
mod rope;
mod shards;
mod template;
mod tokenizer;
mod weights;

use std::path::Path;

pub use attend::{Attend, Packed};
pub use chat::Chat;
pub use config::{Architecture, Dtype, ModelConfig, ModelShape};
pub use error::{ChatError, ConfigError, ModelError};
pub use generation::GenerationDefaults;
pub use model::Model;
pub use rope::RopeScaling;
pub use template::{CHATML, ChatTemplate, Rendered};
pub use tokenizer::{Encoded, Tokenizer};

/// Reads a model directory whole, and excludes the ids of the head that the tokenizer does not have.
///
/// # Errors
/// As [`Model::load`] and [`Chat::load`], and if the tokenizer has ids that the model has not.
pub fn load_policy(dir: &Path) -> Result<(Model, Chat), ModelError> {
    let chat = Chat::load(dir)?;
    let mut model = Model::load(dir)?;
    let vocab_size = model.config.vocab_size;
    if let Some(id) = chat.tokenizer.id_max().filter(|id| *id as usize >= vocab_size) {
        let problem = format!(
            "the tokenizer has ids up to {id}, but the model only {vocab_size} (`vocab_size` in config.json); \
             they do not belong together"
        );
        return Err(ModelError::malformed(&dir.join("tokenizer.json"), problem));
    }
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    Ok((model, chat))
}
