//! Answers in OpenAI's wire format.

use burnish_core::openai::thoughts;
use burnish_core::{FunctionCall, ToolCall};
use burnish_http::shortened;
use burnish_model::read_arguments;
use serde_json::{Map, Value};

use super::ChatAnswer;

/// Reads the body of an answer.
pub(super) fn answer(text: &str) -> Result<ChatAnswer, String> {
    let value: Value = burnish_core::json::parse(text)
        .map_err(|error| format!("it is not JSON ({error}): {}", shortened(text)))?;
    let choice = &value["choices"][0];
    let finish_reason = choice["finish_reason"].as_str().map(str::to_owned);
    let read = read_message(&choice["message"], finish_reason);
    read.map_err(|problem| format!("`choices[0].message{problem}: {}", shortened(text)))
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
        // A model may say nothing, and a filter of the server may leave nothing of what it said.
        None if message["content"].is_null() && answer.finish_reason.is_some() => String::new(),
        None => return Err(".content` is no text".to_owned()),
    };
    for (number, call) in (1..).zip(calls) {
        match read_call(call) {
            Ok(call) => answer.calls.push(call),
            Err(problem) => {
                if !answer.content.is_empty() {
                    answer.content.push('\n');
                }
                answer.content += &burnish_core::json::line(&call["function"]);
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
