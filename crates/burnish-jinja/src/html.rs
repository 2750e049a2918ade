//! The functions of `markupsafe`.

use crate::chars::is_space;
use crate::error::{Error, Result};
use crate::value::Value;

pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '>' => out.push_str("&gt;"),
            '<' => out.push_str("&lt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

/// The HTML of a value: its escaped text, unless it is HTML already.
pub(crate) fn escaped(value: &Value) -> Result<String> {
    match value {
        Value::Markup(text) => Ok(text.to_string()),
        value => value.str().map(|text| escape(&text)),
    }
}

/// The text of HTML: comments and tags removed, whitespace collapsed to single spaces, character references resolved.
///
/// # Errors
/// If a character reference is not one of the few known here.
pub(crate) fn striptags(text: &str) -> Result<String> {
    let mut text = text.to_owned();
    while let Some(begin) = text.find("<!--") {
        let Some(length) = text[begin..].find("-->") else { break };
        text.replace_range(begin..begin + length + 3, "");
    }
    while let Some(begin) = text.find('<') {
        let Some(length) = text[begin..].find('>') else { break };
        text.replace_range(begin..=begin + length, "");
    }
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    unescape(&words.join(" "))
}

fn unescape(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out += &rest[..at];
        rest = &rest[at..];
        let known = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&nbsp;", '\u{a0}')];
        let end = rest.find(';');
        if let Some((name, c)) = known.iter().find(|(name, _)| rest.starts_with(name)) {
            out.push(*c);
            rest = &rest[name.len()..];
        } else if let Some(c) = end.and_then(|end| numbered(&rest[..end])) {
            out.push(c);
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
        } else if rest[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '#') {
            let shown: String = rest.chars().take(12).collect();
            return Err(Error::other(format!("striptags: {shown:?} is not supported")));
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    Ok(out + rest)
}

/// `&#65` and `&#x41`, in the cases where HTML reads them as they are.
fn numbered(reference: &str) -> Option<char> {
    let number = reference.strip_prefix("&#")?;
    let number = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(number).filter(|c| !c.is_control() && *c != '\0')
}
