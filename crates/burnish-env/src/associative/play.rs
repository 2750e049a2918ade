//! Asks for one key after the other, and counts.

use std::collections::BTreeMap;

use burnish_core::{Message, Task, Validity, Verdict};

use super::{ID, Truth};
use crate::{EnvError, Environment, Step};

/// An episode: the truth of its task, and the answers so far.
#[derive(Debug, Default)]
pub(super) struct Recall {
    truth: Option<Truth>,
    answers: Vec<String>,
}

impl Environment for Recall {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        *self = Recall { truth: Some(Truth::of(task)?), answers: Vec::new() };
        Ok(task.prompt.clone())
    }

    /// Says nothing about whether an answer is right, so later answers depend on the bindings alone.
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.answers.push(action.content.trim().to_owned());
        let next = self.truth.as_ref().and_then(|truth| truth.keys.get(self.answers.len()));
        Ok(next.map_or(Step::Done, |key| Step::Continue(vec![Message::user(key)])))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Some(truth) = &self.truth else {
            return Err(EnvError::Failed(format!("{ID}: verify before reset")));
        };
        let is_right = |at: usize| self.answers.get(at) == truth.values.get(at);
        let asked = truth.values.len();
        let right = (0..asked).filter(|&at| is_right(at)).count();
        let first_wrong = (0..asked).find(|&at| !is_right(at));
        let all_of = |rewritten: bool| {
            let these: Vec<usize> = (0..asked).filter(|&at| truth.rewritten[at] == rewritten).collect();
            (!these.is_empty()).then(|| these.into_iter().all(is_right))
        };
        let flags = [("kept_right", all_of(false)), ("rewritten_right", all_of(true))];
        Ok(Verdict {
            validity: Validity::Scored,
            rewards: BTreeMap::from([("recall".to_owned(), right as f64 / asked as f64)]),
            success: right == asked,
            has_success: true,
            metrics: BTreeMap::new(),
            flags: flags.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), flag?))).collect(),
            feedback: first_wrong.map(|at| format!("{} was bound to {}", truth.keys[at], truth.values[at])),
            turns: BTreeMap::new(),
            error_turn: first_wrong,
        })
    }
}
