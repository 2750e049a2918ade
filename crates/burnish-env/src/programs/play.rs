//! One episode: a task, an answer, and a run of its program.

use std::sync::Arc;

use burnish_core::Verdict;
use burnish_sandbox::{Border, Limits, Part, Trial};
use burnish_verify::code::python;

use super::Truth;
use crate::code::Finding;

/// Runs programs. All environments of a generator share its sandboxes.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    pub(super) border: Arc<Border>,
    pub(super) limits: Limits,
}

impl Judge {
    pub(super) fn verdict(&self, truth: &Truth, answer: &str) -> Verdict {
        // Most of what a beginner says is no program; it need not be run.
        let Some(program) = python(answer, &["f"]).filter(|program| program.contains("def f(")) else {
            return Finding::not_run("there is no function f in the answer").verdict(false);
        };
        let trial = Trial {
            program: vec![Part("<answer>", &program)],
            checks: truth.tests.iter().map(String::as_str).collect(),
            entry_point: Some("f"),
            limits: self.limits,
            ..Trial::default()
        };
        match self.border.run(&trial) {
            Ok(execution) => Finding::of_tests(execution, &self.limits).verdict(true),
            Err(error) => Verdict::unscored(error.to_string()),
        }
    }
}
