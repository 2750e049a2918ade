//! An adapter (PEFT's LoRA) as an input: each adapted map is `W + s · B A`, computed where it is read.
//!
//! The factors are kept in memory as f32; they are small beside the model. Nothing is stored in between, so the sum is
//! rounded once, with the merge that it is a part of.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burnish_shards::Shards;
use serde_json::Value;

use crate::checkpoint::{Checkpoint, View};
use crate::{Float, WeightsError};

/// File of an adapter's weights.
pub const ADAPTER: &str = "adapter_model.safetensors";
/// File of an adapter's settings.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Keys with which an adapter is more than `s · B A`, or not always on.
const UNSUPPORTED: [&str; 10] = [
    "use_dora",
    "fan_in_fan_out",
    "rank_pattern",
    "alpha_pattern",
    "modules_to_save",
    "layer_replication",
    "target_parameters",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
];

/// The change of one map: `s · B A`.
#[derive(Debug)]
pub(crate) struct Delta {
    /// `[rank, cols]`, row by row.
    a: Vec<f32>,
    /// `[rows, rank]`, row by row.
    b: Vec<f32>,
    rank: usize,
    cols: usize,
    scale: f32,
}

impl Delta {
    /// Adds the elements `range` of the change to `out`.
    pub(crate) fn add(&self, range: Range<usize>, out: &mut [f32]) {
        let mut sums = vec![0.0; self.cols.min(out.len())];
        let mut start = range.start;
        while start < range.end {
            let (row, col) = (start / self.cols, start % self.cols);
            let count = (self.cols - col).min(range.end - start);
            let sums = &mut sums[..count];
            sums.fill(0.0);
            for (at, factor) in self.b[row * self.rank..(row + 1) * self.rank].iter().enumerate() {
                let from = at * self.cols + col;
                let terms = &self.a[from..from + count];
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += factor * term);
            }
            let place = start - range.start;
            let own = &mut out[place..place + count];
            own.iter_mut().zip(sums).for_each(|(own, sum)| *own += self.scale * *sum);
            start += count;
        }
    }
}

/// The settings of an adapter that decide what it does.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct AdapterInfo {
    /// `base_model_name_or_path`.
    pub base: String,
    /// `r`.
    pub rank: usize,
    /// `lora_alpha`.
    pub alpha: f64,
    /// The factor of `B A`.
    pub scale: f64,
}

impl AdapterInfo {
    /// Reads `adapter_config.json` of `dir`; `None` if it has none.
    ///
    /// # Errors
    /// Names the key that is missing, or asks for more than plain LoRA.
    pub fn read(dir: &Path) -> Result<Option<Self>, WeightsError> {
        let path = dir.join(ADAPTER_CONFIG);
        if !path.is_file() {
            return Ok(None);
        }
        let text = fs::read(&path).map_err(|source| WeightsError::read(&path, source))?;
        let read = serde_json::from_slice(&text).map_err(|error| format!("not JSON: {error}"));
        let info = read.and_then(|config: Value| Self::of(&config));
        info.map(Some).map_err(|problem| WeightsError::malformed(&path, problem))
    }

    fn of(config: &Value) -> Result<Self, String> {
        for (key, plain) in [("peft_type", "LORA"), ("bias", "none")] {
            if let Some(value) = config.get(key).filter(|value| *value != plain) {
                return Err(format!("`{key}` is {value}; only plain LoRA (\"{plain}\") can be merged"));
            }
        }
        // PEFT writes keys that are not in use as null, false or empty.
        let is_unused = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        for key in UNSUPPORTED {
            if let Some(value) = config.get(key).filter(|value| !is_unused(value)) {
                return Err(format!(
                    "`{key}` is {value}, which is not supported here; merge it with PEFT (`merge_and_unload`) first"
                ));
            }
        }
        let number = |key: &str| {
            let number = config.get(key).and_then(Value::as_f64).filter(|number| *number > 0.0);
            number.ok_or_else(|| format!("`{key}` must be a number above 0"))
        };
        let rank = config.get("r").and_then(Value::as_u64).filter(|rank| *rank > 0);
        let rank = rank.ok_or("`r` must be a whole number, 1 or more")? as usize;
        let alpha = number("lora_alpha")?;
        let is_by_root = config.get("use_rslora").and_then(Value::as_bool).unwrap_or(false);
        let divisor = if is_by_root { (rank as f64).sqrt() } else { rank as f64 };
        let base = config.get("base_model_name_or_path").and_then(Value::as_str).unwrap_or_default();
        Ok(AdapterInfo { base: base.to_owned(), rank, alpha, scale: alpha / divisor })
    }

