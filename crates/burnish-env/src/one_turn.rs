//! Episodes of one turn: a question, one answer, and its judgement.

use burnish_core::{Message, Task, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{EnvError, Environment, Step};

/// Plays tasks of one turn with the truth `T`.
pub(crate) struct OneTurn<T, J> {
    id: &'static str,
    truth_of: fn(&Task) -> Result<T, EnvError>,
    judge: J,
    state: State<T>,
}

/// The state of an episode.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<T> {
    truth: Option<T>,
    answer: Option<Message>,
}

impl<T, J> OneTurn<T, J>
where
    J: Fn(&T, Option<&Message>) -> Result<Verdict, EnvError>,
{
    /// For the environment `id`: `truth_of` reads the truth of a task, and `judge` judges an answer, which is `None` if
    /// there was none.
    pub(crate) fn new(id: &'static str, truth_of: fn(&Task) -> Result<T, EnvError>, judge: J) -> Self {
        OneTurn { id, truth_of, judge, state: State { truth: None, answer: None } }
    }
}

impl<T, J> Environment for OneTurn<T, J>
where
    T: Serialize + DeserializeOwned + Send,
    J: Fn(&T, Option<&Message>) -> Result<Verdict, EnvError> + Send,
{
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.state = State { truth: Some((self.truth_of)(task)?), answer: None };
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.state.answer = Some(action.clone());
        Ok(Step::Done)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Some(truth) = &self.state.truth else {
            return Err(EnvError::Failed(format!("{}: verify before reset", self.id)));
        };
        (self.judge)(truth, self.state.answer.as_ref())
    }
}

/// The text of an answer; empty if there was none.
pub(crate) fn text_of(answer: Option<&Message>) -> &str {
    answer.map_or("", |answer| &answer.content)
}
