//! # WiSE-FT and extrapolation
//!
//! WiSE-FT (Wortsman et al. 2022, arXiv:2109.01903): `θ = (1−α) θ_base + α θ_tuned`, the line between a model before and
//! after tuning.
//!
//! Extrapolation (ExPO: Zheng et al. 2024, arXiv:2404.16792): `θ = θ_tuned + α (θ_tuned − θ_base)`, the same line
//! continued: `α` of extrapolation is `1 + α` of WiSE-FT.

use super::{Base, Card, Donor, Method, Site, Span};
use crate::WeightsError;
use crate::settings::{Key, Kind};

pub(super) struct Interpolate {
    card: &'static Card,
    /// What is added to `alpha` to make it the share of the tuned model.
    offset: f64,
}

const ALPHA: Key = Key {
    name: "alpha",
    kind: Kind::Number(0.0, 1.0),
    is_per_input: false,
    default: None,
    about: "the share of the tuned model",
};

pub(super) const WISE_FT: Interpolate = Interpolate {
    card: &Card {
        id: "wise_ft",
        title: "the line between a model before and after tuning",
        equation: "θ = (1−α) θ_base + α θ_tuned",
        source: "WiSE-FT: Wortsman et al. 2022, arXiv:2109.01903",
        reconstructed: &[],
        keys: &[ALPHA],
        base: Base::Needed,
        models: (1, 1),
        donor: Donor::LastModel,
    },
    offset: 0.0,
};

pub(super) const EXTRAPOLATE: Interpolate = Interpolate {
    card: &Card {
        id: "extrapolate",
        title: "the line of tuning, continued beyond the tuned model",
        equation: "θ = θ_tuned + α (θ_tuned − θ_base)",
        source: "ExPO: Zheng et al. 2024, arXiv:2404.16792",
        reconstructed: &[],
        keys: &[Key {
            kind: Kind::Number(0.0, f64::INFINITY),
            about: "how far beyond the tuned model, in lengths of its change",
            ..ALPHA
        }],
        base: Base::Needed,
        models: (1, 1),
        donor: Donor::LastModel,
    },
    offset: 1.0,
};

impl Method for Interpolate {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let share = self.offset + site.number("alpha")?;
        let (base, tuned) = (site.base()?, site.models()[0]);
        // The ends are the models themselves, byte for byte.
        if share == 0.0 || share == 1.0 {
            return Ok(site.copied(if share == 0.0 { base } else { tuned }));
        }
        let (kept, share) = ((1.0 - share) as f32, share as f32);
        Ok(site.computed(move |_, inputs, out| {
            for ((out, base), tuned) in out.iter_mut().zip(inputs[base]).zip(inputs[tuned]) {
                *out = kept * base + share * tuned;
            }
        }))
    }
}
