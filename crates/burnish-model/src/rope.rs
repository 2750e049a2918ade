//! Rotary frequencies and their scaling, read from either dialect of `config.json`.
//!
//! The hub's dialect has `rope_theta` at the top level and `rope_scaling: {type or rope_type, ...}`; that of
//! transformers 5 has both in `rope_parameters`. A file may have both dialects if they agree.

use serde_json::{Map, Value};

use crate::ConfigError;
use crate::config::keys::Keys;

/// How the frequencies are changed for contexts longer than in pre-training.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Not at all.
    Default,
    /// All are divided by `factor` (Chen et al. 2023, arXiv:2306.15595).
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// As in Llama 3.1 (arXiv:2407.21783): frequencies with wavelengths above `original_max_position_embeddings /
    /// low_freq_factor` are divided by `factor`, those with wavelengths below `original_max_position_embeddings /
    /// high_freq_factor` stay, those between are interpolated.
    Llama3 {
        /// At least 1.
        factor: f64,
        /// Above 0.
        low_freq_factor: f64,
        /// Above `low_freq_factor`.
        high_freq_factor: f64,
        /// Longest sequence of pre-training.
        original_max_position_embeddings: usize,
    },
}

/// Base and scaling of the rotary frequencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RopeKeys {
    pub(crate) theta: f64,
    pub(crate) scaling: RopeScaling,
    /// The share of a head's columns that is turned.
    pub(crate) rotary_factor: f64,
}

/// Reads either dialect. `context` is `max_position_embeddings`, which transformers uses if `llama3` gives no
/// pre-training length. `partial` is the default of `partial_rotary_factor` where the architecture has one; the others
/// turn whole heads.
pub(crate) fn read(keys: &Keys<'_>, context: usize, partial: Option<f64>) -> Result<RopeKeys, ConfigError> {
    let mut bases = vec![("rope_theta".to_string(), keys.get("rope_theta").cloned())];
    let mut factors = vec![("partial_rotary_factor".to_string(), keys.get("partial_rotary_factor").cloned())];
    let mut scaling: Option<RopeScaling> = None;
    for name in ["rope_parameters", "rope_scaling"] {
        let Some(value) = keys.get(name) else { continue };
        let Some(map) = value.as_object() else {
            return Err(Keys::invalid(name, value, "an object or null"));
        };
        let found = read_scaling(name, map, context, partial.is_some())?;
        bases.push((format!("{name}.rope_theta"), map.get("rope_theta").cloned()));
        factors.push((format!("{name}.partial_rotary_factor"), map.get("partial_rotary_factor").cloned()));
        if scaling.is_some_and(|other| other != found) {
            return Err(Keys::invalid(name, value, "the same as `rope_parameters`, or absent"));
        }
        scaling = Some(found);
    }
    let rotary_factor = read_one(factors, "partial_rotary_factor")?.unwrap_or(partial.unwrap_or(1.0));
    if rotary_factor > 1.0 || (partial.is_none() && rotary_factor != 1.0) {
        let supported = if partial.is_some() { "a number above 0, at most 1" } else { "1" };
        return Err(Keys::unsupported("partial_rotary_factor", &rotary_factor.into(), supported));
    }
    // The default of all classes in transformers.
    let theta = read_one(bases, "rope_theta")?.unwrap_or(10_000.0);
    Ok(RopeKeys { theta, scaling: scaling.unwrap_or(RopeScaling::Default), rotary_factor })
}

/// A number above 0; if it is given in several places, they must agree.
fn read_one(places: Vec<(String, Option<Value>)>, name: &str) -> Result<Option<f64>, ConfigError> {
    let mut found: Option<f64> = None;
    for (key, value) in places {
        let Some(value) = value.filter(|value| !value.is_null()) else { continue };
        let Some(number) = value.as_f64().filter(|number| *number > 0.0) else {
            return Err(Keys::invalid(&key, &value, "a number above 0"));
        };
        if found.is_some_and(|other| other != number) {
            return Err(Keys::invalid(&key, &value, format!("the same as `{name}` elsewhere in the file")));
        }
        found = Some(number);
    }
    Ok(found)
}

fn read_scaling(
    name: &str,
    map: &Map<String, Value>,
    context: usize,
    is_partial: bool,
) -> Result<RopeScaling, ConfigError> {
    let parameters = Parameters { name, map };
    let kind = parameters.kind()?;
    let used: &[&str] = match kind {
        "linear" => &["factor"],
        "llama3" => &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
        _ => &[],
    };
    parameters.refuse_others(kind, used, is_partial)?;
    match kind {
        "linear" => Ok(RopeScaling::Linear { factor: parameters.factor()? }),
        "llama3" => {
            let low_freq_factor = parameters.number("low_freq_factor", "a number above 0", |n| n > 0.0)?;
            let high_freq_factor =
                parameters
                    .number("high_freq_factor", "a number above low_freq_factor", |n| n > low_freq_factor)?;
            Ok(RopeScaling::Llama3 {
                factor: parameters.factor()?,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: parameters.original_context(context)?,
            })
        }
        _ => Ok(RopeScaling::Default),
    }
}

