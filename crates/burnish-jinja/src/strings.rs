//! The methods of Python's strings.

use crate::args::{Call, is_true, optional_whole, text, whole};
use crate::chars::{
    casefold, decimal_value, is_alnum, is_alpha, is_cased, is_decimal, is_digit, is_identifier, is_numeric,
    is_printable, is_space, is_title, titlecase,
};
use crate::error::{Error, Result, type_error, value_error};
use crate::ops::MAX_SIZE;
use crate::pprint::lines;
use crate::value::{Dict, Value};

/// Calls `this.name(...)`; `format` and `format_map` are elsewhere.
pub(crate) fn call(this: &str, name: &str, call: Call) -> Result<Value> {
    let all = |is: fn(char) -> bool| Value::Bool(!this.is_empty() && this.chars().all(is));
    Ok(match name {
        "split" | "rsplit" => {
            let [sep, limit] = call.bind(name, ["sep", "maxsplit"], 0)?;
            let sep = sep.filter(|sep| !matches!(sep, Value::None));
            let limit = usize::try_from(whole(&limit, -1)?).unwrap_or(usize::MAX);
            let sep = match &sep {
                Some(_) => Some(text(&sep, name)?),
                None => None,
            };
            return split(this, sep, limit, name == "rsplit");
        }
        "splitlines" => {
            let [keep] = call.bind(name, ["keepends"], 0)?;
            let ends = ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
            let bare = |line: &str| match line.strip_suffix("\r\n") {
                Some(line) => line.to_owned(),
                None => line.strip_suffix(ends).unwrap_or(line).to_owned(),
            };
            let cut = |line: &&str| if is_true(&keep) { (*line).to_owned() } else { bare(line) };
            Value::list(lines(this).iter().map(|line| cut(line).into()).collect())
        }
        "expandtabs" => {
            let [size] = call.bind(name, ["tabsize"], 0)?;
            expandtabs(this, whole(&size, 8)?.clamp(0, 1 << 20) as usize).into()
        }
        "encode" => return Err(Error::other("the method `encode` of str is not supported")),
        "replace" => {
            let [old, new, count] = call.positional(name, 2)?;
            let count = whole(&count, -1)?;
            replace(this, text(&old, name)?, text(&new, name)?, count)?.into()
        }
        "join" => {
            let [items] = call.positional(name, 1)?;
            let mut out = String::new();
            for (at, item) in items.unwrap_or(Value::None).items()?.iter().enumerate() {
                let Some(item) = item.as_str() else {
                    return type_error(format!(
                        "sequence item {at}: expected str instance, {} found",
                        item.type_name()
                    ));
                };
                if at > 0 {
                    out.push_str(this);
                }
                out.push_str(item);
            }
            out.into()
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = call.positional(name, 0)?;
            strip(this, &chars.filter(|chars| !matches!(chars, Value::None)), name)?.into()
        }
        "startswith" | "endswith" => {
            let [part, start, end] = call.positional(name, 1)?;
            let part = part.unwrap_or(Value::None);
            let window = window(this, &start, &end)?;
            let fits = |part: &Value| match (part.as_str(), &window) {
                (None, _) => type_error(format!(
                    "{name} first arg must be str or a tuple of str, not {}",
                    part.type_name()
                )),
                (Some(_), None) => Ok(false),
                (Some(part), Some((_, window))) => {
                    Ok(if name == "startswith" { window.starts_with(part) } else { window.ends_with(part) })
                }
            };
            let parts = part.as_tuple().map_or_else(|| vec![part.clone()], |parts| parts.to_vec());
            let mut found = false;
            for part in &parts {
                found = found || fits(part)?;
            }
            Value::Bool(found)
        }
        "find" | "index" | "rfind" | "rindex" | "count" => {
            let [part, start, end] = call.positional(name, 1)?;
            let part = text(&part, name)?;
            let window = window(this, &start, &end)?;
            if name == "count" {
                return Ok(Value::size(window.map_or(0, |(_, window)| window.matches(part).count())));
            }
            let found = window.and_then(|(offset, window)| {
                let at = if name.starts_with('r') { window.rfind(part) } else { window.find(part) }?;
                Some(offset + window[..at].chars().count())
            });
            match found {
                Some(at) => Value::size(at),
                None if name.ends_with("find") => Value::Int(-1),
                None => return value_error("substring not found"),
            }
        }
        "center" | "ljust" | "rjust" => {
            let [width, fill] = call.positional(name, 1)?;
            let fill = match &fill {
                None => ' ',
                Some(fill) => match fill.as_str().map(|fill| (fill.chars().next(), fill.chars().count())) {
                    Some((Some(c), 1)) => c,
                    _ => return type_error("The fill character must be exactly one character long"),
                },
            };
            pad(this, whole(&width, 0)?, fill, name)?.into()
        }
        "zfill" => {
            let [width] = call.positional(name, 1)?;
            let signed = this.starts_with(['+', '-']);
            let (sign, digits) = this.split_at(usize::from(signed));
            let width = whole(&width, 0)?.saturating_sub(i64::from(signed));
            format!("{sign}{}", pad(digits, width, '0', "rjust")?).into()
        }
        "partition" | "rpartition" => {
            let [sep] = call.positional(name, 1)?;
            let sep = text(&sep, name)?;
            if sep.is_empty() {
                return value_error("empty separator");
            }
            let found = if name == "partition" { this.split_once(sep) } else { this.rsplit_once(sep) };
            let parts = match (found, name) {
                (Some((before, after)), _) => [before, sep, after],
                (None, "partition") => [this, "", ""],
                (None, _) => ["", "", this],
            };
            Value::tuple(parts.map(Value::text).to_vec())
        }
        "removeprefix" | "removesuffix" => {
            let [part] = call.positional(name, 1)?;
            let part = text(&part, name)?;
            let cut = if name == "removeprefix" { this.strip_prefix(part) } else { this.strip_suffix(part) };
            Value::text(cut.unwrap_or(this))
        }
        "maketrans" => return maketrans(call),
        "translate" => {
            let [table] = call.positional(name, 1)?;
            return translate(this, &table.unwrap_or(Value::None));
        }
        _ => {
            call.positional::<0>(name, 0)?;
            match name {
                "upper" => this.to_uppercase().into(),
                "lower" => this.to_lowercase().into(),
                "capitalize" => capitalize(this).into(),
                "title" => title(this).into(),
                "swapcase" => swapcase(this).into(),
                "casefold" => {
                    let mut out = String::new();
                    this.chars().for_each(|c| casefold(c, &mut out));
                    out.into()
                }
                "isalnum" => all(is_alnum),
                "isalpha" => all(is_alpha),
                "isascii" => Value::Bool(this.is_ascii()),
                "isdecimal" => all(is_decimal),
                "isdigit" => all(is_digit),
                "isnumeric" => all(is_numeric),
                "isspace" => all(is_space),
                "isprintable" => Value::Bool(this.chars().all(is_printable)),
                "isidentifier" => Value::Bool(is_identifier(this)),
                "islower" => Value::Bool(is_lower(this)),
                "isupper" => Value::Bool(is_upper(this)),
                "istitle" => Value::Bool(is_title_text(this)),
                _ => return Err(Error::other(format!("the method `{name}` of str is not supported"))),
            }
        }
    })
}

