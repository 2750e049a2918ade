//! Messages and tools in the wire format of OpenAI's chat completions, for those who ask servers and for those who are
//! asked.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::{FunctionCall, Message, Role, ToolCall, ToolSpec};

/// The beginning of ids that a call gets on the wire if it has none. They are taken off again when it comes back, so
/// that a conversation that is sent back reads as it was sampled.
const MADE: &str = "burnish_call_";

/// Fields of a message that may be sent as long as they are empty, as clients do that send back what they received.
const EMPTY: [&str; 6] = ["refusal", "annotations", "audio", "function_call", "images", "reasoning_details"];

/// A part of a request that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{param}` {problem}")]
pub struct WireError {
    /// Path of the field, such as `messages[2].content`.
    pub param: String,
    /// What is wrong with it.
    pub problem: String,
}

impl WireError {
    /// What is wrong with a field.
    pub fn new(param: impl Into<String>, problem: impl Into<String>) -> Self {
        WireError { param: param.into(), problem: problem.into() }
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Writes a conversation. Each call and each result needs an id here, so calls without one are numbered, and results
/// without one are assigned to the calls in order.
pub fn messages(messages: &[Message]) -> Vec<Value> {
    let mut calls = 0;
    let mut unanswered = VecDeque::new();
    messages
        .iter()
        .map(|message| {
            let mut json = json!({ "role": role(message.role), "content": message.content });
            if !message.tool_calls.is_empty() {
                unanswered.clear();
                let written = message.tool_calls.iter().map(|call| {
                    calls += 1;
                    let written = tool_call(call, calls);
                    unanswered.push_back(written["id"].clone());
                    written
                });
                json["tool_calls"] = written.collect();
            }
            if message.role == Role::Tool {
                let next = unanswered.pop_front();
                if let Some(id) = message.tool_call_id.clone().map(Value::from).or(next) {
                    json["tool_call_id"] = id;
                }
            }
            json
        })
        .collect()
}

/// Writes a call, which is the conversation's call `number`, counted from 1.
pub fn tool_call(call: &ToolCall, number: usize) -> Value {
    let id = call.id.clone().unwrap_or_else(|| format!("{MADE}{number}"));
    json!({ "id": id, "type": "function", "function": function(&call.function) })
}

/// In this format, a call's arguments are a string.
fn function(call: &FunctionCall) -> Value {
    let arguments = match &call.arguments {
        Value::String(text) => text.clone(),
        value => crate::json::line(value),
    };
    json!({ "name": call.name, "arguments": arguments })
}

/// Writes tools.
pub fn tools(tools: &[ToolSpec]) -> Value {
    tools.iter().map(|tool| json!({ "type": "function", "function": tool })).collect()
}

/// Thoughts that a message, or a piece of one, keeps apart from its text; servers name them in two ways.
pub fn thoughts(message: &Value) -> &str {
    let named = |name: &str| message[name].as_str();
    named("reasoning_content").or_else(|| named("reasoning")).unwrap_or_default()
}

/// Reads a conversation.
///
/// A result without a name gets that of the call that it answers.
///
/// # Errors
/// Names the first field that is malformed or unknown, or that holds something other than text.
pub fn read_messages(written: &Value) -> Result<Vec<Message>, WireError> {
    let list = written.as_array().filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| WireError::new("messages", "must be a list with at least one message"))?;
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut messages = Vec::with_capacity(list.len());
    for (at, written) in list.iter().enumerate() {
        let mut message = read_message(written, &format!("messages[{at}]"))?;
        for ToolCall { id, function } in &message.tool_calls {
            names.extend(id.clone().map(|id| (id, function.name.clone())));
        }
        if let (Role::Tool, None, Some(id)) = (message.role, &message.name, &message.tool_call_id) {
            message.name = names.get(id).cloned();
        }
        messages.push(message);
    }
    for results in messages.chunk_by_mut(|a, b| a.role == Role::Tool && b.role == Role::Tool) {
        // Without their ids, results belong to the calls in order.
        results.sort_by_key(|result| result.tool_call_id.as_deref().and_then(made));
    }
    for message in &mut messages {
        let calls = message.tool_calls.iter_mut().map(|call| &mut call.id);
        calls.chain([&mut message.tool_call_id]).for_each(|id| *id = id.take_if(|id| made(id).is_none()));
    }
    Ok(messages)
}

/// The number in an id that was made for the wire.
fn made(id: &str) -> Option<usize> {
    id.strip_prefix(MADE)?.parse().ok()
}

fn read_message(written: &Value, at: &str) -> Result<Message, WireError> {
    let fields = written.as_object().ok_or_else(|| WireError::new(at, "must be an object"))?;
    let role = match fields.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => {
            let problem = "must be `system`, `developer`, `user`, `assistant` or `tool`";
            return Err(WireError::new(format!("{at}.role"), problem));
        }
    };
    let mut message = Message::new(role, "");
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let path = || format!("{at}.{name}");
        let text = || {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| WireError::new(path(), "must be a text"))
        };
        match name.as_str() {
            "role" => {}
            "content" => match value {
                Value::Array(parts) => {
                    let problem = "must be {\"type\": \"text\", \"text\": ...}: only text is read here";
                    let parts = read_parts(parts);
                    let parts = parts.map_err(|at| WireError::new(format!("{}[{at}]", path()), problem))?;
                    message = message.in_parts(parts);
                }
                Value::String(text) => message.content = text.clone(),
                _ => return Err(WireError::new(path(), "must be a text, or a list of parts")),
            },
            "reasoning_content" | "reasoning" => {
                let said = text()?;
                message.reasoning_content = (!said.is_empty()).then_some(said);
            }
            "name" => message.name = Some(text()?),
            "tool_call_id" if role == Role::Tool => message.tool_call_id = Some(text()?),
            "tool_calls" if role == Role::Assistant => message.tool_calls = read_calls(value, &path())?,
            name if EMPTY.contains(&name) && is_empty(value) => {}
            _ => return Err(WireError::new(path(), "is not known in a message of this role")),
        }
    }
    Ok(message)
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Null) || value.as_array().is_some_and(Vec::is_empty)
}

