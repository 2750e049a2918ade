//! Episodes of one turn: a question, one answer, and its judgement.

use burnish_core::{Message, Task, Verdict};

use crate::many_turns::{over, started};
use crate::{EnvError, Environment, Step};

/// Plays tasks of one turn with the truth `T`.
pub(crate) struct OneTurn<T, J> {
    id: &'static str,
    truth_of: fn(&Task) -> Result<T, EnvError>,
    judge: J,
    is_slow: bool,
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
        OneTurn { id, truth_of, judge, is_slow: false, truth: None, answer: None }
    }

    /// The same with a judge that takes long.
    pub(crate) fn slow(self) -> Self {
        OneTurn { is_slow: true, ..self }
    }
}

impl<T, J> Environment for OneTurn<T, J>
where
    T: Send,
    J: Fn(&T, Option<&Message>) -> Result<Verdict, EnvError> + Send,
{
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.truth = Some((self.truth_of)(task)?);
        self.answer = None;
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        started(self.id, self.truth.as_ref())?;
        if self.answer.is_some() {
            return Err(over(self.id));
        }
        self.answer = Some(action.clone());
        Ok(Step::Done)
    }

    fn is_slow(&self) -> bool {
        self.is_slow
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        (self.judge)(started(self.id, self.truth.as_ref())?, self.answer.as_ref())
    }
}

/// The text of an answer; empty if there was none.
pub(crate) fn text_of(answer: Option<&Message>) -> &str {
    answer.map_or("", |answer| &answer.content)
}
