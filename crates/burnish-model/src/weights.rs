//! `model.safetensors`: checked against the architecture before anything is computed, and written back so that
//! `transformers` loads it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use burnish_tensor::{ElementsMut, Mapped, Params, Weight, map_file};
use half::{bf16, f16};
use safetensors::tensor::{SafeTensors, TensorView, View};

use crate::{Dtype, ModelConfig, ModelError, files};

/// A tensor that the architecture asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorSpec {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
}

/// The weights of a model directory, mapped and found to be what the architecture asks for.
pub(crate) struct WeightsFile {
    path: PathBuf,
    map: Mapped,
}

pub(crate) const NAME: &str = "model.safetensors";
const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

impl WeightsFile {
    /// Maps `model.safetensors` of a model directory.
    ///
    /// # Errors
    /// If the file is missing, or the weights are split over several files.
    pub(crate) fn open(dir: &Path) -> Result<Self, ModelError> {
        let path = dir.join(NAME);
        let index = dir.join("model.safetensors.index.json");
        if !path.exists() && index.exists() {
            let problem = "the weights are split over several files, which is not supported yet; \
                           save them as one model.safetensors (save_pretrained with a larger max_shard_size)";
            return Err(ModelError::malformed(&index, problem));
        }
        let map = map_file(&path).map_err(|source| ModelError::read(&path, source))?;
        Ok(WeightsFile { path, map })
    }

    /// Checks that the file holds exactly the tensors `specs`, and returns the type of each, in their order.
    ///
    /// # Errors
    /// Names the file, and the first tensor that is missing, misshapen, of another type, or without a place.
    pub(crate) fn check(&self, config: &ModelConfig, specs: &[TensorSpec]) -> Result<Vec<Dtype>, ModelError> {
        let tensors = self.parse()?;
        let dtypes = specs.iter().map(|spec| self.check_tensor(&tensors, spec)).collect::<Result<_, _>>()?;
        let known: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let mut names = tensors.names();
        names.sort_unstable();
        for name in names.into_iter().filter(|name| !known.contains(name)) {
            self.check_extra(&tensors, config, name)?;
        }
        Ok(dtypes)
    }

    /// Copies every tensor into its parameter, as f32. The file must have passed [`WeightsFile::check`].
    pub(crate) fn read_into(&self, params: &mut Params) -> Result<(), ModelError> {
        let tensors = self.parse()?;
        for entry in params.entries().to_vec() {
            let tensor = tensors
                .tensor(&entry.name)
                .map_err(|error| ModelError::malformed(&self.path, error.to_string()))?;
            read_tensor(&tensor, params.elements_mut(entry.param));
        }
        Ok(())
    }

    fn parse(&self) -> Result<SafeTensors<'_>, ModelError> {
        SafeTensors::deserialize(&self.map).map_err(|error| {
            let length = self.map.len();
            let problem = format!(
                "truncated, or not a safetensors file ({error}); it has {length} bytes; fetch or save it again"
            );
            ModelError::malformed(&self.path, problem)
        })
    }

    fn check_tensor(&self, tensors: &SafeTensors<'_>, spec: &TensorSpec) -> Result<Dtype, ModelError> {
        let (path, name) = (self.path.clone(), spec.name.clone());
        let Ok(tensor) = tensors.tensor(&spec.name) else {
            return Err(ModelError::MissingTensor { path, name, shape: spec.shape.clone() });
        };
        check_type(&path, &name, &tensor, &spec.shape)
    }

    /// A tensor beyond the architecture: fine only where it repeats what is known already.
    fn check_extra(
        &self,
        tensors: &SafeTensors<'_>,
        config: &ModelConfig,
        name: &str,
    ) -> Result<(), ModelError> {
        // Older files hold the rotary frequencies, which follow from config.json.
        if name.ends_with("rotary_emb.inv_freq") {
            return Ok(());
        }
        let is_tied_head = config.tie_word_embeddings && name == HEAD;
        let bytes = |name| tensors.tensor(name).map(|tensor| tensor.data()).ok();
        if is_tied_head && bytes(HEAD) == bytes(EMBEDDING) {
            return Ok(());
        }
        let (path, name) = (self.path.clone(), name.to_string());
        if is_tied_head {
            let problem = format!(
                "`tie_word_embeddings` is true in config.json, but {HEAD} differs from {EMBEDDING}; \
                 set it to false, or remove {HEAD}"
            );
            return Err(ModelError::malformed(&path, problem));
        }
        Err(ModelError::UnknownTensor { path, name, architecture: config.architecture.class() })
    }
}

/// Checks that a tensor has the shape `expected` and a type that can be read, which it gives.
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

/// Copies a tensor's little-endian numbers to where they are kept.
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

fn copy<const N: usize, T>(data: &[u8], out: &mut [T], read: impl Fn([u8; N]) -> T) {
    let (chunks, _) = data.as_chunks::<N>();
    for (out, bytes) in out.iter_mut().zip(chunks) {
        *out = read(*bytes);
    }
}

/// Writes parameters to the file `name` of `dir`, each in its type (rounded to nearest even), with the metadata that
/// `transformers` asks for. One tensor at a time is held in that type.
pub(crate) fn save<'a>(
    dir: &Path,
    name: &str,
    tensors: impl IntoIterator<Item = (&'a str, Stored<'a>)>,
) -> Result<(), ModelError> {
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    files::write_atomically(&dir.join(name), |temporary| {
        safetensors::serialize_to_file(tensors, Some(metadata), temporary).map_err(io::Error::other)
    })
}

/// A parameter as it is stored: with its adapter merged in, if it has one.
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
        let values = values.iter();
        Cow::Owned(match self.dtype {
            Dtype::F32 => values.flat_map(|value| value.to_le_bytes()).collect(),
            Dtype::Bf16 => values.flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
            Dtype::F16 => values.flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
        })
    }

    fn data_len(&self) -> usize {
        let width = if self.dtype == Dtype::F32 { 4 } else { 2 };
        self.weight.base.len() * width
    }
}
