//! Finds calls in a text, but not in the thoughts before it.

use burnish_core::ToolCall;

/// Tags around thoughts.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("[THINK]", "[/THINK]")];

/// The content between the opening and closing tags of calls.
pub(super) struct Read {
    /// Each call, or why it could not be read.
    pub(super) calls: Vec<Result<ToolCall, String>>,
    /// Its length in bytes after the opening tag.
    pub(super) length: usize,
}

impl Read {
    /// One call, well-formed or not.
    pub(super) fn one(call: Result<ToolCall, String>, length: usize) -> Self {
        Read { calls: vec![call], length }
    }

    /// Markup around calls, without a call.
    pub(super) fn nothing() -> Self {
        Read { calls: Vec::new(), length: 0 }
    }
}

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Text.
    Text(&'a str),
    /// A well-formed call.
    Call(ToolCall),
    /// Text with a malformed call, and the reason. If one text has several reasons, it is given with the first.
    Malformed(&'a str, String),
}

/// The parts of an answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Parts<'a> {
    /// The thoughts at the beginning of the answer, including their tags.
    pub(super) thoughts_raw: &'a str,
    /// The thoughts between the tags.
    pub(super) thoughts: &'a str,
    pub(super) pieces: Vec<Piece<'a>>,
}

/// The thoughts at the beginning of an answer, with and without their tags, and the rest. If they are `open` because
/// the prompt began them, everything up to the closing tag is thoughts. If they are never closed, everything is
/// thoughts.
pub(super) fn split_thoughts<'a>(text: &'a str, open: bool, openers: &[&str]) -> (&'a str, &'a str, &'a str) {
    let trimmed = text.trim_start();
    for (begin, end) in THOUGHTS {
        let Some(inner) = trimmed.strip_prefix(begin) else { continue };
        let Some(length) = inner.find(end) else { return (text, inner, "") };
        let rest = &inner[length + end.len()..];
        return (&text[..text.len() - rest.len()], &inner[..length], rest);
    }
    let closed = THOUGHTS.iter().filter_map(|(begin, end)| Some((text.find(end)?, begin, end))).min();
    match closed {
        // Even if not `open`: the prompt may have begun the thoughts in an unrecognised way.
        Some((at, begin, end))
            if open || ![begin].into_iter().chain(openers).any(|tag| text[..at].contains(tag)) =>
        {
            let from = at + end.len();
            (&text[..from], &text[..at], &text[from..])
        }
        None if open => (text, text, ""),
        _ => ("", "", text),
    }
}

/// Splits an answer at the tags in `openers`. `read` receives the index of the tag and the text after it.
pub(super) fn scan<'a>(
    text: &'a str,
    open: bool,
    openers: &[&str],
    read: impl Fn(usize, &'a str) -> Read,
) -> Parts<'a> {
    let (thoughts_raw, thoughts, rest) = split_thoughts(text, open, openers);
    let mut parts = Parts { thoughts_raw, thoughts, pieces: Vec::new() };
    let (mut begin, mut at) = (0, 0);
    while let Some((found, which)) = next(rest, at, openers) {
        let Some(which) = which else {
            // Thoughts in the middle of the text: calls in them are only mentioned.
            at = found;
            continue;
        };
        let after = found + openers[which].len();
        let Read { calls, length } = read(which, &rest[after..]);
        let end = after + length;
        if begin < found {
            parts.pieces.push(Piece::Text(&rest[begin..found]));
        }
        let mut raw = &rest[found..end];
        for call in calls {
            parts.pieces.push(match call {
                Ok(call) => Piece::Call(call),
                Err(reason) => Piece::Malformed(std::mem::take(&mut raw), reason),
            });
        }
        (begin, at) = (end, end);
    }
    if begin < rest.len() {
        parts.pieces.push(Piece::Text(&rest[begin..]));
    }
    parts
}

/// The next tag from `at` on, with its index; or the end of thoughts that begin before it.
fn next(text: &str, at: usize, openers: &[&str]) -> Option<(usize, Option<usize>)> {
    let found = |tag: &str| Some(at + text[at..].find(tag)?);
    let tag = openers.iter().enumerate().filter_map(|(which, opener)| Some((found(opener)?, which))).min();
    let (call, which) = tag?;
    let thoughts = THOUGHTS.iter().filter_map(|(begin, end)| {
        let from = found(begin).filter(|from| *from < call)? + begin.len();
        Some(from + text[from..].find(end)? + end.len())
    });
    match thoughts.max() {
        Some(end) => Some((end, None)),
        None => Some((call, Some(which))),
    }
}

/// The extent of a call that can't be read: through `close`, or up to the next `open`, or to the end. Returns the text
/// up to there, and its length in bytes.
pub(super) fn broken<'a>(text: &'a str, open: &str, close: &str) -> (&'a str, usize) {
    let next = text.find(open).unwrap_or(text.len());
    match text.find(close).filter(|at| *at < next) {
        Some(at) => (&text[..at], at + close.len()),
        None => (&text[..next], next),
    }
}

/// Removes `tag` from the beginning of a text, together with white space before it.
pub(super) fn after_tag<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    text.trim_start().strip_prefix(tag)
}