pub(crate) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(|c| c.is_uppercase() || is_title(c))
}

pub(crate) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(|c| c.is_lowercase() || is_title(c))
}

fn is_title_text(text: &str) -> bool {
    let mut was_cased = false;
    let mut found = false;
    for c in text.chars() {
        let begins = c.is_uppercase() || is_title(c);
        if (begins && was_cased) || (c.is_lowercase() && !was_cased) {
            return false;
        }
        was_cased = is_cased(c);
        found |= was_cased;
    }
    found
}

pub(crate) fn capitalize(text: &str) -> String {
    let Some(first) = text.chars().next() else { return String::new() };
    let mut out = String::new();
    titlecase(first, &mut out);
    out + &lowered_after(text, first.len_utf8())
}

/// The rest of a text in lower case. The text before it decides whether a sigma is at the end of a word.
fn lowered_after(text: &str, at: usize) -> String {
    let head = text[..at].to_lowercase();
    text.to_lowercase().strip_prefix(&*head).map_or_else(|| text[at..].to_lowercase(), str::to_owned)
}

fn title(text: &str) -> String {
    let lower = text.to_lowercase();
    // If lowering changes no lengths, characters correspond by position.
    let lowered: Vec<char> = lower.chars().collect();
    let is_even = lowered.len() == text.chars().count();
    let mut out = String::new();
    let mut was_cased = false;
    for (at, c) in text.chars().enumerate() {
        if !was_cased {
            titlecase(c, &mut out);
        } else if is_even {
            out.push(lowered[at]);
        } else {
            out.extend(c.to_lowercase());
        }
        was_cased = is_cased(c);
    }
    out
}

