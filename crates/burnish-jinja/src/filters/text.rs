//! Filters of texts.

use std::sync::OnceLock;

use fancy_regex::Regex;

use crate::args::{Call, is_true, optional_whole, text, whole};
use crate::chars::{is_alnum, is_space};
use crate::error::{Error, Result, type_error, value_error};
use crate::ops;
use crate::pprint::lines;
use crate::strings;
use crate::value::Value;
use crate::{html, methods};

/// `None` if no such filter has this name.
pub(super) fn call(name: &str, value: &Value, call: &Call) -> Result<Option<Value>> {
    let call = call.clone();
    // Other values are converted to text first, as `soft_str` does.
    let soft = || -> Result<Value> {
        Ok(match value {
            Value::Str(_) | Value::Markup(_) => value.clone(),
            value => value.str()?.into(),
        })
    };
    let method = |name: &str, call: Call| methods::call(&soft()?, name, call);
    Ok(Some(match name {
        "upper" | "lower" | "capitalize" => {
            call.bind::<0>(name, [], 0)?;
            method(name, Call::default())?
        }
        "title" => {
            call.bind::<0>(name, [], 0)?;
            title(&value.str()?).into()
        }
        "center" => {
            let [width] = call.bind(name, ["width"], 0)?;
            method("center", Call::of(vec![width.unwrap_or(Value::Int(80))]))?
        }
        "trim" => {
            let [chars] = call.bind(name, ["chars"], 0)?;
            method("strip", Call::of(vec![chars.unwrap_or(Value::None)]))?
        }
        "replace" => {
            let [old, new, count] = call.bind(name, ["old", "new", "count"], 2)?;
            let part = |value: Option<Value>| value.unwrap_or(Value::None).str();
            let count = optional_whole(&count)?.unwrap_or(-1);
            strings::replace(&value.str()?, &part(old)?, &part(new)?, count)?.into()
        }
        "striptags" => {
            call.bind::<0>(name, [], 0)?;
            html::striptags(&value.str()?)?.into()
        }
        "wordcount" => {
            call.bind::<0>(name, [], 0)?;
            let mut count = 0;
            let mut in_word = false;
            for c in value.str()?.chars() {
                let is_word = is_alnum(c) || c == '_';
                count += i64::from(is_word && !in_word);
                in_word = is_word;
            }
            Value::Int(count)
        }
        "indent" => {
            let [width, first, blank] = call.bind(name, ["width", "first", "blank"], 0)?;
            let indention = match width {
                None => "    ".to_owned(),
                Some(width) => match width.as_str() {
                    Some(text) => text.to_owned(),
                    None => " ".repeat(whole(&Some(width), 4)?.clamp(0, 1 << 20) as usize),
                },
            };
            let indented = indent(string(value, name)?, &indention, is_true(&first), is_true(&blank));
            like(value, indented)
        }
        "truncate" => {
            let [length, killwords, end, leeway] =
                call.bind(name, ["length", "killwords", "end", "leeway"], 0)?;
            let end = end.unwrap_or_else(|| Value::text("..."));
            let length = whole(&length, 255)?;
            let leeway = optional_whole(&leeway)?.unwrap_or(5);
            return truncate(value, length, is_true(&killwords), &end, leeway).map(Some);
        }
        "wordwrap" => {
            let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
            let [width, break_long, wrapstring, on_hyphens] = call.bind(name, names, 0)?;
            let wrapstring = match wrapstring.filter(|text| !matches!(text, Value::None)) {
                Some(text) => string(&text, name)?.to_owned(),
                None => "\n".to_owned(),
            };
            let yes = |value: Option<Value>| value.is_none_or(|value| value.is_true());
            let (width, break_long, on_hyphens) = (whole(&width, 79)?, yes(break_long), yes(on_hyphens));
            let mut wrapped = Vec::new();
            for line in lines(string(value, name)?) {
                let line = line.trim_end_matches(crate::chars::ends_line);
                wrapped.push(wrap(line, width, break_long, on_hyphens)?.join(&wrapstring));
            }
            wrapped.join(&wrapstring).into()
        }
        "urlencode" => {
            call.bind::<0>(name, [], 0)?;
            urlencode(value)?.into()
        }
        "xmlattr" => {
            let [autospace] = call.bind(name, ["autospace"], 0)?;
            xmlattr(value, autospace.is_none_or(|value| value.is_true()))?.into()
        }
        _ => return Ok(None),
    }))
}

