//! One episode: ask the library, put in order what it gives, act, write a skill down.

use std::sync::{Arc, Mutex, PoisonError};

use burnish_core::{Message, Repeating, Task, Verdict};

use super::config::SkilledConfig;
use super::library::Library;
use super::outcome::{WROTE, order_of, orders, skill_of};
use super::{ID, Shelf};
use crate::around::{inner, plays_around};
use crate::many_turns::{said, started};
use crate::{EnvError, Environment, Step};

/// Plays tasks of another environment with a library of skills.
pub(super) struct Skilled {
    config: SkilledConfig,
    inner: Box<dyn Environment>,
    shelf: Arc<Mutex<Shelf>>,
    episode: Option<Episode>,
}

struct Episode {
    /// The library as it was when the episode began.
    library: Arc<Library>,
    bonus: f64,
    stage: Stage,
    /// What the skills say that were given, in their order.
    given: Vec<String>,
    /// What the inner environment found when it was over.
    verdict: Option<Verdict>,
    /// Whether what should have been an order or a skill was none.
    malformed: bool,
    wrote: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Asking,
    Ordering,
    Acting,
    Writing,
}

/// What the policy reads when it is to ask, to put in order, to act, to write down.
pub(super) const ASK: &str = "which skill?";
pub(super) const ORDER: &str = "which first?";
pub(super) const ACT: &str = "act";
pub(super) const WRITE: &str = "write a skill";

impl Skilled {
    pub(super) fn new(config: SkilledConfig, inner: Box<dyn Environment>, shelf: Arc<Mutex<Shelf>>) -> Self {
        Skilled { config, inner, shelf, episode: None }
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        started(ID, self.episode.as_mut())
    }

    /// What the library says. It changes nothing here: on a record, it is not asked again.
    fn asked(&mut self, query: &str) -> Result<Step, EnvError> {
        let (candidates, select) = (self.config.candidates, self.config.select);
        let episode = self.episode()?;
        let found = episode.library.retrieve(query, candidates, episode.bonus);
        if orders(found.len(), select) {
            let mut lines: Vec<String> = found
                .iter()
                .zip(1..)
                .map(|(skill, at)| format!("{at} {}: {}", skill.description, skill.text))
                .collect();
            lines.push(ORDER.to_owned());
            return Ok(says(lines.join("\n")));
        }
        Ok(says(opening(found.first().map(|skill| skill.text.as_str()))))
    }

    fn ordered(&mut self, text: &str) -> Result<Step, EnvError> {
        let episode = self.episode()?;
        let order = order_of(text, episode.given.len());
        episode.malformed |= order.is_none();
        let first = order.and_then(|order| order.first().copied()).unwrap_or(0);
        episode.stage = Stage::Acting;
        Ok(says(opening(episode.given.get(first).map(String::as_str))))
    }

    /// Passes on what the inner environment does; when it is over, a skill may be written down.
    fn acted(&mut self, step: Step) -> Result<Step, EnvError> {
        if step != Step::Done {
            return Ok(step);
        }
        let verdict = self.inner.verify()?;
        let distils = self.config.distil && self.config.candidates > 0;
        let episode = self.episode()?;
        episode.verdict = Some(verdict);
        if !distils {
            return Ok(Step::Done);
        }
        episode.stage = Stage::Writing;
        Ok(says(WRITE.to_owned()))
    }

    /// Whether the inner environment is being played.
    fn is_acting(&self) -> bool {
        self.episode.as_ref().is_some_and(|episode| episode.stage == Stage::Acting)
    }
}

fn says(text: String) -> Step {
    Step::Continue(vec![Message::user(text)])
}

/// What the policy reads before it acts.
fn opening(skill: Option<&str>) -> String {
    skill.map_or_else(|| ACT.to_owned(), |skill| format!("{skill}\n{ACT}"))
}

impl Environment for Skilled {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        let inner = inner(ID, task)?;
        self.inner.reset(&inner, seed)?;
        let shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stage = if self.config.candidates > 0 { Stage::Asking } else { Stage::Acting };
        let bonus = if shelf.explores { self.config.bonus } else { 0.0 };
        self.episode = Some(Episode {
            library: shelf.library,
            bonus,
            stage,
            given: Vec::new(),
            verdict: None,
            malformed: false,
            wrote: false,
        });
        Ok(task.prompt.clone())
    }

    plays_around!();

    /// What the library says is on the episode's record, because training changes the library. Everything else follows from
    /// that.
    fn stepping(&self) -> Option<Repeating> {
        let is_asking = self.episode.as_ref().is_some_and(|episode| episode.stage == Stage::Asking);
        is_asking.then_some(Repeating::Repeatable)
    }

    fn stepped(&mut self, _action: &Message, step: &Step) {
        let (Some(episode), Step::Continue(messages)) = (&mut self.episode, step) else { return };
        let text = messages.first().map_or("", |message| &message.content);
        let lines: Vec<&str> = text.lines().collect();
        let (last, before) = lines.split_last().unwrap_or((&"", &[]));
        episode.stage = if *last == ORDER { Stage::Ordering } else { Stage::Acting };
        let text_of = |line: &&str| match episode.stage {
            Stage::Ordering => line.split_once(": ").map_or(*line, |(_, text)| text).to_owned(),
            _ => (*line).to_owned(),
        };
        episode.given = before.iter().map(text_of).collect();
    }

    fn called(&mut self, answer: &Message, said: &[Message]) {
        if self.is_acting() {
            self.inner.called(answer, said);
        }
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        match self.episode()?.stage {
            Stage::Asking => self.asked(said(&action.content)),
            Stage::Ordering => self.ordered(said(&action.content)),
            Stage::Acting => {
                let step = self.inner.step(action)?;
                self.acted(step)
            }
            Stage::Writing => {
                let episode = self.episode()?;
                episode.wrote = true;
                episode.malformed |= skill_of(said(&action.content)).is_none();
                Ok(Step::Done)
            }
        }
    }

    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        let step = self.inner.hear(said)?;
        self.acted(step)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let known = self.episode()?.verdict.clone();
        let mut verdict = known.map_or_else(|| self.inner.verify(), Ok)?;
        let episode = self.episode()?;
        let flags = [
            (WROTE, episode.wrote),
            ("given", !episode.given.is_empty()),
            ("malformed_skill", episode.malformed),
        ];
        verdict.flags.extend(flags.map(|(name, is_set)| (name.to_owned(), is_set)));
        Ok(verdict)
    }
}