/// One of the two objects, with its name in the file.
struct Parameters<'a> {
    name: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Parameters<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// `rope_type`, or `type` in older files.
    fn kind(&self) -> Result<&'a str, ConfigError> {
        const SUPPORTED: &str = "\"default\", \"linear\", \"llama3\"";
        let mut kind = None;
        for key in ["rope_type", "type"] {
            let Some(value) = self.get(key) else { continue };
            let known = value.as_str().filter(|name| ["default", "linear", "llama3"].contains(name));
            let Some(known) = known else {
                return Err(Keys::unsupported(&self.key(key), value, SUPPORTED));
            };
            if kind.is_some_and(|other| other != known) {
                return Err(Keys::invalid(&self.key(key), value, "the same as `rope_type` beside it"));
            }
            kind = Some(known);
        }
        Ok(kind.unwrap_or("default"))
    }

    /// Refuses keys other than those that `kind` uses, because they would be ignored. Architectures that turn a part of
    /// each head also have the sections of positions in pictures: a text's positions are the same in all of them.
    fn refuse_others(&self, kind: &str, used: &[&str], is_partial: bool) -> Result<(), ConfigError> {
        for (key, value) in self.map.iter().filter(|(_, value)| !value.is_null()) {
            let is_fine = match key.as_str() {
                "rope_theta" | "rope_type" | "type" => true,
                "partial_rotary_factor" => is_partial || value.as_f64() == Some(1.0),
                "mrope_section" | "mrope_interleaved" => is_partial,
                key => used.contains(&key),
            };
            if !is_fine {
                let supported = match used {
                    [] => format!("\"{kind}\" takes no such key"),
                    used => format!("\"{kind}\" takes {}", used.join(", ")),
                };
                return Err(Keys::unsupported(&self.key(key), value, supported));
            }
        }
        Ok(())
    }

    fn factor(&self) -> Result<f64, ConfigError> {
        self.number("factor", "a number of 1 or more", |number| number >= 1.0)
    }

    fn number(&self, key: &str, expected: &str, is_fine: impl Fn(f64) -> bool) -> Result<f64, ConfigError> {
        let Some(value) = self.get(key) else {
            return Err(ConfigError::Missing { key: self.key(key), expected: expected.into() });
        };
        value
            .as_f64()
            .filter(|number| is_fine(*number))
            .ok_or_else(|| Keys::invalid(&self.key(key), value, expected))
    }

    fn original_context(&self, context: usize) -> Result<usize, ConfigError> {
        const KEY: &str = "original_max_position_embeddings";
        let Some(value) = self.get(KEY) else { return Ok(context) };
        match value.as_u64() {
            Some(length) if (1..=1 << 31).contains(&length) => Ok(length as usize),
            _ => Err(Keys::invalid(&self.key(KEY), value, "a whole number from 1 to 2147483648")),
        }
    }
}

/// The angle by which one position turns each pair `i` of a head's `head_dim` columns: `theta^(-2i / head_dim)` (Su et
/// al. 2021, arXiv:2104.09864), then scaled. Every step is rounded to f32 where `transformers` rounds; there, a number
/// divided by a tensor is computed as its product with the reciprocal.
pub(crate) fn inverse_frequencies(head_dim: usize, theta: f64, scaling: RopeScaling) -> Vec<f32> {
    let scale = |frequency: f32| match scaling {
        RopeScaling::Default => frequency,
        RopeScaling::Linear { factor } => frequency / factor as f32,
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings,
        } => {
            let context = original_max_position_embeddings as f64;
            let wavelength = std::f64::consts::TAU as f32 * frequency.recip();
            let is_long = wavelength > (context / low_freq_factor) as f32;
            let is_short = wavelength < (context / high_freq_factor) as f32;
            let divided = if is_long { frequency / factor as f32 } else { frequency };
            if is_long || is_short {
                return divided;
            }
            let smooth = (context as f32 * wavelength.recip() - low_freq_factor as f32)
                / (high_freq_factor - low_freq_factor) as f32;
            (1.0 - smooth) * divided / factor as f32 + smooth * divided
        }
    };
    (0..head_dim / 2)
        .map(|pair| {
            let exponent = (2 * pair) as f32 / head_dim as f32;
            scale(1.0 / theta.powf(f64::from(exponent)) as f32)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Case {
        config: Map<String, Value>,
        head_dim: usize,
        inverse_frequencies: Vec<f32>,
    }

    /// Made by `make_rope.py`: what transformers computes for each configuration, in both dialects.
    #[test]
    fn frequencies_are_those_of_transformers() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/golden/rope.json")).unwrap();
        assert!(cases.len() >= 8);
        for case in cases {
            let context = case.config["max_position_embeddings"].as_u64().unwrap() as usize;
            let rope = read(&Keys::new(&case.config), context, None).unwrap();
            let found = inverse_frequencies(case.head_dim, rope.theta, rope.scaling);
            assert_eq!(found.len(), case.inverse_frequencies.len());
            for (found, expected) in found.iter().zip(&case.inverse_frequencies) {
                // One of these powers differs from torch's in its last bit; scaling adds nothing to that.
                let tolerance = u32::from(rope.scaling == RopeScaling::Default);
                let ulps = found.to_bits().abs_diff(expected.to_bits());
                assert!(ulps <= tolerance, "{found} is not {expected} of {:?}", case.config);
            }
        }
    }
}
