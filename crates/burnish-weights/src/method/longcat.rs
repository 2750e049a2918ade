//! # Fusion of domain experts (LongCat-Flash-Thinking)
//!
//! Experts that were trained on different domains become one model: their changes are brought to one length, thinned
//! out by chance, and added without the elements whose sign is in the minority.
//!
//! `θ = θ₀ + λ Σᵢ mᵢ wᵢ dᵢ δᵢ ν/‖δᵢ‖`, with `δᵢ = θᵢ − θ₀`, `ν` the mean of the lengths `‖δᵢ‖`, `dᵢ` 0 or `1/density`,
//! and `mᵢ` 1 where the sign is that of the sum, else 0.
//!
//! ## Reconstructed
//! The technical report (LongCat team 2025, arXiv:2509.18883) names the three steps and gives no equation. Ours are: the
//! length to which changes are brought (the mean, per tensor), that the majority is that of the sum and not of the
//! count, and that the sum is not divided.
//!
//! ## Invariants
//! One expert with `density` 1 is returned exactly. The order of the experts changes nothing, bit for bit: which
//! elements an expert drops depends on its change, not on its place. The expected thinned change is the change.

use super::random::Chance;
use super::{Base, Card, DENSITY, Donor, Method, Site, Span, WEIGHT};
use crate::WeightsError;
use crate::settings::{Default, Key, Kind};
use crate::sweep::{dot, fold};

pub(super) struct Longcat;

const CARD: Card = Card {
    id: "longcat",
    title: "fusion of domain experts: changes of one length, thinned by chance, without minority signs",
    equation: "θ = θ₀ + λ Σ mᵢ wᵢ dᵢ δᵢ ν/‖δᵢ‖,  ν = mean ‖δᵢ‖,  dᵢ: 0 or 1/density,  m: sign of the sum",
    source: "LongCat-Flash-Thinking: LongCat team 2025, arXiv:2509.18883",
    reconstructed: &[
        "the length to which changes are brought: the mean, per tensor",
        "the majority is that of the sum, not of the count",
        "the sum is not divided by the number of experts",
    ],
    keys: &[
        Key { default: Some(Default::Number(1.0)), ..WEIGHT },
        DENSITY,
        Key {
            name: "lambda",
            kind: Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
            is_per_input: false,
            default: Some(Default::Number(1.0)),
            about: "a factor of the whole change",
        },
        Key {
            name: "normalize_lengths",
            kind: Kind::Flag,
            is_per_input: false,
            default: Some(Default::Flag(true)),
            about: "whether changes are brought to one length",
        },
    ],
    base: Base::Needed,
    models: (1, usize::MAX),
    donor: Donor::Base,
};

/// The change of one expert.
struct Change {
    input: usize,
    /// `‖δ‖²`, which also says which expert comes first.
    square: f64,
    factor: f32,
    chance: Option<Chance>,
}

impl Method for Longcat {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let base = site.base()?;
        let mut changes = Vec::new();
        for input in site.models() {
            let parts = fold::<f64>(&[site.tensors[base], site.tensors[input]], |sum, piece| {
                let changed = piece.inputs[1].iter().zip(piece.inputs[0]).map(|(model, base)| model - base);
                let changed: Vec<f32> = changed.collect();
                *sum += dot(&changed, &changed);
            })?;
            let square = parts.iter().sum::<f64>();
            let density = site.number_of("density", input)?;
            if density == 0.0 {
                return Err(WeightsError::Refused(format!(
                    "`density` is 0 for tensor {}: what is kept can't be scaled up; use `weight: 0`",
                    site.name
                )));
            }
            // An expert is known by its change, so that its place in the list is no matter.
            let chance = Chance::new(site.job.seed, site.name, square.to_bits(), density);
            let chance = (density < 1.0).then_some(chance);
            let factor = (site.number_of("weight", input)? / density) as f32;
            changes.push(Change { input, square, factor, chance });
        }
        changes.sort_by(|one, other| one.square.total_cmp(&other.square));
        if site.flag("normalize_lengths")? {
            let mean = changes.iter().map(|change| change.square.sqrt()).sum::<f64>() / changes.len() as f64;
            for change in changes.iter_mut().filter(|change| change.square > 0.0) {
                change.factor *= (mean / change.square.sqrt()) as f32;
            }
        }
        // Added to the base, one whole change may differ from its model in the last bit.
        if let [only] = &changes[..]
            && only.chance.is_none()
            && only.factor == 1.0
            && site.number("lambda")? == 1.0
        {
            return Ok(site.copied(only.input));
        }
        let lambda = site.number("lambda")? as f32;
        Ok(site.computed(move |start, inputs, out| {
            let base = inputs[base];
            let parts: Vec<Vec<f32>> = changes
                .iter()
                .map(|change| {
                    let model = inputs[change.input].iter().zip(base);
                    let mut part: Vec<f32> = model.map(|(model, base)| model - base).collect();
                    if let Some(chance) = change.chance {
                        chance.keep(start, &mut part);
                    }
                    part.iter_mut().for_each(|value| *value *= change.factor);
                    part
                })
                .collect();
            for (at, (out, base)) in out.iter_mut().zip(base).enumerate() {
                let all: f32 = parts.iter().map(|part| part[at]).sum();
                let agrees = |value: &f32| if all >= 0.0 { *value > 0.0 } else { *value < 0.0 };
                let sum: f32 = parts.iter().map(|part| part[at]).filter(agrees).sum();
                *out = base + lambda * sum;
            }
        }))
    }
}
