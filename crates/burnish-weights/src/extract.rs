//! An adapter out of two checkpoints: the best approximation of each map's change by a product of low rank.
//!
//! `W_tuned − W_base ≈ B A` with `B = U_r √S_r` and `A = √S_r V_rᵀ` of the singular value decomposition (Eckart and Young
//! 1936), stored as PEFT stores LoRA, with `lora_alpha = r`, so that the scale is 1.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use crate::align::{EMBEDDINGS, HEADS, align, is_one_of};
use crate::checkpoint::{Checkpoint, View};
use crate::merge::{Progress, Watch};
use crate::sink::{Planned, Sink};
use crate::spectrum::{Change, Spectrum};
use crate::sweep::{dot, fold};
use crate::{Float, WeightsError};

const WEIGHTS: &str = "adapter_model.safetensors";
const CONFIG: &str = "adapter_config.json";
/// Ends of the names of matrices that are no linear maps, beside embeddings and heads.
const TABLES: [&str; 4] =
    ["wpe.weight", "embed_positions.weight", "position_embeddings.weight", "token_type_embeddings.weight"];
/// Types of models that store their maps transposed.
const TRANSPOSED: [&str; 2] = ["gpt2", "openai-gpt"];

/// What to extract.
#[derive(Debug, Clone, PartialEq)]
pub struct Extract {
    /// The model before tuning.
    pub base: PathBuf,
    /// The model after it.
    pub tuned: PathBuf,
    /// Rank of the products.
    pub rank: usize,
    /// Last parts of the names of the maps that are adapted, such as `q_proj`; all that changed if empty.
    pub targets: Vec<String>,
    /// Type of the adapter's numbers.
    pub dtype: Float,
}

/// What was extracted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Extracted {
    /// How many maps are adapted.
    pub maps: usize,
    /// Last parts of their names.
    pub targets: Vec<String>,
    /// Rank of the products.
    pub rank: usize,
    /// Frobenius norm of what the adapter lacks of the maps' changes, divided by that of the changes. Below 0.001 it is
    /// mostly rounding.
    pub error: f64,
    /// Tensors that changed and that the adapter does not change.
    pub left_out: Vec<String>,
}

/// A map that is adapted.
struct Map<'a> {
    module: &'a str,
    from: View<'a>,
    to: View<'a>,
    square: f64,
}

impl Extract {
    /// Extracts, and writes an adapter's directory to `output`, which appears only when it is complete.
    ///
    /// # Errors
    /// If the checkpoints do not fit, nothing changed, `output` exists, or `watch` breaks.
    pub fn run(&self, output: &Path, watch: &mut Watch<'_>) -> Result<Extracted, WeightsError> {
        if self.rank == 0 {
            return Err(WeightsError::Refused("the rank must be 1 or more".to_owned()));
        }
        let models = [Checkpoint::open(&self.base)?, Checkpoint::open(&self.tuned)?];
        let (maps, left_out) = self.maps(&models)?;
        let suffixes: BTreeSet<&str> = maps.iter().map(|map| suffix(map.module)).collect();
        let planned: Vec<Planned> = maps.iter().flat_map(|map| self.planned(map)).collect();
        let sink = Sink::create_as(output, &planned, u64::MAX, WEIGHTS)?;
        let config = config(&self.base, self.rank, &suffixes);
        sink.text(CONFIG, &format!("{config:#}\n"))?;
        let all = planned.iter().map(|tensor| tensor.bytes as u64).sum();
        let (mut done, mut kept) = (0, 0.0);
        for (at, map) in maps.iter().enumerate() {
            kept += self.write(&sink, 2 * at, map)?;
            done += planned[2 * at..2 * at + 2].iter().map(|tensor| tensor.bytes as u64).sum::<u64>();
            let progress = Progress { done, all, tensors_done: 2 * at + 2, tensors: planned.len() };
            if watch(progress).is_break() {
                return Err(WeightsError::Stopped { path: output.to_owned() });
            }
        }
        sink.finish()?;
        let square: f64 = maps.iter().map(|map| map.square).sum();
        Ok(Extracted {
            maps: maps.len(),
            targets: suffixes.into_iter().map(str::to_owned).collect(),
            rank: self.rank,
            error: ((square - kept).max(0.0) / square).sqrt(),
            left_out,
        })
    }

