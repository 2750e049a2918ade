//! # Weighted sum
//!
//! `θ = Σᵢ wᵢ θᵢ / Σᵢ wᵢ`, or without the divisor if `normalize` is off. Model soups (Wortsman et al. 2022,
//! arXiv:2203.05482) are the case of equal weights.
//!
//! As in mergekit, sums are taken in f32 in the order of the inputs.

use super::{Base, Card, Donor, Method, Site, Span, WEIGHT};
use crate::WeightsError;
use crate::settings::{Default, Key, Kind};

pub(super) struct Linear;

const CARD: Card = Card {
    id: "linear",
    title: "weighted sum or average of models",
    equation: "θ = Σ wᵢ θᵢ / Σ wᵢ",
    source: "model soups: Wortsman et al. 2022, arXiv:2203.05482; mergekit",
    reconstructed: &[],
    keys: &[
        WEIGHT,
        Key {
            name: "normalize",
            kind: Kind::Flag,
            is_per_input: false,
            default: Some(Default::Flag(true)),
            about: "whether the sum is divided by the sum of the weights",
        },
    ],
    base: Base::Input,
    models: (1, usize::MAX),
    donor: Donor::Base,
};

impl Method for Linear {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let inputs = 0..site.tensors.len();
        let weights = inputs.map(|input| Ok(site.number_of("weight", input)? as f32));
        let weights = weights.collect::<Result<Vec<f32>, WeightsError>>()?;
        let divisor = if site.flag("normalize")? { weights.iter().sum() } else { 1.0 };
        if divisor == 0.0 {
            let problem = format!(
                "the weights for tensor {} add up to 0, so they can't be normalized; set `normalize: false`",
                site.name
            );
            return Err(WeightsError::Refused(problem));
        }
        Ok(site.computed(move |_, inputs, out| {
            out.fill(0.0);
            for (weight, input) in weights.iter().zip(inputs) {
                out.iter_mut().zip(*input).for_each(|(out, value)| *out += weight * value);
            }
            if divisor != 1.0 {
                out.iter_mut().for_each(|out| *out /= divisor);
            }
        }))
    }
}
