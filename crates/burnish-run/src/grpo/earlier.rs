//! Weights of earlier steps, which sample where `rollout.policy_lag` has sampling behind training.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use burnish_model::Model;
use burnish_train::checkpoint::{self, BoxError, Checkpoint};
use serde_json::{Value, json};

use super::part;
use crate::RunError;

/// Folder of a checkpoint that holds them.
const DIR: &str = "earlier";

/// The policy as it was at the beginning of the last steps, the oldest first: as many as the next step needs.
pub(super) struct Earlier {
    lag: usize,
    kept: VecDeque<Arc<Snapshot>>,
}

/// A policy as it was.
pub(super) struct Snapshot {
    pub(super) model: Arc<Model>,
    /// Updates that its weights have had.
    pub(super) version: u64,
}

impl Earlier {
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
        let mut earlier = Earlier { lag: lag as usize, kept: VecDeque::new() };
        let Some(checkpoint) = checkpoint else { return Ok(earlier) };
        for version in part::<Vec<u64>>(state)? {
            let mut model = policy.clone();
            checkpoint.restore_weights(&file(version), &mut model)?;
            earlier.kept.push_back(Arc::new(Snapshot { model: Arc::new(model), version }));
        }
        Ok(earlier)
    }

    /// What samples in a step that begins with the weights `policy`, which have had `version` updates: the weights of `lag`
    /// steps ago, in the first steps those that the run began with. None where those of now do. They are kept for later
    /// steps.
    pub(super) fn sampler(&mut self, policy: &Model, version: u64) -> Option<Arc<Snapshot>> {
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
