//! Messages, tools and answers in OpenAI's wire format.

use std::collections::VecDeque;

use burnish_core::{FunctionCall, Message, Role, ToolCall, ToolSpec};
use burnish_http::shortened;
use burnish_model::read_arguments;
use serde_json::{Map, Value, json};

use super::ChatAnswer;

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// A conversation. Servers need an id for each call and for each result, so calls without an id are numbered, and
/// results without one are assigned to the calls in order.
pub(super) fn messages(messages: &[Message]) -> Vec<Value> {
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
                    let id = call.id.clone().unwrap_or_else(|| format!("call_{calls}"));
                    unanswered.push_back(id.clone());
                    json!({ "id": id, "type": "function", "function": function(&call.function) })
                });
                json["tool_calls"] = written.collect();
            }
            if message.role == Role::Tool {
                let next = unanswered.pop_front();
                if let Some(id) = message.tool_call_id.clone().or(next) {
                    json["tool_call_id"] = id.into();
                }
            }
            json
        })
        .collect()
}

/// In this format, a call's arguments are a string.
fn function(call: &FunctionCall) -> Value {
    let arguments = match &call.arguments {
        Value::String(text) => text.clone(),
        value => burnish_core::json::text(value).unwrap_or_else(|_| value.to_string()),
    };
    json!({ "name": call.name, "arguments": arguments })
}

pub(super) fn tools(tools: &[ToolSpec]) -> Value {
    tools.iter().map(|tool| json!({ "type": "function", "function": tool })).collect()
}

/// Reads the body of an answer.
pub(super) fn answer(text: &str) -> Result<ChatAnswer, String> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| format!("it is not JSON ({error}): {}", shortened(text)))?;
    let choice = &value["choices"][0];
    let finish_reason = choice["finish_reason"].as_str().map(str::to_owned);
    let read = read_message(&choice["message"], finish_reason);
    read.map_err(|problem| format!("`choices[0].message{problem}: {}", shortened(text)))
}

/// Thoughts that a message, or a piece of one, keeps apart from its text; servers name them in two ways.
pub(super) fn thoughts(message: &Value) -> &str {
    let named = |name: &str| message[name].as_str();
    named("reasoning_content").or_else(|| named("reasoning")).unwrap_or_default()
}

/// Reads an answer's message.
pub(super) fn read_message(message: &Value, finish_reason: Option<String>) -> Result<ChatAnswer, String> {
    let mut answer = ChatAnswer { finish_reason, ..ChatAnswer::default() };
    let said = thoughts(message);
    answer.reasoning_content = (!said.is_empty()).then(|| said.to_owned());
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    answer.content = match message["content"].as_str() {
        Some(content) => content.to_owned(),
        // An answer that calls tools, or that was cut off while it was thinking, may have no text.
        None if !calls.is_empty() || !said.is_empty() => String::new(),
        None => return Err(".content` is no text".to_owned()),
    };
    for (number, call) in (1..).zip(calls) {
        match read_call(call) {
            Ok(call) => answer.calls.push(call),
            Err(problem) => {
                if !answer.content.is_empty() {
                    answer.content.push('\n');
                }
                answer.content += &call["function"].to_string();
                answer.malformed.push(format!("call {number}: {problem}"));
            }
        }
    }
    Ok(answer)
}

fn read_call(call: &Value) -> Result<ToolCall, String> {
    let function = &call["function"];
    let name = function["name"].as_str().filter(|name| !name.is_empty()).ok_or("it has no `name`")?;
    let arguments = match &function["arguments"] {
        // Some servers leave the arguments empty if a tool takes none.
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        value => read_arguments(value.clone())?,
    };
    Ok(ToolCall {
        id: call["id"].as_str().map(str::to_owned),
        function: FunctionCall { name: name.to_owned(), arguments: Value::Object(arguments) },
    })
}
