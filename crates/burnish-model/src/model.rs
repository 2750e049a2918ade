//! A policy's weights and its computation.

pub(crate) mod adapter;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_shards::SINGLE;
use rayon::prelude::*;

use burnish_tensor::{
    Device, ElementsMut, HeadShape, Keep, Param, Params, Precision, Prepacked, Store, Tape, Var, Visibility,
    Vocab, Weight, in_pool,
};

use crate::decoder::{Decoder, Init, head_shape};
use crate::lora::{self, LoraConfig};
use crate::tap::Tap;
use crate::weights::{self, Carried, Stored, TensorSpec, WeightsFile};
use crate::{Dtype, Head, LayerKind, Mix, ModelConfig, ModelError, Packed, TextTokens, files, freeze};

/// A decoder with its weights.
#[derive(Clone)]
pub struct Model {
    /// What it computes.
    pub config: ModelConfig,
    /// Its weights, named as in the checkpoint; adapters as in PEFT's.
    pub params: Params,
    decoder: Decoder,
    /// The type of each base parameter in its file.
    dtypes: Vec<Dtype>,
    vocab: Arc<Vocab>,
    adapted: Option<Adapted>,
    carried: Option<Carried>,
}

/// The contents of an adapter's files besides its weights.
#[derive(Debug, Clone, PartialEq)]
struct Adapted {
    config: LoraConfig,
    /// Directory of the base.
    base: PathBuf,
}

/// Options for loading a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loading {
    /// The type in which products with weights are computed.
    pub precision: Precision,
    /// What will be trained.
    pub trains: Trains,
    /// How control tokens in the texts of messages are read.
    pub text_tokens: TextTokens,
}

/// The part of a model that is trained. Everything else is frozen; in [`Precision::Bf16`] frozen matrices are kept in
/// bf16.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Trains {
    /// Every parameter.
    #[default]
    All,
    /// Every parameter but those with these names, in which `*` stands for any characters. What is frozen stays in f32.
    Except(Vec<String>),
    /// A low-rank adapter: the one in the directory if it is a PEFT adapter, otherwise a new one, whose random numbers
    /// follow from the seed.
    Adapter(LoraConfig, u64),
    /// Nothing: the model is only sampled from.
    Nothing,
}

