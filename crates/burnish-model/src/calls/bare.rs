//! Llama 3: the whole answer is `{"name": ..., "parameters": {...}}`, perhaps after `<|python_tag|>`. Several calls
//! follow one another, separated by `;` or white space.

use burnish_core::ToolCall;
use serde_json::Value;

use super::json::{call_object, prefix, shown};
use super::scan::{Parts, Piece, split_thoughts};

const TAG: &str = "<|python_tag|>";
const ARGUMENTS: [&str; 2] = ["parameters", "arguments"];
/// Tokens that end an answer, in case they were not removed.
const ENDS: [&str; 2] = ["<|eot_id|>", "<|eom_id|>"];

/// Reads an answer.
pub(super) fn read(text: &str, open: bool) -> Parts<'_> {
    let (thoughts_raw, thoughts, rest) = split_thoughts(text, open, &[TAG, "{"]);
    let mut parts = Parts { thoughts_raw, thoughts, pieces: Vec::new() };
    let (words, tagged) = match rest.split_once(TAG) {
        Some((words, _)) => (words, &rest[words.len()..]),
        None => ("", rest),
    };
    let is_tagged = tagged.starts_with(TAG);
    match calls(tagged.strip_prefix(TAG).unwrap_or(tagged), is_tagged) {
        Some(Ok(calls)) => {
            parts.pieces.push(Piece::Text(words));
            parts.pieces.extend(calls.into_iter().map(Piece::Call));
        }
        Some(Err(reason)) => {
            parts.pieces.extend([Piece::Text(words), Piece::Malformed(tagged, reason)]);
        }
        None => parts.pieces.push(Piece::Text(rest)),
    }
    parts
}

/// All calls, each with an error if it can't be read; `None` if nothing indicates that calls are meant.
fn calls(text: &str, is_tagged: bool) -> Option<Result<Vec<ToolCall>, String>> {
    let mut rest = text.trim_start();
    if !is_tagged && !rest.starts_with('{') {
        return None;
    }
    let mut calls = Vec::new();
    while !rest.is_empty() && !ENDS.iter().any(|end| rest.starts_with(end)) {
        let (value, length) = match prefix(rest) {
            Ok(found) => found,
            Err(problem) => {
                let is_meant = is_tagged || !calls.is_empty() || looks_like_call(rest);
                return is_meant.then(|| Err(format!("{} is not JSON: {problem}", shown(rest))));
            }
        };
        let is_meant = is_tagged
            || value.as_object().is_some_and(|object| {
                object.get("name").is_some_and(Value::is_string)
                    && ARGUMENTS.iter().any(|key| object.contains_key(*key))
            });
        if !is_meant {
            // JSON may itself be the answer.
            return None;
        }
        match call_object(value, &ARGUMENTS) {
            Ok(call) => calls.push(call),
            Err(reason) => return Some(Err(reason)),
        }
        rest = rest[length..].trim_start();
        rest = rest.strip_prefix(';').unwrap_or(rest).trim_start();
    }
    match calls.is_empty() {
        true => Some(Err(format!("a JSON object must follow `{TAG}`"))),
        false => Some(Ok(calls)),
    }
}

/// Does broken JSON begin like a call?
fn looks_like_call(text: &str) -> bool {
    let key = text.strip_prefix('{').map(str::trim_start);
    key.and_then(|key| key.strip_prefix("\"name\"")).is_some_and(|rest| rest.trim_start().starts_with(':'))
}
