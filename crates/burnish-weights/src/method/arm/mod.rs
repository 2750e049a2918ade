//! # ARM: merging as an optimiser, with rotated increments
//!
//! ## What it does
//! Early checkpoints of a tuning run come in a stream. Each step adds the increment between two checkpoints to the merged
//! model, rotated from the directions in which the checkpoint's activations lie to those of the merged model's. So the
//! merged model leaves the span of the checkpoints and may go further than the run.
//!
//! ## Formula
//! `Ŵₜ = Ŵₜ₋₁ + η ΔWₜ Rₜᵀ`, `ΔWₜ = W⁽ᵗ⁾ − W⁽ᵗ⁻¹⁾`, for a linear map with inputs `X`. `V_ref` and `V_cur` are the top right
//! singular vectors of the inputs at checkpoint `t` and at the merged model; `V_refᵀ V_cur = A Σ Bᵀ`; `aⱼ = (V_ref A)ⱼ`,
//! `bⱼ = (V_cur B)ⱼ`; `Rₜ = Πⱼ Rot(aⱼ → bⱼ)`, `Rot(a → b) = I − (a+b)(a+b)ᵀ/(1 + a·b) + 2 b aᵀ`: the least rotation that
//! carries the one subspace to the other. Everything without recorded inputs (norms, biases, embeddings) gets the plain
//! `η Δ`.
//!
//! One call is one step: `base_model` is the merged model `Ŵₜ₋₁`, `models` are the checkpoints `t−1` and `t` in this order;
//! the first step has checkpoint 1 alone, because checkpoint 0 is the base. Whoever calls may have recorded the inputs
//! ([`crate::Options::recorded`]), as `[weights.calibration]` of a recipe does for every step of a stream; else
//! `activations` and `activations_merged` are safetensors files with the inputs `[samples, inputs]` of each map under the
//! map's name, recorded on the same calibration texts.
//!
//! ## Reduces to
//! Without activations, with `rank: 0`, or where both are the same, `R = I`: task arithmetic on increments; then `η = 1` at
//! every step ends at the last checkpoint, and `η = 0` stays at the base, byte for byte.
//!
//! ## Reconstructed
//! Only the abstract of arXiv:2602.03237 ("rotation from activation subspaces", "coefficients as learning rates") could be
//! read. Ours are: the form of the rotation, increments between neighbouring checkpoints, the side on which it acts, and
//! the rank (directions with 90 % of the energy, at most 32).
//!
//! ## References
//! "Streaming Merging", arXiv:2602.03237.

mod rotation;

#[cfg(test)]
mod tests;

use std::path::Path;

use self::rotation::Rotation;
use super::{Base, Card, Donor, Job, Method, Site, Span};
use crate::inputs::{Principal, Recorded};
use crate::settings::{Default, Key, Kind, Said, Scalar, Setting, Settings, largest};
use crate::{Checkpoint, View, WeightsError};

pub(super) struct Arm;

const fn key(name: &'static str, kind: Kind, default: Option<Default>, about: &'static str) -> Key {
    Key { name, kind, is_per_input: false, default, about }
}

const CARD: Card = Card {
    id: "arm",
    title: "one step of streaming merging: the increment of a run, rotated to the merged model's activations",
    equation: "Ŵₜ = Ŵₜ₋₁ + η (W⁽ᵗ⁾ − W⁽ᵗ⁻¹⁾) Rᵀ,  R: the least rotation of the checkpoint's subspace to the merged model's",
    source: "Streaming Merging, arXiv:2602.03237",
    reconstructed: &[
        "the form of the rotation, and the side on which it acts",
        "increments between neighbouring checkpoints",
        "the rank: 90 % of the energy, at most 32",
    ],
    keys: &[
        key(
            "eta",
            Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
            None,
            "η: the factor of the increment, as a learning rate",
        ),
        key("rank", Kind::Count(0), Some(Default::Number(32.0)), "the most directions that are rotated"),
        key(
            "energy",
            Kind::Number(0.0, 1.0),
            Some(Default::Number(0.9)),
            "the share of the activations' energy that the directions have",
        ),
        key("activations", Kind::Text, Some(Default::Text("")), "a file of inputs at the checkpoint"),
        key(
            "activations_merged",
            Kind::Text,
            Some(Default::Text("")),
            "a file of inputs at the merged model",
        ),
    ],
    base: Base::Needed,
    models: (1, 2),
    donor: Donor::Base,
};

impl Method for Arm {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn directions(&self, shared: &Settings) -> Option<usize> {
        let largest =
            |name: &str| CARD.keys.iter().find(|key| key.name == name).map(|key| largest(key, shared));
        let is_idle = |said: &Setting| said.said == Said::One(Scalar::Number(0.0));
        // What is not added need not be turned.
        if shared.get("eta").is_some_and(is_idle) {
            return Some(0);
        }
        Some(largest("rank").flatten().unwrap_or_default() as usize)
    }