fn string<'a>(value: &'a Value, filter: &str) -> Result<&'a str> {
    match value {
        Value::Undefined(problem) => Err(Error::other(&**problem)),
        value => value
            .as_str()
            .map_or_else(|| type_error(format!("{filter}: expected a text, not {}", value.type_name())), Ok),
    }
}

/// A text that is HTML if `value` is.
fn like(value: &Value, text: String) -> Value {
    if matches!(value, Value::Markup(_)) { Value::Markup(text.into()) } else { text.into() }
}

/// Words begin after `-`, whitespace and opening brackets.
fn title(text: &str) -> String {
    let divides = |c: char| is_space(c) || ['-', '(', '{', '[', '<'].contains(&c);
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(divides).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(first) = word.chars().next() {
            out.extend(first.to_uppercase());
            out += &word[first.len_utf8()..].to_lowercase();
        }
        let end = after.find(|c| !divides(c)).unwrap_or(after.len());
        out += &after[..end];
        rest = &after[end..];
    }
    out
}

fn indent(text: &str, indention: &str, first: bool, blank: bool) -> String {
    let text = format!("{text}\n");
    let bare: Vec<&str> =
        lines(&text).into_iter().map(|line| line.trim_end_matches(crate::chars::ends_line)).collect();
    let mut out = String::new();
    if first {
        out += indention;
    }
    for (at, line) in bare.iter().enumerate() {
        if at > 0 {
            out.push('\n');
            if blank || !line.is_empty() {
                out += indention;
            }
        }
        out += line;
    }
    out
}

fn truncate(value: &Value, length: i64, killwords: bool, end: &Value, leeway: i64) -> Result<Value> {
    let end_length = end.len()? as i64;
    if length < end_length {
        return Err(Error::other(format!("expected length >= {end_length}, got {length}")));
    }
    if leeway < 0 {
        return Err(Error::other(format!("expected leeway >= 0, got {leeway}")));
    }
    if value.len()? as i64 <= length + leeway {
        return Ok(value.clone());
    }
    let kept = ops::slice(value, [Value::None, Value::Int(length - end_length), Value::None])?;
    let kept = match kept.as_str() {
        Some(text) if !killwords => like(&kept, text.rsplit_once(' ').map_or(text, |(head, _)| head).into()),
        None if !killwords => return type_error("truncate: expected a text"),
        _ => kept,
    };
    ops::binary(crate::ast::Binary::Add, &kept, end)
}

/// Python's `textwrap.wrap` of one line.
fn wrap(line: &str, width: i64, break_long: bool, on_hyphens: bool) -> Result<Vec<String>> {
    if width <= 0 {
        return value_error(format!("invalid width {width} (must be > 0)"));
    }
    let width = width as usize;
    let mut chunks = chunks(line, on_hyphens)?;
    chunks.reverse();
    let length = |text: &str| text.chars().count();
    let is_blank = |text: &str| text.chars().all(is_space);
    let mut out: Vec<String> = Vec::new();
    while let Some(first) = chunks.last() {
        if is_blank(first) && !out.is_empty() {
            chunks.pop();
        }
        let mut current: Vec<String> = Vec::new();
        let mut used = 0;
        while let Some(chunk) = chunks.pop_if(|chunk| used + length(chunk) <= width) {
            used += length(&chunk);
            current.push(chunk);
        }
        if let Some(chunk) = chunks.last_mut().filter(|chunk| length(chunk) > width) {
            if break_long {
                let room = if width < 1 { 1 } else { width - used };
                let mut end = room;
                if on_hyphens && length(chunk) > room {
                    let head: Vec<char> = chunk.chars().take(room).collect();
                    let hyphen = head.iter().rposition(|c| *c == '-');
                    if let Some(hyphen) = hyphen.filter(|at| *at > 0 && head[..*at].iter().any(|c| *c != '-'))
                    {
                        end = hyphen + 1;
                    }
                }
                let head: String = chunk.chars().take(end).collect();
                *chunk = chunk.chars().skip(end).collect();
                current.push(head);
            } else if current.is_empty() {
                current.extend(chunks.pop());
            }
        }
        if current.last().is_some_and(|chunk| is_blank(chunk)) {
            current.pop();
        }
        if !current.is_empty() {
            out.push(current.concat());
        }
    }
    Ok(out)
}

