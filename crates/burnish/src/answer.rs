//! An answer on the screen while it arrives: thoughts dimmed, calls of tools as a person reads them.

use burnish_core::{Message, Partial, ToolCall};

use crate::out;

/// Tags around thoughts in a text.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("[THINK]", "[/THINK]")];

/// Where in an answer's text the next piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// At its beginning, where thoughts may begin.
    Beginning,
    /// Inside thoughts that end with this tag.
    Thoughts(&'static str),
    Text,
    /// In a call, which is shown when it is complete.
    Call,
}

/// How a piece is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Dim,
}

/// An answer as far as it was shown.
#[derive(Debug)]
pub(crate) struct AnswerView {
    /// With what calls begin.
    openings: &'static [&'static str],
    within: Within,
    /// Bytes of the text that were shown.
    shown: usize,
    /// Bytes of the thoughts that are apart from the text.
    thoughts_shown: usize,
    ends_line: bool,
    is_begun: bool,
}

impl AnswerView {
    /// Of an answer whose calls begin with one of `openings`.
    pub(crate) fn new(openings: &'static [&'static str]) -> Self {
        let within = Within::Beginning;
        AnswerView { openings, within, shown: 0, thoughts_shown: 0, ends_line: true, is_begun: false }
    }

    /// Shows what was said since the last time.
    pub(crate) fn show(&mut self, partial: Partial<'_>) {
        self.begin(partial.in_thoughts);
        self.show_thoughts(partial.thoughts);
        self.show_text(partial.text, false);
    }

    /// Shows the rest of a finished answer, its calls, and ends the line. `prefix` is what the answer was given to
    /// begin with.
    pub(crate) fn finish(&mut self, message: &Message, malformed: &[String], prefix: &str) {
        self.begin(false);
        let text = message.content.strip_prefix(prefix).unwrap_or(&message.content);
        let is_unshown = self.shown == 0 && self.thoughts_shown == 0;
        if is_unshown || message.tool_calls.is_empty() {
            self.show_thoughts(message.reasoning_content.as_deref().unwrap_or_default());
            self.show_text(text, true);
        }
        self.end_line();
        for call in &message.tool_calls {
            self.put(&format!("{}\n", call_line(call)), Style::Plain);
        }
        for problem in malformed {
            eprintln!("a call that could not be read: {problem}");
        }
    }

    /// Ends the line, where one was begun.
    pub(crate) fn end_line(&mut self) {
        if !self.ends_line {
            self.put("\n", Style::Plain);
        }
    }

    fn begin(&mut self, in_thoughts: bool) {
        if !self.is_begun && in_thoughts {
            self.within = Within::Thoughts(THOUGHTS[0].1);
        }
        self.is_begun = true;
    }

    /// Thoughts that are kept apart from the text. Without colours, tags tell them from it.
    fn show_thoughts(&mut self, thoughts: &str) {
        let Some(new) = thoughts.get(self.thoughts_shown..).filter(|new| !new.is_empty()) else { return };
        if self.thoughts_shown == 0 {
            self.put(&format!("{}\n", THOUGHTS[0].0), Style::Dim);
        }
        self.put(new, Style::Dim);
        self.thoughts_shown = thoughts.len();
    }

    fn show_text(&mut self, text: &str, is_final: bool) {
        if self.thoughts_shown > 0 && self.shown == 0 && !text.is_empty() {
            self.put(&format!("\n{}\n\n", THOUGHTS[0].1), Style::Dim);
        }
        for (end, style) in self.pieces(text, is_final) {
            self.put(&text[self.shown..end], style);
            self.shown = end;
        }
    }

    /// Where the pieces end that can be shown by now, and how they are shown.
    fn pieces(&mut self, text: &str, is_final: bool) -> Vec<(usize, Style)> {
        let mut pieces = Vec::new();
        let mut at = self.shown;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let mut tags: Vec<(&'static str, Within)> = Vec::new();
            let style = match self.within {
                Within::Call if !is_final => return pieces,
                Within::Thoughts(end) => {
                    tags.push((end, Within::Text));
                    Style::Dim
                }
                within => {
                    if within == Within::Beginning {
                        tags.extend(THOUGHTS.map(|(begin, end)| (begin, Within::Thoughts(end))));
                    }
                    if within != Within::Call {
                        tags.extend(self.openings.iter().map(|opening| (*opening, Within::Call)));
                    }
                    Style::Plain
                }
            };
            let found = tags.iter().filter_map(|(tag, within)| Some((rest.find(tag)?, tag.len(), *within)));
            // Thoughts stand at the beginning; elsewhere their tag is only mentioned.
            let found = found.filter(|(place, _, within)| {
                !matches!(within, Within::Thoughts(_)) || rest[..*place].trim().is_empty()
            });
            match found.min_by_key(|(place, ..)| *place) {
                // The tag that ends thoughts belongs to them; the one that begins them is theirs too.
                Some((place, length, Within::Text)) => {
                    at += place + length;
                    pieces.push((at, style));
                    self.within = Within::Text;
                }
                Some((place, length, Within::Thoughts(end))) => {
                    pieces.push((at + place, style));
                    at += place + length;
                    pieces.push((at, Style::Dim));
                    self.within = Within::Thoughts(end);
                }
                Some((place, _, within)) => {
                    at += place;
                    pieces.push((at, style));
                    self.within = within;
                }
                None => {
                    let held = if is_final { 0 } else { held(rest, tags.iter().map(|(tag, _)| *tag)) };
                    at += rest.len() - held;
                    pieces.push((at, style));
                    if self.within == Within::Beginning && !text[..at].trim().is_empty() {
                        self.within = Within::Text;
                    }
                    return pieces;
                }
            }
        }
        pieces
    }

    fn put(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        self.ends_line = text.ends_with('\n');
        match style {
            Style::Plain => out::answer(text),
            Style::Dim => out::dim(text),
        }
    }
}

