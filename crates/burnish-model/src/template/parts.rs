//! Contents in parts: whether a template goes through them.
//!
//! As vLLM does it, a template that goes through parts gets them, and any other gets their texts on lines of their own.

use burnish_core::{Message, Role};
use serde_json::{Value, json};

use super::{ChatTemplate, DEFAULT, message_json};
use crate::calls;

const PROBES: [&str; 2] = ["probe one", "probe two"];

impl ChatTemplate {
    /// Does it go through the parts of a message of this role? As [`crate::CallFormat::of`], this is found by rendering one.
    pub(super) fn takes_parts(&self, role: Role) -> bool {
        *self.parts[role as usize].get_or_init(|| {
            let [question, asks, result] = calls::probe_conversation();
            let messages = match role {
                Role::System => vec![Message::system("")],
                Role::User => vec![question],
                Role::Assistant => vec![question, Message::assistant("")],
                Role::Tool => vec![question, asks, result],
            };
            let mut messages: Vec<Value> = messages.iter().map(message_json).collect();
            if let Some(last) = messages.last_mut() {
                last["content"] = self::json(&PROBES.map(str::to_owned));
            }
            if role == Role::System {
                messages.push(message_json(&Message::user("")));
            }
            let mut context = self.context(&[], &[], false);
            context.insert("messages", messages.into());
            let text = self.render_in(DEFAULT, &context, None).unwrap_or_default();
            // In quotes, it is the list that was printed.
            let is_said = |part: &str| {
                text.contains(part)
                    && !["'", "\""].iter().any(|quote| text.contains(&format!("{quote}{part}")))
            };
            PROBES.into_iter().all(is_said)
        })
    }
}

/// A content in parts, in OpenAI's form.
pub(super) fn json(parts: &[String]) -> Value {
    parts.iter().map(|part| json!({ "type": "text", "text": part })).collect()
}
