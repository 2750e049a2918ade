//! A policy's weights with what they compute.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_tensor::{HeadShape, Param, Params, Tape, Var, Vocab};

use crate::decoder::{Decoder, Init, head_shape};
use crate::weights::{self, TensorSpec, WeightsFile};
use crate::{Attend, Dtype, ModelConfig, ModelError, files};

/// A decoder with its weights, in f32.
#[derive(Clone)]
pub struct Model {
    /// What it computes.
    pub config: ModelConfig,
    /// Its weights, named as in the checkpoint.
    pub params: Params,
    decoder: Decoder,
    /// Type of each parameter in its file.
    dtypes: Vec<Dtype>,
    vocab: Arc<Vocab>,
}

impl Model {
    /// Reads `config.json` and the weights of a model directory: `model.safetensors`, or the files that
    /// `model.safetensors.index.json` lists.
    ///
    /// # Errors
    /// Names the file, and the key or tensor that is wrong. The weights are checked before memory is taken.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let config = ModelConfig::load(dir)?;
        let file = WeightsFile::open(dir)?;
        let dtypes = file.check(&config, &tensor_specs(&config))?;
        let mut params = Params::new();
        let decoder = Decoder::declare(&config, &mut |name, shape, init| add(&mut params, name, shape, init));
        file.read_into(&mut params)?;
        Ok(Model::assemble(config, params, decoder, dtypes))
    }

    /// A new model: matrices normal with standard deviation `initializer_range`, norms 1, biases 0. Each matrix
    /// has its own random stream, so that the same seed gives the same weights everywhere.
    pub fn init(config: ModelConfig, seed: u64) -> Self {
        let mut params = Params::new();
        let mut starts = Vec::new();
        let decoder = Decoder::declare(&config, &mut |name, shape, init| {
            let param = add(&mut params, name, shape, init);
            starts.push((param, init));
            param
        });
        for (index, (param, init)) in (0..).zip(starts) {
            let values = params.get_mut(param);
            match init {
                Init::Ones => values.fill(1.0),
                Init::Zeros => values.fill(0.0),
                Init::Normal => {
                    let place = Address { task: index, ..Address::new(seed, Purpose::Init) };
                    let mut stream = Stream::new(place.seed());
                    values.fill_with(|| (config.initializer_range * stream.normal()) as f32);
                }
            }
        }
        let dtypes = vec![config.dtype; params.entries().len()];
        Model::assemble(config, params, decoder, dtypes)
    }

    fn assemble(config: ModelConfig, params: Params, decoder: Decoder, dtypes: Vec<Dtype>) -> Self {
        let vocab = Arc::new(Vocab::all(config.vocab_size));
        Model { config, params, decoder, dtypes, vocab }
    }

    /// Writes `config.json` and `model.safetensors`, so that `transformers` loads them: each tensor in the type
    /// that it was read in, or that the configuration names. Tied heads are not written twice.
    ///
    /// # Errors
    /// If a file can't be written; what stood under its name before then stays.
    pub fn save(&self, dir: &Path) -> Result<(), ModelError> {
        files::create_directory(dir)?;
        weights::save(dir, &self.params, &self.dtypes)?;
        self.config.save(dir)
    }

    /// Hidden states after the last norm, `[T, D]`, of `T` tokens at the given positions. The ids must be below
    /// `vocab_size`, the positions below [`Model::context_tokens_max`].
    pub fn forward(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &mut dyn Attend,
    ) -> Var {
        debug_assert_eq!(ids.len(), positions.len(), "one position for each token");
        debug_assert!(
            positions.iter().all(|&position| (position as usize) < self.context_tokens_max()),
            "a position lies beyond the context window"
        );
        self.decoder.forward(tape, ids, positions, mixer)
    }

    /// The head, `[V, D]`: the embedding where they are tied.
    pub fn head(&self) -> Param {
        self.decoder.lm_head()
    }

    /// Number and width of the attention heads.
    pub fn head_shape(&self) -> HeadShape {
        head_shape(&self.config)
    }

    /// Which ids of the head exist.
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    /// Excludes the ids for which `allowed` is false: heads are often padded beyond the tokenizer's ids.
    pub fn restrict_vocab(&mut self, allowed: impl Fn(u32) -> bool) {
        self.vocab = Arc::new(Vocab::only(self.config.vocab_size, allowed));
    }

    /// Logits `[T, V]` of hidden states `[T, D]`, over the whole head, excluded ids included.
    pub fn logits(&self, hidden: &[f32]) -> Vec<f32> {
        let rows = hidden.len() / self.config.hidden_size;
        burnish_tensor::logits(&self.params, hidden, rows, self.head())
    }

    /// Longest sequence that the model can read.
    pub fn context_tokens_max(&self) -> usize {
        self.config.max_position_embeddings
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights = self.params.data().len();
        f.debug_struct("Model")
            .field("config", &self.config)
            .field("weights", &weights)
            .finish_non_exhaustive()
    }
}

fn add(params: &mut Params, name: &str, shape: &[usize], init: Init) -> Param {
    params.add(name, shape, init == Init::Normal)
}

/// The tensors that the architecture asks for, without taking memory for them.
fn tensor_specs(config: &ModelConfig) -> Vec<TensorSpec> {
    let mut specs = Vec::new();
    Decoder::declare(config, &mut |name, shape, _| {
        specs.push(TensorSpec { name: name.into(), shape: shape.into() });
        Param { offset: 0, rows: 0, cols: 0 }
    });
    specs
}