/// The parts of a content: each is a text, or `{"type": "text", "text": ...}`.
///
/// # Errors
/// The number of the first part that is no text, counted from 0.
pub fn read_parts(parts: &[Value]) -> Result<Vec<String>, usize> {
    let texts =
        parts.iter().enumerate().map(|(at, part)| match (part, part["type"].as_str(), &part["text"]) {
            (Value::String(text), ..) | (_, Some("text"), Value::String(text)) => Ok(text.clone()),
            _ => Err(at),
        });
    texts.collect()
}

/// The arguments of a call: an object, or its JSON text. Null and an empty text are no arguments.
///
/// # Errors
/// What is wrong with them.
pub fn read_arguments(written: &Value) -> Result<Map<String, Value>, String> {
    const WANTED: &str = "must be a JSON object, or the text of one";
    let parsed = match written {
        Value::Null => return Ok(Map::new()),
        Value::String(text) if text.trim().is_empty() => return Ok(Map::new()),
        Value::String(text) => {
            crate::json::parse(text).map_err(|error| format!("{WANTED}, and it is not JSON: {error}"))?
        }
        other => other.clone(),
    };
    match parsed {
        // A long integer is an object, too.
        Value::Object(arguments) if crate::json::long_digits(&Value::Object(arguments.clone())).is_none() => {
            Ok(arguments)
        }
        _ => Err(WANTED.to_owned()),
    }
}

