//! Records an answer with calls: the sampled tokens are kept, and the conversation shows the answer as the template
//! writes it.

use burnish_core::{LATENT_TOKENS, Message, Piece, Role, Sampled, Source, ToolCall, ToolSpec, Trace};

use super::CallFormat;
use super::detect::ends_in_thoughts;
use crate::chat::{push_sampled, text_of};
use crate::{Chat, ChatError};

/// What an answer responds to.
#[derive(Debug, Clone, Copy)]
pub struct AnswerTo<'a> {
    /// The conversation before it.
    pub messages: &'a [Message],
    /// The tools that the policy was given. Without any, no calls are looked for.
    pub tools: &'a [ToolSpec],
    /// The beginning that the answer was given ([`Chat::begin_answer`]).
    pub begun: &'a [Piece],
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The answer, including its given beginning.
    pub message: Message,
    /// For each malformed call, why it could not be read, in words for the policy.
    pub malformed: Vec<String>,
}

impl Chat {
    /// Appends what the policy sampled at the trace's head, as [`Chat::record`] does, and reads the calls in it if
    /// there are tools and the template has a format for calls. `sources` says whose each id is; all are the policy's
    /// where it is `None`; with them, tags and latent steps are no part of what is said. If an answer says less than its
    /// ids, `content` is its text: that of the ids before what made it stop (a stop string, or a token that ended it and is not an end token
    /// of the template). The policy still reads all that it sampled, and the template ends the answer after that.
    ///
    /// A well-formed call becomes part of the message. The template may print it differently from how it was sampled
    /// (spaces in JSON, the order of keys). In the conversation the node therefore stands for what the template writes
    /// there, and the next turn continues from the sampled tokens. A malformed call stays in the content as it was
    /// written.
    ///
    /// # Errors
    /// As [`Chat::record`].
    pub fn record_answer(
        &self,
        trace: &mut Trace,
        (ids, sources): (Vec<u32>, Option<Vec<Source>>),
        content: Option<String>,
        sampled: Sampled,
        asked: &AnswerTo<'_>,
    ) -> Result<Recorded, ChatError> {
        let (said, end) = match content {
            Some(content) => (content, ""),
            None => self.said_after(asked.begun, &ids)?,
        };
        // What was thought in latent steps is not said, and neither are the tags around it.
        let said = match &sources {
            Some(_) => LATENT_TOKENS.iter().fold(said, |said, token| said.replace(token, "")),
            None => said,
        };
        let whole = format!("{}{said}", text_of(asked.begun));
        let format = if asked.tools.is_empty() { None } else { self.template.call_format() };
        let (recorded, text) = match format {
            Some(format) => self.read_answer(trace, format, whole, &said, asked),
            None => (Recorded { message: Message::assistant(whole), malformed: Vec::new() }, said),
        };
        push_sampled(trace, format!("{text}{end}"), ids, sources, sampled)?;
        Ok(recorded)
    }

    /// Does an answer at the trace's head, whose beginning `begun` was given, begin inside thoughts that the prompt has
    /// begun?
    pub fn begins_in_thoughts(&self, trace: &Trace, begun: &[Piece]) -> bool {
        let path = trace.head().map(|head| trace.path(head)).unwrap_or_default();
        let read: String = path.into_iter().map(|id| trace.nodes()[id.0].text.as_str()).collect();
        ends_in_thoughts(read.strip_suffix(text_of(begun).as_str()).unwrap_or(&read))
    }

    /// The answer `whole` as a message, and what the template writes for its sampled part `said`, without an end token.
    fn read_answer(
        &self,
        trace: &Trace,
        format: &CallFormat,
        whole: String,
        said: &str,
        asked: &AnswerTo<'_>,
    ) -> (Recorded, String) {
        let in_thoughts = self.begins_in_thoughts(trace, asked.begun);
        let mut answer = format.read(&whole, in_thoughts, asked.tools);
        if answer.calls.is_empty() {
            let malformed = std::mem::take(&mut answer.malformed);
            return (Recorded { message: answer.into_message(), malformed }, said.to_owned());
        }
        if format.needs_ids() {
            give_ids(&mut answer.calls, asked.messages);
        }
        let malformed = std::mem::take(&mut answer.malformed);
        let message = answer.into_message();
        match self.written(asked, &message) {
            Ok(written) => {
                let text = written
                    .and_then(|text| Some(text.strip_prefix(text_of(asked.begun).as_str())?.to_owned()));
                (Recorded { message, malformed }, text.unwrap_or_else(|| said.to_owned()))
            }
            // The next prompt could not be rendered.
            Err(error) => {
                let problem = format!("the calls can't be written into the conversation: {error}");
                let malformed = malformed.into_iter().chain([problem]).collect();
                (Recorded { message: Message::assistant(whole), malformed }, said.to_owned())
            }
        }
    }

    /// What the template writes for an answer with calls, after the prompt and without the end token. `None` if that
    /// does not continue the prompt.
    fn written(&self, asked: &AnswerTo<'_>, message: &Message) -> Result<Option<String>, ChatError> {
        // Not the trace's text: an earlier answer may have ended with an end token other than the one that the template
        // writes.
        let prompt = self.render(asked.messages, asked.tools, true)?.rendered.text;
        let mut messages = asked.messages.to_vec();
        messages.push(message.clone());
        let answered = messages.len();
        // Some templates write the last message differently. Results are appended, so that the answer is not the last
        // message.
        let mark = result_mark(&prompt, message);
        messages.extend(message.tool_calls.iter().map(|call| Message {
            tool_call_id: call.id.clone(),
            name: Some(call.function.name.clone()),
            ..Message::new(Role::Tool, mark.clone())
        }));
        let rendered = match self.render(&messages, asked.tools, false) {
            Ok(rendered) => rendered,
            // Results may come as a user's message if the template has none for tools.
            Err(_) => self.render(&messages[..answered], asked.tools, false)?,
        };
        let rendered = rendered.rendered.text;
        let rest = rendered.strip_prefix(&prompt);
        let rest = rest.map(|rest| &rest[..rest.find(&mark).unwrap_or(rest.len())]);
        Ok(rest.and_then(|rest| self.before_end_token(rest)).map(str::to_owned))
    }
}

/// A result text that occurs nowhere else.
fn result_mark(prompt: &str, message: &Message) -> String {
    let message = serde_json::to_string(message).unwrap_or_default();
    let mut mark = "burnish-result".to_owned();
    while prompt.contains(&mark) || message.contains(&mark) {
        mark.push('0');
    }
    mark
}

/// Gives an id to each call without one that the template accepts.
fn give_ids(calls: &mut [ToolCall], messages: &[Message]) {
    let is_fit = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let before = messages.iter().map(|message| message.tool_calls.len()).sum::<usize>();
    for (number, call) in (before + 1..).zip(calls) {
        if !call.id.as_deref().is_some_and(is_fit) {
            call.id = Some(format!("call{number:05}"));
        }
    }
}
