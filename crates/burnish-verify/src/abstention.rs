//! Answers that may be withheld: the reward of "When Silence Is Golden" (arXiv:2602.04755).
//!
//! A response thinks, and then answers or says `No Answer`. It earns
//!
//! | | the gold answer is No Answer | there is a gold answer |
//! | --- | ---: | ---: |
//! | says No Answer | 1 | 0 |
//! | answers | 0 | ROUGE-L + exact match |
//! | nothing can be extracted | 0 | 0 |
//!
//! and 0.5 more for the right form. A right answer earns twice as much as a right abstention, so with accuracy `q` on
//! answerable questions, abstaining pays only if `p_unanswerable > 2 q (1 - p_unanswerable)`.

use serde::{Deserialize, Serialize};

use crate::qa::{Scores, joined, tokens};

/// What a response says instead of an answer.
pub const NO_ANSWER: &str = "No Answer";

/// The longest answer that is compared, in bytes; a longer one is not extracted.
const LENGTH: usize = 2_000;

const OPEN: &str = "<answer>";
const CLOSE: &str = "</answer>";

/// What an answer to an answerable question earns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// ROUGE-L plus exact match, 0 to 2: the paper's.
    RougeAndExact,
    /// ROUGE-L alone, 0 to 1.
    Rouge,
    /// Exact match alone, 0 or 1.
    Exact,
}

/// What was found in a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Whether there is a gold answer.
    pub is_answerable: bool,
    /// Whether the response has the form that [`is_formatted`] asks for.
    pub is_formatted: bool,
    /// The answer, if one can be extracted.
    pub answer: Option<String>,
    /// Whether the answer is [`NO_ANSWER`].
    pub is_abstention: bool,
    /// How close the answer is to the gold answer; `None` unless both exist and neither abstains.
    pub scores: Option<Scores>,
}

/// Is the whole text `<think>`, thoughts, `</think>`, an empty line, `<answer>`, an answer, `</answer>`, each tag on a
/// line of its own? A full match of `^<think>\n.*\n</think>\n\n<answer>\n.*\n</answer>$`, where `.` is any character.
pub fn is_formatted(text: &str) -> bool {
    text.strip_prefix("<think>\n")
        .and_then(|rest| rest.strip_suffix("\n</answer>"))
        .is_some_and(|inner| inner.contains("\n</think>\n\n<answer>\n"))
}

/// The text between the last `<answer>` and the next `</answer>`, without space around it. `None` if the last one is
/// not closed, or holds more than 2,000 bytes.
pub fn extracted(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once(OPEN)?;
    let (answer, _) = rest.split_once(CLOSE)?;
    Some(answer.trim()).filter(|answer| answer.len() <= LENGTH)
}

/// Is this text [`NO_ANSWER`], whatever its case and punctuation?
pub fn is_abstention(answer: &str) -> bool {
    tokens(answer) == ["no", "answer"]
}

/// The gold answers that a reference of one text stands for: none if it says [`NO_ANSWER`].
pub fn golds(reference: &str) -> Vec<String> {
    if is_abstention(reference) { Vec::new() } else { vec![reference.trim().to_owned()] }
}

/// Judges a response against the gold answers; an unanswerable question has none. Several count as one, joined by `, `.
pub fn judge<S: AsRef<str>>(golds: &[S], response: &str) -> Finding {
    let answer = extracted(response);
    let is_abstention = answer.is_some_and(is_abstention);
    let is_answerable = !golds.is_empty();
    let scores =
        answer.filter(|_| is_answerable && !is_abstention).map(|answer| Scores::of(answer, &joined(golds)));
    Finding {
        is_answerable,
        is_formatted: is_formatted(response),
        answer: answer.map(str::to_owned),
        is_abstention,
        scores,
    }
}

impl Finding {
    /// Is it the right answer, or a right abstention?
    pub fn is_right(&self) -> bool {
        match self.is_answerable {
            true => self.scores.is_some_and(|scores| scores.exact == 1.0),
            false => self.is_abstention,
        }
    }

