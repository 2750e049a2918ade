//! Finds the source of each byte of a rendered conversation.
//!
//! A template may trim a message, drop a part of it, or repeat it, and a short message may look like markup (`user`).
//! So the conversation is rendered a second time with marks around the text of each message. If removing the marks
//! gives the first rendering, they are exactly where each text begins and ends. If not (because a template looks at the
//! first characters of a message), the texts are searched in order.
//!
//! Whitespace at the ends of a message, and the tags of thoughts and tool calls that a template writes, count as
//! scaffold.

use std::ops::Range;

use burnish_core::{Message, Role, Source, ToolSpec};

use crate::ChatTemplate;

/// Begin marks, one per role: code points that Unicode reserves for internal use.
const OPEN: [(char, Source); 4] = [
    ('\u{fdd0}', Source::System),
    ('\u{fdd1}', Source::User),
    ('\u{fdd2}', Source::Tool),
    ('\u{fdd3}', Source::History),
];
const CLOSE: char = '\u{fdd4}';

/// The sources of byte ranges of a text, ordered and disjoint; bytes outside all ranges are scaffold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources(Vec<(Range<usize>, Source)>);

impl Sources {
    /// The source of a token that covers `bytes`: that of the first message that it overlaps.
    pub(crate) fn of(&self, bytes: Range<usize>) -> Source {
        let next = self.0.partition_point(|(range, _)| range.end <= bytes.start);
        match self.0.get(next) {
            Some((range, source)) if range.start < bytes.end => *source,
            _ => Source::Scaffold,
        }
    }
}

/// Finds the messages in `rendered`, which `template` rendered from them.
pub(crate) fn locate(
    template: &ChatTemplate,
    messages: &[Message],
    tools: &[ToolSpec],
    add_generation_prompt: bool,
    rendered: &str,
) -> Sources {
    let marked: Vec<Message> = messages.iter().map(mark_message).collect();
    let exact =
        template.render(&marked, tools, add_generation_prompt).ok().and_then(|text| read_marks(&text));
    match exact {
        Some((text, sources)) if text == rendered => sources,
        _ => search(messages, rendered),
    }
}

fn source_of(role: Role) -> Source {
    match role {
        Role::System => Source::System,
        Role::User => Source::User,
        Role::Tool => Source::Tool,
        Role::Assistant => Source::History,
    }
}

fn mark_message(message: &Message) -> Message {
    let open = OPEN.iter().find(|(_, source)| *source == source_of(message.role));
    let open = open.map_or(CLOSE, |(mark, _)| *mark);
    let mut marked = message.clone();
    let whole = |text: &str| mark(text, &[trimmed(text, 0..text.len())], open);
    match message.parts() {
        Some(parts) => marked = marked.in_parts(parts.iter().map(|part| whole(part)).collect()),
        None => marked.content = mark(&message.content, &pieces(message), open),
    }
    marked.reasoning_content = message.reasoning_content.as_deref().map(whole);
    marked
}

fn mark(text: &str, pieces: &[Range<usize>], open: char) -> String {
    let mut out = String::with_capacity(text.len() + 6 * pieces.len());
    let mut at = 0;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        out += &text[at..piece.start];
        out.push(open);
        out += &text[piece.clone()];
        out.push(CLOSE);
        at = piece.end;
    }
    out + &text[at..]
}

/// The parts of a message's content that a template keeps or drops as a whole: for an answer, its thoughts and the
/// rest.
fn pieces(message: &Message) -> Vec<Range<usize>> {
    let text = message.content.as_str();
    let thoughts = (text.find("</think>"), text.rfind("</think>"));
    let (Role::Assistant, (Some(end), Some(last))) = (message.role, thoughts) else {
        return vec![trimmed(text, 0..text.len())];
    };
    let begin = text[..end].rfind("<think>").map_or(0, |at| at + "<think>".len());
    vec![trimmed(text, begin..end), trimmed(text, last + "</think>".len()..text.len())]
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let begin = range.start + part.len() - part.trim_start().len();
    begin..begin + part.trim().len()
}

