//! How answers are written.

use std::sync::Arc;

use burnish_core::{Message, Node, Role, StopReason, openai};
use serde_json::{Value, json};

use crate::{ChatRequest, Refusal, Spoken};

/// The text of a token; a piece of a character becomes U+FFFD.
pub type Decode = Arc<dyn Fn(u32) -> String + Send + Sync>;

/// The answers to a request, as the body of a response: JSON, or an event stream.
pub(crate) fn body(
    request: &ChatRequest,
    spoken: &[Spoken],
    decode: Option<&Decode>,
    number: u64,
) -> Result<(&'static str, String), Refusal> {
    let choices = spoken.iter().enumerate();
    let choices: Vec<Value> =
        choices.map(|(at, spoken)| choice(request, at, spoken, decode)).collect::<Result<_, _>>()?;
    let created = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let head = |object: &str| json!({"id": format!("chatcmpl-{number}"), "object": object, "created": created, "model": request.model});
    let usage = usage(spoken);
    let prompt = request.shape.has_ids.then(|| spoken.first().map(prompt_ids).unwrap_or_default());
    if !request.shape.is_stream {
        let mut body = head("chat.completion");
        (body["choices"], body["usage"]) = (choices.into(), usage);
        if let Some(prompt) = prompt {
            body["prompt_token_ids"] = prompt.into();
        }
        return Ok(("application/json", text_of(&body)));
    }
    let mut events = String::new();
    let mut event = |choices: Value, usage: Option<&Value>| {
        let mut chunk = head("chat.completion.chunk");
        chunk["choices"] = choices;
        if let Some(usage) = usage {
            chunk["usage"] = usage.clone();
        }
        if let Some(prompt) = &prompt {
            chunk["prompt_token_ids"] = prompt.clone().into();
        }
        events.push_str(&format!("data: {}\n\n", text_of(&chunk)));
    };
    for choice in choices {
        event(json!([piece(choice)]), None);
    }
    if request.shape.has_usage {
        event(json!([]), Some(&usage));
    }
    Ok(("text/event-stream", events + "data: [DONE]\n\n"))
}

fn text_of(value: &Value) -> String {
    burnish_core::json::line(value)
}

/// A choice as a piece of a stream, the first and the last one.
fn piece(mut choice: Value) -> Value {
    let mut delta = choice["message"].take();
    for (at, call) in (0..).zip(delta["tool_calls"].as_array_mut().into_iter().flatten()) {
        call["index"] = json!(at);
    }
    if let Some(fields) = choice.as_object_mut() {
        fields.remove("message");
        fields.insert("delta".to_owned(), delta);
    }
    choice
}

/// The node of the answer, if the policy records tokens.
fn answer_node(spoken: &Spoken) -> Option<&Node> {
    let head = spoken.trace.head()?;
    spoken.trace.nodes().get(head.0).filter(|node| node.sampled.is_some())
}

fn prompt_ids(spoken: &Spoken) -> Vec<u32> {
    let answer = answer_node(spoken).map_or(0, |node| node.ids.len());
    let mut ids = spoken.trace.head_ids();
    ids.truncate(ids.len() - answer);
    ids
}

fn usage(spoken: &[Spoken]) -> Value {
    let prompt = spoken.first().map_or(0, |spoken| prompt_ids(spoken).len());
    let said: usize = spoken.iter().map(|spoken| answer_node(spoken).map_or(0, |node| node.ids.len())).sum();
    json!({"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said})
}

fn choice(
    request: &ChatRequest,
    at: usize,
    spoken: &Spoken,
    decode: Option<&Decode>,
) -> Result<Value, Refusal> {
    let Spoken { output, .. } = spoken;
    let is_calling = !output.message.tool_calls.is_empty();
    let finish_reason = match output.stop {
        StopReason::TokensMax | StopReason::ContextFull => "length",
        _ if is_calling => "tool_calls",
        StopReason::EndToken | StopReason::StopString | StopReason::Control => "stop",
    };
    let logprobs = match request.sampling.logprobs {
        None => Value::Null,
        Some(top) => logprobs(request, spoken, top, decode)?,
    };
    let mut choice = json!({
        "index": at,
        "message": message(&output.message, &request.messages),
        "logprobs": logprobs,
        "finish_reason": finish_reason,
    });
    if request.shape.has_ids {
        let node = answer_node(spoken).ok_or_else(|| no_tokens("return_token_ids"))?;
        choice["token_ids"] = node.ids.clone().into();
    }
    Ok(choice)
}

fn no_tokens(field: &str) -> Refusal {
    Refusal::invalid(field, format!("`{field}`: this policy does not say which tokens it read and sampled"))
}

/// The message of an answer after `before`.
fn message(message: &Message, before: &[Message]) -> Value {
    let mut written = json!({"role": "assistant", "content": message.content, "refusal": null});
    if let Some(thoughts) = &message.reasoning_content {
        written["reasoning_content"] = thoughts.as_str().into();
    }
    if !message.tool_calls.is_empty() {
        let calls = before.iter().filter(|message| message.role == Role::Assistant);
        let first = 1 + calls.map(|message| message.tool_calls.len()).sum::<usize>();
        let calls = (first..).zip(&message.tool_calls);
        written["tool_calls"] = calls.map(|(number, call)| openai::tool_call(call, number)).collect();
        if message.content.is_empty() {
            written["content"] = Value::Null;
        }
    }
    written
}

/// Log-probs are the model's: over the whole vocabulary at the temperature, before penalties and filters.
fn logprobs(
    request: &ChatRequest,
    spoken: &Spoken,
    top: usize,
    decode: Option<&Decode>,
) -> Result<Value, Refusal> {
    let node = answer_node(spoken).ok_or_else(|| no_tokens("logprobs"))?;
    let sampled = node.sampled.as_ref().ok_or_else(|| no_tokens("logprobs"))?;
    let details = &spoken.output.logprobs;
    if top > 0 && details.len() != node.ids.len() {
        return Err(no_tokens("top_logprobs"));
    }
    let token = |id: u32, logprob: f32| {
        let text = decode.filter(|_| !request.shape.ids_as_tokens).map(|decode| decode(id));
        let bytes = text.as_ref().filter(|text| !text.contains('\u{FFFD}')).map(|text| text.as_bytes());
        let bytes = bytes.map_or(Value::Null, |bytes| bytes.into());
        let token = text.unwrap_or_else(|| format!("token_id:{id}"));
        json!({"token": token, "logprob": logprob, "bytes": bytes})
    };
    let content = node.ids.iter().zip(&sampled.model_logprobs).enumerate().map(|(at, (id, logprob))| {
        let mut written = token(*id, *logprob);
        let top = details.get(at).map(|token| &token.top[..top.min(token.top.len())]).unwrap_or_default();
        written["top_logprobs"] = top.iter().map(|(id, logprob)| token(*id, *logprob)).collect();
        written
    });
    Ok(json!({"content": content.collect::<Vec<_>>(), "refusal": null}))
}
