//! Controlled thoughts: one answer, whose thoughts are controlled while it is sampled.
//!
//! **What it does.** Asks the policy once, with the controls of thoughts that it was given (`docs/sampling.md`): budgets, waves on
//! words of reflection, suppression where the model is certain, an end after the first try. It selects nothing. As a strategy, it
//! stands beside the same policy left alone, with what both cost: tokens that a control reads and samples beside the answer count.
//!
//! **Formula.**
//!
//! ```text
//! y ~ π_controls(·|x)
//! ```
//!
//! **Reduces to.** The plain answer without controls, to the bit.
//!
//! **References.** s1 (arXiv:2501.19393), CGRS (arXiv:2508.05337), CyclicReflex (arXiv:2506.11077), First Try Matters
//! (arXiv:2510.08308).

use std::sync::Arc;

use burnish_core::settings::SettingError;
use burnish_core::{Sampling, ThoughtControl, Thoughts};
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use crate::card::{Card, Part};
use crate::majority::vote;
use crate::sampling::drafts;
use crate::session::Session;
use crate::strategy::{Answering, Strategy};

/// Controlled thoughts. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Controlled {
    /// What thoughts begin with; empty if they begin with the answer. Default: `<think>`.
    pub open: String,
    /// What they end with. Default: `</think>`.
    pub close: String,
    /// The controls, in the order in which they are asked. Default: none.
    pub controls: Vec<ThoughtControl>,
    /// The verifier that finds and compares final answers, for the majority beside it. Default: `math`.
    pub equality: Verifier,
}

impl Default for Controlled {
    fn default() -> Self {
        let Thoughts { open, close, controls } = Thoughts::default();
        Controlled { open, close, controls, equality: Verifier::Math }
    }
}

impl Controlled {
    fn thoughts(&self) -> Thoughts {
        let Controlled { open, close, controls, .. } = self.clone();
        Thoughts { open, close, controls }
    }
}

impl Part for Controlled {
    const CARD: Card = Card {
        id: "controlled",
        title: "controlled thoughts",
        paper: "s1, CGRS, CyclicReflex, First Try Matters: arXiv:2501.19393, 2508.05337, 2506.11077, 2510.08308",
        equation: "y ~ pi_controls(.|x)",
        reads: "nothing: it selects nothing",
        reconstructed: None,
        reduces_to: &["the plain answer, without controls, to the bit"],
        file: "crates/burnish-reason/src/controlled.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let wrong = |error: burnish_core::SamplingError| {
            SettingError::new("controls", format!("must be {}", error.range))
        };
        self.thoughts().check().map_err(wrong)
    }
}

impl Strategy for Controlled {
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError> {
        if sampling.thoughts.is_some() {
            let problem = "thoughts are controlled already, by `eval.thoughts`; leave one of them out";
            return Err(SettingError::new("controls", problem));
        }
        Ok(())
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(async move {
            let mut sampling = Sampling::clone(session.sampling());
            sampling.thoughts = (!self.controls.is_empty()).then(|| self.thoughts());
            let only = drafts(session, 1, &Arc::new(sampling)).await?;
            Ok(vote(session, only, self.equality))
        })
    }
}
