//! Judges an answer and computes its rewards.

use burnish_core::{Verdict, rng};

use super::Truth;
use super::answer;
use super::config::Component;
use super::language;
use super::problem::carry_out;
use crate::lang::Asked;
use burnish_core::RECOVERED;

/// The findings about an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The last final answer, if there is one.
    pub value: Option<u64>,
    /// Whether it is the right one.
    pub is_right: bool,
    /// Whether the text is lines of well-formed steps (at least one if the task has any) and then one final answer.
    pub is_well_formed: bool,
    /// Whether every sign of the text, apart from white space, belongs to the prompt's language.
    pub is_in_language: bool,
    /// Whether the final answer recovers what was known before the task was reversed ([`Truth::recovers`]).
    pub is_recovered: bool,
    /// Number of right steps in the text: those equal to a step of the solution, each counted once.
    pub steps_right: usize,
    /// Number of well-formed steps in the text.
    pub steps_written: usize,
    /// Number of steps in the solution.
    pub steps_needed: usize,
    /// Number of characters in the text.
    pub characters: usize,
    /// Number of characters in the solution with its work, or in the prompt if there is no solution.
    pub characters_needed: usize,
}

/// The inputs of `style`: the configured correlation and the task's name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style<'a> {
    pub(super) correlation: f64,
    pub(super) name: &'a str,
}

/// Judges an answer.
pub fn judge(truth: &Truth, text: &str) -> Finding {
    let read = answer::read(text);
    let solution = truth.answer.and_then(|_| carry_out(&truth.problem.plan(), None)).unwrap_or_default();
    let mut left = solution.clone();
    let steps_right = read
        .steps
        .iter()
        .filter(|step| left.iter().position(|right| right == *step).map(|at| left.remove(at)).is_some())
        .count();
    let steps_needed = truth.problem.operations.len();
    let characters_needed = match truth.answer {
        Some(right) => super::answer_text(&solution, right).chars().count(),
        None => truth.problem.prompt().chars().count(),
    };
    Finding {
        value: read.value,
        is_right: read.value.is_some() && read.value == truth.answer,
        is_well_formed: read.is_well_formed && (steps_needed == 0 || !read.steps.is_empty()),
        is_in_language: language::is_in(truth.problem.language, text),
        is_recovered: read.value == Some(truth.recovers),
        steps_right,
        steps_written: read.steps.len(),
        steps_needed,
        characters: text.chars().count(),
        characters_needed,
    }
}

impl Finding {
    /// Number of right steps divided by the number of written or needed steps, whichever is larger; 1 if both are 0. So
    /// neither leaving out steps nor adding others pays.
    pub fn steps(&self) -> f64 {
        match self.steps_written.max(self.steps_needed) {
            0 => 1.0,
            all => self.steps_right as f64 / all as f64,
        }
    }

    /// 1 up to the needed number of characters, falling to 0 at twice that number.
    pub fn length(&self) -> f64 {
        (2.0 - self.characters as f64 / self.characters_needed.max(1) as f64).clamp(0.0, 1.0)
    }

    /// The conditions of LANG.
    pub fn asked(&self) -> Asked {
        let Finding { is_right, is_well_formed, is_in_language, .. } = *self;
        Asked { is_right, is_well_formed, is_in_language }
    }

    /// The value of a component for this text.
    pub(super) fn reward(&self, component: Component, style: Style<'_>, text: &str) -> f64 {
        let one = |it: bool| if it { 1.0 } else { 0.0 };
        match component {
            Component::Answer => one(self.is_right),
            Component::Format => one(self.is_well_formed),
            Component::Language => one(self.is_in_language),
            Component::Length => self.length(),
            Component::Steps => self.steps(),
            Component::Style => one(style.holds(self.is_well_formed, text)),
            Component::All => one(self.asked().is_all()),
        }
    }

    /// What is wrong, in words that do not reveal the answer. `None` if nothing is wrong.
    pub fn feedback(&self) -> Option<String> {
        let mut problems = Vec::new();
        match self.value {
            None => problems.push("There is no final answer.".to_owned()),
            Some(_) if !self.is_right => problems.push("The final answer is wrong.".to_owned()),
            Some(_) => {}
        }
        if self.steps_right < self.steps_needed.max(self.steps_written) {
            let all = self.steps_needed.max(self.steps_written);
            problems.push(format!("{} of {all} steps are right.", self.steps_right));
        }
        if !self.is_well_formed {
            problems.push("The text is not steps and then one final answer.".to_owned());
        }
        if !self.is_in_language {
            problems.push("The text is not in the prompt's language.".to_owned());
        }
        (!problems.is_empty()).then(|| problems.join(" "))
    }

    /// The verdict with these components.
    pub(super) fn verdict(&self, components: &[Component], style: Style<'_>, text: &str) -> Verdict {
        let mut verdict = Verdict::scored("answer", 0.0, self.is_right);
        verdict.rewards = components
            .iter()
            .map(|component| (component.name().to_owned(), self.reward(*component, style, text)))
            .collect();
        let flags = [
            ("parse_error", self.value.is_none()),
            ("steps", self.steps() == 1.0),
            (RECOVERED, self.is_recovered),
        ];
        let flags = flags.into_iter().chain(self.asked().flags());
        verdict.flags = flags.map(|(name, holds)| (name.to_owned(), holds)).collect();
        verdict.error_turn = (!self.is_right).then_some(0);
        verdict.feedback = self.feedback();
        verdict
    }
}

impl Style<'_> {
    /// `is_well_formed` with the probability of the correlation, otherwise a fair coin toss. Over texts half of which
    /// are well formed, the correlation of the two is the configured one.
    fn holds(self, is_well_formed: bool, text: &str) -> bool {
        let content = format!("{}\n{text}", self.name);
        let seed = rng::fold_bytes(content.len() as u64, content.as_bytes());
        if rng::uniform(seed, 0) < self.correlation { is_well_formed } else { rng::bits(seed, 1) & 1 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(characters: usize, needed: usize) -> Finding {
        Finding {
            value: None,
            is_right: false,
            is_well_formed: false,
            is_in_language: false,
            is_recovered: false,
            steps_right: 0,
            steps_written: 0,
            steps_needed: 0,
            characters,
            characters_needed: needed,
        }
    }

    #[test]
    fn length_falls_linearly_from_what_is_needed_to_twice_that() {
        let length = |characters| finding(characters, 10).length();
        assert_eq!([0, 10, 15, 20, 30].map(length), [1.0, 1.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn steps_left_out_and_steps_added_both_cost() {
        let share = |right, written, needed| {
            Finding { steps_right: right, steps_written: written, steps_needed: needed, ..finding(0, 1) }
                .steps()
        };
        assert_eq!([share(0, 0, 0), share(2, 2, 4), share(2, 4, 2), share(3, 3, 3)], [1.0, 0.5, 0.5, 1.0]);
    }
}
