//! Weights: checked against the architecture before memory is allocated, and written back as one file that
//! `transformers` loads.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use burnish_shards::{INDEX, Shards};
use burnish_tensor::{ElementsMut, Params, Weight};
use half::{bf16, f16};
use rayon::prelude::*;
use safetensors::tensor::{TensorView, View};

use crate::{Dtype, ModelConfig, ModelError, files};

/// A tensor that the architecture needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorSpec {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
}

/// The weights of a model directory.
pub(crate) struct WeightsFile(Shards);

/// The tensors of all files by name, each with its file.
struct Tensors<'a>(BTreeMap<String, (&'a Path, TensorView<'a>)>);

impl<'a> Tensors<'a> {
    fn get(&self, name: &str) -> Option<&(&'a Path, TensorView<'a>)> {
        self.0.get(name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Tensors that belong to the model and not to the decoder, in the files that they were read from: they are written
/// back as they are.
#[derive(Clone)]
pub(crate) struct Carried(Arc<WeightsFile>);

const HEAD: &str = "lm_head.weight";

/// Number of values that one thread converts at a time.
const CHUNK: usize = 1 << 18;

impl WeightsFile {
    /// Maps the weights of a model directory.
    ///
    /// # Errors
    /// As [`Shards::open`].
    pub(crate) fn open(dir: &Path) -> Result<Self, ModelError> {
        Ok(WeightsFile(Shards::open(dir)?))
    }

    /// Reads the header of every file.
    fn parse(&self) -> Result<Tensors<'_>, ModelError> {
        let mut all = BTreeMap::new();
        for entry in self.0.entries()? {
            let (path, bytes) = self.0.get(&entry);
            let tensor = TensorView::new(entry.dtype, entry.shape, bytes)
                .map_err(|error| ModelError::malformed(path, format!("tensor {}: {error}", entry.name)))?;
            all.insert(entry.name, (path, tensor));
        }
        Ok(Tensors(all))
    }

    /// Checks that the files hold exactly the tensors `specs`, and returns the type of each, in order. If there are
    /// several files, the index is checked first.
    ///
    /// # Errors
    /// Names the file and the first tensor that is missing, unexpected, or has the wrong shape or type.
    pub(crate) fn check(&self, config: &ModelConfig, specs: &[TensorSpec]) -> Result<Vec<Dtype>, ModelError> {
        let known: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        if let Some(listed) = self.0.listed() {
            if let Some(absent) = specs.iter().find(|spec| !listed.contains(spec.name.as_str())) {
                return Err(self.missing(absent));
            }
            if let Some(name) = listed.difference(&known).find(|name| !may_be_extra(config, name)) {
                return Err(unknown(self.0.list(), name, config));
            }
        }
        let tensors = self.parse()?;
        let dtypes = specs.iter().map(|spec| self.check_tensor(&tensors, spec)).collect::<Result<_, _>>()?;
        for name in tensors.names().filter(|name| !known.contains(name)) {
            check_extra(&tensors, config, name)?;
        }
        Ok(dtypes)
    }

    /// Copies every tensor into its parameter, one after the other. [`WeightsFile::check`] must have succeeded.
    pub(crate) fn read_into(&self, params: &mut Params) -> Result<(), ModelError> {
        let tensors = self.parse()?;
        for entry in params.entries().to_vec() {
            let Some((_, tensor)) = tensors.get(&entry.name) else {
                return Err(self.missing(&TensorSpec { name: entry.name, shape: entry.shape }));
            };
            read_tensor(tensor, params.elements_mut(entry.param));
        }
        Ok(())
    }

    /// What is to be written back as it is, if there is anything.
    pub(crate) fn carried(self, config: &ModelConfig) -> Result<Option<Carried>, ModelError> {
        let is_any = self.parse()?.names().any(|name| config.is_carried(name));
        Ok(is_any.then(|| Carried(Arc::new(self))))
    }

    fn missing(&self, spec: &TensorSpec) -> ModelError {
        let (path, name) = (self.0.list().to_owned(), spec.name.clone());
        ModelError::MissingTensor { path, name, shape: spec.shape.clone() }
    }

    fn check_tensor(&self, tensors: &Tensors<'_>, spec: &TensorSpec) -> Result<Dtype, ModelError> {
        let Some((path, tensor)) = tensors.get(&spec.name) else { return Err(self.missing(spec)) };
        check_type(path, &spec.name, tensor, &spec.shape)
    }
}

fn unknown(path: &Path, name: &str, config: &ModelConfig) -> ModelError {
    let (path, name) = (path.to_path_buf(), name.to_string());
    ModelError::UnknownTensor { path, name, architecture: config.architecture.class() }
}

/// Whether a tensor that the decoder does not need may be present. Older files hold the rotary frequencies, which
/// follow from config.json, some hold a tied head, and some hold other parts of a larger model.
fn may_be_extra(config: &ModelConfig, name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq")
        || (config.tie_word_embeddings && name == HEAD)
        || config.is_carried(name)
}

/// Checks such a tensor: it is allowed only if it repeats what is already known.
fn check_extra(tensors: &Tensors<'_>, config: &ModelConfig, name: &str) -> Result<(), ModelError> {
    let Some((path, _)) = tensors.get(name) else { return Ok(()) };
    if !may_be_extra(config, name) {
        return Err(unknown(path, name, config));
    }
    let bytes = |name: &str| tensors.get(name).map(|(_, tensor)| tensor.data());
    let embedding = config.embedding_name();
    if name == HEAD && bytes(HEAD) != bytes(&embedding) {
        let problem = format!(
            "`tie_word_embeddings` is true in config.json, but {HEAD} differs from {embedding}; \
             set it to false, or remove {HEAD}"
        );
        return Err(ModelError::malformed(path, problem));
    }
    Ok(())
}

/// Checks that a tensor has the shape `expected` and a readable type; returns the type.
pub(crate) fn check_type(
    path: &Path,
    name: &str,
    tensor: &TensorView<'_>,
    expected: &[usize],
) -> Result<Dtype, ModelError> {
    let (path, name) = (path.to_owned(), name.to_owned());
    if tensor.shape() != expected {
        let (expected, found) = (expected.to_vec(), tensor.shape().to_vec());
        return Err(ModelError::TensorShape { path, name, expected, found });
    }
    match tensor.dtype() {
        safetensors::Dtype::F32 => Ok(Dtype::F32),
        safetensors::Dtype::BF16 => Ok(Dtype::Bf16),
        safetensors::Dtype::F16 => Ok(Dtype::F16),
        other => Err(ModelError::TensorType { path, name, found: other.to_string() }),
    }
}

/// Copies a tensor's little-endian numbers to their destination, on all threads.
pub(crate) fn read_tensor(tensor: &TensorView<'_>, out: ElementsMut<'_>) {
    let data = tensor.data();
    match (tensor.dtype(), out) {
        (safetensors::Dtype::F32, ElementsMut::F32(out)) => copy(data, out, f32::from_le_bytes),
        (safetensors::Dtype::BF16, ElementsMut::F32(out)) => {
            copy(data, out, |bytes: [u8; 2]| bf16::from_le_bytes(bytes).to_f32());
        }
        (_, ElementsMut::F32(out)) => copy(data, out, |bytes: [u8; 2]| f16::from_le_bytes(bytes).to_f32()),
        (safetensors::Dtype::F32, ElementsMut::Bf16(out)) => {
            copy(data, out, |bytes: [u8; 4]| bf16::from_f32(f32::from_le_bytes(bytes)));
        }
        (safetensors::Dtype::BF16, ElementsMut::Bf16(out)) => copy(data, out, bf16::from_le_bytes),
        (_, ElementsMut::Bf16(out)) => {
            copy(data, out, |bytes: [u8; 2]| bf16::from_f32(f16::from_le_bytes(bytes).to_f32()));
        }
    }
}

fn copy<const N: usize, T: Send>(data: &[u8], out: &mut [T], read: impl Fn([u8; N]) -> T + Sync) {
    let (numbers, _) = data.as_chunks::<N>();
    out.par_chunks_mut(CHUNK).zip(numbers.par_chunks(CHUNK)).for_each(|(out, numbers)| {
        for (out, bytes) in out.iter_mut().zip(numbers) {
            *out = read(*bytes);
        }
    });
}

impl Carried {
    fn tensors(&self, config: &ModelConfig) -> Result<Vec<(String, TensorView<'_>)>, ModelError> {
        let all = self.0.parse()?;
        let names = all.names().filter(|name| config.is_carried(name));
        let tensor = |name: &str| Some((name.to_owned(), all.get(name)?.1.clone()));
        Ok(names.filter_map(tensor).collect())
    }
}

/// Writes parameters to the file `name` in `dir`, each in its type (rounded to nearest even), and what is carried, with
/// the metadata that `transformers` needs. Only one tensor at a time is held in that type. An existing index of several
/// files is deleted, because its weights are no longer the model's.
pub(crate) fn save<'a>(
    dir: &Path,
    name: &str,
    tensors: impl IntoIterator<Item = (&'a str, Stored<'a>)>,
    carried: Option<(&Carried, &ModelConfig)>,
) -> Result<(), ModelError> {
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let carried = carried.map_or(Ok(Vec::new()), |(carried, config)| carried.tensors(config))?;
    let own = tensors.into_iter().map(|(name, stored)| (name, Written::Own(stored)));
    let carried = carried.iter().map(|(name, tensor)| (name.as_str(), Written::Carried(tensor)));
    files::write_atomically(&dir.join(name), |temporary| {
        safetensors::serialize_to_file(own.chain(carried), Some(metadata), temporary)
            .map_err(io::Error::other)
    })?;
    let index = dir.join(INDEX);
    match fs::remove_file(&index) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ModelError::write(&index, error)),
        _ => Ok(()),
    }
}

