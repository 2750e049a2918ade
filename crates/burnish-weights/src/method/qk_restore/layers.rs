//! Which layers have softmax attention.

use std::collections::BTreeSet;

use crate::WeightsError;
use crate::method::Job;

/// Numbers of softmax-attention layers.
pub(super) struct Layers(BTreeSet<usize>);

impl Layers {
    pub(super) fn contains(&self, layer: Option<usize>) -> bool {
        layer.is_some_and(|layer| self.0.contains(&layer))
    }
}

/// Parts of names that only linear attention and state-space layers have.
const LINEAR: [&str; 9] =
    ["linear_attn", "conv1d", "A_log", "dt_bias", "dt_proj", "b_proj", "a_proj", "f_proj", "g_norm"];

/// The number of the layer that a tensor belongs to: the first number in its name.
pub(super) fn layer(name: &str) -> Option<usize> {
    name.split('.').find_map(|part| part.parse().ok())
}

/// The softmax-attention layers: those that `layers` lists, else those that `layer_types` in config.json names
/// attention that is not linear, else those without a tensor that only linear attention has.
pub(super) fn softmax_layers(job: &Job<'_>, names: &[&str]) -> Result<Layers, WeightsError> {
    let listed = job.text("layers", "")?;
    if !listed.is_empty() {
        return read(&listed, names).map(Layers);
    }
    let types = job.sources.iter().find_map(|source| source.setting("layer_types")?.as_array());
    if let Some(types) = types {
        let is_softmax = |kind: &&str| {
            kind.contains("attention") && !kind.contains("linear") && !kind.contains("recurrent")
        };
        let kinds = types.iter().map(|kind| kind.as_str().unwrap_or_default()).enumerate();
        return Ok(Layers(kinds.filter(|(_, kind)| is_softmax(kind)).map(|(layer, _)| layer).collect()));
    }
    let of = |is: fn(&str) -> bool| {
        names.iter().filter(move |name| is(name)).filter_map(|name| layer(name)).collect::<BTreeSet<usize>>()
    };
    let linear = of(|name| LINEAR.iter().any(|part| name.contains(part)));
    Ok(Layers(of(|_| true).difference(&linear).copied().collect()))
}

fn read(listed: &str, names: &[&str]) -> Result<BTreeSet<usize>, WeightsError> {
    let known: BTreeSet<usize> = names.iter().filter_map(|name| layer(name)).collect();
    let last = known.last().copied().unwrap_or_default();
    listed
        .split([',', ' '])
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.parse().ok().filter(|layer| known.contains(layer)).ok_or_else(|| {
                let problem =
                    format!("`layers` names \"{part}\"; layers have the numbers 0 to {last}, as in 3,7,11");
                WeightsError::Refused(problem)
            })
        })
        .collect()
}
