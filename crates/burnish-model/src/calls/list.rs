//! Calls as a JSON list after a tag: Mistral's `[TOOL_CALLS]`, with ids, and IBM Granite's `<|tool_call|>`. Newer
//! models of Mistral write `[TOOL_CALLS]NAME[ARGS]{...}`.

use burnish_core::ToolCall;
use serde_json::Value;

use super::json::{arguments, call, call_object, kind, prefix};
use super::scan::{Read, after_tag};

/// Tag of Mistral's models.
pub(super) const MISTRAL: &str = "[TOOL_CALLS]";
/// Tag of IBM's Granite models.
pub(super) const GRANITE: &str = "<|tool_call|>";

const ARGUMENTS: &str = "[ARGS]";
const ID: &str = "[CALL_ID]";

/// Reads the calls after a tag.
pub(super) fn read(after: &str, tag: &str) -> Read {
    let next = after.find(tag).unwrap_or(after.len());
    let is_list = after.trim_start().starts_with(['[', '{']);
    match is_list {
        true => list(after, next),
        false if tag == MISTRAL => match named(after) {
            Ok((call, length)) => Read::one(Ok(call), length),
            Err(reason) => Read::one(Err(reason), next),
        },
        false => Read::one(Err(format!("a JSON list of calls must follow `{tag}`")), next),
    }
}

fn list(after: &str, next: usize) -> Read {
    let (value, length) = match prefix(after) {
        Ok(found) => found,
        Err(problem) => {
            return Read::one(Err(format!("the list of calls is not JSON: {problem}")), next);
        }
    };
    let items = match value {
        Value::Array(items) => items,
        value => vec![value],
    };
    if items.is_empty() {
        return Read::one(Err("the list of calls is empty".into()), length);
    }
    Read { calls: items.into_iter().map(|item| call_object(item, &["arguments"])).collect(), length }
}

/// `NAME[ARGS]{...}` or `NAME[CALL_ID]ID[ARGS]{...}`.
fn named(after: &str) -> Result<(ToolCall, usize), String> {
    let end = after.find(['[', '{']).unwrap_or(after.len());
    let name = after[..end].trim();
    if name.is_empty() {
        return Err(format!("a tool's name must follow `{MISTRAL}`"));
    }
    let mut rest = &after[end..];
    let mut id = None;
    if let Some(with_id) = rest.strip_prefix(ID) {
        let end = with_id.find(['[', '{']).unwrap_or(with_id.len());
        id = Some(with_id[..end].trim().to_owned());
        rest = &with_id[end..];
    }
    let rest = after_tag(rest, ARGUMENTS).unwrap_or(rest);
    let (value, length) = prefix(rest).map_err(|problem| format!("the arguments are not JSON: {problem}"))?;
    if !value.is_object() {
        return Err(format!("the arguments must be a JSON object, but are {}", kind(&value)));
    }
    let mut call = call(name, arguments(value)?);
    call.id = id.filter(|id| !id.is_empty());
    Ok((call, after.len() - rest.len() + length))
}
