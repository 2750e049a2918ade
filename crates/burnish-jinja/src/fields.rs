//! `'{} {name[0]:>5}'.format(...)`, as the sandbox's formatter runs it.

use crate::access;
use crate::error::{Error, Result, type_error, value_error};
use crate::value::{Dict, Value};
use crate::{html, printf, spec};

/// The values that a format can use.
pub(crate) struct Sources<'a> {
    pub(crate) positional: &'a [Value],
    pub(crate) named: &'a Dict,
    pub(crate) is_markup: bool,
}

/// How fields are numbered.
#[derive(Clone, Copy)]
enum Numbering {
    Unknown,
    Automatic(usize),
    Manual,
}

pub(crate) fn format(text: &str, sources: &Sources<'_>) -> Result<String> {
    let mut numbering = Numbering::Unknown;
    expand(text, sources, &mut numbering, 3)
}

fn expand(text: &str, sources: &Sources<'_>, numbering: &mut Numbering, depth: usize) -> Result<String> {
    if depth == 0 {
        return value_error("Max string recursion exceeded");
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out += &rest[..at];
        let (brace, after) = rest[at..].split_at(1);
        if after.starts_with(brace) {
            out += brace;
            rest = &after[1..];
            continue;
        }
        if brace == "}" {
            return value_error("Single '}' encountered in format string");
        }
        let (field, length) = field(after)?;
        rest = &after[length..];
        out += &replaced(field, sources, numbering, depth)?;
    }
    Ok(out + rest)
}

/// The text of a field up to its closing brace, and the length including that brace. Inside `[...]` a brace is an
/// ordinary character.
fn field(text: &str) -> Result<(&str, usize)> {
    let mut depth = 1;
    let mut in_item = false;
    let mut in_name = true;
    for (at, c) in text.char_indices() {
        match c {
            '[' if in_name => in_item = true,
            ']' if in_name => in_item = false,
            _ if in_item => {}
            '!' | ':' if depth == 1 => in_name = false,
            '{' if in_name => return value_error("unexpected '{' in field name"),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok((&text[..at], at + 1));
        }
    }
    value_error(if text.is_empty() {
        "Single '{' encountered in format string"
    } else {
        "expected '}' before end of string"
    })
}

fn replaced(field: &str, sources: &Sources<'_>, numbering: &mut Numbering, depth: usize) -> Result<String> {
    let end = name_length(field);
    let (name, after) = field.split_at(end);
    let (conversion, spec_text) = match after.strip_prefix('!') {
        Some(after) => {
            let mut chars = after.chars();
            let Some(conversion) = chars.next() else {
                return value_error("end of string while looking for conversion specifier");
            };
            match chars.as_str() {
                "" => (Some(conversion), ""),
                rest => match rest.strip_prefix(':') {
                    Some(spec) => (Some(conversion), spec),
                    None => return value_error("expected ':' after conversion specifier"),
                },
            }
        }
        None => (None, after.strip_prefix(':').unwrap_or(after)),
    };
    let value = lookup(name, sources, numbering)?;
    let value = match conversion {
        None => value,
        Some('s') => value.str()?.into(),
        Some('r') => value.repr()?.into(),
        Some('a') => printf::ascii(&value.repr()?).into(),
        Some(other) => return value_error(format!("Unknown conversion specifier {other}")),
    };
    let spec_text = expand(spec_text, sources, numbering, depth - 1)?;
    if sources.is_markup {
        return match &value {
            Value::Markup(_) if !spec_text.is_empty() => {
                value_error("Unsupported format specification for Markup")
            }
            Value::Markup(text) => Ok(text.to_string()),
            value => spec::format(value, &spec_text).map(|text| html::escape(&text)),
        };
    }
    spec::format(&value, &spec_text)
}

fn name_length(field: &str) -> usize {
    let mut in_item = false;
    for (at, c) in field.char_indices() {
        match c {
            '[' => in_item = true,
            ']' => in_item = false,
            '!' | ':' if !in_item => return at,
            _ => {}
        }
    }
    field.len()
}

fn lookup(name: &str, sources: &Sources<'_>, numbering: &mut Numbering) -> Result<Value> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let number = if name.is_empty() {
        let next = match *numbering {
            Numbering::Unknown => 0,
            Numbering::Automatic(next) => next,
            Numbering::Manual => {
                return value_error(
                    "cannot switch from manual field specification to automatic field numbering",
                );
            }
        };
        *numbering = Numbering::Automatic(next + 1);
        Some(next)
    } else if !first.is_empty() && first.chars().all(|c| c.is_ascii_digit()) {
        // A number followed by an attribute counts as neither kind of numbering.
        if first == name {
            if let Numbering::Automatic(_) = numbering {
                return value_error(
                    "cannot switch from manual field specification to automatic field numbering",
                );
            }
            *numbering = Numbering::Manual;
        }
        Some(first.parse().unwrap_or(usize::MAX))
    } else {
        None
    };
    let mut value = match number {
        Some(number) => sources.positional.get(number).cloned().ok_or_else(|| {
            Error::other(format!("Replacement index {number} out of range for positional args tuple"))
        })?,
        None => sources
            .named
            .get_str(first)
            .cloned()
            .ok_or_else(|| Error::other(format!("KeyError: '{first}'")))?,
    };
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return value_error("Empty attribute in format string");
            }
            value = access::attribute(&value, &after[..end])?;
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = after.find(']') else { return value_error("Missing ']' in format string") };
            let key = &after[..end];
            if key.is_empty() {
                return value_error("Empty attribute in format string");
            }
            let key = match key.parse::<i64>() {
                Ok(number) if key.chars().all(|c| c.is_ascii_digit()) => Value::Int(number),
                _ => Value::text(key),
            };
            value = access::item(&value, &key)?;
            rest = &after[end + 1..];
        } else {
            return type_error("Only '.' or '[' may follow ']' in format field specifier");
        }
    }
    Ok(value)
}
