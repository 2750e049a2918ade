//! A judge over prompts: any function from a prompt to an answer, such as a chat policy or an endpoint.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Dimension, Item, Judge};

/// Asks a model through `ask`, which gets a prompt and returns the answer, or what went wrong. Ask at temperature 0.
pub struct PromptJudge<F> {
    name: String,
    ask: F,
}

impl<F: Fn(&str) -> Result<String, String>> PromptJudge<F> {
    /// A judge that reports call `name`, and that asks through `ask`.
    pub fn new(name: impl Into<String>, ask: F) -> Self {
        PromptJudge { name: name.into(), ask }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Score {
    score: u8,
    #[serde(default, rename = "reason")]
    _reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pass {
    pass: bool,
    #[serde(default, rename = "reason")]
    _reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    choice: usize,
    #[serde(default, rename = "reason")]
    _reason: Option<String>,
}

/// What each dimension asks for, and how it is to be answered.
fn instruction(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Alignment => {
            "Rate how well the evidence fits the user's last question, from 1 (about something else) to 5 (exactly \
             about what is asked). Judge the topic only, not whether the answer is right."
        }
        Dimension::Completeness => "Which of the passages holds the answer to the user's last question?",
        Dimension::Faithfulness => {
            "Rate how faithful the answer is to the evidence, from 1 (the evidence contradicts it or says none of it) \
             to 5 (the evidence says all of it). Knowledge of your own does not count."
        }
        Dimension::Quality => {
            "Rate how good the answer is as an answer to the user's last question, from 1 (answers something else, or \
             nothing) to 5 (answers it fully and clearly). Judge question and answer only."
        }
        Dimension::Atomic => "Does the user's last question ask for exactly one thing?",
        Dimension::NoReference => {
            "Is the user's last question free of references to a text that the user has not seen, such as \"the \
             passage\", \"according to the document\" or a passage's number?"
        }
    }
}

/// The conversation, and of the turn what `dimension` may see.
fn prompt(dimension: Dimension, item: &Item<'_>) -> String {
    let mut prompt = format!("{}\n\n", instruction(dimension));
    if !item.history.is_empty() {
        prompt.push_str("Conversation before:\n");
        for turn in item.history {
            prompt.push_str(&format!("User: {}\nAssistant: {}\n", turn.user, turn.answer));
        }
        prompt.push('\n');
    }
    prompt.push_str(&format!("The user's last question: {}\n", item.turn.user));
    if matches!(dimension, Dimension::Faithfulness | Dimension::Quality) {
        prompt.push_str(&format!("\nAnswer: {}\n", item.turn.answer));
    }
    if matches!(dimension, Dimension::Alignment | Dimension::Faithfulness) {
        prompt.push_str(&format!("\nEvidence: {}\n", item.evidence.join("\n\n")));
    }
    prompt
}

/// An answer that is one JSON object with the keys that were asked for and no other, alone or in one code fence.
fn read<T: DeserializeOwned>(answer: &str, form: &str) -> Result<T, String> {
    let trimmed = answer.trim();
    let bare = trimmed
        .strip_prefix("```json")
        .or_else(|| trimmed.strip_prefix("```"))
        .and_then(|rest| rest.strip_suffix("```"))
        .unwrap_or(trimmed);
    serde_json::from_str(bare).map_err(|error| format!("expected {form}, got {answer:?}: {error}"))
}

const REASON: &str = "A key \"reason\" with one sentence may stand beside it, and nothing else.";

impl<F: Fn(&str) -> Result<String, String>> Judge for PromptJudge<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn rate(&self, dimension: Dimension, item: &Item<'_>) -> Result<f64, String> {
        let question = prompt(dimension, item);
        match dimension {
            Dimension::Completeness => Err("completeness is a matter of picking, not of rating".to_owned()),
            Dimension::Atomic | Dimension::NoReference => {
                let form = "{\"pass\": true} or {\"pass\": false}";
                let answer = (self.ask)(&format!("{question}\nAnswer with JSON: {form}. {REASON}\n"))?;
                read::<Pass>(&answer, form).map(|read| f64::from(u8::from(read.pass)))
            }
            _ => {
                let form = "{\"score\": N} with a whole N from 1 to 5";
                let answer = (self.ask)(&format!("{question}\nAnswer with JSON: {form}. {REASON}\n"))?;
                match read::<Score>(&answer, form)?.score {
                    score @ 1..=5 => Ok(f64::from(score)),
                    _ => Err(format!("expected {form}, got {answer:?}")),
                }
            }
        }
    }

    fn pick(&self, item: &Item<'_>, options: &[&str]) -> Result<usize, String> {
        let mut question = prompt(Dimension::Completeness, item);
        for (place, option) in options.iter().enumerate() {
            question.push_str(&format!("\nPassage {}: {option}\n", place + 1));
        }
        let form = format!("{{\"choice\": N}} with a whole N from 1 to {}", options.len());
        let answer = (self.ask)(&format!("{question}\nAnswer with JSON: {form}. {REASON}\n"))?;
        match read::<Choice>(&answer, &form)?.choice {
            choice if (1..=options.len()).contains(&choice) => Ok(choice - 1),
            _ => Err(format!("expected {form}, got {answer:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Turn;
    use std::cell::RefCell;

    fn turn(user: &str) -> Turn {
        Turn {
            user: user.to_owned(),
            rewrite: Some("the oracle's words".to_owned()),
            answer: "the answer's words".to_owned(),
            evidence: Vec::new(),
            switched: false,
        }
    }

    fn judged(dimension: Dimension, answer: &str) -> Result<f64, String> {
        let judge = PromptJudge::new("m", |_: &str| Ok(answer.to_owned()));
        let turn = turn("Who?");
        judge.rate(dimension, &Item { history: &[], turn: &turn, evidence: vec!["e"] })
    }

    #[test]
    fn answers_are_read_strictly() {
        assert_eq!(judged(Dimension::Quality, "{\"score\": 4}"), Ok(4.0));
        assert_eq!(judged(Dimension::Quality, "```json\n{\"score\": 2, \"reason\": \"r\"}\n```"), Ok(2.0));
        assert_eq!(judged(Dimension::Atomic, "{\"pass\": false}"), Ok(0.0));
        for answer in
            ["4", "{\"score\": 0}", "{\"score\": 6}", "{\"score\": 4.5}", "{\"score\": \"4\"}", "{}"]
        {
            let message = judged(Dimension::Quality, answer).unwrap_err();
            assert!(message.contains("whole N from 1 to 5"), "{message}");
        }
        assert!(judged(Dimension::Quality, "Sure! {\"score\": 4}").is_err());
        assert!(judged(Dimension::Quality, "{\"score\": 4, \"mood\": 1}").unwrap_err().contains("mood"));
        assert!(judged(Dimension::Atomic, "{\"pass\": 1}").is_err());
        assert!(judged(Dimension::Completeness, "{\"score\": 4}").is_err());
    }

    #[test]
    fn each_dimension_sees_what_it_may() {
        let prompts = RefCell::new(Vec::new());
        let judge = PromptJudge::new("m", |prompt: &str| {
            prompts.borrow_mut().push(prompt.to_owned());
            Ok(if prompt.contains("choice") { "{\"choice\": 2}" } else { "{\"score\": 1}" }.to_owned())
        });
        let (before, now) = (turn("Before?"), turn("Now?"));
        let item = Item {
            history: std::slice::from_ref(&before),
            turn: &now,
            evidence: vec!["the evidence's words"],
        };
        for dimension in [Dimension::Alignment, Dimension::Faithfulness, Dimension::Quality] {
            judge.rate(dimension, &item).unwrap();
        }
        assert_eq!(judge.pick(&item, &["first", "second"]), Ok(1));
        assert!(judge.pick(&item, &["first"]).is_err(), "2 is none of one");
        let prompts = prompts.into_inner();
        let sees = |number: usize| {
            let after = prompts[number].split("Now?").nth(1).unwrap();
            (after.contains("the answer's words"), after.contains("the evidence's words"))
        };
        assert_eq!(
            [sees(0), sees(1), sees(2), sees(3)],
            [(false, true), (true, true), (true, false), (false, false)]
        );
        assert!(prompts.iter().all(|prompt| prompt.contains("Before?") && !prompt.contains("oracle")));
        assert!(prompts[3].contains("Passage 2: second"));
    }
}
