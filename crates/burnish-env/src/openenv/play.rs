//! An episode in a session.

use std::sync::Arc;

use burnish_core::{Message, Repeating, Task, ToolSpec, Verdict};
use serde_json::Value;

use super::config::Counted;
use super::pool::Pool;
use super::session::{Failure, Observed, Session};
use super::shape::{Act, Shape, result, shown, shown_result};
use crate::{EnvError, Environment, Step};

/// The component of the reward.
pub(super) const REWARD: &str = "reward";

/// Plays one task in a session of its own.
pub(super) struct Playing {
    pool: Arc<Pool>,
    /// `None` before the episode, and after its session failed.
    session: Option<Session>,
    /// The rewards of steps, each with the policy's turn that took the step.
    rewards: Vec<(usize, f64)>,
    /// Turns of the policy before this one.
    turns: usize,
}

impl Playing {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Playing { pool, session: None, rewards: Vec::new(), turns: 0 }
    }

    fn count(&mut self, observed: &Observed) -> Result<(), EnvError> {
        let reward = match &observed.reward {
            Value::Null => return Ok(()),
            Value::Bool(is_one) => f64::from(u8::from(*is_one)),
            other => match other.as_f64() {
                Some(reward) => reward,
                None => return Err(EnvError::Failed(format!("the reward of a step, {other}, is no number"))),
            },
        };
        self.rewards.push((self.turns, reward));
        Ok(())
    }

    fn shown(&self, observed: &Observed) -> Result<String, EnvError> {
        shown(&observed.observation, &self.pool.config.observation).map_err(EnvError::Failed)
    }

    /// Takes one action; `None` if the server refuses it, with what it says.
    fn take(&mut self, action: serde_json::Map<String, Value>) -> Result<Result<Observed, String>, EnvError> {
        let gone = || EnvError::Failed("the session that played this episode is gone".to_owned());
        let mut session = self.session.take().ok_or_else(gone)?;
        match session.step(action, &self.pool.config) {
            Ok(observed) => {
                self.session = Some(session);
                Ok(Ok(observed))
            }
            Err(Failure::Refused(said)) => {
                self.session = Some(session);
                Ok(Err(said))
            }
            Err(Failure::Failed(said)) => {
                self.pool.give_back(session);
                Err(EnvError::Failed(said))
            }
            Err(Failure::Broken(said) | Failure::Full(said)) => Err(EnvError::Failed(said)),
        }
    }
}

/// The seed of a task.
pub(super) fn seed_of(task: &Task) -> Result<u32, EnvError> {
    serde_json::from_value(task.truth.clone())
        .map_err(|error| EnvError::Failed(format!("the seed of the task can't be read: {error}")))
}

impl Environment for Playing {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let (session, observed) = self.pool.reset(seed_of(task)?).map_err(EnvError::Failed)?;
        self.session = Some(session);
        self.rewards.clear();
        self.turns = 0;
        let prompt = &self.pool.config.prompt;
        let mut opening: Vec<Message> =
            (!prompt.is_empty()).then(|| Message::system(prompt.as_str())).into_iter().collect();
        opening.push(Message::user(self.shown(&observed)?));
        Ok(opening)
    }

    fn tools(&self) -> Vec<ToolSpec> {
        self.pool.shape().map(|shape| shape.tools().to_vec()).unwrap_or_default()
    }

    fn stepping(&self) -> Option<Repeating> {
        Some(self.pool.config.repeating.into())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let step = self.act(action);
        self.turns += 1;
        step
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        if let Some(session) = self.session.take() {
            self.pool.give_back(session);
        }
        let config = &self.pool.config;
        let Some((_, last)) = self.rewards.last() else {
            return Ok(Verdict::unscored("the server gave no reward"));
        };
        let mut verdict = Verdict::scored(REWARD, 0.0, false);
        match config.reward {
            Counted::Sum => {
                self.rewards.iter().for_each(|(turn, reward)| verdict.reward_turn(*turn, REWARD, *reward));
            }
            Counted::Last => drop(verdict.rewards.insert(REWARD.to_owned(), *last)),
        }
        verdict.success = verdict.rewards[REWARD] >= config.success_at;
        Ok(verdict)
    }
}

impl Playing {
    /// Takes the steps of one answer.
    fn act(&mut self, action: &Message) -> Result<Step, EnvError> {
        let shape = self.pool.shape().map_err(EnvError::Failed)?.clone();
        let acts = shape.acts(action, &self.pool.config.action);
        if acts.is_empty() {
            return Ok(Step::Done);
        }
        let mut further = Vec::with_capacity(acts.len());
        for act in acts {
            let (fields, call) = match act {
                Act::Say(message) => {
                    further.push(message);
                    continue;
                }
                Act::Take(fields, call) => (fields, call),
            };
            let text = match self.take(fields)? {
                Err(said) => said,
                Ok(observed) => {
                    self.count(&observed)?;
                    if observed.done {
                        return Ok(Step::Done);
                    }
                    match shape {
                        Shape::Tools(_) => shown_result(&observed.observation),
                        Shape::Text(..) | Shape::Fields(_) => self.shown(&observed)?,
                    }
                }
            };
            further.push(match call {
                Some(call) => result(&call, text),
                None => Message::user(text),
            });
        }
        Ok(Step::Continue(further))
    }
}
