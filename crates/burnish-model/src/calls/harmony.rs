//! Harmony, the format of gpt-oss. An answer is a sequence of messages: `<|channel|>analysis<|message|>` thoughts
//! `<|end|>`, then `<|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{...}<|call|>`; the
//! recipient may also come after the channel. The prompt ends with `<|start|>assistant`.

use burnish_core::ToolCall;

use super::json::{arguments, call, prefix, shown};

const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const CALL: &str = "<|call|>";
/// Tags that end a message.
const ENDS: [&str; 3] = [CALL, "<|end|>", "<|return|>"];
const FUNCTIONS: &str = "functions.";

/// An answer, split by channel.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Channels {
    /// All thoughts, one entry per message.
    pub(super) thoughts: Vec<String>,
    /// All that was said to the user.
    pub(super) said: Vec<String>,
    /// Each call, or its text without tags and the reason why it could not be read.
    pub(super) calls: Vec<Result<ToolCall, (String, String)>>,
    /// Does the answer have any markup?
    pub(super) is_marked: bool,
}

/// Reads an answer. It ends with its first call, whatever follows.
pub(super) fn read(text: &str) -> Channels {
    let mut channels = Channels::default();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let Some((header, body)) = rest.split_once(MESSAGE) else {
            // No message begins here: this is text without markup, or a header that was cut off.
            let is_header = [START, CHANNEL].iter().any(|tag| rest.contains(tag));
            channels.is_marked |= is_header;
            if !is_header {
                channels.said.push(rest.into());
            }
            break;
        };
        channels.is_marked = true;
        let header = Header::read(header);
        if let Some(recipient) = header.recipient {
            let (found, after) = called(recipient, body);
            // Without its tags: the template refuses them, and in a text they would be control tokens.
            let plain = || format!("to={recipient} {}", body[..body.len() - after.len()].trim());
            channels.calls.push(found.map_err(|reason| (plain(), reason)));
            match after.trim_start().strip_prefix(CALL) {
                Some(_) => break,
                None => rest = after_end(after),
            }
            continue;
        }
        let end = end(body);
        let said = body[..end].to_owned();
        match header.channel {
            "analysis" => channels.thoughts.push(said),
            _ => channels.said.push(said),
        }
        rest = after_end(&body[end..]);
    }
    channels
}

struct Header<'a> {
    channel: &'a str,
    /// The name after `to=`.
    recipient: Option<&'a str>,
}

impl<'a> Header<'a> {
    fn read(header: &'a str) -> Self {
        let channel = header.split_once(CHANNEL).map_or("", |(_, after)| word(after));
        Header { channel, recipient: header.split_once("to=").map(|(_, after)| word(after)) }
    }
}

/// A text up to white space or a tag.
fn word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|char: char| char.is_whitespace() || char == '<').unwrap_or(text.len())]
}

/// Where a message ends.
fn end(body: &str) -> usize {
    ENDS.iter().chain([&START]).filter_map(|tag| body.find(tag)).min().unwrap_or(body.len())
}

/// The text after a leading end tag, if there is one.
fn after_end(text: &str) -> &str {
    let text = text.trim_start();
    ENDS.iter().find_map(|tag| text.strip_prefix(tag)).unwrap_or(text)
}

/// The call to a recipient, and the text after its arguments.
fn called<'a>(recipient: &str, body: &'a str) -> (Result<ToolCall, String>, &'a str) {
    let broken = || &body[end(body)..];
    let name = recipient.strip_prefix(FUNCTIONS).unwrap_or_default();
    if name.is_empty() {
        let reason = format!("tools are called as `to={FUNCTIONS}NAME`, not as `to={recipient}`");
        return (Err(reason), broken());
    }
    match prefix(body) {
        Err(_) => {
            // What follows the message does not matter here.
            let problem = prefix(&body[..end(body)]).err().unwrap_or_else(|| "it is not closed".into());
            (Err(format!("the arguments are not JSON: {problem}")), broken())
        }
        Ok((value, length)) => {
            let after = &body[length..];
            let further = &after[..end(after)];
            match further.trim().is_empty() {
                true => (arguments(value).map(|arguments| call(name, arguments)), after),
                false => {
                    let reason = format!("after the arguments there is more: {}", shown(further));
                    (Err(reason), &after[end(after)..])
                }
            }
        }
    }
}
