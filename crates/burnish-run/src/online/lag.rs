//! Weights of earlier steps, which sample if `rollout.policy_lag` is above 0.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use burnish_engine::Limits;
use burnish_model::{Chat, Model};
use burnish_train::checkpoint::{self, BoxError, Checkpoint};
use serde_json::{Value, json};

use super::part;
use crate::RunError;
use crate::engine::Engine;
use crate::policy::{LoadedPolicy, Sampler, sampler};
use burnish_recipe::Recipe;

/// The folder of a checkpoint that holds them.
const DIR: &str = "earlier";

/// The policy as it was at the start of the last steps, oldest first: as many as the next step needs.
pub(super) struct Lag {
    lag: usize,
    kept: VecDeque<Arc<Snapshot>>,
}

/// An earlier policy.
struct Snapshot {
    model: Arc<Model>,
    /// Updates that its weights have had.
    version: u64,
}

/// The behavior policy, which samples in a step: the trained weights, or those of some steps ago.
pub(super) struct Behavior {
    pub(super) model: Arc<Model>,
    pub(super) chat: Arc<Chat>,
    engine: Option<Arc<Engine>>,
    /// Updates that its weights have had.
    version: u64,
    limits: Limits,
}

impl Behavior {
    /// Whoever samples from them ([`sampler`]).
    ///
    /// # Errors
    /// If an engine can't be given them.
    pub(super) fn sampler(&self) -> Result<Sampler, RunError> {
        sampler((&self.model, &self.chat), self.engine.as_deref(), self.version, self.limits.clone())
    }
}

impl Lag {
    /// Starts empty for a run with a lag of `lag` steps. A resumed run loads the weights from `checkpoint`, whose
    /// `state` lists them.
    ///
    /// # Errors
    /// If they can't be read.
    pub(super) fn new(
        lag: u64,
        policy: &Model,
        checkpoint: Option<&Checkpoint>,
        state: &Value,
    ) -> Result<Self, RunError> {
        let mut earlier = Lag { lag: lag as usize, kept: VecDeque::new() };
        let Some(checkpoint) = checkpoint else { return Ok(earlier) };
        for version in part::<Vec<u64>>(state)? {
            let mut model = policy.clone();
            checkpoint.restore_weights(&file(version), &mut model)?;
            earlier.kept.push_back(Arc::new(Snapshot { model: Arc::new(model), version }));
        }
        Ok(earlier)
    }

    /// The behavior policy of a step that starts with the weights of `policy`, which have had `version` updates. It has the
    /// weights of some steps ago; in the first steps, those at the start of the run; without a lag, the present ones.
    /// The present weights are kept for later steps.
    pub(super) fn behavior(&mut self, recipe: &Recipe, policy: &LoadedPolicy, version: u64) -> Behavior {
        let (chat, limits) = (Arc::clone(&policy.chat), recipe.rollout.limits());
        let (model, version) = match self.earlier(&policy.model, version) {
            Some(earlier) => (Arc::clone(&earlier.model), earlier.version),
            None => (Arc::clone(&policy.model), version),
        };
        Behavior { model, chat, engine: policy.engine.clone(), version, limits }
    }

    fn earlier(&mut self, policy: &Model, version: u64) -> Option<Arc<Snapshot>> {
        if self.lag == 0 {
            return None;
        }
        self.kept.push_back(Arc::new(Snapshot { model: Arc::new(policy.clone()), version }));
        if self.kept.len() <= self.lag {
            return self.kept.front().cloned();
        }
        self.kept.pop_front()
    }

    /// Writes the kept weights into the directory of a checkpoint.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn save(&self, checkpoint: &Path) -> Result<(), BoxError> {
        if !self.kept.is_empty() {
            std::fs::create_dir(checkpoint.join(DIR))?;
        }
        self.kept.iter().try_for_each(|earlier| {
            checkpoint::write_weights(&checkpoint.join(file(earlier.version)), &earlier.model)
        })
    }

    /// The versions of the kept weights.
    pub(super) fn state(&self) -> Value {
        json!(self.kept.iter().map(|earlier| earlier.version).collect::<Vec<u64>>())
    }
}

fn file(version: u64) -> String {
    format!("{DIR}/{version}.safetensors")
}
