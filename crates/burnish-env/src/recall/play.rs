//! Asks one question after the other.

use burnish_core::{Task, Verdict};

use super::ID;
use super::judge::Truth;
use crate::EnvError;
use crate::many_turns::Turns;

/// An episode: the truth of its task, and the answers so far.
pub(super) struct Episode {
    truth: Truth,
    answers: Vec<String>,
}

impl Turns for Episode {
    const ID: &str = ID;
    type Config = ();

    fn begin((): &(), task: &Task) -> Result<Self, EnvError> {
        Ok(Episode { truth: Truth::of(task)?, answers: Vec::new() })
    }

    /// Says nothing about whether an answer is right, so later answers depend on the text alone.
    fn act(&mut self, (): &(), answer: &str) -> Option<String> {
        self.answers.push(answer.to_owned());
        self.truth.later.get(self.answers.len() - 1).map(|later| later.question.clone())
    }

    fn verdict(&self, (): &()) -> Verdict {
        self.truth.verdict(&self.answers)
    }
}
