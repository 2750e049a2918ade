//! # Layers as they are
//!
//! `θ = scale · θ₁`: one model's tensors, scaled if asked for. With `slices`, each slice's layers follow those of the one
//! before it, which makes a model of another depth ("frankenmerge"); see [`crate::stack`] for the rest of it.

use super::{Base, Card, Donor, Method, Site, Span};
use crate::WeightsError;
use crate::settings::{Default, Key, Kind};

pub(super) struct Passthrough;

const CARD: Card = Card {
    id: "passthrough",
    title: "layers as they are, stacked from slices",
    equation: "θ = scale · θ₁",
    source: "mergekit",
    reconstructed: &[],
    keys: &[Key {
        name: "scale",
        kind: Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
        is_per_input: true,
        default: Some(Default::Number(1.0)),
        about: "the factor of a tensor; with filters, 0 for o_proj and down_proj makes a repeated layer do nothing",
    }],
    base: Base::Input,
    models: (1, 1),
    donor: Donor::Base,
};

impl Method for Passthrough {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn stacks(&self) -> bool {
        true
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let scale = site.number_of("scale", 0)? as f32;
        if scale == 1.0 {
            return Ok(site.copied(0));
        }
        Ok(site.computed(move |_, inputs, out| {
            out.iter_mut().zip(inputs[0]).for_each(|(out, value)| *out = scale * value);
        }))
    }
}
