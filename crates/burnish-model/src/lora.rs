//! LoRA (Hu et al. 2021, arXiv:2106.09685): a frozen base and trained low-rank adapters, in the file format of PEFT.
//!
//! `W x` becomes `W x + s · B A drop(x)`, with `A` `[rank, inputs]`, `B` `[outputs, rank]` and `s = alpha / rank`, or
//! `alpha / √rank` with rsLoRA (Kalajdzievski 2023, arXiv:2312.03732). `B` starts at 0, so that training starts from
//! the base; `A` is uniform within `± 1/√inputs`, PEFT's default.

use std::fmt;
use std::path::Path;

use burnish_tensor::map_file;
use fancy_regex::Regex;
use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{ConfigError, ModelError, files};

/// File of an adapter's settings.
pub(crate) const CONFIG_FILE: &str = "adapter_config.json";
/// File of an adapter's weights.
pub(crate) const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// What is adapted, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// Rank of the product `B A` (PEFT: `r`).
    pub rank: usize,
    /// Numerator of the scale (PEFT: `lora_alpha`).
    pub alpha: f64,
    /// Share of a map's input elements that are hidden from the adapter in training (PEFT: `lora_dropout`).
    #[serde(default)]
    pub dropout: f64,
    /// Scale by `alpha / √rank` instead of `alpha / rank` (PEFT: `use_rslora`).
    #[serde(default)]
    pub rslora: bool,
    /// Which linear maps.
    #[serde(default)]
    pub target_modules: Targets,
}

/// Which linear maps are adapted, in PEFT's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    /// `"all-linear"`: every linear map but the head. Any other text is a regular expression that must match the
    /// whole name of a map (`model\.layers\.[0-3]\.self_attn\.(q|v)_proj`).
    Pattern(String),
    /// Suffixes of names: `q_proj`, `self_attn.o_proj`, `lm_head`.
    Names(Vec<String>),
}

const ALL_LINEAR: &str = "all-linear";
/// The head, which `all-linear` does not include.
pub(crate) const HEAD: &str = "lm_head";

impl Default for Targets {
    fn default() -> Self {
        Targets::Pattern(ALL_LINEAR.into())
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Targets::Pattern(pattern) => write!(f, "\"{pattern}\""),
            Targets::Names(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                write!(f, "[{}]", names.join(", "))
            }
        }
    }
}

impl LoraConfig {
    /// The factor of `B A`.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key: &str, value: Value, expected: &str| {
            Err(ConfigError::Invalid { key: key.into(), value: value.to_string(), expected: expected.into() })
        };
        if self.rank == 0 {
            return invalid("rank", json!(self.rank), "1 or more");
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return invalid("alpha", json!(self.alpha), "above 0");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return invalid("dropout", json!(self.dropout), "0 or more, and below 1");
        }
        Ok(())
    }

    /// How `asked` differs, in words; `None` if it does not. Targets are compared by the maps among `names` that they
    /// select, because PEFT writes the names that `"all-linear"` stood for, as an unordered set.
    pub(crate) fn difference(&self, asked: &LoraConfig, names: &[String]) -> Option<String> {
        let mut found = Vec::new();
        let mut compare = |key: &str, own: String, wanted: String| {
            if own != wanted {
                found.push(format!("{key} {own}, not {wanted}"));
            }
        };
        compare("rank", self.rank.to_string(), asked.rank.to_string());
        compare("alpha", self.alpha.to_string(), asked.alpha.to_string());
        compare("dropout", self.dropout.to_string(), asked.dropout.to_string());
        compare("rslora", self.rslora.to_string(), asked.rslora.to_string());
        let is_same = match (self.targets(names), asked.targets(names)) {
            (Ok(own), Ok(wanted)) => own == wanted,
            _ => self.target_modules == asked.target_modules,
        };
        if !is_same {
            compare("target_modules", self.target_modules.to_string(), asked.target_modules.to_string());
        }
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// Which of the linear maps `names` are adapted.
    ///
    /// # Errors
    /// If no map is selected, an entry matches no map, or the expression is not valid.
    pub(crate) fn targets(&self, names: &[String]) -> Result<Vec<bool>, ConfigError> {
        let invalid = |value: String, expected: String| {
            Err(ConfigError::Invalid { key: "target_modules".into(), value, expected })
        };
        let known = || {
            let mut ends: Vec<&str> = names.iter().filter_map(|name| name.rsplit('.').next()).collect();
            ends.sort_unstable();
            ends.dedup();
            ends.join(", ")
        };
        let is_target: Vec<bool> = match &self.target_modules {
            Targets::Pattern(pattern) if pattern == ALL_LINEAR => {
                names.iter().map(|name| name != HEAD).collect()
            }
            Targets::Pattern(pattern) => {
                let regex = match Regex::new(&format!("^(?:{pattern})$")) {
                    Ok(regex) => regex,
                    Err(error) => {
                        return invalid(
                            pattern.clone(),
                            format!("\"all-linear\", a list of names, or a regular expression ({error})"),
                        );
                    }
                };
                let mut chosen = Vec::new();
                for name in names {
                    match regex.is_match(name) {
                        Ok(is_match) => chosen.push(is_match),
                        Err(error) => {
                            return invalid(
                                pattern.clone(),
                                format!("an expression that can be matched ({error})"),
                            );
                        }
                    }
                }
                chosen
            }
            Targets::Names(ends) => {
                let is_end = |name: &str, end: &str| {
                    name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                for end in ends {
                    if !names.iter().any(|name| is_end(name, end)) {
                        return invalid(
                            format!("\"{end}\""),
                            format!("the end of a linear map's name; there are {}", known()),
                        );
                    }
                }
                names.iter().map(|name| ends.iter().any(|end| is_end(name, end))).collect()
            }
        };
        if is_target.contains(&true) {
            Ok(is_target)
        } else {
            invalid(
                self.target_modules.to_string(),
                format!("a match of some linear map; there are {}", known()),
            )
        }
    }

    /// The settings in PEFT's format, for the base model in `base`.
    pub(crate) fn to_peft(&self, base: &Path) -> Value {
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
            "lora_alpha": number(self.alpha),
            "lora_dropout": self.dropout,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.rank,
            "rank_pattern": {},
            "target_modules": self.target_modules,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": self.rslora,
        })
    }

    /// Reads PEFT's `adapter_config.json` of `dir`: the settings, and the location of the base. Where it does not say which
    /// maps are adapted, as SkyRL's server does not, they are those of which `dir` has weights.
    ///
    /// # Errors
    /// Names the file and the first key that asks for anything other than plain LoRA.
    pub(crate) fn read_peft(dir: &Path) -> Result<(Self, String), ModelError> {
        let path = dir.join(CONFIG_FILE);
        let mut value = files::read_json(&path)?;
        if value["target_modules"].is_null()
            && let Some(map) = value.as_object_mut()
        {
            map.insert("target_modules".into(), adapted_maps(&dir.join(WEIGHTS_FILE))?.into());
        }
        from_peft(&value).map_err(|error| ModelError::Config { path, error })
    }
}