impl Model {
    /// Reads `config.json` and the weights of a model directory, to train every parameter in f32.
    ///
    /// # Errors
    /// As [`Model::load_as`].
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        Model::load_as(dir, &Loading::default())
    }

    /// Reads a model directory, or PEFT's adapter directory together with its base.
    ///
    /// # Errors
    /// Names the file, and the key or tensor that is wrong. The weights are checked before memory is taken.
    pub fn load_as(dir: &Path, loading: &Loading) -> Result<Self, ModelError> {
        Model::load_with(dir, Model::base_of(dir)?, loading)
    }

    /// As [`Model::load_as`], for a known base of the adapter.
    pub(crate) fn load_with(
        dir: &Path,
        base: Option<PathBuf>,
        loading: &Loading,
    ) -> Result<Self, ModelError> {
        let Some(base) = base else {
            let mut model = Model::load_base(dir, loading)?;
            if let Trains::Adapter(config, seed) = &loading.trains {
                model.adapt(config, dir).map_err(|error| {
                    ModelError::malformed(dir, format!("the adapter (policy.lora) does not fit it: {error}"))
                })?;
                model.init_adapters(*seed);
            }
            return Ok(model);
        };
        let path = dir.join(lora::CONFIG_FILE);
        let (config, _) = LoraConfig::read_peft(dir)?;
        match &loading.trains {
            Trains::All | Trains::Except(_) => {
                let problem = "it holds an adapter, whose base can't be trained with it; \
                               train the adapter (policy.lora), or merge it first (burnish merge)";
                return Err(ModelError::malformed(&path, problem));
            }
            Trains::Adapter(..) | Trains::Nothing => {}
        }
        let mut model = Model::load_base(&base, &Loading { trains: Trains::Nothing, ..loading.clone() })?;
        if let Trains::Adapter(asked, _) = &loading.trains {
            let names: Vec<String> = model.decoder.linear_maps().map(|(name, _)| name.to_owned()).collect();
            if let Some(difference) = config.difference(asked, &names) {
                let problem = format!("its adapter has {difference}; make policy.lora agree with it");
                return Err(ModelError::malformed(&path, problem));
            }
        }
        model.adapt(&config, &base).map_err(|error| ModelError::Config { path, error })?;
        model.read_adapters(dir)?;
        Ok(model)
    }

    /// The directory of the base, if `dir` holds an adapter.
    ///
    /// # Errors
    /// If the adapter's settings can't be used, or its base is missing.
    pub fn base_of(dir: &Path) -> Result<Option<PathBuf>, ModelError> {
        if !dir.join(lora::CONFIG_FILE).exists() {
            return Ok(None);
        }
        let (_, base) = LoraConfig::read_peft(dir)?;
        adapter::base_dir(dir, &base).map(Some)
    }

    /// As [`Model::base_of`]; if `start` is a model directory, it is the base, and if `start` holds an adapter, the
    /// base of that.
    pub(crate) fn base_or(dir: &Path, start: Option<&Path>) -> Result<Option<PathBuf>, ModelError> {
        let is_adapter = dir.join(lora::CONFIG_FILE).exists();
        match start.filter(|start| is_adapter && *start != dir) {
            Some(start) if start.join(lora::CONFIG_FILE).exists() => Model::base_of(start),
            Some(start) if start.join("config.json").exists() => Ok(Some(start.to_owned())),
            _ => Model::base_of(dir),
        }
    }

    fn load_base(dir: &Path, loading: &Loading) -> Result<Self, ModelError> {
        let config = ModelConfig::load(dir)?;
        let file = WeightsFile::open(dir)?;
        let specs = tensor_specs(&config);
        let dtypes = file.check(&config, &specs)?;
        let stores = stores(&specs, loading, dir)?;
        let mut params = Params::new().in_precision(loading.precision);
        for store in [Store::Trained, Store::Frozen, Store::FrozenBf16] {
            let these = specs.iter().zip(&stores).filter(|(_, own)| **own == store);
            params.reserve(store, these.map(|(spec, _)| spec.shape.iter().product::<usize>()).sum());
        }
        let mut stores = stores.into_iter();
        let decoder = Decoder::declare(&config, &mut |name, shape, init| {
            let store = stores.next().unwrap_or(Store::Trained);
            params.add_to(store, name, shape, init == Init::Normal)
        });
        file.read_into(&mut params)?;
        let carried = file.carried(&config)?;
        Ok(Model { carried, ..Model::assemble(config, params, decoder, dtypes) })
    }

    /// A new model: matrices normal with standard deviation `initializer_range`, norms 1 (0 where 1 is added to them),
    /// biases 0, decay rates of Qwen3.5 from 0.01 to 16, those of other delta rules as in flash-linear-attention. Each parameter that is drawn has its own random stream,
    /// so that the same seed gives the same weights everywhere.
    pub fn init(config: ModelConfig, seed: u64) -> Self {
        let mut params = Params::new();
        let lens = tensor_specs(&config).into_iter().map(|spec| spec.shape.iter().product::<usize>());
        params.reserve(Store::Trained, lens.sum());
        let mut starts = Vec::new();
        let decoder = Decoder::declare(&config, &mut |name, shape, init| {
            let param = add(&mut params, name, shape, init);
            starts.push((param, init));
            param
        });
        // Parameters lie one behind the other.
        let mut rest = params.data_mut();
        let mut parts = Vec::with_capacity(starts.len());
        for (index, (param, init)) in (0..).zip(starts) {
            let (values, behind) = std::mem::take(&mut rest).split_at_mut(param.len());
            rest = behind;
            parts.push((index, init, values));
        }
        let fill = |(index, init, values): (u64, Init, &mut [f32])| match init {
            Init::Ones => values.fill(1.0),
            Init::Zeros => values.fill(0.0),
            Init::Normal => values.fill_with({
                let (mut stream, width) = (stream_of(seed, index), config.initializer_range);
                move || (width * stream.normal()) as f32
            }),
            Init::LogOfUniform => fill_uniform(values, seed, index, 0.01, 16.0, f64::ln),
            Init::LogOfUniformFromOne => fill_uniform(values, seed, index, 1.0, 16.0, f64::ln),
            Init::InverseSoftplus => {
                let inverse = |log: f64| log.exp().exp_m1().ln();
                fill_uniform(values, seed, index, 1e-3_f64.ln(), 0.1_f64.ln(), inverse);
            }
        };
        in_pool(|| parts.into_par_iter().for_each(fill));
        let dtypes = vec![config.dtype; params.entries().len()];
        Model::assemble(config, params, decoder, dtypes)
    }

    /// The same model, computed on `device`.
    #[must_use]
    pub fn on(self, device: &Device) -> Self {
        Model { params: self.params.on(device), ..self }
    }

    /// A value model that starts as this one: its hidden states, and a head of zeros, so that every value is 0. All of
    /// it is trained, with f32 masters.
    ///
    /// # Errors
    /// If this model has adapters, or its parameters are not trained (they are then not kept in f32).
    pub fn to_value_model(&self) -> Result<Self, ModelError> {
        let is_whole = self.params.entries().iter().all(|entry| entry.param.is_trained());
        if !is_whole {
            let problem =
                "a value model begins as a model whose every parameter is trained, not as an adapter's base";
            return Err(ModelError::malformed(Path::new("policy"), problem));
        }
        if self.visibility() == Visibility::Bidirectional {
            let problem = "a value model reads one token after the other, and this model reads in both directions \
                           (`is_causal` is false in its config.json)";
            return Err(ModelError::malformed(Path::new("policy"), problem));
        }
        let config = self.config.with_value_head();
        let mut params = Params::new().in_precision(self.params.precision());
        let decoder = Decoder::declare(&config, &mut |name, shape, init| add(&mut params, name, shape, init));
        let own: Vec<(String, Param)> =
            params.entries().iter().map(|entry| (entry.name.to_string(), entry.param)).collect();
        let mut dtypes = Vec::with_capacity(own.len());
        for (name, param) in own {
            let own_name = match name.strip_prefix(config.root()) {
                Some(rest) => format!("{}{rest}", self.config.root()),
                None => name.clone(),
            };
            let source = self.params.entries().iter().position(|entry| *entry.name == own_name);
            if let Some(at) = source {
                let values = self.params.get(self.params.entries()[at].param).to_vec();
                params.get_mut(param).copy_from_slice(&values);
            }
            dtypes.push(source.map_or(Dtype::F32, |at| self.dtypes[at]));
        }
        Ok(Model::assemble(config, params, decoder, dtypes))
    }

    /// Does it output values instead of logits?
    pub fn is_value_model(&self) -> bool {
        self.config.head == Head::Value
    }

    fn assemble(config: ModelConfig, params: Params, decoder: Decoder, dtypes: Vec<Dtype>) -> Self {
        let vocab = vocab(&config, |_| true);
        Model { config, params, decoder, dtypes, vocab, adapted: None, carried: None }
    }

    /// Writes what was trained, in a form that `transformers` or PEFT loads. A whole model becomes `config.json` and
    /// `model.safetensors`: each tensor has the type in which it was read, or the type named by the configuration, and
    /// a tied head is not written twice. An adapter becomes `adapter_config.json` and `adapter_model.safetensors`
    /// (f32), which PEFT loads on top of the base.
    ///
    /// # Errors
    /// If a file can't be written; an earlier file of that name then stays.
    pub fn save(&self, dir: &Path) -> Result<(), ModelError> {
        files::create_directory(dir)?;
        let Some(Adapted { config, base }) = &self.adapted else {
            return self.save_whole(dir);
        };
        let stored = |param: Param| Weight::from(param);
        let tensors = self.params.trained_entries().map(|entry| {
            let weight = stored(entry.param);
            (&*entry.name, Stored { dtype: Dtype::F32, shape: &entry.shape, params: &self.params, weight })
        });
        weights::save(dir, lora::WEIGHTS_FILE, tensors, None)?;
        files::write_json(
            &dir.join(lora::CONFIG_FILE),
            &config.to_peft(&std::path::absolute(base).unwrap_or_else(|_| base.clone())),
        )
    }

    /// Writes the whole model with its adapters merged into the weights: `config.json` and `model.safetensors`.
    ///
    /// # Errors
    /// If a file can't be written, or a tied head has an adapter of its own.
    pub fn save_merged(&self, dir: &Path) -> Result<(), ModelError> {
        if self.config.tie_word_embeddings && self.decoder.lm_head().adapter.is_some() {
            let problem = "the adapter of lm_head can't be merged: the head is the embedding \
                           (`tie_word_embeddings` is true), which has no adapter";
            return Err(ModelError::malformed(&dir.join(SINGLE), problem));
        }
        files::create_directory(dir)?;
        self.save_whole(dir)
    }

    fn save_whole(&self, dir: &Path) -> Result<(), ModelError> {
        let mut decoder = self.decoder.clone();
        let adapted: Vec<Weight> = decoder.linear_maps().map(|(_, weight)| *weight).collect();
        let tensors = self.params.entries().iter().zip(&self.dtypes).map(|(entry, &dtype)| {
            let of_entry = adapted.iter().find(|weight| weight.base == entry.param);
            let weight = of_entry.copied().unwrap_or(entry.param.into());
            (&*entry.name, Stored { dtype, shape: &entry.shape, params: &self.params, weight })
        });
        weights::save(dir, SINGLE, tensors, self.carried.as_ref().map(|carried| (carried, &self.config)))?;
        self.config.save(dir)
    }

    /// Is an adapter trained, over a frozen base?
    pub fn is_adapted(&self) -> bool {
        self.adapted.is_some()
    }

    /// As [`Model::forward`] for a packed batch on a recording tape, keeping only what `keep` says of each layer: the
    /// backward pass recomputes the rest (activation checkpointing).
    pub fn forward_checkpointed<'p>(
        &'p self,
        tape: &mut Tape<'p>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &Packed,
        keep: Keep,
    ) -> Var {
        self.decoder.forward_checkpointed(tape, ids, positions, mixer, keep)
    }

    /// Hidden states after the last norm, `[T, D]`, for `T` tokens at the given positions. The ids must be below
    /// `vocab_size`, the positions below [`Model::context_tokens_max`].
    pub fn forward(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &mut dyn Mix,
    ) -> Var {
        self.forward_tapped(tape, ids, positions, mixer, &mut ())
    }

    /// As [`Model::forward`], with a tap that looks on and may change hidden states.
    pub fn forward_tapped(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &mut dyn Mix,
        tap: &mut dyn Tap,
    ) -> Var {
        debug_assert_eq!(ids.len(), positions.len(), "one position for each token");
        debug_assert!(
            positions.iter().all(|&position| (position as usize) < self.context_tokens_max()),
            "a position lies beyond the context window"
        );
        self.decoder.forward(tape, ids, positions, mixer, tap)
    }

    /// The head, `[V, D]`: the embedding if they are tied; `[1, D]` for a value model.
    pub fn head(&self) -> Weight {
        self.decoder.lm_head()
    }

    /// Number and width of the attention heads.
    pub fn head_shape(&self) -> HeadShape {
        head_shape(&self.config)
    }

    /// Has it layers of the delta rule, whose state is not made of rows of tokens?
    pub fn is_recurrent(&self) -> bool {
        self.config.layers_of(LayerKind::DeltaRule) > 0
    }

    /// How the tokens of a sequence see each other.
    pub fn visibility(&self) -> Visibility {
        self.config.visibility()
    }

    /// Which ids of the head exist. The mask of a masked diffusion model is none: it is only read.
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    /// Excludes the ids for which `allowed` is false, because heads are often padded beyond the tokenizer's ids.
    pub fn restrict_vocab(&mut self, allowed: impl Fn(u32) -> bool) {
        self.vocab = vocab(&self.config, allowed);
    }

    /// Gives the id `to` the embedding, and the row of the head, of the id `from`; both must be below `vocab_size`. A
    /// new token begins like that, near others, because rows drawn at random would not be of one size with them.
    pub fn copy_token(&mut self, from: u32, to: u32) {
        let width = self.config.hidden_size;
        let tables = [self.decoder.embed_tokens(), self.decoder.lm_head().base];
        for table in tables.into_iter().filter(|table| table.range().len() == width * self.vocab.len()) {
            let (from, to) = (from as usize * width, to as usize * width);
            match self.params.elements_mut(table) {
                ElementsMut::F32(rows) => rows.copy_within(from..from + width, to),
                ElementsMut::Bf16(rows) => rows.copy_within(from..from + width, to),
            }
        }
    }

    /// Logits `[T, V]` of hidden states `[T, D]`, over the whole head, including excluded ids.
    pub fn logits(&self, tape: &mut Tape<'_>, hidden: &Var) -> Var {
        tape.head(hidden, self.head())
    }

    /// Logits `[T, V]` of hidden states `[T, D]` as they are between layers: the final norm and the head, as if the model
    /// ended there (early exit, or "logit lens").
    pub fn exit_logits(&self, tape: &mut Tape<'_>, hidden: &Var) -> Var {
        let normed = self.decoder.normed(tape, hidden);
        self.logits(tape, &normed)
    }

    /// Packed copies of the weights of its linear maps, for [`Tape::decoding`].
    pub fn prepacked(&self) -> Prepacked {
        let mut decoder = self.decoder.clone();
        let weights: Vec<Param> = decoder.linear_maps().map(|(_, weight)| weight.base).collect();
        Prepacked::of(&self.params, weights)
    }

    /// Longest sequence that the model can read.
    pub fn context_tokens_max(&self) -> usize {
        self.config.max_position_embeddings
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights: usize = self.params.entries().iter().map(|entry| entry.param.len()).sum();
        f.debug_struct("Model")
            .field("config", &self.config)
            .field("weights", &weights)
            .finish_non_exhaustive()
    }
}

