//! A reader's episode: one answer, which says what the customer wants.

use std::collections::BTreeMap;

use burnish_core::{Message, Task, Validity, Verdict};

use super::ID;
use super::config::Component;
use super::truth::Truth;
use crate::{EnvError, Environment, Step};

/// Reads and says.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The goal in words, and what was said.
    episode: Option<(String, String)>,
}

impl Environment for Reader {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.episode = Some((Truth::of(task)?.goal(), String::new()));
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if let Some((_, said)) = &mut self.episode {
            action.content.clone_into(said);
        }
        Ok(Step::Done)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let not_started = || EnvError::Failed(format!("{ID}: no episode has been started: reset first"));
        let (goal, said) = self.episode.as_ref().ok_or_else(not_started)?;
        let said = said.rsplit_once("</think>").map_or(&**said, |(_, rest)| rest).trim();
        let success = said == goal;
        Ok(Verdict {
            validity: Validity::Scored,
            rewards: BTreeMap::from([(Component::Success.name().to_owned(), f64::from(u8::from(success)))]),
            success,
            has_success: true,
            flags: BTreeMap::new(),
            metrics: BTreeMap::new(),
            feedback: (!success).then(|| format!("The customer wanted: {goal}.")),
            turns: BTreeMap::new(),
            error_turn: None,
        })
    }
}