fn swapcase(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else if c.is_lowercase() {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

/// The part of a text between two positions, and the number of characters before it; `None` if it begins after the end.
fn window<'a>(this: &'a str, start: &Option<Value>, end: &Option<Value>) -> Result<Option<(usize, &'a str)>> {
    let (start, end) = (optional_whole(start)?, optional_whole(end)?);
    if start.is_none() && end.is_none() {
        return Ok(Some((0, this)));
    }
    let length = this.chars().count() as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let start = place(start.unwrap_or(0));
    let end = place(end.unwrap_or(length)).min(length);
    if start > end || start > length {
        return Ok(None);
    }
    let byte = |at: i64| this.char_indices().nth(at as usize).map_or(this.len(), |(byte, _)| byte);
    Ok(Some((start as usize, &this[byte(start)..byte(end)])))
}

fn split(this: &str, sep: Option<&str>, limit: usize, from_right: bool) -> Result<Value> {
    let texts = |parts: Vec<&str>| Value::list(parts.into_iter().map(Value::text).collect());
    let mut parts: Vec<&str> = match sep {
        Some("") => return value_error("empty separator"),
        Some(sep) if from_right => this.rsplitn(limit.saturating_add(1), sep).collect(),
        Some(sep) => this.splitn(limit.saturating_add(1), sep).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = this;
            loop {
                rest = if from_right {
                    rest.trim_end_matches(is_space)
                } else {
                    rest.trim_start_matches(is_space)
                };
                if rest.is_empty() {
                    break;
                }
                if parts.len() == limit {
                    parts.push(rest);
                    break;
                }
                if from_right {
                    let begin = rest.char_indices().rfind(|(_, c)| is_space(*c));
                    let begin = begin.map_or(0, |(at, c)| at + c.len_utf8());
                    parts.push(&rest[begin..]);
                    rest = &rest[..begin];
                } else {
                    let end = rest.find(is_space).unwrap_or(rest.len());
                    parts.push(&rest[..end]);
                    rest = &rest[end..];
                }
            }
            parts
        }
    };
    if from_right {
        parts.reverse();
    }
    Ok(texts(parts))
}

pub(crate) fn replace(this: &str, old: &str, new: &str, count: i64) -> Result<String> {
    let times = if old.is_empty() { this.chars().count() + 1 } else { this.matches(old).count() };
    let times = usize::try_from(count).map_or(times, |count| times.min(count));
    if times.saturating_mul(new.len()).saturating_add(this.len()) > MAX_SIZE {
        return Err(Error::other("a text that is too long"));
    }
    Ok(this.replacen(old, new, times))
}

