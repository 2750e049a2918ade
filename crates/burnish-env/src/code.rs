//! The verdict on a program that was run.

use burnish_core::Verdict;
use burnish_sandbox::{Execution, Limits, Outcome};

/// Names of the reward components: all tests passed, and the share of them that did.
pub(crate) const COMPONENTS: [&str; 2] = ["correct", "passed"];

/// What became of a program.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Tests that passed.
    pub(crate) passed: usize,
    /// All tests.
    pub(crate) of: usize,
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// What was wrong.
    pub(crate) feedback: Option<String>,
}

impl Finding {
    /// Nothing was run, because of this.
    pub(crate) fn not_run(why: &str) -> Self {
        Finding { passed: 0, of: 1, outcome: Outcome::Done, feedback: Some(why.to_owned()) }
    }

    /// What the checks of an execution say.
    pub(crate) fn of_tests(execution: Execution, limits: &Limits) -> Self {
        let of = execution.checks.len();
        let failed =
            execution.checks.iter().position(|check| !check.as_ref().is_some_and(|check| check.passed));
        let feedback = match (&execution.outcome, failed) {
            (Outcome::Done, None) => None,
            (Outcome::Done, Some(at)) => {
                let check = execution.checks.get(at).and_then(Option::as_ref);
                let error = check.and_then(|check| check.error.clone()).unwrap_or_default();
                Some(format!("test {} of {of} failed: {error}", at + 1))
            }
            (other, _) => Some(format!("the program {}", other.in_words(limits))),
        };
        // A program that did not come to its end has not passed, whatever it passed until then.
        let passed = match execution.outcome {
            Outcome::Done => execution.passed(),
            _ => execution.passed().min(of.saturating_sub(1)),
        };
        Finding { passed, of, outcome: execution.outcome, feedback }
    }

    /// The verdict. `has_program`: there was one in the answer.
    pub(crate) fn verdict(self, has_program: bool) -> Verdict {
        let Finding { passed, of, outcome, feedback } = self;
        let is_right = passed == of;
        let [correct, share] = COMPONENTS;
        let rewards = [(correct, f64::from(u8::from(is_right))), (share, passed as f64 / of as f64)];
        let flags = [
            ("parse_error", !has_program),
            ("raised", matches!(outcome, Outcome::Raised(_))),
            ("over_limit", outcome.is_limit()),
        ];
        Verdict {
            rewards: rewards.map(|(name, reward)| (name.to_owned(), reward)).into(),
            flags: flags.map(|(name, holds)| (name.to_owned(), holds)).into(),
            feedback,
            ..Verdict::scored("", 0.0, is_right)
        }
    }
}
