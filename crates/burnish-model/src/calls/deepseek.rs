//! DeepSeek: `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>`; R1 writes
//! `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`, then the arguments in a code fence.

use burnish_core::ToolCall;

use super::json::{arguments, call, prefix, shown};
use super::scan::{Read, after_tag, broken};

/// The beginning of a call, and the tags around all calls.
pub(super) const OPEN: [&str; 3] =
    ["<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"];

const SEPARATOR: &str = "<｜tool▁sep｜>";
const CLOSE: &str = "<｜tool▁call▁end｜>";
const FENCE: &str = "```";

/// Reads the call after the tag `OPEN[which]`.
pub(super) fn read(which: usize, after: &str) -> Read {
    if which != 0 {
        return Read::nothing();
    }
    match one(after) {
        Ok((call, length)) => Read::one(Ok(call), length),
        Err(reason) => Read::one(Err(reason), broken(after, OPEN[0], CLOSE).1),
    }
}

fn one(after: &str) -> Result<(ToolCall, usize), String> {
    let (first, rest) = after
        .split_once(SEPARATOR)
        .filter(|(first, _)| !first.contains(CLOSE))
        .ok_or_else(|| format!("`{SEPARATOR}` is missing"))?;
    let (name, json) = if rest.trim_start().starts_with('{') {
        (first, rest)
    } else {
        let end = rest.find(['\n', '`', '<']).unwrap_or(rest.len());
        let fenced = after_tag(&rest[end..], FENCE).unwrap_or(&rest[end..]);
        (&rest[..end], fenced.strip_prefix("json").unwrap_or(fenced))
    };
    let name = name.trim();
    if name.is_empty() {
        return Err("it has no name".into());
    }
    let (value, length) = prefix(json).map_err(|problem| format!("the arguments are not JSON: {problem}"))?;
    let rest = &json[length..];
    let rest = after_tag(rest, FENCE).unwrap_or(rest);
    let beyond = match after_tag(rest, CLOSE) {
        Some(beyond) => beyond,
        None if rest.trim().is_empty() => "",
        None if OPEN.iter().any(|tag| rest.trim_start().starts_with(tag)) => rest,
        None => return Err(format!("`{CLOSE}` must follow its arguments, not {}", shown(rest))),
    };
    Ok((call(name, arguments(value)?), after.len() - beyond.len()))
}
