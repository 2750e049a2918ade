//! A model of slices: layers of several models, one after the other.
//!
//! Tensors before the layers (embeddings) are those of the first slice's model, tensors after them (norm, head) those of
//! the last one's, as in mergekit. The rest, config.json above all, is the donor's, with the new number of layers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::WeightsError;
use crate::align::{
    Aligned, DERIVED, HEADS, check_architecture, count_layers, is_one_of, layer, say_tied, tied,
};
use crate::checkpoint::{Checkpoint, LAYER_COUNTS, View};
use crate::vocabulary::check_tokens;

/// The layers that a slice takes of its model, and where the configuration says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Their numbers.
    pub range: Range<usize>,
    /// The file and the line.
    pub place: String,
}

/// Lists in config.json that have an item for each layer.
const LISTS: [&str; 4] = ["layer_types", "mlp_layer_types", "layers_block_type", "no_rope_layers"];

/// The number of layers that a checkpoint has, as config.json says, else by the names of its tensors, and their prefix.
fn layers_of(source: &Checkpoint) -> Result<(&str, usize), WeightsError> {
    let stacks = count_layers(source);
    let mut said = stacks.iter().filter(|(_, count)| source.layers().is_none_or(|said| said <= **count));
    match (said.next(), said.next()) {
        (Some((stack, count)), None) if stacks.len() == 1 => Ok((*stack, source.layers().unwrap_or(*count))),
        (None, _) => {
            let problem = "holds no stack of layers as long as config.json says; files may be missing";
            Err(WeightsError::malformed(source.path(), problem))
        }
        _ => {
            let names: Vec<&str> = stacks.into_keys().collect();
            let problem = format!(
                "has {} stacks of layers ({}); only models with one can be sliced",
                names.len(),
                names.join(", ")
            );
            Err(WeightsError::malformed(source.path(), problem))
        }
    }
}

/// Is `range` all layers of `source`?
pub(crate) fn is_whole(source: &Checkpoint, range: &Range<usize>) -> bool {
    range.start == 0 && source.layers() == Some(range.end)
}

/// The tensors of the result, and notes. `sources` are the models of `slices`, one each.
///
/// # Errors
/// Names the slice whose range is wrong, or the two tensors that do not fit.
pub(crate) fn stack<'a>(
    sources: &'a [Checkpoint],
    slices: &[&Layers],
    donor: usize,
) -> Result<(Vec<Aligned<'a>>, Vec<String>), WeightsError> {
    let chief = &sources[donor];
    let mut notes = Vec::new();
    let (stack, _) = layers_of(chief)?;
    for (source, slice) in sources.iter().zip(slices) {
        check_architecture(chief, source)?;
        check_tokens(chief, source, &mut notes)?;
        let (_, count) = layers_of(source)?;
        let Range { start, end } = slice.range;
        if start >= end || end > count {
            let problem = format!(
                "`layer_range` [{start}, {end}] is none of {}, which has {count} layers: [0, {count}] is all of them, and \
                 the end is not included",
                source.path().display()
            );
            return Err(WeightsError::config(&slice.place, problem));
        }
    }
    let last = sources.len() - 1;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for own in chief.tensors().filter(|own| layer(own.name).is_none()) {
        let is_before = is_before(own.name);
        let at = if is_before { 0 } else { last };
        let source = &sources[at];
        let Some(view) = source.get(own.name).or_else(|| tied(source, own.name)) else {
            if is_one_of(own.name, &DERIVED) {
                continue;
            }
            let problem = format!("lacks {}, which {} has", own.name, chief.path().display());
            return Err(WeightsError::malformed(source.path(), problem));
        };
        say_tied(source, own.name, view, &mut notes);
        let one = Aligned::of_slice(Cow::Borrowed(own.name), view, 0.0, at);
        if is_before { before.push(one) } else { after.push(one) }
    }
    check_heads(chief, &sources[last])?;
    let mut layers = Vec::new();
    let mut number = 0;
    for (at, (source, slice)) in sources.iter().zip(slices).enumerate() {
        let range = slice.range.clone();
        let of_layer = |wanted: usize| {
            let rest = move |name| layer(name).filter(|(_, own, _)| *own == wanted).map(|(.., rest)| rest);
            source.tensors().filter_map(move |view| Some((view, rest(view.name)?)))
        };
        for own in range.clone() {
            // As mergekit has it: a single layer is the last one.
            let depth = match range.len() {
                1 => 1.0,
                count => (own - range.start) as f64 / (count - 1) as f64,
            };
            for (view, rest) in of_layer(own) {
                let name = format!("{stack}{number}{rest}");
                layers.push(Aligned::of_slice(Cow::Owned(name), view, depth, at));
            }
            number += 1;
        }
    }
    before.append(&mut layers);
    before.append(&mut after);
    check_shapes(chief, &before)?;
    Ok((before, notes))
}