    fn check(&self, job: &Job<'_>, names: &[&str]) -> Result<(), WeightsError> {
        let files = [job.text("activations", "")?, job.text("activations_merged", "")?];
        if let Some(recorded) = job.recorded {
            if files.iter().any(|file| !file.is_empty()) {
                let problem =
                    "inputs are recorded here, so `activations` and `activations_merged` are not read";
                return Err(WeightsError::Refused(problem.to_owned()));
            }
            let is_known = |recorded: &Recorded| names.iter().any(|name| recorded.contains_key(map_of(name)));
            return match recorded.iter().all(is_known) {
                true => Ok(()),
                false => Err(WeightsError::Refused(
                    "what was recorded are the inputs of no map of this model".to_owned(),
                )),
            };
        }
        if files.iter().all(String::is_empty) {
            return Ok(());
        }
        if files.iter().any(String::is_empty) {
            let problem = "`activations` and `activations_merged` belong together: set both, or neither";
            return Err(WeightsError::Refused(problem.to_owned()));
        }
        for file in files {
            let recorded = Checkpoint::open(Path::new(&file))?;
            if !names.iter().any(|name| recorded.get(map_of(name)).is_some()) {
                let first = names.first().copied().unwrap_or_default();
                let problem = format!(
                    "holds the inputs of no map of this model; they are stored under the map's name, such as {}",
                    map_of(first)
                );
                return Err(WeightsError::malformed(recorded.path(), problem));
            }
        }
        Ok(())
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let (merged, models) = (site.base()?, site.models());
        let after = models[models.len() - 1];
        let before = if models.len() == 2 { models[0] } else { merged };
        let eta = site.number("eta")? as f32;
        if eta == 0.0 {
            return Ok(site.copied(merged));
        }
        let row = site.row().max(1);
        let rotation = rotation_of(site)?;
        Ok(site.computed_by(if rotation.is_some() { row } else { 1 }, move |_, inputs, out| {
            for ((out, after), before) in out.iter_mut().zip(inputs[after]).zip(inputs[before]) {
                *out = after - before;
            }
            if let Some(rotation) = &rotation {
                out.chunks_mut(row).for_each(|row| rotation.turn(row));
            }
            for (out, merged) in out.iter_mut().zip(inputs[merged]) {
                *out = merged + eta * *out;
            }
        }))
    }
}

/// The name of the linear map that a weight belongs to.
fn map_of(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

/// The rotation for this tensor; `None` if it has no recorded inputs.
fn rotation_of(site: &Site<'_>) -> Result<Option<Rotation>, WeightsError> {
    let rank = site.number("rank")? as usize;
    if site.shape.len() != 2 || rank == 0 {
        return Ok(None);
    }
    let map = map_of(site.name);
    let of_models = match site.job.recorded {
        Some([one, other]) => [one.get(map).cloned(), other.get(map).cloned()],
        None => read(site, map)?,
    };
    let [Some(from), Some(to)] = of_models else { return Ok(None) };
    if let Some(wrong) = [&from, &to].into_iter().find(|inputs| inputs.width() != site.row()) {
        let problem = format!("{map} has inputs of {}, but {} were recorded", site.row(), wrong.width());
        return Err(WeightsError::Refused(problem));
    }
    let energy = site.number("energy")?;
    Ok(Some(Rotation::between(&from.first(rank, energy), &to.first(rank, energy))))
}

/// The inputs of a map as the files have them, both or neither.
fn read(site: &Site<'_>, map: &str) -> Result<[Option<Principal>; 2], WeightsError> {
    let files = [site.text("activations")?, site.text("activations_merged")?];
    if files[0].is_empty() {
        return Ok([None, None]);
    }
    let recorded = [Checkpoint::open(Path::new(&files[0]))?, Checkpoint::open(Path::new(&files[1]))?];
    let inputs = match [recorded[0].get(map), recorded[1].get(map)] {
        [Some(one), Some(other)] => [one, other],
        [None, None] => return Ok([None, None]),
        [one, _] => {
            let lacking = &recorded[usize::from(one.is_some())];
            let problem = "is missing; inputs of a map are recorded at both models, or at neither";
            return Err(WeightsError::tensor(lacking.path(), map, problem));
        }
    };
    let of_samples = |inputs: View<'_>| {
        if inputs.shape.len() != 2 || inputs.shape[1] != site.row() {
            let problem =
                format!("has shape {:?}; inputs of this map are [samples, {}]", inputs.shape, site.row());
            return Err(inputs.error(problem));
        }
        Ok(Some(Principal::of_samples(&inputs.values()?, site.row())))
    };
    Ok([of_samples(inputs[0])?, of_samples(inputs[1])?])
}
