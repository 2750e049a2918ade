//! Adapters of a model: declared beside the frozen base, initialised, and read from PEFT's files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_tensor::{Adapter, Param, Params, Store, map_file};
use safetensors::tensor::SafeTensors;

use super::{Adapted, Model};
use crate::decoder::Decoder;
use crate::lora::{self, LoraConfig};
use crate::{ConfigError, ModelError, weights};

impl Model {
    /// Declares the adapters of `config`, filled with zeros.
    pub(super) fn adapt(&mut self, config: &LoraConfig, base: &Path) -> Result<(), ConfigError> {
        declare(&mut self.decoder, config, &mut |name, shape| {
            self.params.add_to(Store::Trained, name, shape, true)
        })?;
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        self.adapted = Some(Adapted { config: config.clone(), base });
        Ok(())
    }

    /// `A` uniform within `± 1/√inputs`; `B` is 0 already.
    pub(super) fn init_adapters(&mut self, seed: u64) {
        for (index, (_, weight)) in (0..).zip(self.decoder.linear_maps()) {
            let Some(Adapter { a, .. }) = weight.adapter else { continue };
            let place = Address { task: index, turn: 1, ..Address::new(seed, Purpose::Init) };
            let mut stream = Stream::new(place.seed());
            let bound = 1.0 / (a.cols as f64).sqrt();
            self.params.get_mut(a).fill_with(|| (bound * (2.0 * stream.uniform() - 1.0)) as f32);
        }
    }

    pub(super) fn read_adapters(&mut self, dir: &Path) -> Result<(), ModelError> {
        let path = dir.join(lora::WEIGHTS_FILE);
        let map = map_file(&path).map_err(|source| ModelError::read(&path, source))?;
        let damaged =
            |error| ModelError::malformed(&path, format!("truncated, or not a safetensors file ({error})"));
        let file = SafeTensors::deserialize(&map).map_err(damaged)?;
        let mut unknown: BTreeSet<&str> = file.names().into_iter().collect();
        let trained: Vec<_> = self.params.trained_entries().cloned().collect();
        for entry in trained {
            let (path, name) = (path.clone(), entry.name.clone());
            let Ok(tensor) = file.tensor(&name) else {
                return Err(ModelError::MissingTensor { path, name, shape: entry.shape });
            };
            weights::check_type(&path, &name, &tensor, &entry.shape)?;
            weights::read_tensor(&tensor, self.params.elements_mut(entry.param));
            unknown.remove(entry.name.as_str());
        }
        // If the head is adapted, PEFT also saves a copy of the base's head.
        unknown.retain(|name| !self.repeats_base(name, &file));
        match unknown.first() {
            Some(name) => Err(ModelError::UnknownTensor {
                name: name.to_string(),
                architecture: "this adapter",
                path: path.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Is the tensor in an adapter's file a copy of one of the base's tensors?
    fn repeats_base(&self, name: &str, file: &SafeTensors<'_>) -> bool {
        let module =
            name.strip_prefix("base_model.model.").and_then(|name| name.strip_suffix(".base_layer.weight"));
        let (Some(module), Ok(tensor)) = (module, file.tensor(name)) else { return false };
        let param = match module {
            lora::HEAD => Some(self.head().base),
            _ => self.params.find(&format!("{module}.weight")).map(|entry| entry.param),
        };
        param.filter(|param| tensor.shape() == [param.rows, param.cols]).is_some_and(|param| {
            let mut copy = Params::new();
            let of_copy = copy.add_to(param.store, name, &[param.rows, param.cols], true);
            weights::read_tensor(&tensor, copy.elements_mut(of_copy));
            copy.elements(of_copy).widened() == self.params.elements(param).widened()
        })
    }
}

/// Declares the adapters of `config` beside the maps of a decoder.
pub(crate) fn declare(
    decoder: &mut Decoder,
    config: &LoraConfig,
    add: &mut dyn FnMut(&str, &[usize]) -> Param,
) -> Result<(), ConfigError> {
    config.check()?;
    let names: Vec<String> = decoder.linear_maps().map(|(name, _)| name.to_owned()).collect();
    let is_target = config.targets(&names)?;
    for ((site, (name, weight)), _) in
        (0..).zip(decoder.linear_maps()).zip(is_target).filter(|(_, is_target)| *is_target)
    {
        if name == lora::HEAD && config.dropout > 0.0 {
            return Err(ConfigError::Unsupported {
                key: "dropout".into(),
                value: config.dropout.to_string(),
                supported: "0 where lm_head is among the targets".into(),
            });
        }
        let mut add =
            |factor, shape: &[usize]| add(&format!("base_model.model.{name}.lora_{factor}.weight"), shape);
        let Param { rows, cols, .. } = weight.base;
        weight.adapter = Some(Adapter {
            a: add("A", &[config.rank, cols]),
            b: add("B", &[rows, config.rank]),
            scale: config.scale() as f32,
            dropout: config.dropout as f32,
            site,
        });
    }
    Ok(())
}

/// The directory of an adapter's base: the named one, relative to the adapter's directory, or its new location if both
/// were moved together.
pub(super) fn base_dir(dir: &Path, name: &str) -> Result<PathBuf, ModelError> {
    burnish_shards::adapter_base(dir, name).ok_or_else(|| {
        let problem = format!(
            "`base_model_name_or_path` is \"{name}\", where no config.json is; write the directory of the base model there"
        );
        ModelError::malformed(&dir.join(lora::CONFIG_FILE), problem)
    })
}
