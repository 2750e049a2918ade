//! Episodes of several turns in text: answers of the policy and replies of the environment, until the episode is over.

use burnish_core::{Message, Task, Verdict};

use crate::family::Family;
use crate::{EnvError, Environment, Step};

/// An episode that has begun.
pub(crate) trait Turns: Sized + Send {
    /// Id of the environment.
    const ID: &'static str;
    /// The environment's configuration, or as much of it as episodes need.
    type Config: Send;

    /// Begins the episode of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    fn begin(config: &Self::Config, task: &Task) -> Result<Self, EnvError>;

    /// Takes the text of an answer; returns the reply, or nothing if the episode is over.
    fn act(&mut self, config: &Self::Config, answer: &str) -> Option<String>;

    /// Judges the episode so far.
    fn verdict(&self, config: &Self::Config) -> Verdict;
}

/// Plays the episodes `E`.
#[derive(Debug)]
pub(crate) struct ManyTurns<E: Turns> {
    config: E::Config,
    episode: Option<E>,
    is_over: bool,
}

impl<E: Turns> ManyTurns<E> {
    pub(crate) fn new(config: E::Config) -> Self {
        ManyTurns { config, episode: None, is_over: false }
    }

    #[cfg(test)]
    pub(crate) fn episode(&self) -> Option<&E> {
        self.episode.as_ref()
    }
}

impl<E: Turns> Environment for ManyTurns<E> {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.episode = Some(E::begin(&self.config, task)?);
        self.is_over = false;
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let episode = started(E::ID, self.episode.as_mut())?;
        if self.is_over {
            return Err(over(E::ID));
        }
        let said = episode.act(&self.config, &action.content);
        self.is_over = said.is_none();
        Ok(said.map_or(Step::Done, |said| Step::Continue(vec![Message::user(said)])))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        Ok(started(E::ID, self.episode.as_ref())?.verdict(&self.config))
    }
}

/// A truth with questions that are asked one after the other. Replies never depend on whether an answer is right.
pub(crate) trait Questions: Send {
    /// Question number `at`; the first is in the prompt. `None` behind the last one.
    fn question(&self, at: usize) -> Option<&str>;

    /// Judges the answers so far.
    fn verdict(&self, answers: &[String]) -> Verdict;
}

/// An episode that asks the questions of a family's truths, and the answers so far.
pub(crate) struct Asked<F: Family> {
    truth: F::Truth,
    answers: Vec<String>,
}

impl<F: Family<Truth: Questions>> Turns for Asked<F> {
    const ID: &'static str = F::ID;
    type Config = ();

    fn begin((): &(), task: &Task) -> Result<Self, EnvError> {
        Ok(Asked { truth: F::truth(task)?, answers: Vec::new() })
    }

    fn act(&mut self, (): &(), answer: &str) -> Option<String> {
        self.answers.push(answer.to_owned());
        self.truth.question(self.answers.len()).map(str::to_owned)
    }

    fn verdict(&self, (): &()) -> Verdict {
        self.truth.verdict(&self.answers)
    }
}

/// The episode of the environment `id`.
///
/// # Errors
/// If none has begun.
pub(crate) fn started<E>(id: &str, episode: Option<E>) -> Result<E, EnvError> {
    episode.ok_or_else(|| EnvError::Failed(format!("{id}: no episode has been started: reset first")))
}

/// The error of a step after the last one.
pub(crate) fn over(id: &str) -> EnvError {
    EnvError::Failed(format!("{id}: the episode is over"))
}

/// An answer without the thoughts before it: the text after the last `</think>`.
pub(crate) fn said(answer: &str) -> &str {
    answer.rsplit_once("</think>").map_or(answer, |(_, rest)| rest).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_not_said() {
        assert_eq!(said("<think>size?</think>\n any extras? "), "any extras?");
    }
}
