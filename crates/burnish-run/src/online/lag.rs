//! Weights of earlier steps, which sample where `rollout.policy_lag` has sampling behind training.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use burnish_engine::{Limits, LocalPolicy};
use burnish_model::{Chat, Model};
use burnish_train::checkpoint::{self, BoxError, Checkpoint};
use serde_json::{Value, json};

use super::part;
use crate::RunError;
use crate::policy::LoadedPolicy;
use burnish_recipe::Recipe;

/// Folder of a checkpoint that holds them.
const DIR: &str = "earlier";

/// The policy as it was at the beginning of the last steps, the oldest first: as many as the next step needs.
pub(super) struct Lag {
    lag: usize,
    kept: VecDeque<Arc<Snapshot>>,
}

/// A policy as it was.
struct Snapshot {
    model: Arc<Model>,
    /// Updates that its weights have had.
    version: u64,
}

/// Whose weights sample in a step: those that are trained, or as they were some steps ago.
pub(super) struct Sampler {
    pub(super) model: Arc<Model>,
    pub(super) chat: Arc<Chat>,
    /// Updates that its weights have had.
    version: u64,
    limits: Limits,
}

impl Sampler {
    /// What answers. It is dropped when what it was made for is done, and its packed weights and its cache with it: the
    /// passes that train need the room.
    pub(super) fn policy(&self) -> LocalPolicy {
        LocalPolicy::new(&self.model, &self.chat, self.version).with_limits(self.limits.clone())
    }
}

impl Lag {
    /// None yet, for a run whose sampling is `lag` steps behind; those of `checkpoint`, whose `state` they said, where it
    /// goes on.
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

    /// Who samples in a step that begins with the weights of `policy`, which have had `version` updates: the weights of some
    /// steps ago, in the first steps those that the run began with; without a lag, those of now. They are kept for later steps.
    pub(super) fn sampler(&mut self, recipe: &Recipe, policy: &LoadedPolicy, version: u64) -> Sampler {
        let (chat, limits) = (Arc::clone(&policy.chat), recipe.rollout.limits());
        let (model, version) = match self.earlier(&policy.model, version) {
            Some(earlier) => (Arc::clone(&earlier.model), earlier.version),
            None => (Arc::clone(&policy.model), version),
        };
        Sampler { model, chat, version, limits }
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

    /// Writes them into the directory of a checkpoint.
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

    /// Their versions.
    pub(super) fn state(&self) -> Value {
        json!(self.kept.iter().map(|earlier| earlier.version).collect::<Vec<u64>>())
    }
}

fn file(version: u64) -> String {
    format!("{DIR}/{version}.safetensors")
}
