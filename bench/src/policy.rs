//! The model under measurement.

use std::path::Path;

use burnish_model::{Chat, ChatTemplate, Loading, Model, ModelConfig, Tokenizer, Trains};
use burnish_tensor::{Device, Precision};

use crate::Done;

/// f32, or bf16 operands with f32 masters.
pub(crate) fn precision(bf16: bool) -> Precision {
    if bf16 { Precision::Bf16 } else { Precision::F32 }
}

/// The model of a directory, every id of its head allowed: the peers sample and score over the whole head too,
/// whatever their tokenizer has.
pub(crate) fn load(dir: &Path, bf16: bool, trains: Trains) -> Done<Model> {
    Ok(Model::load_as(dir, &Loading { precision: precision(bf16), trains, ..Loading::default() })?)
}

/// A model with the configuration of a directory and random weights, all of it trained, on a device.
pub(crate) fn random_on(device: &Device, dir: &Path, bf16: bool) -> Done<Model> {
    let mut model = Model::init(ModelConfig::load(dir)?, 0);
    model.params = std::mem::take(&mut model.params).in_precision(precision(bf16)).on(device);
    Ok(model)
}

/// The model of a directory on a device.
pub(crate) fn load_on(device: &Device, dir: &Path, bf16: bool, trains: Trains) -> Done<Model> {
    let mut model = load(dir, bf16, trains)?;
    model.params = model.params.on(device);
    Ok(model)
}

/// The tokenizer of a directory with a template that is the message and nothing else, as TRL takes plain prompts.
pub(crate) fn plain_chat(dir: &Path) -> Done<Chat> {
    let tokenizer = Tokenizer::load(&dir.join("tokenizer.json"))?;
    let template = ChatTemplate::new(TEMPLATE, Path::new("the template of burnish-bench"))?;
    Ok(Chat::new(tokenizer, template, &["<eos>"], "<pad>")?)
}

const TEMPLATE: &str = "{% for message in messages %}{{ message['content'] }}{% endfor %}";
