//! Messages, tools and texts as columns hold them.

use burnish_core::{Message, Role, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A text as one message of `role`, or a list of messages.
///
/// # Errors
/// Says what is wrong with the column, without its name.
pub(crate) fn read(value: &Value, role: Role) -> Result<Vec<Message>, String> {
    match value {
        Value::String(text) => Ok(vec![Message::new(role, text)]),
        Value::Array(messages) => messages
            .iter()
            .enumerate()
            .map(|(at, message)| one(message).map_err(|problem| format!("message {}: {problem}", at + 1)))
            .collect(),
        // One message alone.
        Value::Object(_) => Ok(vec![one(value)?]),
        other => Err(format!("must be a text or a list of messages, not {}", kind(other))),
    }
}

/// One message. Parquet gives every message all fields, so nulls count as absent; a content in parts is joined.
fn one(message: &Value) -> Result<Message, String> {
    let Value::Object(fields) = message else {
        return Err(format!("must be a table with `role` and `content`, not {}", kind(message)));
    };
    let mut fields = without_nulls(fields);
    if let Some(Value::Array(parts)) = fields.get("content") {
        let text = parts.iter().map(text_part).collect::<Result<String, _>>()?;
        fields.insert("content".to_owned(), Value::String(text));
    }
    Message::deserialize(Value::Object(fields)).map_err(|error| error.to_string())
}

fn text_part(part: &Value) -> Result<&str, String> {
    match part {
        Value::String(text) => Ok(text),
        part if part.get("type").and_then(Value::as_str) == Some("text") => {
            part.get("text").and_then(Value::as_str).ok_or_else(|| "a text part has no `text`".to_owned())
        }
        part => Err(format!(
            "its content has a part of type {}; only text can be read",
            part.get("type").unwrap_or(&Value::Null)
        )),
    }
}

fn without_nulls(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(name, value)| (name.clone(), denulled(value))).collect()
}

fn denulled(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(without_nulls(fields)),
        Value::Array(items) => Value::Array(items.iter().map(denulled).collect()),
        other => other.clone(),
    }
}

/// Tools: a list of function schemas, bare or as `{"type": "function", "function": {...}}`, or the JSON text of
/// such a list.
///
/// # Errors
/// Says what is wrong with the column, without its name.
pub(crate) fn tools(value: &Value) -> Result<Vec<ToolSpec>, String> {
    let parsed;
    let value = match value {
        Value::String(text) => {
            parsed = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
            &parsed
        }
        value => value,
    };
    let Value::Array(tools) = value else {
        return Err(format!("must be a list of tools, not {}", kind(value)));
    };
    let tool = |(at, tool): (usize, &Value)| {
        let spec = denulled(tool.get("function").unwrap_or(tool));
        ToolSpec::deserialize(spec).map_err(|error| format!("tool {}: {error}", at + 1))
    };
    tools.iter().enumerate().map(tool).collect()
}

/// What kind of value something is, for people.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}
