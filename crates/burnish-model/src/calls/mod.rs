//! Tool calls in an answer: detects the format in which a chat template writes them, and reads an answer in that
//! format.
//!
//! The format is found by rendering a known call and trying which reader returns it ([`CallFormat::of`]), so it does
//! not depend on the model's name. Thoughts are read first; a call that is only mentioned in them does not count.

use burnish_core::{Message, ToolCall, ToolSpec};
use serde_json::Value;

mod bare;
mod deepseek;
mod detect;
mod harmony;
mod json;
mod list;
mod record;
mod scan;
mod shape;
mod tagged;
mod typed;
mod xml;

pub(crate) use detect::probe_conversation;
pub use json::arguments as read_arguments;
pub use record::{AnswerTo, Recorded};
use scan::{Parts, Piece};
pub use shape::{ArgumentShape, ArgumentsShape, CallShape, ShapeError, ValueShape};

/// The syntax of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Harmony,
    DeepSeek,
    Keys,
    Function,
    Mistral,
    Tagged(&'static str, &'static str),
    Granite,
    Bare,
}

/// Every format. A format whose calls look like another's comes before it.
const ALL: [Syntax; 9] = [
    Syntax::Harmony,
    Syntax::DeepSeek,
    Syntax::Keys,
    Syntax::Function,
    Syntax::Mistral,
    Syntax::Tagged("<tool_call>", "</tool_call>"),
    Syntax::Tagged("<function_call>", "</function_call>"),
    Syntax::Granite,
    Syntax::Bare,
];

/// The format in which a chat template writes calls, and its other requirements on an answer with calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFormat {
    syntax: Syntax,
    /// It writes thoughts that are kept apart from the content.
    takes_thoughts: bool,
    /// It writes the calls of messages. If not, it only tells the policy how to write them, so they stay in the
    /// content.
    writes_calls: bool,
    /// It refuses calls without an id.
    needs_ids: bool,
    /// It needs the arguments as a text.
    text_arguments: bool,
}

/// What an answer says and which tools it calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The text beside the calls. The text of a malformed call stays in it as it was written.
    pub content: String,
    /// The thoughts, if the template keeps them apart.
    pub reasoning_content: Option<String>,
    /// The well-formed calls in order.
    pub calls: Vec<ToolCall>,
    /// For each malformed call, why it could not be read, in words for the policy.
    pub malformed: Vec<String>,
}

impl Answer {
    fn plain(text: &str) -> Self {
        Answer { content: text.into(), ..Answer::default() }
    }

    /// The answer as a message.
    pub fn into_message(self) -> Message {
        Message {
            reasoning_content: self.reasoning_content,
            tool_calls: self.calls,
            ..Message::assistant(self.content)
        }
    }
}

