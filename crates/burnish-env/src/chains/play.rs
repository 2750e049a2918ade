//! Plays one chain: one turn, one answer.

use burnish_core::{Message, Task, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::Component;
use super::generate::name;
use super::judge::{Style, judge};
use super::{ID, Truth};
use crate::{EnvError, Environment, Step, settings};

/// Plays one task.
pub(super) struct Game {
    rewards: Vec<Component>,
    style_correlation: f64,
    state: State,
}

/// All that changes in an episode.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    truth: Option<Truth>,
    answer: Option<String>,
}

impl Game {
    pub(super) fn new(rewards: Vec<Component>, style_correlation: f64) -> Self {
        Game { rewards, style_correlation, state: State::default() }
    }
}

impl Environment for Game {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.state = State { truth: Some(Truth::of(task)?), answer: None };
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.state.answer = Some(action.content.clone());
        Ok(Step::Done)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Some(truth) = &self.state.truth else {
            return Err(EnvError::Failed(format!("{ID}: verify before reset")));
        };
        let text = self.state.answer.as_deref().unwrap_or_default();
        let style = Style { correlation: self.style_correlation, name: &name(truth)? };
        Ok(judge(truth, text).verdict(&self.rewards, style, text))
    }

    fn snapshot(&self) -> Value {
        settings::to_value(&self.state).unwrap_or_default()
    }

    fn restore(&mut self, snapshot: &Value) -> Result<(), EnvError> {
        self.state = State::deserialize(snapshot)
            .map_err(|error| EnvError::Foreign(format!("not a snapshot of {ID}: {error}")))?;
        Ok(())
    }
}
