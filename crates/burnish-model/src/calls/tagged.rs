//! `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen.

use super::json::{call_object, prefix, shown};
use super::scan::{Read, after_tag, broken};

/// Reads the call after its `open`.
pub(super) fn read(after: &str, open: &str, close: &str) -> Read {
    let not_json = |problem: String| format!("it is not JSON: {problem}");
    let failed = |reason: &dyn Fn(&str) -> String| {
        let (body, length) = broken(after, open, close);
        Read::one(Err(reason(body)), length)
    };
    // Strings may contain the closing tag, so the JSON decides where the call ends.
    let (value, length) = match prefix(after) {
        Ok(found) => found,
        Err(problem) => {
            // What follows the closing tag does not matter here.
            return failed(&|body| {
                not_json(prefix(body.trim_start()).err().unwrap_or_else(|| problem.clone()))
            });
        }
    };
    let rest = &after[length..];
    let end = match after_tag(rest, close) {
        Some(beyond) => after.len() - beyond.len(),
        None if rest.trim().is_empty() => after.len(),
        None if rest.trim_start().starts_with(open) => length,
        None => {
            let (body, further) = broken(rest, open, close);
            let reason = match rest[..further].ends_with(close) {
                true => format!("after its JSON object there is more: {}", shown(body)),
                false => format!("`{close}` is missing after its JSON object"),
            };
            return Read::one(Err(reason), length + further);
        }
    };
    Read::one(call_object(value, &["arguments"]), end)
}
