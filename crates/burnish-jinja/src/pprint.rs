//! Python's `pprint.pformat`, 80 columns wide.

use crate::chars::{ends_line, is_space};
use crate::error::Result;
use crate::ops;
use crate::sort;
use crate::text::quoted;
use crate::value::{Dict, Value};

const WIDTH: i64 = 80;

pub(crate) fn pformat(value: &Value) -> Result<String> {
    let mut out = String::new();
    format(value, 0, 0, 0, &mut out)?;
    Ok(out)
}

fn length(text: &str) -> i64 {
    text.chars().count() as i64
}

/// Entries sorted by key; keys without an order are sorted by the names of their types.
fn sorted(dict: &Dict) -> Result<Vec<(Value, Value)>> {
    sort::merged(dict.entries().to_vec(), &|(left, _), (right, _)| {
        Ok(ops::less(left, right).unwrap_or_else(|_| left.type_name() < right.type_name()))
    })
}

/// `repr`, with sorted dictionary keys.
fn one_line(value: &Value, out: &mut String) -> Result<()> {
    let items = |items: &[Value], open: &str, close: &str, out: &mut String| -> Result<()> {
        out.push_str(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            one_line(item, out)?;
        }
        out.push_str(close);
        Ok(())
    };
    match value {
        Value::List(list) => items(list, "[", "]", out)?,
        Value::Tuple(tuple) => items(tuple, "(", if tuple.len() == 1 { ",)" } else { ")" }, out)?,
        Value::Dict(dict) => {
            out.push('{');
            for (at, (key, value)) in sorted(dict)?.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                one_line(key, out)?;
                out.push_str(": ");
                one_line(value, out)?;
            }
            out.push('}');
        }
        value => out.push_str(&value.repr()?),
    }
    Ok(())
}

fn format(value: &Value, indent: i64, allowance: i64, level: usize, out: &mut String) -> Result<()> {
    let mut line = String::new();
    one_line(value, &mut line)?;
    if length(&line) <= WIDTH - indent - allowance {
        out.push_str(&line);
        return Ok(());
    }
    let level = level + 1;
    match value {
        Value::Dict(dict) => {
            out.push('{');
            let entries = sorted(dict)?;
            for (at, (key, value)) in entries.iter().enumerate() {
                let is_last = at + 1 == entries.len();
                let mut name = String::new();
                one_line(key, &mut name)?;
                out.push_str(&name);
                out.push_str(": ");
                let after = if is_last { allowance + 1 } else { 1 };
                format(value, indent + 1 + length(&name) + 2, after, level, out)?;
                if !is_last {
                    new_line(",", indent + 1, out);
                }
            }
            out.push('}');
        }
        Value::List(list) => items(list, ["[", "]"], indent, allowance, level, out)?,
        Value::Tuple(tuple) => {
            let close = if tuple.len() == 1 { ",)" } else { ")" };
            items(tuple, ["(", close], indent, allowance, level, out)?;
        }
        Value::Str(text) => long_text(text, indent, allowance, level, out),
        _ => out.push_str(&line),
    }
    Ok(())
}

fn new_line(before: &str, indent: i64, out: &mut String) {
    out.push_str(before);
    out.push('\n');
    out.push_str(&" ".repeat(indent as usize));
}

fn items(
    list: &[Value],
    [open, close]: [&str; 2],
    indent: i64,
    allowance: i64,
    level: usize,
    out: &mut String,
) -> Result<()> {
    out.push_str(open);
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            new_line(",", indent + 1, out);
        }
        let after = if at + 1 == list.len() { allowance + length(close) } else { 1 };
        format(item, indent + 1, after, level, out)?;
    }
    out.push_str(close);
    Ok(())
}

/// A text over several lines, broken after whitespace.
fn long_text(text: &str, mut indent: i64, mut allowance: i64, level: usize, out: &mut String) {
    if level == 1 {
        indent += 1;
        allowance += 1;
    }
    let width = WIDTH - indent;
    let mut chunks: Vec<String> = Vec::new();
    let lines = lines(text);
    let mut shown = String::new();
    for (at, line) in lines.iter().enumerate() {
        shown = quoted(line);
        let is_last = at + 1 == lines.len();
        if length(&shown) <= width - if is_last { allowance } else { 0 } {
            chunks.push(shown.clone());
            continue;
        }
        let parts = words(line);
        let mut current = String::new();
        let mut room = width;
        for (at, part) in parts.iter().enumerate() {
            let candidate = format!("{current}{part}");
            if is_last && at + 1 == parts.len() {
                room -= allowance;
            }
            if length(&quoted(&candidate)) > room {
                if !current.is_empty() {
                    chunks.push(quoted(&current));
                }
                current = (*part).to_owned();
            } else {
                current = candidate;
            }
        }
        if !current.is_empty() {
            chunks.push(quoted(&current));
        }
    }
    if chunks.len() == 1 {
        out.push_str(&shown);
        return;
    }
    if level == 1 {
        out.push('(');
    }
    for (at, chunk) in chunks.iter().enumerate() {
        if at > 0 {
            new_line("", indent, out);
        }
        out.push_str(chunk);
    }
    if level == 1 {
        out.push(')');
    }
}

/// The lines of a text, including their ends.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut begin = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !ends_line(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.push(&text[begin..end]);
        begin = end;
    }
    if begin < text.len() {
        lines.push(&text[begin..]);
    }
    lines
}

/// Words, each with the whitespace after it.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut begin = 0;
    let mut was_space = false;
    for (at, c) in line.char_indices() {
        let is_space = is_space(c);
        if was_space && !is_space {
            words.push(&line[begin..at]);
            begin = at;
        }
        was_space = is_space;
    }
    if begin < line.len() {
        words.push(&line[begin..]);
    }
    words
}
