//! The question to a model that copies the final answer out of a response ([`Reading::Judge`](super::Reading::Judge)).
//!
//! The model only says where the answer is: what it writes must occur in the response, and the verifier compares that
//! text with the reference. So no response can argue for a verdict.

use crate::{Explanation, Gold, Judgement, Place};

/// The reply of a model that finds no final answer.
const NONE: &str = "NONE";

/// The question to the model: to copy the final answer out of `response`, an answer to `task`.
pub fn extraction(task: &str, response: &str) -> String {
    format!(
        "Below are a question and a response to it. Copy the final answer that the response states, character by \
         character, as briefly as it is stated there. Do not correct it, and write nothing else. If the response states no \
         final answer, write {NONE}.\n\n<question>\n{task}\n</question>\n\n<response>\n{response}\n</response>"
    )
}

/// The answer that the model's reply `said` copies out of `response`; `None` if it found none.
///
/// # Errors
/// If the reply is not part of the response. Spaces count as equal, and quotes around the reply do not count.
pub fn extracted(response: &str, said: &str) -> Result<Option<String>, String> {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (response, said) = (plain(response), plain(said));
    let bare = said.trim_matches(['"', '\'', '`', '“', '”']);
    let found = [&*said, bare].into_iter().find(|text| !text.is_empty() && response.contains(text));
    match found {
        _ if bare.trim_end_matches('.') == NONE => Ok(None),
        Some(text) => Ok(Some(text.to_owned())),
        None => {
            let short: String = said.chars().take(80).collect();
            Err(format!("the extracted answer `{short}` is not in the response"))
        }
    }
}

impl Gold {
    /// Judges an answer that [`extracted`] found; `None` is no answer.
    pub fn judge_extracted(&self, answer: Option<&str>) -> Judgement {
        answer.map_or_else(Judgement::none, |answer| self.judge(&in_tags(answer)))
    }

    /// As [`Gold::judge_extracted`], and says how both sides were read.
    pub fn explain_extracted(&self, answer: Option<&str>) -> Explanation {
        let explained = self.explain(&answer.map(in_tags).unwrap_or_default());
        let place = explained.place.map(|_| Place::Extracted);
        Explanation { judgement: self.judge_extracted(answer), place, ..explained }
    }
}

fn in_tags(answer: &str) -> String {
    format!("<answer>{answer}</answer>")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::{Reading, Reason, Verifier};

    #[test]
    fn only_what_the_response_says_is_an_answer() {
        let response = "First 3 + 4,\nso I get seven apples: 7 in all, not 8.";
        for (said, answer) in [
            ("7", Some("7")),
            (" \"7 in  all\"\n", Some("7 in all")),
            ("seven apples", Some("seven apples")),
            ("NONE", None),
            ("none.", None),
        ] {
            let found = extracted(response, said);
            match said {
                // A word in small letters is no sign.
                "none." => assert!(found.is_err(), "{found:?}"),
                _ => assert_eq!(found.unwrap().as_deref(), answer, "{said}"),
            }
        }
        for said in ["12", "The answer is 7", "", "\"\"", "correct"] {
            assert!(extracted(response, said).unwrap_err().contains("not in the response"), "{said}");
        }
    }

    #[test]
    fn the_verifier_compares_and_the_model_does_not() {
        let gold = Verifier::Math.gold("1/2").unwrap().with_reading(Reading::Judge);
        assert!(gold.judge_extracted(Some("0.5")).is_correct);
        assert!(gold.judge_extracted(Some(r"\frac{1}{2}")).is_correct);
        assert_eq!(gold.judge_extracted(Some("0.25")).reason, Reason::Different);
        assert_eq!(gold.judge_extracted(None).reason, Reason::NoAnswer);
        assert_eq!(gold.explain_extracted(Some("0.5")).place, Some(Place::Extracted));
        assert_eq!(gold.explain_extracted(None).place, None);
        // Without a model, an answer that is not marked is none.
        assert_eq!(gold.judge("It is 0.5").reason, Reason::NoAnswer);
        assert!(gold.judge(r"It is \boxed{0.5}").is_correct);
        let choice = Verifier::Choice.gold("B").unwrap();
        assert!(choice.judge_extracted(Some("(B)")).is_correct);
        let text = Verifier::Text.gold("The Nile").unwrap();
        assert!(text.judge_extracted(Some("nile")).is_correct);
    }
}
