//! Which tensor of each input belongs to which tensor of the result.
//!
//! The result has the tensors of one input, the donor. A head that an input leaves out because it is tied is that
//! input's embedding. Everything else that does not fit is an error: two checkpoints of different architecture have
//! no sum.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::Dtype;

use crate::checkpoint::{Checkpoint, View};
use crate::vocabulary::check_tokens;
use crate::{Float, WeightsError};

/// A tensor of the result, and where each input has it.
pub(crate) struct Aligned<'a> {
    pub(crate) name: Cow<'a, str>,
    /// The tensor of each input; that of the donor alone where it is only copied, that of its slice's model in a stack.
    pub(crate) tensors: Vec<View<'a>>,
    /// The type in which the result has it, unless another is asked for.
    pub(crate) dtype: Dtype,
    /// Whether it is the donor's, as it is.
    pub(crate) is_copied: bool,
    /// See [`crate::method::Site::depth`].
    pub(crate) depth: f64,
    /// The slice that it belongs to, in a stack; else 0.
    pub(crate) slice: usize,
}

impl<'a> Aligned<'a> {
    /// A tensor of a stack.
    pub(crate) fn of_slice(name: Cow<'a, str>, view: View<'a>, depth: f64, slice: usize) -> Self {
        let is_copied = Float::of(view.dtype).is_none();
        Aligned { name, tensors: vec![view], dtype: view.dtype, is_copied, depth, slice }
    }
}

/// Ends of the names of embeddings.
pub(crate) const EMBEDDINGS: [&str; 5] = [
    "embed_tokens.weight",
    "wte.weight",
    "word_embeddings.weight",
    "embed_in.weight",
    "tok_embeddings.weight",
];
/// Ends of the names of heads, which may be tied to the embedding.
pub(crate) const HEADS: [&str; 3] = ["lm_head.weight", "embed_out.weight", "output.weight"];
/// Ends of the names of buffers that follow from config.json; older files have them.
pub(crate) const DERIVED: [&str; 3] = ["rotary_emb.inv_freq", "attn.masked_bias", "attention.masked_bias"];

pub(crate) fn is_one_of(name: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Aligns all tensors of `sources` with those of the source `donor`; returns what a person should know as well.
///
/// # Errors
/// Names the two checkpoints and the first tensor that do not fit.
pub(crate) fn align(
    sources: &[Checkpoint],
    donor: usize,
) -> Result<(Vec<Aligned<'_>>, Vec<String>), WeightsError> {
    let mut notes = Vec::new();
    let chief = &sources[donor];
    for source in sources {
        check_architecture(chief, source)?;
        check_extra(chief, source, &mut notes)?;
        check_tokens(chief, source, &mut notes)?;
    }
    let layers = count_layers(chief);
    let mut aligned = Vec::with_capacity(chief.len());
    let mut missing: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for own in chief.tensors() {
        let mut one = Aligned {
            name: Cow::Borrowed(own.name),
            tensors: vec![own],
            dtype: own.dtype,
            is_copied: true,
            depth: depth(own.name, &layers),
            slice: 0,
        };
        let found = sources.iter().map(|source| source.get(own.name).or_else(|| tied(source, own.name)));
        let found: Vec<Option<View<'_>>> = found.collect();
        let is_derived = is_one_of(own.name, &DERIVED);
        for (at, view) in found.iter().enumerate() {
            match view {
                None if !is_derived => missing.entry(at).or_default().push(own.name),
                Some(view) => say_tied(&sources[at], own.name, *view, &mut notes),
                None => {}
            }
        }
        // Buffers that follow from config.json are the donor's as its config.json is.
        if !is_derived && let Some(all) = found.into_iter().collect::<Option<Vec<View<'_>>>>() {
            check_shapes(own, &all)?;
            if !check_types(own, &all)? {
                one.tensors = all;
                one.is_copied = false;
            }
        }
        aligned.push(one);
    }
    if let Some((at, names)) = missing.first_key_value() {
        let problem = format!(
            "lacks {} of the {} tensors of {}, the first {}: the two have different architectures, or files are missing",
            names.len(),
            chief.len(),
            chief.path().display(),
            names[0]
        );
        return Err(WeightsError::malformed(sources[*at].path(), problem));
    }
    Ok((aligned, notes))
}

/// Notes where the embedding stands for the head `name`.
pub(crate) fn say_tied(source: &Checkpoint, name: &str, view: View<'_>, notes: &mut Vec<String>) {
    if view.name != name {
        let path = source.path().display();
        notes.push(format!("{path}: {name} is tied to {}, which is used for it", view.name));
    }
}

/// The embedding of a source whose head `name` is tied to it.
pub(crate) fn tied<'a>(source: &'a Checkpoint, name: &str) -> Option<View<'a>> {
    if !is_one_of(name, &HEADS) || !source.is_tied() {
        return None;
    }
    source.names().find(|name| is_one_of(name, &EMBEDDINGS)).and_then(|name| source.get(name))
}

