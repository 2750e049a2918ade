//! One episode: questions and answers, until the clarifier lets the agent act.

use std::collections::BTreeMap;

use burnish_core::{Message, Task, Validity, Verdict};

use super::belief::Belief;
use super::config::{ClarifyConfig, Component};
use super::goal::{Known, Slot};
use super::truth::Truth;
use super::{ACT, ID};
use crate::{EnvError, Environment, Step};

/// Plays clarifying questions.
#[derive(Debug)]
pub(super) struct Clarify {
    config: ClarifyConfig,
    episode: Option<Episode>,
}

#[derive(Debug)]
struct Episode {
    truth: Truth,
    before: Belief,
    now: Belief,
    /// Slots that were asked for, in the episode or before it.
    asked: Vec<Slot>,
    questions: usize,
    /// Questions that told nothing because they had been asked, or what they ask for had been said.
    repeated: usize,
    /// Whether an answer was neither a question nor the end of questions.
    malformed: bool,
}

impl Clarify {
    pub(super) fn new(config: ClarifyConfig) -> Self {
        Clarify { config, episode: None }
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        let not_started = || EnvError::Failed(format!("{ID}: no episode has been started: reset first"));
        self.episode.as_mut().ok_or_else(not_started)
    }
}

/// The slot that an answer asks for, one of `slots`; `None` if it ends the questions.
///
/// # Errors
/// If it is neither.
pub(super) fn question(text: &str, slots: &[Slot]) -> Result<Option<Slot>, ()> {
    // Thoughts may stand before the answer.
    let text = text.rsplit_once("</think>").map_or(text, |(_, rest)| rest).trim();
    match text.strip_prefix("ask ") {
        Some(name) => slots.iter().copied().find(|slot| slot.name() == name.trim()).map(Some).ok_or(()),
        None if text == ACT => Ok(None),
        None => Err(()),
    }
}

impl Environment for Clarify {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let truth = Truth::of(task)?;
        let before = truth.belief(self.config.recency);
        let said = truth.said.iter().chain(&truth.asked).map(Known::slot).collect();
        self.episode = Some(Episode {
            now: before.clone(),
            before,
            truth,
            asked: said,
            questions: 0,
            repeated: 0,
            malformed: false,
        });
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let most = self.config.questions;
        let episode = self.episode()?;
        let slot = match question(&action.content, episode.truth.records.slots()) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Ok(Step::Done),
            Err(()) => {
                episode.malformed = true;
                return Ok(Step::Done);
            }
        };
        let answer = Known::answer(&episode.truth.goal, slot, &episode.truth.unknown);
        episode.questions += 1;
        episode.repeated += usize::from(episode.asked.contains(&slot));
        episode.asked.push(slot);
        episode.now = episode.now.after(&answer);
        if episode.questions >= most {
            return Ok(Step::Done);
        }
        Ok(Step::Continue(vec![Message::user(answer.words())]))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let rewards = self.config.rewards.clone();
        let Episode { truth, before, now, questions, repeated, malformed, .. } = &*self.episode()?;
        let success = now.likeliest() == Some(&truth.goal);
        let value = |component: Component| match component {
            Component::Information => now.log_prob(&truth.goal) - before.log_prob(&truth.goal),
            Component::Certainty => before.entropy() - now.entropy(),
            Component::Success => f64::from(u8::from(success)),
            Component::Questions => -(*questions as f64),
        };
        let others = Component::ALL.into_iter().filter(|component| !rewards.contains(component));
        let flags = [
            ("asked", *questions > 0),
            ("repeated", *repeated > 0),
            ("malformed", *malformed),
            ("certain", now.goals().count() == 1),
        ];
        Ok(Verdict {
            validity: Validity::Scored,
            rewards: rewards.iter().map(|it| (it.name().to_owned(), value(*it))).collect(),
            success,
            has_success: true,
            flags: flags.map(|(name, is_set)| (name.to_owned(), is_set)).into(),
            metrics: others.map(|it| (it.name().to_owned(), value(it))).collect::<BTreeMap<_, _>>(),
            feedback: (!success).then(|| format!("The customer wanted: {}.", truth.goal())),
            turns: BTreeMap::new(),
            error_turn: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_question_or_the_end_of_questions() {
        let question = |text: &str| question(text, &Slot::ALL[..5]);
        assert_eq!(question("ask order"), Ok(Some(Slot::Order)));
        assert_eq!(question("<think>\nask item?\n</think>\n ask  payment \n"), Ok(Some(Slot::Payment)));
        assert_eq!(question(" act\n"), Ok(None));
        for wrong in ["", "ask", "ask colour", "act now", "order", "ask order item", "ask reason"] {
            assert_eq!(question(wrong), Err(()), "{wrong}");
        }
    }
}
