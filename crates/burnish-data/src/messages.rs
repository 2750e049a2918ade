//! Messages, tools and texts in the forms that columns hold.

use burnish_core::{Message, Role, ToolSpec, json, openai};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A text as one message of `role`, or a list of messages.
///
/// # Errors
/// Says what is wrong, without the column's name.
pub(crate) fn read(value: &Value, role: Role) -> Result<Vec<Message>, String> {
    match value {
        Value::String(text) => Ok(vec![Message::new(role, text)]),
        Value::Array(messages) => messages
            .iter()
            .enumerate()
            .map(|(at, message)| one(message).map_err(|problem| format!("message {}: {problem}", at + 1)))
            .collect(),
        // A single message.
        Value::Object(_) => Ok(vec![one(value)?]),
        other => Err(format!("must be a text or a list of messages, not {}", kind(other))),
    }
}

/// One message. A null field counts as absent, because parquet gives every message all fields. Within the arguments of
/// a tool call a null is a value.
fn one(message: &Value) -> Result<Message, String> {
    let Value::Object(fields) = message else {
        return Err(format!("must be a table with `role` and `content`, not {}", kind(message)));
    };
    let mut fields = without_nulls(fields);
    // OpenAI's name for the same since its reasoning models.
    if fields.get("role").is_some_and(|role| role == "developer") {
        fields.insert("role".to_owned(), "system".into());
    }
    let parts = match fields.get("content") {
        Some(Value::Array(parts)) => Some(text_parts(parts)?),
        _ => None,
    };
    if parts.is_some() {
        fields.shift_remove("content");
    }
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        let calls = calls.iter_mut().enumerate();
        for (at, call) in calls.filter_map(|(at, call)| Some((at, call.as_object_mut()?))) {
            *call = without_nulls(call);
            if let Some(Value::Object(function)) = call.get_mut("function") {
                let arguments = openai::read_arguments(function.get("arguments").unwrap_or(&Value::Null));
                let named = |problem| format!("`tool_calls[{at}].function.arguments` {problem}");
                function.insert("arguments".to_owned(), Value::Object(arguments.map_err(named)?));
                *function = without_nulls(function);
            }
        }
    }
    let message = Message::deserialize(Value::Object(fields)).map_err(|error| error.to_string())?;
    Ok(match parts {
        Some(parts) => message.in_parts(parts),
        None => message,
    })
}

fn text_parts(parts: &[Value]) -> Result<Vec<String>, String> {
    openai::read_parts(parts).map_err(|at| match parts[at].get("type") {
        Some(kind) if kind == "text" => "a text part has no `text`".to_owned(),
        kind => {
            let kind = kind.unwrap_or(&Value::Null);
            format!("its content has a part of type {kind}; only text can be read")
        }
    })
}

fn without_nulls(fields: &Map<String, Value>) -> Map<String, Value> {
    fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Tools: a list of function schemas, bare or as `{"type": "function", "function": {...}}`, or the JSON text of
/// such a list.
///
/// # Errors
/// Says what is wrong, without the column's name.
pub fn tools(value: &Value) -> Result<Vec<ToolSpec>, String> {
    let parsed;
    let value = match value {
        Value::String(text) => {
            parsed = json::parse(text).map_err(|error| format!("is not JSON: {error}"))?;
            &parsed
        }
        value => value,
    };
    let Value::Array(tools) = value else {
        return Err(format!("must be a list of tools, not {}", kind(value)));
    };
    let tool = |(at, tool): (usize, &Value)| {
        // Nulls within the schema are values (`"default": null`).
        let spec = match tool.get("function").unwrap_or(tool) {
            Value::Object(fields) => Value::Object(without_nulls(fields)),
            other => other.clone(),
        };
        ToolSpec::deserialize(spec).map_err(|error| format!("tool {}: {error}", at + 1))
    };
    tools.iter().enumerate().map(tool).collect()
}

/// The kind of a value, for an error message.
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