pub(crate) fn check_architecture(chief: &Checkpoint, source: &Checkpoint) -> Result<(), WeightsError> {
    let kind = |source: &Checkpoint| Some(source.config()?.get("model_type")?.as_str()?.to_owned());
    match (kind(chief), kind(source)) {
        (Some(own), Some(other)) if own != other => {
            let problem = format!(
                "is a model of type {other}, but {} is one of type {own}; only models of one architecture can be \
                 combined",
                chief.path().display()
            );
            Err(WeightsError::malformed(source.path(), problem))
        }
        _ => Ok(()),
    }
}

/// Tensors that a source has and the donor lacks must be known to say nothing new.
fn check_extra(chief: &Checkpoint, source: &Checkpoint, notes: &mut Vec<String>) -> Result<(), WeightsError> {
    let mut unknown = Vec::new();
    for extra in source.tensors().filter(|view| chief.get(view.name).is_none()) {
        let embedding = source.names().find(|name| is_one_of(name, &EMBEDDINGS));
        let embedding = embedding.and_then(|name| source.get(name));
        if is_one_of(extra.name, &DERIVED) {
            notes.push(format!("{}: {} is left out", source.path().display(), extra.name));
        } else if is_one_of(extra.name, &HEADS) && chief.is_tied() {
            if embedding.is_none_or(|embedding| !embedding.is_same(&extra)) {
                let problem = format!(
                    "differs from the embedding, but in {} the two are tied; use a base with a head of its own, or \
                     remove this one",
                    chief.path().display()
                );
                return Err(extra.error(problem));
            }
            notes.push(format!(
                "{}: {} repeats the embedding, and is left out",
                source.path().display(),
                extra.name
            ));
        } else {
            unknown.push(extra);
        }
    }
    let Some(first) = unknown.first() else { return Ok(()) };
    let problem = format!(
        "and {} other tensors have no counterpart in {}: the two have different architectures, or files are missing",
        unknown.len() - 1,
        chief.path().display()
    );
    Err(first.error(problem))
}

pub(crate) fn check_shapes(own: View<'_>, all: &[View<'_>]) -> Result<(), WeightsError> {
    let Some(other) = all.iter().find(|view| view.shape != own.shape) else { return Ok(()) };
    let is_vocabulary = is_one_of(own.name, &EMBEDDINGS) || is_one_of(own.name, &HEADS);
    let what = if is_vocabulary && own.shape.get(1..) == other.shape.get(1..) {
        ": the vocabularies differ in size; bring the tokenizers to one vocabulary first"
    } else {
        ""
    };
    let problem = format!("has shape {:?}, but {:?} in {}{what}", other.shape, own.shape, own.path.display());
    Err(other.error(problem))
}

/// Whether the tensor is of a type that is only copied. Then all must agree.
fn check_types(own: View<'_>, all: &[View<'_>]) -> Result<bool, WeightsError> {
    if all.iter().all(|view| Float::of(view.dtype).is_some()) {
        return Ok(false);
    }
    match all.iter().find(|view| view.dtype != own.dtype || !view.is_same(&own)) {
        None => Ok(true),
        Some(other) => Err(other.error(format!(
            "is stored as {} and differs from {} ({}); only F32, BF16 and F16 can be combined, and everything else must \
             be the same everywhere",
            other.dtype,
            own.path.display(),
            own.dtype
        ))),
    }
}

/// The number of the layer that a tensor belongs to, the first in its name, with what is before and after it.
pub(crate) fn layer(name: &str) -> Option<(&str, usize, &str)> {
    let mut begin = 0;
    for part in name.split('.') {
        if let Ok(number) = part.parse() {
            return Some((&name[..begin], number, &name[begin + part.len()..]));
        }
        begin += part.len() + 1;
    }
    None
}

/// How many layers there are, by what their names begin with.
pub(crate) fn count_layers(source: &Checkpoint) -> BTreeMap<&str, usize> {
    let mut layers = BTreeMap::new();
    for (stack, number, _) in source.names().filter_map(layer) {
        let count = layers.entry(stack).or_insert(0);
        *count = number.saturating_add(1).max(*count);
    }
    layers
}

/// As mergekit has it: a single layer is the last one.
fn depth(name: &str, layers: &BTreeMap<&str, usize>) -> f64 {
    let Some((stack, number, _)) = layer(name) else { return 0.0 };
    match layers.get(stack) {
        Some(count) if *count > 1 => number as f64 / (count - 1) as f64,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_that_within_the_stack_of_layers() {
        let layers = BTreeMap::from([("model.layers.", 5), ("vision.blocks.", 2), ("one.", 1)]);
        for (name, expected) in [
            ("model.layers.0.mlp.up_proj.weight", 0.0),
            ("model.layers.3.mlp.experts.7.w1.weight", 0.75),
            ("vision.blocks.1.norm.weight", 1.0),
            ("one.0.weight", 1.0),
            ("model.norm.weight", 0.0),
        ] {
            assert_eq!(depth(name, &layers), expected, "{name}");
        }
    }

    #[test]
    fn ends_of_names_are_whole_parts() {
        assert!(is_one_of("lm_head.weight", &HEADS) && is_one_of("model.lm_head.weight", &HEADS));
        assert!(!is_one_of("other_lm_head.weight", &HEADS));
    }
}