    /// The directory of the base of the adapter in `dir`.
    pub(crate) fn base_dir(&self, dir: &Path) -> Result<PathBuf, WeightsError> {
        burnish_shards::adapter_base(dir, &self.base).ok_or_else(|| {
            let problem = format!(
                "`base_model_name_or_path` is \"{}\", where no config.json is; write the directory of the base model \
                 there, or name the two as BASE+ADAPTER",
                self.base
            );
            WeightsError::malformed(&dir.join(ADAPTER_CONFIG), problem)
        })
    }
}

/// Reads the adapter in `dir` over `base`: the change of each map, by the name of its tensor.
pub(crate) fn deltas(
    dir: &Path,
    info: &AdapterInfo,
    base: &Checkpoint,
) -> Result<BTreeMap<String, Delta>, WeightsError> {
    let file = dir.join(ADAPTER);
    if !file.is_file() {
        return Err(WeightsError::malformed(&file, "is missing; fetch or save the adapter again"));
    }
    let shards = Shards::open(&file)?;
    let entries = shards.entries()?;
    let mut factors: BTreeMap<String, [Option<View<'_>>; 2]> = BTreeMap::new();
    for entry in &entries {
        let (path, bytes) = shards.get(entry);
        let view = View::new(path, entry, bytes);
        let ends = [".lora_A.weight", ".lora_B.weight"];
        let found = ends.iter().enumerate().find_map(|(at, end)| Some((at, entry.name.strip_suffix(end)?)));
        let Some((at, map)) = found else {
            let problem = "is no factor of a linear map (lora_A, lora_B); merge the adapter with PEFT \
                           (`merge_and_unload`) first";
            return Err(view.error(problem.to_owned()));
        };
        let name = format!("{}.weight", map.strip_prefix("base_model.model.").unwrap_or(map));
        factors.entry(name).or_default()[at] = Some(view);
    }
    if factors.is_empty() {
        return Err(WeightsError::malformed(
            &file,
            "holds no factors of linear maps: the adapter changes nothing",
        ));
    }
    let mut deltas = BTreeMap::new();
    for (name, factors) in factors {
        let [Some(a), Some(b)] = factors else {
            return Err(WeightsError::tensor(
                &file,
                &name,
                "has only one of lora_A and lora_B; save the adapter again",
            ));
        };
        let Some(own) = base.get(&name) else {
            let problem = format!(
                "adapts {name}, which {} lacks: it is an adapter of another model",
                base.path().display()
            );
            return Err(a.error(problem));
        };
        let (&[rank, cols], &[rows, rank_of_b]) = (a.shape, b.shape) else {
            return Err(a.error(format!(
                "has shape {:?} and its partner {:?}; both are matrices in LoRA",
                a.shape, b.shape
            )));
        };
        if rank != info.rank || rank_of_b != rank || own.shape != [rows, cols] {
            let problem = format!(
                "has shape {:?} and its partner {:?}, which at rank {} do not change {name} of shape {:?} in {}",
                a.shape,
                b.shape,
                info.rank,
                own.shape,
                own.path.display()
            );
            return Err(a.error(problem));
        }
        if Float::of(own.dtype).is_none() {
            return Err(own.error(format!("is stored as {}, to which no adapter can be added", own.dtype)));
        }
        deltas.insert(name, Delta { a: a.values()?, b: b.values()?, rank, cols, scale: info.scale as f32 });
    }
    Ok(deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_change_is_that_part_of_the_product() {
        let (rank, rows, cols) = (2, 3, 4);
        let a: Vec<f32> = (0..rank * cols).map(|at| at as f32).collect();
        let b: Vec<f32> = (0..rows * rank).map(|at| 1.0 + at as f32).collect();
        let whole: Vec<f32> = (0..rows * cols)
            .map(|at| (0..rank).map(|k| b[at / cols * rank + k] * a[k * cols + at % cols]).sum::<f32>() * 0.5)
            .collect();
        let delta = Delta { a, b, rank, cols, scale: 0.5 };
        for start in 0..whole.len() {
            for end in start..=whole.len() {
                let mut out = vec![1.0; end - start];
                delta.add(start..end, &mut out);
                let expected: Vec<f32> = whole[start..end].iter().map(|value| 1.0 + value).collect();
                assert_eq!(out, expected, "{start}..{end}");
            }
        }
    }
}