/// The ids that the head can give.
fn vocab(config: &ModelConfig, allowed: impl Fn(u32) -> bool) -> Arc<Vocab> {
    let vocab = match config.mask_token_id {
        Some(mask) => Vocab::only(config.vocab_size, |id| id != mask && allowed(id)),
        None => Vocab::only(config.vocab_size, allowed),
    };
    Arc::new(vocab)
}

/// Where each tensor is kept, by what is trained.
pub(crate) fn stores(specs: &[TensorSpec], loading: &Loading, dir: &Path) -> Result<Vec<Store>, ModelError> {
    let frozen = match &loading.trains {
        Trains::All => return Ok(vec![Store::Trained; specs.len()]),
        Trains::Except(patterns) => {
            let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
            let frozen = freeze::frozen(&names, patterns, dir)?.into_iter();
            return Ok(frozen.map(|is| if is { Store::Frozen } else { Store::Trained }).collect());
        }
        Trains::Adapter(..) | Trains::Nothing if loading.precision == Precision::Bf16 => Store::FrozenBf16,
        Trains::Adapter(..) | Trains::Nothing => Store::Frozen,
    };
    let of = |spec: &TensorSpec| if is_matrix(&spec.shape) { frozen } else { Store::Frozen };
    Ok(specs.iter().map(of).collect())
}

/// Matrices of linear maps and embeddings; vectors, and the few numbers of a convolution, are small and stay in f32.
fn is_matrix(shape: &[usize]) -> bool {
    shape.len() == 2
}

/// Numbers `of` uniform ones from `low` to `high`.
fn fill_uniform(values: &mut [f32], seed: u64, index: u64, low: f64, high: f64, of: impl Fn(f64) -> f64) {
    let mut stream = stream_of(seed, index);
    values.fill_with(|| of(low + (high - low) * stream.uniform()) as f32);
}

fn stream_of(seed: u64, index: u64) -> Stream {
    Stream::new(Address { task: index, ..Address::new(seed, Purpose::Init) }.seed())
}

fn add(params: &mut Params, name: &str, shape: &[usize], init: Init) -> Param {
    params.add(name, shape, init == Init::Normal)
}

/// The tensors that the architecture needs, without allocating them.
pub(crate) fn tensor_specs(config: &ModelConfig) -> Vec<TensorSpec> {
    let mut specs = Vec::new();
    Decoder::declare(config, &mut |name, shape, _| {
        specs.push(TensorSpec { name: name.into(), shape: shape.into() });
        Param { store: Store::Frozen, offset: 0, rows: 0, cols: 0 }
    });
    specs
}