/// Removes the marks and reads their positions. `None` if they do not come in pairs.
fn read_marks(marked: &str) -> Option<(String, Sources)> {
    let mut text = String::with_capacity(marked.len());
    let mut ranges = Vec::new();
    let mut open: Option<(usize, Source)> = None;
    for char in marked.chars() {
        if let Some((_, source)) = OPEN.iter().find(|(mark, _)| *mark == char) {
            if open.replace((text.len(), *source)).is_some() {
                return None;
            }
        } else if char == CLOSE {
            let (begin, source) = open.take()?;
            ranges.push((begin..text.len(), source));
        } else {
            text.push(char);
        }
    }
    open.is_none().then_some((text, Sources(ranges)))
}

/// Searches for the pieces of the messages, one after the other.
fn search(messages: &[Message], rendered: &str) -> Sources {
    let mut ranges = Vec::new();
    let mut at = 0;
    for message in messages {
        let thoughts = message.reasoning_content.as_deref().map(str::trim);
        let content = pieces(message).into_iter().map(|piece| &message.content[piece]);
        for text in thoughts.into_iter().chain(content).filter(|text| !text.is_empty()) {
            if let Some(found) = rendered[at..].find(text) {
                let begin = at + found;
                at = begin + text.len();
                ranges.push((begin..at, source_of(message.role)));
            }
        }
    }
    Sources(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn located(source: &str, messages: &[Message]) -> Vec<(String, Source)> {
        let template = ChatTemplate::new(source, Path::new("test")).unwrap();
        let rendered = template.render(messages, &[], true).unwrap();
        let sources = locate(&template, messages, &[], true, &rendered);
        sources.0.iter().map(|(range, source)| (rendered[range.clone()].to_string(), *source)).collect()
    }

    #[test]
    fn a_message_that_looks_like_markup_is_found_where_it_is() {
        let messages = [Message::system("system"), Message::user("user"), Message::assistant("a")];
        let expect = [("system", Source::System), ("user", Source::User), ("a", Source::History)];
        let found = located(crate::CHATML, &messages);
        assert_eq!(found, expect.map(|(text, source)| (text.to_string(), source)));
        let template = ChatTemplate::chatml().unwrap();
        let rendered = template.render(&messages, &[], true).unwrap();
        let sources = locate(&template, &messages, &[], true, &rendered);
        let role = rendered.find("user").unwrap();
        assert_eq!(sources.of(role..role + 4), Source::Scaffold);
        let text = rendered.rfind("user").unwrap();
        assert_eq!(sources.of(text..text + 4), Source::User);
        assert_eq!(sources.of(text - 1..text + 1), Source::User, "a token that only touches the message");
    }

    #[test]
    fn texts_are_found_where_a_template_trims_drops_and_repeats() {
        let source = "{% for m in messages %}[{{ m.content.split('</think>')[-1] | trim }}]{% endfor %}\
                      {{ messages[0].content | trim }}";
        let messages = [Message::user(" x "), Message::assistant("<think>\nx\n</think>\n\ny")];
        let expect = [("x", Source::User), ("y", Source::History), ("x", Source::User)];
        assert_eq!(located(source, &messages), expect.map(|(text, source)| (text.to_string(), source)));
    }

    #[test]
    fn texts_are_searched_where_a_template_looks_at_their_first_characters() {
        let source = "{% for m in messages %}{% if m.content.startswith('x') %}!{% endif %}<{{ m.content }}>{% endfor %}";
        let messages = [Message::user("xy"), Message { role: Role::Tool, ..Message::user("z") }];
        let expect = [("xy", Source::User), ("z", Source::Tool)];
        assert_eq!(located(source, &messages), expect.map(|(text, source)| (text.to_string(), source)));
    }
}