/// The pieces between which a line may be broken.
fn chunks(line: &str, on_hyphens: bool) -> Result<Vec<String>> {
    static WITH_HYPHENS: OnceLock<Option<Regex>> = OnceLock::new();
    const SPACE: &str = r"[\t\n\x0b\x0c\r ]";
    if !on_hyphens {
        let mut pieces: Vec<String> = Vec::new();
        let mut was_space = None;
        for c in line.chars() {
            let is_space = "\t\n\u{b}\u{c}\r ".contains(c);
            match pieces.last_mut() {
                Some(piece) if was_space == Some(is_space) => piece.push(c),
                _ => pieces.push(c.into()),
            }
            was_space = Some(is_space);
        }
        return Ok(pieces);
    }
    let regex = WITH_HYPHENS.get_or_init(|| {
        let other = r"[^\t\n\x0b\x0c\r ]";
        let punct = r#"[\w!"'&.,?]"#;
        let letter = r"[^\d\W]";
        let pattern = format!(
            "({SPACE}+|(?<={punct})-{{2,}}(?=\\w)|{other}+?(?:-(?:(?<={letter}{letter}-)|(?<={letter}-{punct}-))\
             (?={letter}-?{letter})|(?={SPACE}|\\z)|(?<={punct})(?=-{{2,}}\\w)))"
        );
        Regex::new(&pattern).ok()
    });
    let regex = regex.as_ref().ok_or_else(|| Error::other("wordwrap is not supported here"))?;
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let found = regex.find_from_pos(line, at).map_err(|error| Error::other(error.to_string()))?;
        let Some(found) = found else { break };
        if found.start() > at {
            pieces.push(line[at..found.start()].to_owned());
        }
        pieces.push(found.as_str().to_owned());
        at = found.end();
    }
    if at < line.len() {
        pieces.push(line[at..].to_owned());
    }
    Ok(pieces)
}

fn url_quote(value: &Value, for_query: bool) -> Result<String> {
    let mut out = String::new();
    for byte in value.str()?.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            b'/' if !for_query => out.push('/'),
            b' ' if for_query => out.push('+'),
            byte => out += &format!("%{byte:02X}"),
        }
    }
    Ok(out)
}

fn urlencode(value: &Value) -> Result<String> {
    if value.as_str().is_some() || !value.is_iterable() {
        return url_quote(value, false);
    }
    let pairs: Vec<Value> = match value {
        Value::Dict(dict) => {
            dict.entries().iter().map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()])).collect()
        }
        value => value.items()?,
    };
    let mut out = Vec::new();
    for pair in pairs {
        match pair.items()?.as_slice() {
            [key, value] => out.push(format!("{}={}", url_quote(key, true)?, url_quote(value, true)?)),
            _ => return value_error("urlencode: expected pairs of a key and a value"),
        }
    }
    Ok(out.join("&"))
}

fn xmlattr(value: &Value, autospace: bool) -> Result<String> {
    let Value::Dict(dict) = value else {
        return type_error(format!("xmlattr: expected a dictionary, not {}", value.type_name()));
    };
    let mut parts = Vec::new();
    for (key, value) in dict.entries() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let name = text(&Some(key.clone()), "xmlattr")?.to_owned();
        if name.contains(|c: char| " \t\n\r\u{b}\u{c}/>=".contains(c)) {
            return value_error(format!("Invalid character in attribute name: {}", ops::shown(key)));
        }
        parts.push(format!("{}=\"{}\"", html::escaped(key)?, html::escaped(value)?));
    }
    let joined = parts.join(" ");
    Ok(if autospace && !joined.is_empty() { format!(" {joined}") } else { joined })
}