/// The linear maps of which a file has weights of adapters.
fn adapted_maps(path: &Path) -> Result<Vec<String>, ModelError> {
    let map = map_file(path).map_err(|source| ModelError::read(path, source))?;
    let file = SafeTensors::deserialize(&map).map_err(|error| {
        ModelError::malformed(path, format!("truncated, or not a safetensors file ({error})"))
    })?;
    let names = file.names().into_iter();
    let maps =
        names.filter_map(|name| name.strip_prefix("base_model.model.")?.strip_suffix(".lora_A.weight"));
    let mut maps: Vec<String> = maps.map(str::to_owned).collect();
    maps.sort_unstable();
    Ok(maps)
}

/// An integral number is written without a fraction: PEFT's type for `lora_alpha` is an integer.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

/// Keys that do not affect the computation of a trained adapter.
const HARMLESS: &[&str] = &[
    "auto_mapping",
    "inference_mode",
    "init_lora_weights",
    "peft_version",
    "revision",
    "runtime_config",
    "task_type",
    "ensure_weight_tying",
];

fn from_peft(value: &Value) -> Result<(LoraConfig, String), ConfigError> {
    let empty = Map::new();
    let map = value.as_object().unwrap_or(&empty);
    let missing =
        |key: &str, expected: &str| ConfigError::Missing { key: key.into(), expected: expected.into() };
    let unsupported = |key: &str, value: &Value, supported: &str| ConfigError::Unsupported {
        key: key.into(),
        value: value.to_string(),
        supported: supported.into(),
    };
    let number = |key: &str| {
        let value = map.get(key).ok_or_else(|| missing(key, "a number"))?;
        value.as_f64().ok_or_else(|| unsupported(key, value, "a number"))
    };
    let given = |key: &str| map.get(key).filter(|value| !value.is_null());
    let rank = map.get("r").ok_or_else(|| missing("r", "a whole number"))?;
    let mut config = LoraConfig {
        rank: rank.as_u64().ok_or_else(|| unsupported("r", rank, "a whole number"))? as usize,
        alpha: number("lora_alpha")?,
        dropout: given("lora_dropout").map_or(Ok(0.0), |_| number("lora_dropout"))?,
        rslora: match given("use_rslora") {
            None => false,
            Some(value) => {
                value.as_bool().ok_or_else(|| unsupported("use_rslora", value, "true or false"))?
            }
        },
        target_modules: Targets::default(),
    };
    let targets = map
        .get("target_modules")
        .filter(|value| !value.is_null())
        .ok_or_else(|| missing("target_modules", "names of linear maps"))?;
    config.target_modules = Targets::deserialize(targets)
        .map_err(|_| unsupported("target_modules", targets, "a list of names, or a text"))?;
    let base = map
        .get("base_model_name_or_path")
        .and_then(Value::as_str)
        .ok_or_else(|| missing("base_model_name_or_path", "the directory of the base model"))?;
    for (key, value) in map {
        let is_default = match key.as_str() {
            "r"
            | "lora_alpha"
            | "lora_dropout"
            | "use_rslora"
            | "target_modules"
            | "base_model_name_or_path" => true,
            "peft_type" => value == "LORA",
            "bias" => value == "none",
            key if HARMLESS.contains(&key) => true,
            // Keys of PEFT's other methods that are absent, off or empty.
            _ => match value {
                Value::Null | Value::Bool(false) => true,
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => key == "megatron_core" || (key == "qalora_group_size" && value == 16),
            },
        };
        if !is_default {
            return Err(unsupported(
                key,
                value,
                "plain LoRA (no biases, no DoRA, no patterns of ranks, no further modules)",
            ));
        }
    }
    config.check()?;
    Ok((config, base.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let layer = |layer: usize| {
            ["self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj"]
                .map(|map| format!("model.layers.{layer}.{map}"))
        };
        (0..2).flat_map(layer).chain([HEAD.to_string()]).collect()
    }

    fn config(targets: Targets) -> LoraConfig {
        LoraConfig { rank: 4, alpha: 8.0, dropout: 0.0, rslora: false, target_modules: targets }
    }

    fn adapted(targets: Targets) -> Vec<String> {
        let is_target = config(targets).targets(&names()).unwrap();
        names().into_iter().zip(is_target).filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    #[test]
    fn names_patterns_and_all_linear_choose_as_peft_does() {
        assert_eq!(adapted(Targets::default()), names()[..6]);
        let ends = |ends: &[&str]| Targets::Names(ends.iter().map(|end| end.to_string()).collect());
        assert_eq!(adapted(ends(&["v_proj"])), [&*names()[1], &*names()[4]]);
        assert_eq!(adapted(ends(&["mlp.up_proj", "lm_head"])), [&*names()[2], &*names()[5], HEAD]);
        let pattern = r"model\.layers\.1\.self_attn\.(?!q)._proj";
        assert_eq!(adapted(Targets::Pattern(pattern.into())), [&*names()[4]]);
    }

    #[test]
    fn what_peft_makes_of_all_linear_is_all_linear() {
        let ends = |ends: &[&str]| Targets::Names(ends.iter().map(|end| end.to_string()).collect());
        let asked = config(Targets::default());
        let of_peft = config(ends(&["v_proj", "up_proj", "q_proj"]));
        assert_eq!(of_peft.difference(&asked, &names()), None);
        let fewer = LoraConfig { rank: 8, rslora: true, ..config(ends(&["v_proj", "q_proj"])) };
        assert_eq!(
            fewer.difference(&asked, &names()).unwrap(),
            "rank 8, not 4, rslora true, not false, target_modules [\"v_proj\", \"q_proj\"], not \"all-linear\""
        );
    }

    #[test]
    fn settings_of_another_type_are_refused() {
        let json = config(Targets::default()).to_peft(Path::new("base"));
        for (key, wrong) in [("r", json!(4.5)), ("lora_dropout", json!("0.1")), ("use_rslora", json!("yes"))]
        {
            let mut json = json.clone();
            json[key] = wrong;
            let error = from_peft(&json).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{error}");
        }
        let mut json = json.clone();
        json["target_modules"] = json!("all-linear");
        assert_eq!(from_peft(&json).unwrap().0.target_modules, Targets::default());
    }

    #[test]
    fn what_matches_nothing_is_named() {
        let error = |targets| config(targets).targets(&names()).unwrap_err().to_string();
        let unknown = error(Targets::Names(vec!["q_proj".into(), "query".into()]));
        assert!(unknown.contains("\"query\"") && unknown.contains("q_proj, up_proj, v_proj"), "{unknown}");
        assert!(error(Targets::Names(vec!["_proj".into()])).contains("_proj"));
        assert!(error(Targets::Pattern("q_proj".into())).contains("q_proj"), "the whole name must match");
        assert!(error(Targets::Pattern("(".into())).contains("target_modules"));
    }

    #[test]
    fn pefts_settings_read_back_and_other_methods_are_refused() {
        let lora = LoraConfig { rslora: true, dropout: 0.1, ..config(Targets::Names(vec!["q_proj".into()])) };
        let mut json = lora.to_peft(Path::new("/models/base"));
        assert_eq!(from_peft(&json).unwrap(), (lora, "/models/base".to_string()));
        json["use_dora"] = json!(true);
        assert!(from_peft(&json).unwrap_err().to_string().contains("`use_dora`"));
        json["use_dora"] = json!(false);
        json["rank_pattern"] = json!({"q_proj": 2});
        assert!(from_peft(&json).unwrap_err().to_string().contains("`rank_pattern`"));
        assert!(from_peft(&json!({})).unwrap_err().to_string().contains("`r`"));
    }

    #[test]
    fn the_scale_follows_the_rank_or_its_root() {
        let plain = config(Targets::default());
        assert_eq!(plain.scale(), 2.0);
        assert_eq!(LoraConfig { rslora: true, ..plain }.scale(), 4.0);
    }
}
