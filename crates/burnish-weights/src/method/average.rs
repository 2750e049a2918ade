//! # Exponential moving average of checkpoints
//!
//! `θ̄₁ = θ₁`, `θ̄ₜ = β θ̄ₜ₋₁ + (1−β) θₜ` over the models in their order (Polyak and Juditsky 1992; of late checkpoints:
//! LAWA, Kaddour 2022, arXiv:2209.14981). It is the weighted sum with `w₁ = βⁿ⁻¹`, `wₜ = (1−β) βⁿ⁻ᵗ`, whose weights add
//! up to 1.

use super::{Base, Card, Donor, Method, Site, Span};
use crate::WeightsError;
use crate::settings::{Key, Kind};

pub(super) struct Ema;

const CARD: Card = Card {
    id: "ema",
    title: "exponential moving average over checkpoints in their order",
    equation: "θ̄₁ = θ₁,  θ̄ₜ = β θ̄ₜ₋₁ + (1−β) θₜ",
    source: "Polyak and Juditsky 1992; LAWA: Kaddour 2022, arXiv:2209.14981",
    reconstructed: &[],
    keys: &[Key {
        name: "decay",
        kind: Kind::Number(0.0, 1.0),
        is_per_input: false,
        default: None,
        about: "β: the share of the average that each further checkpoint leaves",
    }],
    base: Base::Input,
    models: (1, usize::MAX),
    donor: Donor::LastModel,
};

impl Method for Ema {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let weights = weights(site.number("decay")?, site.tensors.len());
        Ok(site.computed(move |_, inputs, out| {
            out.fill(0.0);
            for (weight, input) in weights.iter().zip(inputs) {
                out.iter_mut().zip(*input).for_each(|(out, value)| *out += weight * value);
            }
        }))
    }
}

fn weights(decay: f64, count: usize) -> Vec<f32> {
    let weight = |at: usize| {
        let own = if at == 0 { 1.0 } else { 1.0 - decay };
        (own * decay.powi((count - 1 - at) as i32)) as f32
    };
    (0..count).map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_recursion() {
        let values = [3.0, -1.0, 4.0, 1.5];
        for decay in [0.0, 0.3, 0.9, 1.0] {
            let recursive =
                values[1..].iter().fold(values[0], |mean, value| decay * mean + (1.0 - decay) * value);
            let weights = weights(decay, values.len());
            let summed: f64 =
                weights.iter().zip(values).map(|(weight, value)| f64::from(*weight) * value).sum();
            assert!((summed - recursive).abs() < 1e-6, "{decay}: {summed} {recursive}");
        }
    }
}
