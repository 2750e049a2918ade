//! What a model would take in memory, from its configuration alone: nothing else is read, and nothing allocated.

use std::path::Path;

use burnish_tensor::{Param, Precision, Store};

use crate::decoder::Decoder;
use crate::lora::LoraConfig;
use crate::model::{adapter, stores, tensor_specs};
use crate::{Loading, Model, ModelConfig, ModelError, Trains};

/// A model that was not loaded.
#[derive(Debug, Clone)]
pub struct Outline {
    /// What it would compute.
    pub config: ModelConfig,
    /// The type in which it would compute.
    pub precision: Precision,
    /// Its parameters have places in buffers that do not exist.
    decoder: Decoder,
    numbers: Numbers,
}

/// Numbers in each buffer of parameters.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    trained: usize,
    frozen: usize,
    frozen_bf16: usize,
}

impl Numbers {
    fn place(&mut self, store: Store, shape: &[usize]) -> Param {
        let buffer = match store {
            Store::Trained => &mut self.trained,
            Store::Frozen => &mut self.frozen,
            Store::FrozenBf16 => &mut self.frozen_bf16,
        };
        let len: usize = shape.iter().product();
        let rows = if shape.len() < 2 { 1 } else { shape[0] };
        let offset = *buffer;
        *buffer += len;
        Param { store, offset, rows, cols: len / rows.max(1) }
    }
}

impl Outline {
    /// The model in `dir`, or the adapter there with its base, loaded as `loading` says.
    ///
    /// # Errors
    /// As [`Model::load_as`], as far as configurations decide.
    pub fn of_dir(dir: &Path, loading: &Loading) -> Result<Self, ModelError> {
        let Some(base) = Model::base_of(dir)? else {
            return Outline::of_config(ModelConfig::load(dir)?, loading, dir);
        };
        let (own, _) = LoraConfig::read_peft(dir)?;
        let trains = match &loading.trains {
            Trains::Adapter(_, seed) => Trains::Adapter(own, *seed),
            // An adapter that only answers lies where one that is trained does.
            Trains::Nothing => Trains::Adapter(own, 0),
            Trains::All | Trains::Except(_) => {
                let problem =
                    "it holds an adapter; train the adapter (policy.lora), or merge it first (burnish merge)";
                return Err(ModelError::malformed(dir, problem));
            }
        };
        Outline::of_config(ModelConfig::load(&base)?, &Loading { trains, ..loading.clone() }, dir)
    }

    /// A model of this configuration; `dir` is named in errors.
    ///
    /// # Errors
    /// If what is to be frozen, or adapted, is not there.
    pub fn of_config(config: ModelConfig, loading: &Loading, dir: &Path) -> Result<Self, ModelError> {
        let mut stores = stores(&tensor_specs(&config), loading, dir)?.into_iter();
        let mut numbers = Numbers::default();
        let mut decoder = Decoder::declare(&config, &mut |_, shape, _| {
            numbers.place(stores.next().unwrap_or(Store::Trained), shape)
        });
        if let Trains::Adapter(lora, _) = &loading.trains {
            let mut place = |_: &str, shape: &[usize]| numbers.place(Store::Trained, shape);
            adapter::declare(&mut decoder, lora, &mut place).map_err(|error| {
                ModelError::malformed(dir, format!("the adapter (policy.lora) does not fit it: {error}"))
            })?;
        }
        Ok(Outline { config, precision: loading.precision, decoder, numbers })
    }

    /// The model of values that begins as this one: all of it is trained.
    ///
    /// # Errors
    /// As [`Outline::of_config`].
    pub fn to_value_model(&self) -> Result<Self, ModelError> {
        let loading = Loading { precision: self.precision, ..Loading::default() };
        Outline::of_config(self.config.with_value_head(), &loading, Path::new("policy"))
    }

    /// Number of parameters, those of an adapter among them.
    pub fn parameters(&self) -> usize {
        let Numbers { trained, frozen, frozen_bf16 } = self.numbers;
        trained + frozen + frozen_bf16
    }

    /// Number of parameters that are trained.
    pub fn trained(&self) -> usize {
        self.numbers.trained
    }

    /// Bytes of the parameters: 4 for each, 2 for those that are frozen in bf16.
    pub fn parameter_bytes(&self) -> usize {
        let Numbers { trained, frozen, frozen_bf16 } = self.numbers;
        4 * (trained + frozen) + 2 * frozen_bf16
    }

    /// Numbers per row that a recording pass keeps of each layer for the backward pass, its input among them, and those
    /// of them that attention computes.
    pub fn kept_by_layers(&self) -> Vec<(usize, usize)> {
        self.decoder.kept().collect()
    }

    /// Elements of the matrix of each linear map, the head's last.
    pub fn maps(&self) -> Vec<usize> {
        self.decoder.clone().linear_maps().map(|(_, weight)| weight.base.len()).collect()
    }

    /// Does an adapter belong to the head?
    pub fn has_adapted_head(&self) -> bool {
        self.decoder.lm_head().adapter.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelShape, Targets};

    fn shape() -> ModelShape {
        serde_json::from_value(serde_json::json!({
            "architecture": "qwen3", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
            "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": true, "dtype": "f32",
        }))
        .unwrap()
    }

    #[test]
    fn it_counts_what_a_loaded_model_has() {
        let dir = tempfile::tempdir().unwrap();
        let config = ModelConfig::new(&shape()).unwrap();
        Model::init(config.clone(), 1).save(dir.path()).unwrap();
        let target_modules = Targets::Pattern("all-linear".to_owned());
        let config = LoraConfig { rank: 3, alpha: 6.0, dropout: 0.0, rslora: false, target_modules };
        let lora = || Trains::Adapter(config.clone(), 1);
        let except = Trains::Except(vec!["*mlp*".to_owned()]);
        for precision in [Precision::F32, Precision::Bf16] {
            for trains in [Trains::All, Trains::Nothing, except.clone(), lora()] {
                let loading = Loading { precision, trains, ..Loading::default() };
                let model = Model::load_as(dir.path(), &loading).unwrap();
                let outline = Outline::of_dir(dir.path(), &loading).unwrap();
                let len = |store| {
                    let entries = model.params.entries().iter().filter(|entry| entry.param.store == store);
                    entries.map(|entry| entry.param.len()).sum::<usize>()
                };
                let [trained, frozen, bf16] = [Store::Trained, Store::Frozen, Store::FrozenBf16].map(len);
                assert_eq!(outline.trained(), trained, "{loading:?}");
                assert_eq!(outline.parameters(), trained + frozen + bf16, "{loading:?}");
                assert_eq!(outline.parameter_bytes(), 4 * (trained + frozen) + 2 * bf16, "{loading:?}");
                assert_eq!(outline.kept_by_layers().len(), 3);
            }
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let config = ModelConfig::new(&shape()).unwrap();
        let trains = Trains::Except(vec!["*nowhere*".to_owned()]);
        let loading = Loading { trains, ..Loading::default() };
        let error = Outline::of_config(config, &loading, Path::new("here")).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}
