//! One episode: questions and answers, until the clarifier lets the agent act.

use burnish_core::{Task, Verdict};

use super::belief::Belief;
use super::config::{ClarifyConfig, Component};
use super::goal::{Known, Slot};
use super::truth::Truth;
use super::{ACT, ID};
use crate::EnvError;
use crate::many_turns::{Turns, said};

/// Clarifying questions.
#[derive(Debug)]
pub(super) struct Episode {
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

/// The slot that an answer asks for, one of `slots`; `None` if it ends the questions.
///
/// # Errors
/// If it is neither.
pub(super) fn question(text: &str, slots: &[Slot]) -> Result<Option<Slot>, ()> {
    let text = said(text);
    match text.strip_prefix("ask ") {
        Some(name) => slots.iter().copied().find(|slot| slot.name() == name.trim()).map(Some).ok_or(()),
        None if text == ACT => Ok(None),
        None => Err(()),
    }
}

impl Turns for Episode {
    const ID: &str = ID;
    type Config = ClarifyConfig;

    fn begin(config: &ClarifyConfig, task: &Task) -> Result<Self, EnvError> {
        let truth = Truth::of(task)?;
        let before = truth.belief(config.recency);
        let asked = truth.said.iter().chain(&truth.asked).map(Known::slot).collect();
        let now = before.clone();
        Ok(Episode { truth, before, now, asked, questions: 0, repeated: 0, malformed: false })
    }

    fn act(&mut self, config: &ClarifyConfig, answer: &str) -> Option<String> {
        let asked = question(answer, self.truth.records.slots());
        self.malformed = asked.is_err();
        let slot = asked.ok()??;
        let answer = Known::answer(&self.truth.goal, slot, &self.truth.unknown);
        self.questions += 1;
        self.repeated += usize::from(self.asked.contains(&slot));
        self.asked.push(slot);
        self.now = self.now.after(&answer);
        (self.questions < config.questions).then(|| answer.words().to_owned())
    }

    fn verdict(&self, config: &ClarifyConfig) -> Verdict {
        let rewards = &config.rewards;
        let Episode { truth, before, now, questions, repeated, malformed, .. } = self;
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
        Verdict {
            rewards: rewards.iter().map(|it| (it.name().to_owned(), value(*it))).collect(),
            flags: flags.map(|(name, is_set)| (name.to_owned(), is_set)).into(),
            metrics: others.map(|it| (it.name().to_owned(), value(it))).collect(),
            feedback: (!success).then(|| format!("The customer wanted: {}.", truth.goal())),
            ..Verdict::scored("", 0.0, success)
        }
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