    /// The maps that are adapted, and the tensors that changed besides.
    fn maps<'a>(&self, models: &'a [Checkpoint; 2]) -> Result<(Vec<Map<'a>>, Vec<String>), WeightsError> {
        let [base, tuned] = models;
        let kind = base.setting("model_type").and_then(serde_json::Value::as_str);
        if let Some(kind) = kind.filter(|kind| TRANSPOSED.contains(kind)) {
            let problem =
                format!("models of type {kind} store their maps transposed, which is not supported");
            return Err(WeightsError::malformed(base.path(), problem));
        }
        let (aligned, _) = align(models, 0)?;
        let (mut maps, mut left_out) = (Vec::new(), Vec::new());
        for one in aligned {
            // What is only copied is the same in both.
            let [from, to] = one.tensors[..] else { continue };
            let square = square(from, to)?;
            let is_outside = [&EMBEDDINGS[..], &HEADS, &TABLES].iter().any(|ends| is_one_of(from.name, ends));
            match from.name.strip_suffix(".weight").filter(|_| from.shape.len() == 2 && !is_outside) {
                Some(module) => maps.push(Map { module, from, to, square }),
                None => left_out.extend((square > 0.0).then(|| from.name.to_owned())),
            }
        }
        for target in &self.targets {
            if !maps.iter().any(|map| suffix(map.module) == target) {
                let known: BTreeSet<&str> = maps.iter().map(|map| suffix(map.module)).collect();
                let known: Vec<&str> = known.into_iter().collect();
                let problem = format!("no map is called {target}; there are {}", known.join(", "));
                return Err(WeightsError::Refused(problem));
            }
        }
        // PEFT adapts every map of a name, so those that did not change are adapted by nothing.
        let is_asked =
            |name: &str| self.targets.is_empty() || self.targets.iter().any(|target| target == name);
        let changed = maps.iter().filter(|map| map.square > 0.0).map(|map| suffix(map.module));
        let names: BTreeSet<String> = changed.filter(|name| is_asked(name)).map(str::to_owned).collect();
        let (maps, others): (Vec<Map<'_>>, Vec<Map<'_>>) =
            maps.into_iter().partition(|map| names.contains(suffix(map.module)));
        let others = others.iter().filter(|map| map.square > 0.0);
        left_out.extend(others.map(|map| map.from.name.to_owned()));
        if maps.is_empty() {
            let problem = format!(
                "no linear map differs between {} and {}: there is nothing to extract",
                base.path().display(),
                tuned.path().display()
            );
            return Err(WeightsError::Refused(problem));
        }
        let most =
            maps.iter().filter_map(|map| map.from.shape.iter().min()).max().copied().unwrap_or_default();
        if self.rank > most {
            let problem = format!("the rank is {}, but no map has more than {most} dimensions", self.rank);
            return Err(WeightsError::Refused(problem));
        }
        Ok((maps, left_out))
    }

    /// `A` and `B` of a map.
    fn planned(&self, map: &Map<'_>) -> [Planned; 2] {
        let (rows, cols) = (map.from.shape[0], map.from.shape[1]);
        [("A", [self.rank, cols]), ("B", [rows, self.rank])].map(|(factor, shape)| Planned {
            name: format!("base_model.model.{}.lora_{factor}.weight", map.module),
            dtype: self.dtype.dtype(),
            shape: shape.to_vec(),
            bytes: shape[0] * shape[1] * self.dtype.width(),
        })
    }

    /// Writes the factors of a map; returns the square of what they hold of its change.
    fn write(&self, sink: &Sink, at: usize, map: &Map<'_>) -> Result<f64, WeightsError> {
        let (rows, cols) = (map.from.shape[0], map.from.shape[1]);
        // Where a map has fewer dimensions than the rank, or did not change, the rest stays 0.
        let mut factors = [vec![0.0; self.rank * cols], vec![0.0; rows * self.rank]];
        let mut kept = 0.0;
        if let Some(change) = Change::of(map.from, map.to).filter(|_| map.square > 0.0) {
            let Spectrum { left, values, right } = change.spectrum(self.rank)?;
            for (index, value) in values.iter().enumerate() {
                let root = value.sqrt();
                for (col, right) in right.col(index).iter().enumerate() {
                    factors[0][index * cols + col] = (root * right) as f32;
                }
                for (row, left) in left.col(index).iter().enumerate() {
                    factors[1][row * self.rank + index] = (root * left) as f32;
                }
                kept += value * value;
            }
        }
        for (which, factor) in factors.iter().enumerate() {
            let mut bytes = vec![0; factor.len() * self.dtype.width()];
            if !self.dtype.encode(factor, &mut bytes) {
                let name = self.dtype.torch_name();
                return Err(map
                    .to
                    .error(format!("has a change that {name} can't hold; choose another type")));
            }
            sink.write(at + which, 0, &bytes)?;
        }
        Ok(kept)
    }
}

fn suffix(module: &str) -> &str {
    module.rsplit('.').next().unwrap_or(module)
}

/// `‖to − from‖²`
fn square(from: View<'_>, to: View<'_>) -> Result<f64, WeightsError> {
    let parts = fold::<f64>(&[from, to], |sum, piece| {
        let change: Vec<f32> =
            piece.inputs[1].iter().zip(piece.inputs[0]).map(|(to, from)| to - from).collect();
        *sum += dot(&change, &change);
    })?;
    Ok(parts.iter().sum())
}

/// The settings as PEFT writes them.
fn config(base: &Path, rank: usize, targets: &BTreeSet<&str>) -> serde_json::Value {
    let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
    json!({
        "alpha_pattern": {},
        "auto_mapping": null,
        "base_model_name_or_path": base.to_string_lossy(),
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layers_pattern": null,
        "layers_to_transform": null,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": rank,
        "rank_pattern": {},
        "target_modules": targets,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": false,
    })
}
