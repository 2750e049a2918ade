//! A reader's episode: one answer, which says what the customer wants.

use burnish_core::Verdict;

use super::config::Component;
use super::truth::Truth;
use crate::many_turns::said;

/// Judges what a reader says.
pub(super) fn verdict(truth: &Truth, answer: &str) -> Verdict {
    let goal = truth.goal();
    let success = said(answer) == goal;
    Verdict {
        feedback: (!success).then(|| format!("The customer wanted: {goal}.")),
        ..Verdict::scored(Component::Success.name(), f64::from(u8::from(success)), success)
    }
}