impl CallFormat {
    /// The name of the format.
    pub fn name(&self) -> &'static str {
        match self.syntax {
            Syntax::Harmony => "harmony",
            Syntax::DeepSeek => "deepseek",
            Syntax::Keys => "glm",
            Syntax::Function => "qwen3_coder",
            Syntax::Mistral => "mistral",
            Syntax::Tagged("<tool_call>", _) => "hermes",
            Syntax::Tagged(..) => "function_call",
            Syntax::Granite => "granite",
            Syntax::Bare => "llama_json",
        }
    }

    /// The format of this name, for a template that writes calls and keeps thoughts apart.
    pub fn named(name: &str) -> Option<Self> {
        let format = |syntax| CallFormat {
            syntax,
            takes_thoughts: true,
            writes_calls: true,
            needs_ids: syntax == Syntax::Mistral,
            text_arguments: false,
        };
        ALL.into_iter().map(format).find(|format| format.name() == name)
    }

    /// With what a call begins in an answer; empty if a call has no mark of its own.
    pub fn openings(&self) -> &'static [&'static str] {
        match self.syntax {
            Syntax::Harmony => &["<|channel|>commentary to="],
            Syntax::DeepSeek => &deepseek::OPEN,
            Syntax::Keys | Syntax::Function => &[xml::OPEN],
            Syntax::Mistral => &[list::MISTRAL],
            Syntax::Granite => &[list::GRANITE],
            Syntax::Tagged("<tool_call>", _) => &["<tool_call>"],
            Syntax::Tagged(..) => &["<function_call>"],
            Syntax::Bare => &[],
        }
    }

    /// Does the template need the arguments of calls as a text?
    pub(crate) fn takes_text(&self) -> bool {
        self.text_arguments
    }

    /// Does the template refuse a call without an id of nine letters and digits?
    pub fn needs_ids(&self) -> bool {
        self.needs_ids
    }

    /// Reads an answer: its text with special tokens, but without the end token. `in_thoughts`: the prompt ends inside
    /// thoughts that it has begun. `tools` gives the types of arguments that are written without types.
    pub fn read(&self, text: &str, in_thoughts: bool, tools: &[ToolSpec]) -> Answer {
        let mut answer = match self.syntax {
            Syntax::Harmony => of_channels(harmony::read(text), text),
            syntax => self.joined(syntax.parts(text, in_thoughts, tools), text),
        };
        if !matches!(self.syntax, Syntax::Mistral) {
            answer.calls.iter_mut().for_each(|call| call.id = None);
        }
        if self.text_arguments {
            for call in &mut answer.calls {
                let text = burnish_core::json::text(&call.function.arguments);
                call.function.arguments = text.map_or(Value::Null, Value::String);
            }
        }
        answer
    }

    /// Combines the parts as the template needs them.
    fn joined(&self, parts: Parts<'_>, text: &str) -> Answer {
        let mut answer = Answer::default();
        let mut texts: Vec<&str> = Vec::new();
        for piece in parts.pieces {
            match piece {
                Piece::Text(text) => texts.push(text.trim()),
                Piece::Call(call) => answer.calls.push(call),
                Piece::Malformed(raw, reason) => {
                    texts.push(raw.trim());
                    let number = answer.calls.len() + answer.malformed.len() + 1;
                    answer.malformed.push(format!("call {number}: {reason}"));
                }
            }
        }
        if answer.calls.is_empty() || !self.writes_calls {
            return Answer { content: text.into(), reasoning_content: None, ..answer };
        }
        texts.retain(|text| !text.is_empty());
        answer.content = texts.join("\n");
        let thoughts = parts.thoughts.trim_matches('\n');
        if self.takes_thoughts {
            answer.reasoning_content = (!thoughts.trim().is_empty()).then(|| thoughts.to_owned());
        } else if !parts.thoughts_raw.is_empty() {
            let between = if answer.content.is_empty() { "" } else { "\n\n" };
            answer.content = format!("{}{between}{}", parts.thoughts_raw, answer.content);
        }
        answer
    }
}

/// Combines Harmony's messages into one. Its template accepts thoughts or text beside a call, but not both.
fn of_channels(channels: harmony::Channels, text: &str) -> Answer {
    if !channels.is_marked {
        return Answer::plain(text);
    }
    let mut answer = Answer::default();
    let (mut thoughts, mut said) = (channels.thoughts, channels.said);
    for (number, call) in (1..).zip(channels.calls) {
        match call {
            Ok(call) => answer.calls.push(call),
            Err((raw, reason)) => {
                said.push(raw);
                answer.malformed.push(format!("call {number}: {reason}"));
            }
        }
    }
    if !answer.calls.is_empty() && !thoughts.is_empty() {
        thoughts.append(&mut said);
    }
    answer.content = said.join("\n");
    answer.reasoning_content = (!thoughts.is_empty()).then(|| thoughts.join("\n\n"));
    answer
}

impl Syntax {
    fn parts<'a>(self, text: &'a str, open: bool, tools: &[ToolSpec]) -> Parts<'a> {
        match self {
            // Its messages are read by `harmony::read`: thoughts, text and calls each have a channel.
            Syntax::Harmony => Parts::default(),
            Syntax::Bare => bare::read(text, open),
            Syntax::DeepSeek => scan::scan(text, open, &deepseek::OPEN, deepseek::read),
            Syntax::Keys => scan::scan(text, open, &[xml::OPEN], |_, after| xml::read_keys(after, tools)),
            Syntax::Function => {
                scan::scan(text, open, &[xml::OPEN], |_, after| xml::read_function(after, tools))
            }
            Syntax::Mistral => {
                scan::scan(text, open, &[list::MISTRAL], |_, after| list::read(after, list::MISTRAL))
            }
            Syntax::Granite => {
                scan::scan(text, open, &[list::GRANITE], |_, after| list::read(after, list::GRANITE))
            }
            Syntax::Tagged(begin, end) => {
                scan::scan(text, open, &[begin], |_, after| tagged::read(after, begin, end))
            }
        }
    }
}
