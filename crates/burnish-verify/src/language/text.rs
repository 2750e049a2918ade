//! The part of a text that belongs to a language: not formulas, code and tags.

use crate::reading::closing;

/// The longest formula or piece of code on a line, in bytes; anything longer is text.
const SPAN: usize = 2_000;

/// The text, with a space in place of each formula, piece of code and tag.
pub(super) fn prose(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '`' => code(rest),
            '\\' => Some(latex(rest)),
            '$' => dollars(rest),
            '<' => tag(rest),
            _ => None,
        };
        kept.push(if skipped.is_some() { ' ' } else { first });
        rest = &rest[skipped.unwrap_or(first.len_utf8())..];
    }
    kept
}

/// The first bytes of a text, at most [`SPAN`].
fn near(text: &str) -> &str {
    &text[..text.floor_char_boundary(SPAN)]
}

/// Length of `open`, the content and `close`, if `text` begins with these.
fn between(text: &str, open: &str, close: &str) -> Option<usize> {
    let inner = text.strip_prefix(open)?;
    near(inner).find(close).map(|length| open.len() + length + close.len())
}

/// Length of code: a block (to the end of the text if it is not closed), or a span on one line.
fn code(text: &str) -> Option<usize> {
    if let Some(block) = text.strip_prefix("```") {
        return Some(block.find("```").map_or(text.len(), |length| length + 6));
    }
    between(text, "`", "`").filter(|length| !text[..*length].contains('\n'))
}

/// Length of a formula, or of a command with the braces and brackets right after it.
fn latex(text: &str) -> usize {
    if let Some(length) = between(text, "\\(", "\\)").or_else(|| between(text, "\\[", "\\]")) {
        return length;
    }
    let name = text[1..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len() - 1);
    // `\$` is a sign.
    let mut end = 1 + name.max(usize::from(text[1..].starts_with(|c: char| c.is_ascii_punctuation())));
    while let Some(inner) = text[end..].strip_prefix('{') {
        let Some(length) = closing(near(inner)) else { break };
        end += length + 2;
    }
    end
}

/// Length of a formula between dollars, as pandoc reads it: no space just inside the dollars and no digit after them,
/// so that `$2 and $3` is money.
fn dollars(text: &str) -> Option<usize> {
    if let Some(length) = between(text, "$$", "$$") {
        return Some(length);
    }
    let length = between(text, "$", "$").filter(|length| *length > 2)?;
    let inner = &text[1..length - 1];
    let is_tight = !inner.starts_with(char::is_whitespace) && !inner.ends_with(char::is_whitespace);
    let is_money = text[length..].starts_with(|c: char| c.is_numeric()) || inner.contains('\n');
    (is_tight && !is_money).then_some(length)
}

/// `<think>`, `</answer>`.
fn tag(text: &str) -> Option<usize> {
    let length = between(text, "<", ">")?;
    let name = text[1..length - 1].trim_start_matches('/');
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(length)
}