fn read_calls(value: &Value, at: &str) -> Result<Vec<ToolCall>, WireError> {
    let calls = value.as_array().ok_or_else(|| WireError::new(at, "must be a list"))?;
    let read = |(number, call): (usize, &Value)| {
        let at = format!("{at}[{number}]");
        if call.get("type").is_some_and(|kind| kind != "function") {
            return Err(WireError::new(format!("{at}.type"), "must be `function`"));
        }
        let function = &call["function"];
        let name = function["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| WireError::new(format!("{at}.function.name"), "must be a text"))?;
        let arguments = read_arguments(&function["arguments"])
            .map_err(|problem| WireError::new(format!("{at}.function.arguments"), problem))?;
        let function = FunctionCall { name: name.to_owned(), arguments: Value::Object(arguments) };
        Ok(ToolCall { id: call["id"].as_str().map(str::to_owned), function })
    };
    calls.iter().enumerate().map(read).collect()
}

/// Reads tools.
///
/// # Errors
/// Names the first field that is malformed.
pub fn read_tools(written: &Value) -> Result<Vec<ToolSpec>, WireError> {
    let list = written.as_array().ok_or_else(|| WireError::new("tools", "must be a list"))?;
    let read = |(at, tool): (usize, &Value)| {
        if tool["type"] != "function" {
            return Err(WireError::new(format!("tools[{at}].type"), "must be `function`"));
        }
        let mut function = tool["function"].clone();
        if let Some(fields) = function.as_object_mut() {
            // Both may be left out on the wire.
            fields.retain(|_, value| !value.is_null());
            fields.entry("description").or_insert_with(|| "".into());
            fields.entry("parameters").or_insert_with(|| json!({"type": "object", "properties": {}}));
        }
        serde_json::from_value(function)
            .map_err(|error| WireError::new(format!("tools[{at}].function"), format!("is no tool: {error}")))
    };
    list.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: Option<&str>, arguments: Value) -> ToolCall {
        let function = FunctionCall { name: "add".to_owned(), arguments };
        ToolCall { id: id.map(str::to_owned), function }
    }

    fn result(id: Option<&str>, text: &str) -> Message {
        Message {
            tool_call_id: id.map(str::to_owned),
            name: Some("add".to_owned()),
            ..Message::new(Role::Tool, text)
        }
    }

    #[test]
    fn a_conversation_is_read_as_it_was_written() {
        for id in [None, Some("call00001")] {
            let said = vec![
                Message::system("be brief"),
                Message::user("1 + 2?\n"),
                Message { tool_calls: vec![call(id, json!({"a": 1, "b": 2}))], ..Message::assistant("so") },
                result(id, "3"),
                Message::assistant("It is 3."),
            ];
            assert_eq!(read_messages(&messages(&said).into()), Ok(said));
        }
    }

    #[test]
    fn results_without_ids_of_their_own_stand_in_the_order_of_their_calls() {
        let calls = vec![call(None, json!({"a": 1})), call(None, json!({"a": 2}))];
        let said = vec![
            Message { tool_calls: calls, ..Message::assistant("") },
            result(None, "first"),
            result(None, "second"),
        ];
        let mut wire = messages(&said);
        assert_eq!(wire[0]["tool_calls"][1]["id"], "burnish_call_2");
        assert_eq!(wire[0]["tool_calls"][1]["function"]["arguments"], "{\"a\":2}");
        wire.swap(1, 2);
        assert_eq!(read_messages(&wire.into()), Ok(said));
    }

    #[test]
    fn what_clients_send_back_is_read() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let wire = json!([
            {"role": "developer", "content": parts},
            {"role": "assistant", "content": null, "refusal": null, "annotations": [], "reasoning": "hm",
             "tool_calls": [{"id": "x", "type": "function", "function": {"name": "add", "arguments": ""}}]},
        ]);
        let thinking = Some("hm".to_owned());
        let tool_calls = vec![call(Some("x"), json!({}))];
        let answer = Message { reasoning_content: thinking, tool_calls, ..Message::assistant("") };
        let system = Message::system("").in_parts(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(system.content, "a\nb");
        assert_eq!(read_messages(&wire), Ok(vec![system, answer]));
    }

    #[test]
    fn arguments_are_an_object_however_they_are_written() {
        let read = |written: Value| read_arguments(&written).map(|read| crate::json::line(&read.into()));
        for none in [json!(null), json!(""), json!(" "), json!("{}"), json!({})] {
            assert_eq!(read(none), Ok("{}".to_owned()));
        }
        let long = r#"{"z":null,"a":[18446744073709551616]}"#;
        assert_eq!(read(json!(long)), Ok(long.to_owned()));
        assert_eq!(read(crate::json::parse(long).unwrap()), Ok(long.to_owned()));
        for wrong in
            [json!("{"), json!("null"), json!("[]"), json!("18446744073709551616"), json!([]), json!(1)]
        {
            assert!(read(wrong.clone()).unwrap_err().starts_with("must be a JSON object"), "{wrong}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        let of_arguments = |arguments: Value| {
            let call = json!({"function": {"name": "add", "arguments": arguments}});
            json!([{"role": "assistant", "tool_calls": [call]}])
        };
        for (wire, param) in [
            (json!([]), "messages"),
            (json!([{"role": "robot"}]), "messages[0].role"),
            (json!([{"role": "user", "content": 3}]), "messages[0].content"),
            (json!([{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content[0]"),
            (json!([{"role": "user", "content": "a", "audio": {"id": 1}}]), "messages[0].audio"),
            (json!([{"role": "user", "tool_calls": []}]), "messages[0].tool_calls"),
            (json!([{"role": "assistant", "tool_calls": [{}]}]), "messages[0].tool_calls[0].function.name"),
            (of_arguments(json!("{not")), "messages[0].tool_calls[0].function.arguments"),
            (of_arguments(json!("[1]")), "messages[0].tool_calls[0].function.arguments"),
            (of_arguments(json!("18446744073709551616")), "messages[0].tool_calls[0].function.arguments"),
            (of_arguments(json!(3)), "messages[0].tool_calls[0].function.arguments"),
        ] {
            assert_eq!(read_messages(&wire).unwrap_err().param, param);
        }
        let tools = json!([{"type": "function", "function": {"name": "add"}}, {"type": "custom"}]);
        assert_eq!(read_tools(&tools).unwrap_err().param, "tools[1].type");
        let read = read_tools(&json!([tools[0]])).unwrap();
        assert_eq!((&*read[0].name, &*read[0].description), ("add", ""));
    }
}