    /// What the response earns by the table above, without the 0.5 for its form; `abstention` is what a right
    /// abstention earns (1 in the paper).
    pub fn worth(&self, measure: Measure, abstention: f64) -> f64 {
        if !self.is_answerable {
            return if self.is_abstention { abstention } else { 0.0 };
        }
        self.scores.map_or(0.0, |scores| match measure {
            Measure::RougeAndExact => scores.rouge_l + scores.exact,
            Measure::Rouge => scores.rouge_l,
            Measure::Exact => scores.exact,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(answer: &str) -> String {
        format!("<think>\nI look it up.\n</think>\n\n<answer>\n{answer}\n</answer>")
    }

    #[test]
    fn every_cell_of_the_table_with_and_without_the_form() {
        let gold = ["University of Arizona"];
        let cells: [(&[&str], Option<&str>, f64, bool); 8] = [
            (&[], Some("No Answer"), 1.0, true),
            (&gold, Some("No Answer"), 0.0, false),
            (&[], Some("Bob"), 0.0, false),
            (&gold, Some("the university of Arizona."), 2.0, true),
            // Two of three tokens, in order, none too many.
            (&gold, Some("University Arizona"), 0.8, false),
            (&gold, Some("Bob"), 0.0, false),
            (&[], None, 0.0, false),
            (&gold, None, 0.0, false),
        ];
        for (golds, answer, worth, is_right) in cells {
            let (shaped, bare) = match answer {
                Some(answer) => (formatted(answer), format!("<answer>{answer}</answer>")),
                None => ("<think>\n\n</think>\n\n<answer>\n\n".to_owned(), "No Answer".to_owned()),
            };
            for (text, is_shaped) in [(shaped, answer.is_some()), (bare, false)] {
                let finding = judge(golds, &text);
                assert!(
                    (finding.worth(Measure::RougeAndExact, 1.0) - worth).abs() < 1e-12,
                    "{text}: {finding:?}"
                );
                assert_eq!((finding.is_right(), finding.is_formatted), (is_right, is_shaped), "{text}");
                assert_eq!(finding.answer.is_some(), answer.is_some());
            }
        }
    }

    #[test]
    fn measures_leave_parts_of_the_reward_out() {
        let finding = judge(&["University of Arizona"], &formatted("university of arizona"));
        assert_eq!([Measure::Rouge, Measure::Exact].map(|measure| finding.worth(measure, 1.0)), [1.0, 1.0]);
        let partial = judge(&["University of Arizona"], &formatted("Arizona"));
        assert_eq!([Measure::Rouge, Measure::Exact].map(|measure| partial.worth(measure, 1.0)), [0.5, 0.0]);
        assert_eq!(judge::<&str>(&[], &formatted("no answer.")).worth(Measure::Exact, 0.25), 0.25);
    }

    #[test]
    fn the_form_is_the_whole_text() {
        assert!(is_formatted(&formatted("x")));
        assert!(is_formatted("<think>\n\n</think>\n\n<answer>\n\n</answer>"));
        // Any character may stand inside, tags as well.
        assert!(is_formatted("<think>\na\n</think>\n\n<answer>\nb\n</think>\n\n<answer>\nc\n</answer>"));
        for broken in [
            format!(" {}", formatted("x")),
            format!("{}\n", formatted("x")),
            formatted("x").replace("\n\n", "\n"),
            formatted("x").replace("<think>\n", "<think>"),
            formatted("x").replace("\n</answer>", "</answer>"),
            "<think>\n</think>\n\n<answer>\n</answer>".to_owned(),
            "<think>\n\n</think>\n\n<answer>\n</answer>".to_owned(),
        ] {
            assert!(!is_formatted(&broken), "{broken}");
        }
    }

    #[test]
    fn the_last_answer_counts() {
        assert_eq!(extracted("<answer>a</answer> no <answer> b </answer> c</answer>"), Some("b"));
        assert_eq!(extracted("<answer>a</answer><answer>b"), None);
        assert_eq!(extracted("b</answer>"), None);
        assert_eq!(extracted(&format!("<answer>{}</answer>", "x".repeat(2_001))), None);
        assert_eq!(extracted("<answer></answer>"), Some(""));
        assert!(is_abstention("NO answer.") && !is_abstention("no answers") && !is_abstention("Answer: no"));
    }

    #[test]
    fn several_golds_count_as_one() {
        assert!(
            judge(
                &["Thomas Cook AG", "Thomas Cook Group"],
                "<answer>Thomas Cook AG, Thomas Cook Group</answer>"
            )
            .is_right()
        );
        assert!(
            !judge(&["Thomas Cook AG", "Thomas Cook Group"], "<answer>Thomas Cook AG</answer>").is_right()
        );
    }
}