/// A tensor on its way to a file.
enum Written<'a> {
    Own(Stored<'a>),
    Carried(&'a TensorView<'a>),
}

impl View for Written<'_> {
    fn dtype(&self) -> safetensors::Dtype {
        match self {
            Written::Own(stored) => View::dtype(stored),
            Written::Carried(tensor) => tensor.dtype(),
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Written::Own(stored) => View::shape(stored),
            Written::Carried(tensor) => tensor.shape(),
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            Written::Own(stored) => View::data(stored),
            Written::Carried(tensor) => Cow::Borrowed(TensorView::data(tensor)),
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Written::Own(stored) => View::data_len(stored),
            Written::Carried(tensor) => TensorView::data(tensor).len(),
        }
    }
}

/// A parameter as it is stored: with its adapter, if any, merged in.
pub(crate) struct Stored<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [usize],
    pub(crate) params: &'a Params,
    pub(crate) weight: Weight,
}

impl View for Stored<'_> {
    fn dtype(&self) -> safetensors::Dtype {
        match self.dtype {
            Dtype::F32 => safetensors::Dtype::F32,
            Dtype::Bf16 => safetensors::Dtype::BF16,
            Dtype::F16 => safetensors::Dtype::F16,
        }
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let values = self.weight.merged(self.params);
        Cow::Owned(match self.dtype {
            Dtype::F32 => bytes_of(&values, f32::to_le_bytes),
            Dtype::Bf16 => bytes_of(&values, |value| bf16::from_f32(value).to_le_bytes()),
            Dtype::F16 => bytes_of(&values, |value| f16::from_f32(value).to_le_bytes()),
        })
    }

    fn data_len(&self) -> usize {
        let width = if self.dtype == Dtype::F32 { 4 } else { 2 };
        self.weight.base.len() * width
    }
}

fn bytes_of<const N: usize>(values: &[f32], write: impl Fn(f32) -> [u8; N] + Sync) -> Vec<u8> {
    let mut bytes = vec![0; N * values.len()];
    let (numbers, _) = bytes.as_chunks_mut::<N>();
    numbers.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(numbers, values)| {
        for (number, &value) in numbers.iter_mut().zip(values) {
            *number = write(value);
        }
    });
    bytes
}
