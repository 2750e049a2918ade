//! A model as the engineer: the teacher, or the policy itself. It is asked for a summary first, unless that is left out, and then
//! for the configuration. An answer that makes no sense is an answer.

use burnish_core::knob::KnobKind;
use burnish_core::{Grammar, Message, PolicyError, Sampling};
use burnish_episode::ContactError;
use burnish_reason::design::Design;
use burnish_reason::{Bench, MakerError, TEACHER};
use serde_json::{Map, Value, json};

use super::{Module, Redesign};

const SUMMARISE: &str = include_str!("summarise.md");
const PROPOSE: &str = include_str!("propose.md");

/// Most characters of the reason where an answer is constrained.
const REASON_MAX: usize = 400;

impl Redesign {
    /// What the model says after it was told `told`, or why it says nothing.
    pub(super) async fn asked(
        &self,
        bench: &Bench<'_>,
        design: &Design,
        told: &str,
    ) -> Result<Result<String, String>, MakerError> {
        let plain = Sampling::at(self.temperature, self.tokens_max);
        let (mut told, mut said) = (told.to_owned(), String::new());
        if self.tells(Module::Summary) {
            let summary = match answer(bench, format!("{SUMMARISE}\n{told}"), &plain).await? {
                Ok(summary) => summary,
                Err(problem) => return Ok(Err(problem)),
            };
            told += &format!("\nWhat you said about it:\n{summary}\n");
            // Braces in it are no proposal.
            said = format!("Summary:\n{}\n\n", summary.replace(['{', '}'], " "));
        }
        let question = format!("{PROPOSE}\n{told}");
        let constrained = Sampling { grammar: Some(Grammar::JsonSchema(schema(design))), ..plain.clone() };
        let answered = match answer(bench, question.clone(), &constrained).await {
            // A server may not constrain answers.
            Err(MakerError::Contact(ContactError::Policy(PolicyError::Unable(_)))) => {
                answer(bench, question, &plain).await?
            }
            answered => answered?,
        };
        Ok(answered.map(|answer| said + &answer))
    }
}

/// An answer of the model, or why there is none.
async fn answer(
    bench: &Bench<'_>,
    question: String,
    sampling: &Sampling,
) -> Result<Result<String, String>, MakerError> {
    match bench.ask(TEACHER, vec![Message::user(question)], sampling).await {
        Ok(message) => Ok(Ok(message.content)),
        Err(MakerError::Contact(ContactError::Policy(error @ PolicyError::PromptTooLong { .. }))) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Proposals of values of the menus: a small model would go on with the digits of a number for ever.
fn schema(design: &Design) -> Value {
    let mut keys = Map::new();
    for knob in &design.knobs {
        let written = |value: &f64| match knob.kind {
            KnobKind::Whole => Value::from(*value as i64),
            KnobKind::Number | KnobKind::Share => Value::from(*value),
        };
        keys.insert(knob.key.clone(), json!({ "enum": knob.menu.iter().map(written).collect::<Vec<_>>() }));
    }
    let required: Vec<&String> = design.knobs.iter().map(|knob| &knob.key).collect();
    let config = json!({
        "type": "object", "properties": keys, "required": required, "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": { "reason": { "type": "string", "maxLength": REASON_MAX }, "config": config },
        "required": ["reason", "config"],
        "additionalProperties": false,
    })
}
