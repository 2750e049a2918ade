//! Asks one question after the other.

use burnish_core::{Message, Task, Verdict};

use super::ID;
use super::judge::Truth;
use crate::{EnvError, Environment, Step};

/// An episode: the truth of its task, and the answers so far.
#[derive(Debug, Default)]
pub(super) struct Episode {
    truth: Option<Truth>,
    answers: Vec<String>,
}

impl Environment for Episode {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        *self = Episode { truth: Some(Truth::of(task)?), answers: Vec::new() };
        Ok(task.prompt.clone())
    }

    /// Says nothing about whether an answer is right, so later answers depend on the text alone.
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.answers.push(action.content.clone());
        let next = self.truth.as_ref().and_then(|truth| truth.later.get(self.answers.len() - 1));
        Ok(next.map_or(Step::Done, |later| Step::Continue(vec![Message::user(&later.question)])))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        match &self.truth {
            Some(truth) => Ok(truth.verdict(&self.answers)),
            None => Err(EnvError::Failed(format!("{ID}: verify before reset"))),
        }
    }
}