/// Does a tensor outside of the layers come before them?
fn is_before(name: &str) -> bool {
    let is_table = ["emb", "wte", "wpe"].iter().any(|part| name.contains(part));
    is_table && !is_one_of(name, &HEADS)
}

/// A head of the last model has a place in the result only if the donor has one.
fn check_heads(chief: &Checkpoint, last: &Checkpoint) -> Result<(), WeightsError> {
    let head = |source: &Checkpoint| source.names().any(|name| is_one_of(name, &HEADS));
    if chief.is_tied() && !last.is_tied() && head(last) && !head(chief) {
        let problem = format!(
            "has a head of its own, but in {}, whose config.json the result has, it is the embedding; name this model as \
             `base_model`",
            chief.path().display()
        );
        return Err(WeightsError::malformed(last.path(), problem));
    }
    Ok(())
}

/// Tensors that are called alike in all layers, and those outside, must have one shape in all models.
fn check_shapes(chief: &Checkpoint, all: &[Aligned<'_>]) -> Result<(), WeightsError> {
    let mut shapes: BTreeMap<&str, View<'_>> = BTreeMap::new();
    for one in all {
        let view = one.tensors[0];
        // Without the number: what is left of the name says which tensor of a layer it is.
        let (key, own) = match layer(&one.name) {
            Some((.., rest)) => (rest, None),
            None => (&*one.name, chief.get(&one.name)),
        };
        let own = own.unwrap_or_else(|| *shapes.entry(key).or_insert(view));
        crate::align::check_shapes(own, &[view])?;
    }
    Ok(())
}

/// The donor's configuration with the layers that were taken.
///
/// # Errors
/// If a model does not say of which type its layers are, and the donor does.
pub(crate) fn configured(
    mut config: Value,
    sources: &[Checkpoint],
    slices: &[&Layers],
) -> Result<Value, WeightsError> {
    let count: usize = slices.iter().map(|slice| slice.range.len()).sum();
    let has = |map: &Value| LAYER_COUNTS.iter().any(|key| map.get(key).is_some());
    let text = match config.get_mut("text_config").filter(|text| has(text)) {
        Some(text) => text,
        None => &mut config,
    };
    let Some(text) = text.as_object_mut() else { return Ok(config) };
    let key = LAYER_COUNTS.iter().find(|key| text.contains_key(**key)).unwrap_or(&LAYER_COUNTS[0]);
    text.insert((*key).to_owned(), count.into());
    for key in LISTS {
        if !text.get(key).is_some_and(Value::is_array) {
            continue;
        }
        let mut items = Vec::new();
        for (source, slice) in sources.iter().zip(slices) {
            let own = source.setting(key).and_then(Value::as_array);
            let Some(own) = own.and_then(|own| own.get(slice.range.clone())) else {
                let problem = format!(
                    "config.json has no `{key}` for each of its layers, which other models have; add it"
                );
                return Err(WeightsError::malformed(source.path(), problem));
            };
            items.extend_from_slice(own);
        }
        text.insert(key.to_owned(), items.into());
    }
    Ok(config)
}
