//! Calls whose arguments are in tags of their own. Qwen3-Coder, Qwen3.5: `<function=NAME>`, then for each argument
//! `<parameter=KEY>`, its value on lines of its own and `</parameter>`, then `</function>`. GLM: NAME, then for each
//! argument `<arg_key>KEY</arg_key>` and `<arg_value>VALUE</arg_value>`.

use burnish_core::{ToolCall, ToolSpec};
use serde_json::Map;

use super::json::{call, shown};
use super::scan::{Read, after_tag, broken};
use super::typed;

/// The beginning of a call in both.
pub(super) const OPEN: &str = "<tool_call>";
pub(super) const CLOSE: &str = "</tool_call>";

const FUNCTION: (&str, &str) = ("<function=", "</function>");
pub(super) const PARAMETER: (&str, &str) = ("<parameter=", "</parameter>");
pub(super) const KEY: (&str, &str) = ("<arg_key>", "</arg_key>");
const VALUE: (&str, &str) = ("<arg_value>", "</arg_value>");

type Found<'a> = Result<(ToolCall, &'a str), String>;

/// Reads a call of Qwen3-Coder's kind.
pub(super) fn read_function(after: &str, tools: &[ToolSpec]) -> Read {
    read(after, function(after, tools))
}

/// Reads a call of GLM's kind.
pub(super) fn read_keys(after: &str, tools: &[ToolSpec]) -> Read {
    read(after, keys(after, tools))
}

fn read(after: &str, found: Found<'_>) -> Read {
    match found {
        Ok((call, beyond)) => Read::one(Ok(call), after.len() - beyond.len()),
        Err(reason) => Read::one(Err(reason), broken(after, OPEN, CLOSE).1),
    }
}

fn function<'a>(after: &'a str, tools: &[ToolSpec]) -> Found<'a> {
    let rest = after_tag(after, FUNCTION.0)
        .ok_or_else(|| format!("`{}NAME>` must follow `{OPEN}`, not {}", FUNCTION.0, shown(after)))?;
    let (name, mut rest) = named(rest, FUNCTION.0)?;
    let parameters = typed::parameters(tools, name);
    let mut arguments = Map::new();
    while let Some(parameter) = after_tag(rest, PARAMETER.0) {
        let (key, written) = named(parameter, PARAMETER.0)?;
        let (text, beyond) = closed(written, PARAMETER.1, &[PARAMETER.0, FUNCTION.1])
            .ok_or_else(|| format!("the value of `{key}` is not closed by `{}`", PARAMETER.1))?;
        // The line breaks next to the tags are markup.
        let text = text.strip_prefix('\n').unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        let value = typed::value(text, key, parameters, true)?;
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(format!("the parameter `{key}` stands twice"));
        }
        rest = beyond;
    }
    let rest = after_tag(rest, FUNCTION.1)
        .ok_or_else(|| expected(&format!("`{}KEY>` or `{}`", PARAMETER.0, FUNCTION.1), rest))?;
    let beyond = match after_tag(rest, CLOSE) {
        Some(beyond) => beyond,
        None if rest.trim().is_empty() => "",
        None if rest.trim_start().starts_with(OPEN) => rest,
        None => return Err(expected(&format!("`{CLOSE}`"), rest)),
    };
    Ok((call(name, arguments), beyond))
}

fn keys<'a>(after: &'a str, tools: &[ToolSpec]) -> Found<'a> {
    let text = after.trim_start();
    let name = text[..text.find(['\n', '<']).unwrap_or(text.len())].trim();
    if name.is_empty() || name.starts_with(['{', '[']) {
        return Err(format!("a tool's name must follow `{OPEN}`, not {}", shown(after)));
    }
    let mut rest = &text[name.len()..];
    let parameters = typed::parameters(tools, name);
    let mut arguments = Map::new();
    loop {
        if let Some(beyond) = after_tag(rest, CLOSE) {
            return Ok((call(name, arguments), beyond));
        }
        let tags = || expected(&format!("`{}` or `{CLOSE}`", KEY.0), rest);
        let (key, written) = after_tag(rest, KEY.0)
            .ok_or_else(tags)?
            .split_once(KEY.1)
            .ok_or_else(|| format!("the name of an argument is not closed by `{}`", KEY.1))?;
        let key = key.trim();
        let written = after_tag(written, VALUE.0).ok_or_else(|| {
            format!("the argument `{key}` has no value: {}", expected(&format!("`{}`", VALUE.0), written))
        })?;
        let (text, beyond) = closed(written, VALUE.1, &[KEY.0, CLOSE])
            .ok_or_else(|| format!("the value of `{key}` is not closed by `{}`", VALUE.1))?;
        let value = typed::value(text, key, parameters, false)?;
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(format!("the argument `{key}` stands twice"));
        }
        rest = beyond;
    }
}

/// The text up to `>` in the tag `open`, and the text after it.
fn named<'a>(text: &'a str, open: &str) -> Result<(&'a str, &'a str), String> {
    let end = text.find(['>', '\n']).filter(|end| text[*end..].starts_with('>'));
    let (name, rest) = end.map(|end| (text[..end].trim(), &text[end + 1..])).unwrap_or_default();
    if name.is_empty() {
        return Err(format!("`{open}` must have a name and `>` after it"));
    }
    Ok((name, rest))
}

/// A value up to its closing tag, and what follows. The value may contain the closing tag itself: the first one counts
/// that is followed by something that can follow a value.
fn closed<'a>(text: &'a str, close: &str, following: &[&str]) -> Option<(&'a str, &'a str)> {
    // But no value extends into another call.
    let calls =
        text.match_indices(CLOSE).find(|(at, tag)| after_tag(&text[at + tag.len()..], OPEN).is_some());
    let limit = calls.map_or(text.len(), |(at, tag)| at + tag.len());
    let ends = || text[..limit].match_indices(close).map(|(at, _)| (&text[..at], &text[at + close.len()..]));
    let is_followed = |rest: &str| following.iter().any(|tag| rest.trim_start().starts_with(tag));
    ends().find(|(_, rest)| is_followed(rest)).or_else(|| ends().next())
}

fn expected(wanted: &str, rest: &str) -> String {
    match rest.trim().is_empty() {
        true => format!("the answer ends where {wanted} must stand"),
        false => format!("{wanted} must stand where {} stands", shown(rest)),
    }
}
