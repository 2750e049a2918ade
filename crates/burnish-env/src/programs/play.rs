//! One episode: a task, an answer, and a run of its program.

use std::sync::Arc;

use burnish_core::{Message, Task, Verdict};
use burnish_sandbox::{Border, Limits, Part, Trial};
use burnish_verify::code::python;
use serde::Deserialize;

use super::{ID, Truth};
use crate::code::Finding;
use crate::one_turn::text_of;
use crate::{EnvError, Environment, Step};

/// Runs programs. All environments of a generator share its sandboxes.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    pub(super) border: Arc<Border>,
    pub(super) limits: Limits,
}

pub(super) fn truth_of(task: &Task) -> Result<Truth, EnvError> {
    Truth::deserialize(&task.truth)
        .map_err(|error| EnvError::Foreign(format!("task {} is not one of {ID}: {error}", task.id)))
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

/// Plays one task.
pub(super) struct Playing {
    judge: Judge,
    truth: Option<Truth>,
    answer: Option<Message>,
}

impl Playing {
    pub(super) fn new(judge: Judge) -> Self {
        Playing { judge, truth: None, answer: None }
    }
}

impl Environment for Playing {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.truth = Some(truth_of(task)?);
        self.answer = None;
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.answer = Some(action.clone());
        Ok(Step::Done)
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Some(truth) = &self.truth else {
            return Err(EnvError::Failed(format!("{ID}: verify before reset")));
        };
        Ok(self.judge.verdict(truth, text_of(self.answer.as_ref())))
    }
}
