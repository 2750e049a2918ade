//! Whether an answer contains what was hidden.

use burnish_core::{Task, Verdict};
use serde::{Deserialize, Serialize};

use super::ID;
use crate::EnvError;
use crate::many_turns::Questions;
use crate::tasks::{foreign, read};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// What an answer has to contain: values, or names of variables.
    pub references: Vec<String>,
    /// The sentences that answer the questions, as they stand in the prompt.
    pub needles: Vec<String>,
    /// What is asked in later turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Later>,
}

/// The question of a later turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// What is asked.
    pub question: String,
    /// What an answer has to contain.
    pub references: Vec<String>,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub fn of(task: &Task) -> Result<Self, EnvError> {
        let truth: Truth = read(ID, task)?;
        if truth.turns().any(<[String]>::is_empty) {
            return Err(foreign(ID, task, "it has no references"));
        }
        Ok(truth)
    }

    /// The references of each turn's answer.
    pub(super) fn turns(&self) -> impl Iterator<Item = &[String]> {
        let turn = |at: usize| match at.checked_sub(1) {
            None => &self.references[..],
            Some(later) => &self.later[later].references[..],
        };
        (0..=self.later.len()).map(turn)
    }

    /// The verdict on the answers, one per turn; those that are missing are empty. Component `recall`: the share of
    /// references that occur in the answer to their question (RULER's `string_match_all`,
    /// `scripts/eval/synthetic/constants.py`), upper and lower case alike.
    pub(super) fn verdict<A: AsRef<str>>(&self, answers: &[A]) -> Verdict {
        let (mut found, mut all, mut is_exact, mut is_silent) = (0, 0, true, false);
        let mut error_turn = None;
        for (turn, references) in self.turns().enumerate() {
            let answer = answers.get(turn).map_or("", |answer| answer.as_ref());
            let said = answer.to_lowercase();
            let these =
                references.iter().filter(|reference| said.contains(&reference.to_lowercase())).count();
            if these < references.len() {
                error_turn = error_turn.or(Some(turn));
            }
            found += these;
            all += references.len();
            is_exact &= is_exactly(references, &said);
            is_silent |= answer.trim().is_empty();
        }
        let mut verdict = Verdict::scored("recall", found as f64 / all as f64, found == all);
        verdict.flags = [
            // RULER's `string_match_part`.
            ("any", found > 0),
            ("exact", is_exact),
            ("parse_error", is_silent),
        ]
        .map(|(name, is_set)| (name.to_owned(), is_set))
        .into();
        if found < all {
            verdict.error_turn = error_turn;
            let where_to = if self.later.is_empty() { "the answer" } else { "the answers" };
            verdict.feedback = Some(format!("{found} of {all} references are in {where_to}."));
        }
        verdict
    }
}

impl Questions for Truth {
    fn question(&self, at: usize) -> Option<&str> {
        self.later.get(at.checked_sub(1)?).map(|later| later.question.as_str())
    }

    fn verdict(&self, answers: &[String]) -> Verdict {
        self.verdict(answers)
    }
}

/// Does an answer, in lower case, consist of the references alone, in any order, with commas, full stops and `and`
/// between them?
fn is_exactly(references: &[String], said: &str) -> bool {
    let is_space = |letter: char| letter.is_whitespace() || matches!(letter, ',' | ';');
    let words = said.split(is_space).map(|word| word.trim_end_matches('.'));
    let mut words: Vec<&str> = words.filter(|word| !word.is_empty() && *word != "and").collect();
    let references: Vec<String> = references.iter().map(|reference| reference.to_lowercase()).collect();
    let mut references: Vec<&str> = references.iter().map(String::as_str).collect();
    words.sort_unstable();
    references.sort_unstable();
    words == references
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_share_of_references_that_occur() {
        let references = ["1234567", "89abcdef-0123", "ABCDE"].map(str::to_owned).to_vec();
        let truth = Truth { references, needles: vec![], later: vec![] };
        for (answer, share, exact) in [
            ("1234567, 89abcdef-0123, and ABCDE.", 1.0, true),
            ("abcde 89ABCDEF-0123 1234567", 1.0, true),
            ("They are 1234567 and 89abcdef-0123 and ABCDE", 1.0, false),
            ("12345678", 1.0 / 3.0, false),
            ("1234 567", 0.0, false),
            ("", 0.0, false),
        ] {
            let verdict = truth.verdict(&[answer]);
            assert_eq!(verdict.rewards["recall"], share, "{answer}");
            assert_eq!(verdict.success, share == 1.0, "{answer}");
            assert_eq!((verdict.flags["exact"], verdict.flags["any"]), (exact, share > 0.0), "{answer}");
        }
    }

    #[test]
    fn each_answer_is_held_against_its_own_question() {
        let later = |value: &str| Later { question: "? b".to_owned(), references: vec![value.to_owned()] };
        let truth =
            Truth { references: vec!["1".to_owned()], needles: vec![], later: vec![later("2"), later("3")] };
        for (answers, share, exact, error_turn) in [
            (&["1", "2", "3"][..], 1.0, true, None),
            (&["1", "3", "2"], 1.0 / 3.0, false, Some(1)),
            (&["1 2 3"], 1.0 / 3.0, false, Some(1)),
            (&["2", "2", "it is 3"], 2.0 / 3.0, false, Some(0)),
        ] {
            let verdict = truth.verdict(answers);
            assert_eq!((verdict.rewards["recall"], verdict.error_turn), (share, error_turn), "{answers:?}");
            assert_eq!((verdict.success, verdict.flags["exact"]), (share == 1.0, exact), "{answers:?}");
            assert_eq!(verdict.flags["parse_error"], answers.len() < 3, "{answers:?}");
        }
    }
}
