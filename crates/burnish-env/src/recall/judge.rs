//! Whether an answer contains what was hidden.

use burnish_core::{Task, Verdict};
use serde::{Deserialize, Serialize};

use super::ID;
use crate::EnvError;

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// What an answer has to contain: values, or names of variables.
    pub references: Vec<String>,
    /// The sentences that answer the question, as they stand in the prompt.
    pub needles: Vec<String>,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub fn of(task: &Task) -> Result<Self, EnvError> {
        let foreign =
            |problem: String| EnvError::Foreign(format!("task {} is not one of {ID}: {problem}", task.id));
        let truth = Truth::deserialize(&task.truth).map_err(|error| foreign(error.to_string()))?;
        if truth.references.is_empty() {
            return Err(foreign("it has no references".to_owned()));
        }
        Ok(truth)
    }

    /// The verdict on an answer: component `recall`, the share of references that occur in it (RULER's
    /// `string_match_all`, `scripts/eval/synthetic/constants.py`), upper and lower case alike.
    pub(super) fn verdict(&self, answer: &str) -> Verdict {
        let said = answer.to_lowercase();
        let found =
            self.references.iter().filter(|reference| said.contains(&reference.to_lowercase())).count();
        let all = self.references.len();
        let mut verdict = Verdict::scored("recall", found as f64 / all as f64, found == all);
        verdict.flags = [
            // RULER's `string_match_part`.
            ("any", found > 0),
            ("exact", self.is_exact(&said)),
            ("parse_error", answer.trim().is_empty()),
        ]
        .map(|(name, is_set)| (name.to_owned(), is_set))
        .into();
        if found < all {
            verdict.error_turn = Some(0);
            verdict.feedback = Some(format!("{found} of {all} references are in the answer."));
        }
        verdict
    }

    /// Does the answer consist of the references alone, in any order, with commas, full stops and `and` between them?
    fn is_exact(&self, said: &str) -> bool {
        let is_space = |letter: char| letter.is_whitespace() || matches!(letter, ',' | ';');
        let words = said.split(is_space).map(|word| word.trim_end_matches('.'));
        let mut words: Vec<&str> = words.filter(|word| !word.is_empty() && *word != "and").collect();
        let references: Vec<String> =
            self.references.iter().map(|reference| reference.to_lowercase()).collect();
        let mut references: Vec<&str> = references.iter().map(String::as_str).collect();
        words.sort_unstable();
        references.sort_unstable();
        words == references
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_share_of_references_that_occur() {
        let references = ["1234567", "89abcdef-0123", "ABCDE"].map(str::to_owned).to_vec();
        let truth = Truth { references, needles: vec![] };
        for (answer, share, exact) in [
            ("1234567, 89abcdef-0123, and ABCDE.", 1.0, true),
            ("abcde 89ABCDEF-0123 1234567", 1.0, true),
            ("They are 1234567 and 89abcdef-0123 and ABCDE", 1.0, false),
            ("12345678", 1.0 / 3.0, false),
            ("1234 567", 0.0, false),
            ("", 0.0, false),
        ] {
            let verdict = truth.verdict(answer);
            assert_eq!(verdict.rewards["recall"], share, "{answer}");
            assert_eq!(verdict.success, share == 1.0, "{answer}");
            assert_eq!((verdict.flags["exact"], verdict.flags["any"]), (exact, share > 0.0), "{answer}");
        }
    }
}
