//! Checkpoints for tests.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burnish_core::rng::Stream;
use burnish_weights::{
    Checkpoint, Float, Merge, Options, Planned, Report, SHARD_BYTES_MAX, Sink, WeightsError, parse,
};

/// A folder for one test.
pub struct Scratch(tempfile::TempDir);

/// Tensors by name: shape and values.
pub type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

impl Scratch {
    pub fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// How many files and folders there are.
    pub fn count(&self) -> usize {
        std::fs::read_dir(self.0.path()).unwrap().count()
    }

    /// Writes a checkpoint with a `config.json`.
    pub fn write(&self, name: &str, tensors: &Tensors, float: Float, config: &str) -> PathBuf {
        self.write_in(name, tensors, float, config, SHARD_BYTES_MAX)
    }

    /// As [`Scratch::write`], in files of at most so many bytes.
    pub fn write_in(
        &self,
        name: &str,
        tensors: &Tensors,
        float: Float,
        config: &str,
        bytes_max: u64,
    ) -> PathBuf {
        let path = self.path(name);
        let planned: Vec<Planned> = tensors
            .iter()
            .map(|(name, shape, values)| Planned {
                name: name.clone(),
                dtype: float.dtype(),
                shape: shape.clone(),
                bytes: values.len() * float.width(),
            })
            .collect();
        let sink = Sink::create(&path, &planned, bytes_max).unwrap();
        for (at, (_, _, values)) in tensors.iter().enumerate() {
            sink.write(at, 0, &bytes(values, float)).unwrap();
        }
        sink.text("config.json", config).unwrap();
        sink.text("tokenizer.json", "{}").unwrap();
        sink.finish().unwrap();
        path
    }

    /// Merges as the YAML says, in which `@x` stands for the path of `x`, into `out`.
    pub fn merge(&self, yaml: &str, out: &str) -> Result<Report, WeightsError> {
        self.merge_with(yaml, out, &Options::default())
    }

    pub fn merge_with(&self, yaml: &str, out: &str, options: &Options) -> Result<Report, WeightsError> {
        self.read(yaml)?.run(&self.path(out), options, &mut |_| ControlFlow::Continue(()))
    }

    pub fn read(&self, yaml: &str) -> Result<Merge, WeightsError> {
        parse(Path::new("test.yaml"), &yaml.replace('@', &format!("{}/", self.0.path().display())))
    }

    /// Reads a checkpoint back, as f32.
    pub fn values(&self, name: &str) -> BTreeMap<String, Vec<f32>> {
        let checkpoint = Checkpoint::open(&self.path(name)).unwrap();
        checkpoint
            .tensors()
            .map(|view| {
                let float = Float::of(view.dtype).unwrap();
                let values = view.bytes.chunks(float.width()).map(|bytes| value(bytes, float)).collect();
                (view.name.to_owned(), values)
            })
            .collect()
    }

    /// The bytes of a checkpoint's tensors.
    pub fn bytes(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let checkpoint = Checkpoint::open(&self.path(name)).unwrap();
        checkpoint.tensors().map(|view| (view.name.to_owned(), view.bytes.to_vec())).collect()
    }
}

pub fn bytes(values: &[f32], float: Float) -> Vec<u8> {
    let bytes = values.iter().map(|value| match float {
        Float::F32 => value.to_le_bytes().to_vec(),
        Float::Bf16 => half::bf16::from_f32(*value).to_le_bytes().to_vec(),
        Float::F16 => half::f16::from_f32(*value).to_le_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

fn value(bytes: &[u8], float: Float) -> f32 {
    match float {
        Float::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
        Float::Bf16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
        Float::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
    }
}

pub fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    (0..count).map(|_| stream.normal() as f32).collect()
}

/// A little decoder: two layers with grouped queries, 4 heads of 2 dimensions, 2 heads of keys.
pub const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 2, "num_hidden_layers": 2, "torch_dtype": "float32"}"#;

pub fn decoder(seed: u64) -> Tensors {
    let mut shapes = vec![("model.embed_tokens.weight".to_owned(), vec![10, 8])];
    for layer in 0..2 {
        let shaped = [
            ("self_attn.q_proj.weight", vec![8, 8]),
            ("self_attn.k_proj.weight", vec![4, 8]),
            ("self_attn.v_proj.weight", vec![4, 8]),
            ("self_attn.o_proj.weight", vec![8, 8]),
            ("self_attn.q_norm.weight", vec![2]),
            ("mlp.up_proj.weight", vec![12, 8]),
            ("mlp.down_proj.weight", vec![8, 12]),
            ("input_layernorm.weight", vec![8]),
        ];
        shapes.extend(shaped.map(|(name, shape)| (format!("model.layers.{layer}.{name}"), shape)));
    }
    shapes.push(("lm_head.weight".to_owned(), vec![10, 8]));
    fill(shapes, seed)
}

/// Random values for these shapes.
pub fn fill(shapes: Vec<(String, Vec<usize>)>, seed: u64) -> Tensors {
    let tensor = |(at, (name, shape)): (usize, (String, Vec<usize>))| {
        let values = random(shape.iter().product(), 1000 * seed + at as u64);
        (name, shape, values)
    };
    shapes.into_iter().enumerate().map(tensor).collect()
}

/// `base` with a change of every tensor.
pub fn changed(base: &Tensors, seed: u64, size: f32) -> Tensors {
    let change = |(at, (name, shape, values)): (usize, &(String, Vec<usize>, Vec<f32>))| {
        let noise = random(values.len(), 7777 * seed + at as u64);
        let values = values.iter().zip(noise).map(|(value, noise)| value + size * noise).collect();
        (name.clone(), shape.clone(), values)
    };
    base.iter().enumerate().map(change).collect()
}