/// Bytes at the end of a text that may be the beginning of one of the tags.
fn held<'a>(text: &str, tags: impl Iterator<Item = &'a str>) -> usize {
    let begun = |tag: &str| {
        let ends = tag.char_indices().map(|(at, _)| at).filter(|at| *at > 0).rev();
        ends.into_iter().find(|end| text.ends_with(&tag[..*end])).unwrap_or(0)
    };
    tags.map(begun).max().unwrap_or(0)
}

/// A call as a person reads it: `→ weather(city="Bern", days=3)`.
pub(crate) fn call_line(call: &ToolCall) -> String {
    let json = burnish_core::json::line;
    let arguments = match &call.function.arguments {
        serde_json::Value::Object(arguments) => {
            let pairs: Vec<String> =
                arguments.iter().map(|(name, value)| format!("{name}={}", json(value))).collect();
            pairs.join(", ")
        }
        serde_json::Value::String(text) => text.clone(),
        other => json(other),
    };
    format!("→ {}({arguments})", call.function.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a text that arrives in pieces of `size` characters; dimmed pieces in braces.
    fn shown(text: &str, size: usize, in_thoughts: bool, is_calling: bool) -> String {
        let mut view = AnswerView::new(&["<tool_call>"]);
        view.begin(in_thoughts);
        let mut styled: Vec<(Style, String)> = Vec::new();
        let mut add = |view: &mut AnswerView, text: &str, is_final: bool| {
            for (end, style) in view.pieces(text, is_final) {
                let piece = &text[view.shown..end];
                match styled.last_mut() {
                    Some((last, all)) if *last == style => all.push_str(piece),
                    _ if piece.is_empty() => {}
                    _ => styled.push((style, piece.to_owned())),
                }
                view.shown = end;
            }
        };
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(size).collect();
        for end in ends {
            add(&mut view, &text[..end], false);
        }
        add(&mut view, text, !is_calling);
        let piece =
            |(style, text): (Style, String)| if style == Style::Dim { format!("{{{text}}}") } else { text };
        styled.into_iter().map(piece).collect()
    }

    #[test]
    fn thoughts_are_dimmed_and_calls_are_held_however_the_text_arrives() {
        for size in [1, 2, 3, 7, 100] {
            let text = "\n<think>\nso <b>\n</think>\n\nThe ß < answer";
            assert_eq!(shown(text, size, false, false), "\n{<think>\nso <b>\n</think>}\n\nThe ß < answer");
            assert_eq!(shown("so</think>yes", size, true, false), "{so</think>}yes");
            assert_eq!(shown("never closed", size, true, false), "{never closed}");
            // Only at the beginning.
            assert_eq!(shown("the tag <think> is", size, false, false), "the tag <think> is");
            let call = "Let me see.\n<tool_call>{}</tool_call>";
            assert_eq!(shown(call, size, false, true), "Let me see.\n");
            assert_eq!(shown(call, size, false, false), call);
        }
    }

    #[test]
    fn calls_are_shown_with_their_arguments() {
        let call = |arguments| ToolCall {
            id: None,
            function: burnish_core::FunctionCall { name: "weather".into(), arguments },
        };
        let arguments = serde_json::json!({"city": "Bern", "days": 3});
        assert_eq!(call_line(&call(arguments)), "→ weather(city=\"Bern\", days=3)");
        assert_eq!(call_line(&call("{oops".into())), "→ weather({oops)");
    }
}
