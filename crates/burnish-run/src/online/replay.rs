//! Members of earlier steps that are trained on again: their store, and its part of a checkpoint.

use std::collections::{BTreeMap, VecDeque};

use burnish_core::rng::{Address, Purpose};
use burnish_rl::advantage::Advantage;
use burnish_rl::replay::{Replay, ReplayConfig};
use burnish_train::{Proximal, Sample};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::groups::Groups;
use super::part;
use super::samples::Batch;
use crate::RunError;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// The kept members, oldest first, and the part that decides which to keep.
pub(super) struct Store {
    replay: Option<Box<dyn Replay>>,
    kept: VecDeque<Kept>,
}

/// A member as it was trained on.
#[derive(Serialize, Deserialize)]
struct Kept {
    advantage: f64,
    samples: Vec<KeptSample>,
}

/// A sample as it was trained on: tokens, log-probs and advantages are those of its own step.
#[derive(Serialize, Deserialize)]
struct KeptSample {
    ids: Vec<u32>,
    loss_mask: Vec<bool>,
    model_logprobs: Vec<f32>,
    sampled_logprobs: Vec<f32>,
    temperatures: Vec<f32>,
    advantages: Vec<f32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<Vec<f32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    teacher: Option<Vec<f32>>,
    /// Proximal log-probs of the step in which it was sampled, if they were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proximal: Option<Vec<f32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<u8>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    facts: BTreeMap<String, Vec<f32>>,
    direction: u8,
}

impl KeptSample {
    fn of(sample: &Sample) -> Self {
        KeptSample {
            ids: sample.ids.clone(),
            loss_mask: sample.loss_mask.clone(),
            model_logprobs: sample.model_logprobs.clone(),
            sampled_logprobs: sample.sampled_logprobs.clone(),
            temperatures: sample.temperatures.clone(),
            advantages: sample.advantages.clone(),
            reference: sample.reference.clone(),
            teacher: sample.teacher.clone(),
            proximal: match &sample.proximal {
                Proximal::Known(known) => Some(known.clone()),
                Proximal::Sampling | Proximal::Between(_) => None,
            },
            parts: sample.parts.clone(),
            facts: sample.facts.clone(),
            direction: sample.direction,
        }
    }

    fn sample(&self, group: usize) -> Sample {
        Sample {
            noised: None,
            latents: None,
            ids: self.ids.clone(),
            loss_mask: self.loss_mask.clone(),
            model_logprobs: self.model_logprobs.clone(),
            sampled_logprobs: self.sampled_logprobs.clone(),
            temperatures: self.temperatures.clone(),
            advantages: self.advantages.clone(),
            reference: self.reference.clone(),
            teacher: self.teacher.clone(),
            target: None,
            parts: self.parts.clone(),
            facts: self.facts.clone(),
            proximal: self.proximal.clone().map_or(Proximal::Sampling, Proximal::Known),
            group,
            direction: self.direction,
        }
    }
}

impl Store {
    /// The store of a recipe, with the members of a saved `state`.
    ///
    /// # Errors
    /// If a setting is wrong, or the state is not that of a store.
    pub(super) fn new(recipe: &Recipe, state: &Value) -> Result<Self, RunError> {
        let replay = recipe.replay.as_ref().map(ReplayConfig::build).transpose()?;
        Ok(Store { replay, kept: part(state)? })
    }

    /// The kept members; null if nothing is replayed.
    pub(super) fn state(&self) -> Value {
        if self.replay.is_some() { json!(self.kept) } else { Value::Null }
    }

    /// Drops the members of step number `step` that the update does not train on, and returns the members of earlier
    /// steps that it trains on in addition. Keeps the members of this step that are worth replaying later.
    pub(super) fn mix(&mut self, recipe: &Recipe, groups: &mut Groups, step: u64) -> (Replayed, Values) {
        let mut replayed = Replayed::default();
        let Some(replay) = &self.replay else { return (replayed, Values::new()) };
        let advantage = |own: Option<&Advantage>| own.map_or(0.0, Advantage::mean);
        let members =
            groups.kept().flat_map(|group| &group.members).filter(|member| !member.samples.is_empty());
        let fresh: Vec<f64> = members.map(|member| advantage(member.advantage.as_ref())).collect();
        let known: Vec<f64> = self.kept.iter().map(|kept| kept.advantage).collect();
        let place = Address { step, turn: 3, ..Address::new(recipe.run.seed, Purpose::Perturb) };
        let mixture = replay.mix(&fresh, &known, place.seed());
        for at in &mixture.kept {
            let samples = self.kept.get(*at).map(|kept| kept.samples.as_slice()).unwrap_or_default();
            replayed.members.push(samples.iter().map(|sample| sample.sample(0)).collect());
        }
        let mut chosen = mixture.fresh.iter().peekable();
        let members = groups.kept_mut().flat_map(|group| &mut group.members);
        for (at, member) in members.filter(|member| !member.samples.is_empty()).enumerate() {
            if replay.keeps(fresh[at]) {
                let samples = member.samples.iter().map(|own| KeptSample::of(&own.sample)).collect();
                self.kept.push_back(Kept { advantage: fresh[at], samples });
            }
            if chosen.next_if_eq(&&at).is_none() {
                member.samples.clear();
            }
        }
        let most = replay.capacity(fresh.len());
        self.kept.drain(..self.kept.len().saturating_sub(most));
        let all = (mixture.fresh.len() + mixture.kept.len()).max(1) as f64;
        let vanished = fresh.iter().filter(|advantage| **advantage == 0.0).count();
        let metrics = [
            ("replay/kept", self.kept.len() as f64),
            ("replay/share", mixture.kept.len() as f64 / all),
            ("replay/vanished", vanished as f64 / fresh.len().max(1) as f64),
        ];
        (replayed, metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Members of earlier steps, each on its own.
#[derive(Default)]
pub(super) struct Replayed {
    members: Vec<Vec<Sample>>,
}

impl Replayed {
    /// Adds them to the batch of an update, each as its own group.
    pub(super) fn join(self, batch: &mut Batch) {
        for samples in self.members {
            let group = batch.group_sizes.len();
            batch.group_sizes.push(samples.len());
            batch.samples.extend(samples.into_iter().map(|sample| Sample { group, ..sample }));
        }
    }
}
