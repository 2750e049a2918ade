//! Asks for one key after the other, and counts.

use std::collections::BTreeMap;

use burnish_core::{Task, Validity, Verdict};

use super::{ID, Truth};
use crate::EnvError;
use crate::many_turns::Turns;

/// An episode: the truth of its task, and the answers so far.
pub(super) struct Recall {
    truth: Truth,
    answers: Vec<String>,
}

impl Turns for Recall {
    const ID: &str = ID;
    type Config = ();

    fn begin((): &(), task: &Task) -> Result<Self, EnvError> {
        Ok(Recall { truth: Truth::of(task)?, answers: Vec::new() })
    }

    /// Says nothing about whether an answer is right, so later answers depend on the bindings alone.
    fn act(&mut self, (): &(), answer: &str) -> Option<String> {
        self.answers.push(answer.trim().to_owned());
        self.truth.keys.get(self.answers.len()).cloned()
    }

    fn verdict(&self, (): &()) -> Verdict {
        let truth = &self.truth;
        let is_right = |at: usize| self.answers.get(at) == truth.values.get(at);
        let asked = truth.values.len();
        let right = (0..asked).filter(|&at| is_right(at)).count();
        let first_wrong = (0..asked).find(|&at| !is_right(at));
        let all_of = |rewritten: bool| {
            let these: Vec<usize> = (0..asked).filter(|&at| truth.rewritten[at] == rewritten).collect();
            (!these.is_empty()).then(|| these.into_iter().all(is_right))
        };
        let flags = [("kept_right", all_of(false)), ("rewritten_right", all_of(true))];
        Verdict {
            validity: Validity::Scored,
            rewards: BTreeMap::from([("recall".to_owned(), right as f64 / asked as f64)]),
            success: right == asked,
            has_success: true,
            metrics: BTreeMap::new(),
            flags: flags.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), flag?))).collect(),
            feedback: first_wrong.map(|at| format!("{} was bound to {}", truth.keys[at], truth.values[at])),
            turns: BTreeMap::new(),
            error_turn: first_wrong,
        }
    }
}