pub(crate) fn strip<'a>(this: &'a str, chars: &Option<Value>, name: &str) -> Result<&'a str> {
    let set: Option<Vec<char>> = match chars {
        None => None,
        Some(_) => Some(text(chars, name)?.chars().collect()),
    };
    let goes = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
    let this = if name == "rstrip" { this } else { this.trim_start_matches(goes) };
    Ok(if name == "lstrip" { this } else { this.trim_end_matches(goes) })
}

pub(crate) fn pad(this: &str, width: i64, fill: char, name: &str) -> Result<String> {
    let length = this.chars().count();
    let width = usize::try_from(width).unwrap_or(0);
    if width > MAX_SIZE {
        return Err(Error::other("a text that is too long"));
    }
    let missing = width.saturating_sub(length);
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // Python's own rule for which side gets the odd one.
        _ => missing / 2 + (missing & width & 1),
    };
    let fills = |count: usize| String::from(fill).repeat(count);
    Ok(format!("{}{this}{}", fills(left), fills(missing - left)))
}

fn expandtabs(this: &str, size: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in this.chars() {
        match c {
            '\t' => {
                let count = if size == 0 { 0 } else { size - column % size };
                out.push_str(&" ".repeat(count));
                column += count;
            }
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}

fn code(c: char) -> Value {
    Value::Int(i64::from(u32::from(c)))
}

fn maketrans(call: Call) -> Result<Value> {
    let [from, to, gone] = call.positional("maketrans", 1)?;
    let mut table = Dict::default();
    let Some(to) = to else {
        let Some(Value::Dict(given)) = from else {
            return type_error("if you give only one argument to maketrans it must be a dict");
        };
        for (key, value) in given.entries() {
            let key = match key.as_str() {
                Some(text) => match (text.chars().next(), text.chars().count()) {
                    (Some(c), 1) => code(c),
                    _ => return value_error("string keys in translate table must be of length 1"),
                },
                None if key.as_int().is_some() => key.clone(),
                None => return type_error("keys in translate table must be strings or integers"),
            };
            table.insert(key, value.clone())?;
        }
        return Ok(Value::dict(table));
    };
    let (from, to) = (text(&from, "maketrans")?.to_owned(), text(&Some(to), "maketrans")?.to_owned());
    if from.chars().count() != to.chars().count() {
        return value_error("the first two maketrans arguments must have equal length");
    }
    for (from, to) in from.chars().zip(to.chars()) {
        table.insert(code(from), code(to))?;
    }
    if gone.is_some() {
        for c in text(&gone, "maketrans")?.chars() {
            table.insert(code(c), Value::None)?;
        }
    }
    Ok(Value::dict(table))
}

fn translate(this: &str, table: &Value) -> Result<Value> {
    let mut out = String::new();
    for c in this.chars() {
        let found = match table {
            Value::Dict(table) => table.get(&code(c)).cloned(),
            Value::List(_) | Value::Str(_) => match crate::access::item(table, &code(c))? {
                Value::Undefined(_) => None,
                found => Some(found),
            },
            _ => return type_error(format!("'{}' object is not subscriptable", table.type_name())),
        };
        match found {
            None => out.push(c),
            Some(Value::None) => {}
            Some(value) => match (value.as_str(), value.as_place()) {
                (Some(text), _) => out.push_str(text),
                (None, Some(number)) => match u32::try_from(number).ok().and_then(char::from_u32) {
                    Some(c) => out.push(c),
                    None => return value_error("character mapping must be in range(0x110000)"),
                },
                _ => return type_error("character mapping must return integer, None or str"),
            },
        }
    }
    Ok(out.into())
}

/// The text with the decimal digits of any script as ASCII, from which Python parses numbers.
pub(crate) fn ascii_digits(text: &str) -> String {
    text.chars()
        .map(|c| match decimal_value(c) {
            Some(digit) => char::from_digit(digit, 10).unwrap_or(c),
            None => c,
        })
        .collect()
}
