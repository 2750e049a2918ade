//! Somebody elsewhere who plays episodes, one after the other. What clients of a served environment send is read by the
//! protocol that serves it (`openenv`, `offered`); what comes of it is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{Ending, Episode, FunctionCall, Message, ToolCall, ToolSpec, Validity};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Generator;
use crate::session::{Seen, Session};

/// A guest, and the episode that it plays.
pub(crate) struct Guest {
    generator: Arc<dyn Generator>,
    turns_max: usize,
    /// The number of the next episode that is begun without a seed.
    unseeded: u64,
    playing: Playing,
}

/// Where the episode is.
enum Playing {
    Nothing,
    Turn {
        session: Session,
        /// Messages that the guest has seen or said.
        known: usize,
        tools: Arc<Vec<ToolSpec>>,
        steps: usize,
    },
    Over {
        steps: usize,
    },
}

/// What the guest is told.
#[derive(Debug)]
pub(crate) enum News {
    /// It is its turn again: what is new to it, and the tools that it has.
    Turn { messages: Vec<Message>, tools: Arc<Vec<ToolSpec>> },
    /// The episode is over.
    Over(End),
}

/// How an episode ended, and what it was judged to be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct End {
    ending: Ending,
    /// `None` if it was not judged, or its environment knows no success.
    success: Option<bool>,
    rewards: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unscored: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<String>,
}

impl End {
    fn of(episode: &Episode) -> Self {
        let verdict = &episode.verdict;
        let unscored = match &verdict.validity {
            Validity::Scored => None,
            Validity::Unscored { reason } => Some(reason.clone()),
        };
        End {
            ending: episode.ending,
            success: (verdict.has_success && unscored.is_none()).then_some(verdict.success),
            rewards: verdict.rewards.clone(),
            unscored,
            feedback: verdict.feedback.clone(),
        }
    }

    /// The sum of the rewards; `None` if the episode was not judged.
    pub(crate) fn reward(&self) -> Option<f64> {
        self.unscored.is_none().then(|| self.rewards.values().sum())
    }
}

impl Guest {
    /// A guest that plays tasks of the generator, with at most `turns_max` turns in an episode.
    pub(crate) fn new(generator: Arc<dyn Generator>, turns_max: usize) -> Self {
        Guest { generator, turns_max, unseeded: 0, playing: Playing::Nothing }
    }

    /// Begins an episode: the task of this seed, or another one each time. Waits for the environment.
    ///
    /// # Errors
    /// If the environment fails: why.
    pub(crate) fn reset(&mut self, seed: Option<u64>) -> Result<News, String> {
        let seed = seed.unwrap_or_else(|| {
            self.unseeded += 1;
            self.unseeded - 1
        });
        self.playing = Playing::Nothing;
        let made = self.generator.tasks(seed, 1).map_err(|error| error.to_string())?;
        let task = made.tasks.into_iter().next().ok_or("no task was made")?;
        let session = Session::begin(Arc::clone(&self.generator), task, seed, self.turns_max)
            .map_err(|error| error.to_string())?;
        let seen = session.look();
        self.told(session, seen, 0, 0)
    }

    /// Says a text and calls tools, by their names and arguments. Waits for the environment.
    ///
    /// # Errors
    /// If no episode is under way, or it can't go on: why.
    pub(crate) fn say(&mut self, text: String, calls: Vec<(String, Value)>) -> Result<News, String> {
        let (session, known, steps) = match std::mem::replace(&mut self.playing, Playing::Nothing) {
            Playing::Turn { session, known, steps, .. } => (session, known, steps),
            Playing::Over { steps } => {
                self.playing = Playing::Over { steps };
                return Err("the episode is over; reset begins another".to_owned());
            }
            Playing::Nothing => return Err("no episode is under way; reset begins one".to_owned()),
        };
        let call = |(at, (name, arguments)): (usize, (String, Value))| {
            let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
            ToolCall { id: Some(format!("call{at:05}")), function: FunctionCall { name, arguments } }
        };
        let tool_calls = calls.into_iter().enumerate().map(call).collect();
        let seen = session.answer(Message { tool_calls, ..Message::assistant(text) });
        // What the guest said itself is not new to it.
        self.told(session, seen, known + 1, steps + 1)
    }

    fn told(&mut self, session: Session, seen: Seen, known: usize, steps: usize) -> Result<News, String> {
        self.playing = Playing::Over { steps };
        match seen {
            Seen::Failed(problem) => Err(problem),
            Seen::Over(episode) => Ok(News::Over(End::of(&episode))),
            Seen::Turn { messages, tools } => {
                let new = messages.get(known..).unwrap_or_default().to_vec();
                self.playing =
                    Playing::Turn { session, known: messages.len(), tools: Arc::clone(&tools), steps };
                Ok(News::Turn { messages: new, tools })
            }
        }
    }

    /// The tools that may be called.
    pub(crate) fn tools(&self) -> Vec<ToolSpec> {
        match &self.playing {
            Playing::Turn { tools, .. } => tools.to_vec(),
            Playing::Nothing | Playing::Over { .. } => self.generator.environment().tools(),
        }
    }

    /// Steps of this episode so far.
    pub(crate) fn steps(&self) -> usize {
        match self.playing {
            Playing::Nothing => 0,
            Playing::Turn { steps, .. } | Playing::Over { steps } => steps,
        }
    }
}

/// The texts of messages, one after the other.
pub(crate) fn text_of(messages: &[Message]) -> String {
    messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}
