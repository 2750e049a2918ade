//! Associative recall: keys are bound to values once, some are bound again, and then the policy is asked for keys, one
//! per turn.
//!
//! It measures what a memory of fixed size can hold (multi-query associative recall, Arora et al. 2023,
//! arXiv:2312.04927), what it can replace (`rewrites`), whether it can replace a part of what it holds (`parts_kept`),
//! and whether it can tell keys that share parts (`key_parts`). Prompts have no words, so that the smallest policies can
//! read them. `docs/environments/associative.md`.

mod config;
mod generate;
mod play;

use burnish_core::Task;
use serde::{Deserialize, Serialize};

use crate::tasks::{foreign, read};
use crate::{EnvError, Kind, settings};

pub use config::Config;
pub use generate::Associative;

/// Id of the environment.
const ID: &str = "associative";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "associative recall",
    summary: "Recall what keys were bound to last, one per turn.",
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    axes: None,
    build: |config| Ok(Box::new(Associative::new(settings::read(config)?)?)),
};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    /// The keys that are asked for, in order; the first is in the prompt.
    keys: Vec<String>,
    /// What each of them is bound to in the end.
    values: Vec<String>,
    /// Which of them were bound more than once.
    rewritten: Vec<bool>,
}

impl Truth {
    fn of(task: &Task) -> Result<Self, EnvError> {
        let truth: Truth = read(ID, task)?;
        let asked = truth.keys.len();
        if asked == 0 || truth.values.len() != asked || truth.rewritten.len() != asked {
            return Err(foreign(ID, task, "it has not one value for each key"));
        }
        Ok(truth)
    }
}
