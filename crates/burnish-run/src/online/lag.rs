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
use crate::learner::{Learner, Weights};
use crate::policy::Sampler;
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
    pub(super) weights: Weights,
    pub(super) chat: Arc<Chat>,
    /// Updates that its weights have had.
    version: u64,
    limits: Limits,
}

impl Behavior {
    /// Whoever samples from them.
    ///
    /// # Errors
    /// If somebody else can't be given them.
    pub(super) fn sampler(&self) -> Result<Sampler, RunError> {
        self.weights.sampler(&self.chat, self.version, self.limits.clone())
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
        learner: &Learner,
        checkpoint: Option<&Checkpoint>,
        state: &Value,
    ) -> Result<Self, RunError> {
        let mut earlier = Lag { lag: lag as usize, kept: VecDeque::new() };
        let Some(checkpoint) = checkpoint else { return Ok(earlier) };
        for version in part::<Vec<u64>>(state)? {
            let mut model = Model::clone(&learner.here()?.policy.model);
            checkpoint.restore_weights(&file(version), &mut model)?;
            earlier.kept.push_back(Arc::new(Snapshot { model: Arc::new(model), version }));
        }
        Ok(earlier)
    }

    /// The behavior policy of a step that starts with the weights of `learner`. It has the weights of some steps ago; in
    /// the first steps, those at the start of the run; without a lag, the present ones. The present weights are kept
    /// for later steps.
    ///
    /// # Errors
    /// If weights are to be kept that are not here.
    pub(super) fn behavior(&mut self, recipe: &Recipe, learner: &Learner) -> Result<Behavior, RunError> {
        let (chat, limits) = (Arc::clone(learner.chat()), recipe.rollout.limits());
        let (weights, version) = match self.earlier(learner)? {
            Some(earlier) => {
                let engine = learner.here()?.policy.engine.clone();
                (Weights::Here { model: Arc::clone(&earlier.model), engine }, earlier.version)
            }
            None => (learner.weights(), learner.updates()),
        };
        Ok(Behavior { weights, chat, version, limits })
    }

    fn earlier(&mut self, learner: &Learner) -> Result<Option<Arc<Snapshot>>, RunError> {
        if self.lag == 0 {
            return Ok(None);
        }
        let model = Arc::new(Model::clone(&learner.here()?.policy.model));
        self.kept.push_back(Arc::new(Snapshot { model, version: learner.updates() }));
        if self.kept.len() <= self.lag {
            return Ok(self.kept.front().cloned());
        }
        Ok(self.kept.pop_front())
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
