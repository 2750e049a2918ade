//! One episode: one action per turn.

use burnish_core::{Message, Task, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::ID;
use super::config::{HouseholdConfig, InvalidReward};
use super::goal::Goal;
use super::text::{NOTHING, look, observation};
use super::world::{Action, House, World};
use crate::EnvError;
use crate::many_turns::{Turns, said};
use crate::tasks::{foreign, read};

/// The part of a task that is hidden from the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    pub(crate) house: House,
    pub(crate) start: World,
    pub(crate) goal: Goal,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub(crate) fn of(task: &Task) -> Result<Truth, EnvError> {
        let truth: Truth = read(ID, task)?;
        match truth.fits(&truth.start) {
            true => Ok(truth),
            false => Err(foreign(ID, task, "its house, start and goal do not fit together")),
        }
    }

    fn fits(&self, world: &World) -> bool {
        self.house.fits(world) && self.goal.fits(&self.house)
    }
}

/// The state of an episode, with its truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Episode {
    truth: Truth,
    pub(super) world: World,
    steps: usize,
    invalid: usize,
    /// The turn of the first impossible action.
    first_invalid: Option<usize>,
    /// Sub-goals that were met at some time.
    met: Vec<bool>,
}

impl Episode {
    fn new(truth: Truth) -> Self {
        let mut episode = Episode {
            world: truth.start.clone(),
            truth,
            steps: 0,
            invalid: 0,
            first_invalid: None,
            met: vec![],
        };
        episode.note_sub_goals();
        episode
    }

    fn sub_goals(&self) -> Vec<(String, bool)> {
        self.truth.goal.sub_goals(&self.truth.house, &self.world)
    }

    fn note_sub_goals(&mut self) {
        let now = self.sub_goals();
        self.met.resize(now.len(), false);
        for (met, (_, is_met)) in self.met.iter_mut().zip(now) {
            *met |= is_met;
        }
    }

    fn is_reached(&self) -> bool {
        self.truth.goal.is_reached(&self.world)
    }

    /// Takes an action and returns what is seen then.
    fn take(&mut self, text: &str, reveal: bool) -> String {
        let action = self.truth.house.parse(text);
        let next = action.and_then(|action| self.world.after(&self.truth.house, action));
        let seen = match next {
            Some(next) => {
                self.world = next;
                self.note_sub_goals();
                let see = if action == Some(Action::Look) { look } else { observation };
                see(&self.truth.house, &self.world, reveal)
            }
            None => {
                self.invalid += 1;
                self.first_invalid = self.first_invalid.or(Some(self.steps));
                NOTHING.to_owned()
            }
        };
        self.steps += 1;
        seen
    }
}

impl Turns for Episode {
    const ID: &str = ID;
    type Config = HouseholdConfig;

    fn begin(_: &HouseholdConfig, task: &Task) -> Result<Self, EnvError> {
        Ok(Episode::new(Truth::of(task)?))
    }

    fn act(&mut self, config: &HouseholdConfig, answer: &str) -> Option<String> {
        let seen = self.take(said(answer), config.observable);
        (!self.is_reached() && self.steps < config.steps_max).then_some(seen)
    }

    fn verdict(&self, config: &HouseholdConfig) -> Verdict {
        let success = self.is_reached();
        let mut verdict = Verdict::scored("success", f64::from(u8::from(success)), success);
        let done = self.met.iter().filter(|met| **met).count();
        if config.progress {
            verdict.rewards.insert("progress".to_owned(), done as f64 / self.met.len().max(1) as f64);
        }
        let share = self.invalid as f64 / self.steps.max(1) as f64;
        let invalid = match config.invalid {
            InvalidReward::Off => None,
            InvalidReward::Count => Some(self.invalid as f64),
            InvalidReward::Share => Some(share),
        };
        verdict.rewards.extend(invalid.map(|it| ("invalid".to_owned(), it)));
        verdict.flags = BTreeMap::from([
            ("invalid".to_owned(), self.invalid > 0),
            ("out_of_steps".to_owned(), !success && self.steps >= config.steps_max),
        ]);
        if !success {
            let missing = self.sub_goals().into_iter().zip(&self.met).find(|(_, met)| !**met);
            verdict.feedback = missing.map(|((what, _), _)| format!("Not done: {what}."));
            verdict.error_turn = self.first_invalid;
        }
        verdict
    }
}

/// The messages of an episode with these `actions` behind the prompt; the last message is an answer.
pub(crate) fn episode(config: &HouseholdConfig, truth: Truth, actions: &[Action]) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut episode = Episode::new(truth);
    for (turn, action) in actions.iter().enumerate() {
        let text = episode.truth.house.word(*action);
        let seen = episode.take(&text, config.observable);
        messages.push(Message::assistant(text));
        if turn + 1 < actions.len() {
            messages.push(Message::user(seen));
        }
    }
    messages
}
