//! The text of a conversation, as the policy's prompts have it: the template's rendering of messages whose calls have
//! the form that it takes, and whose control tokens are the template's own (`literal.rs`).

use std::slice;

use burnish_core::{Message, Role, ToolSpec, openai};
use serde_json::Value;

use crate::answers::Marks;
use crate::template::{Rendered, to_json};
use crate::{Chat, ChatError, TextTokens};

/// A rendered conversation, and where control tokens that its texts had were broken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) rendered: Rendered,
    /// Bytes of the text, each inside a control token that is ordinary text. Ascending.
    breaks: Vec<usize>,
}

impl Conversation {
    /// The breaks in the text from byte `from` on, counted from there.
    pub(crate) fn breaks_from(&self, from: usize) -> Vec<usize> {
        self.breaks.iter().filter(|at| **at > from).map(|at| at - from).collect()
    }

    /// Takes the marks out of what was rendered with them.
    fn unmarked(Rendered { text: marked, mut assistant }: Rendered, mark: char) -> Self {
        let mut text = String::with_capacity(marked.len());
        let mut breaks = Vec::new();
        for (at, piece) in marked.split(mark).enumerate() {
            if at > 0 {
                breaks.push(text.len());
            }
            text.push_str(piece);
        }
        for range in &mut assistant {
            let before = |at: usize| at - marked[..at].matches(mark).count() * mark.len_utf8();
            *range = before(range.start)..before(range.end);
        }
        Conversation { rendered: Rendered { text, assistant }, breaks }
    }
}

impl Chat {
    /// The text of a conversation.
    ///
    /// # Errors
    /// As [`crate::ChatTemplate::render`].
    pub(crate) fn render(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        add_generation_prompt: bool,
    ) -> Result<Conversation, ChatError> {
        self.render_with(messages, tools, |messages, tools| {
            let text = self.template.render(messages, tools, add_generation_prompt)?;
            Ok(Rendered { text, assistant: Vec::new() })
        })
    }

    /// As [`Chat::render`], with what the generation blocks wrote.
    ///
    /// # Errors
    /// As [`crate::ChatTemplate::render_with_answers`].
    pub(crate) fn render_with_answers(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Conversation, ChatError> {
        self.render_with(messages, tools, |messages, tools| {
            self.template.render_with_answers(messages, tools, false)
        })
    }

    fn render_with(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        render: impl Fn(&[Message], &[ToolSpec]) -> Result<Rendered, ChatError>,
    ) -> Result<Conversation, ChatError> {
        let (mut messages, mut tools) = (messages.to_vec(), tools.to_vec());
        for call in messages.iter_mut().flat_map(|message| &mut message.tool_calls) {
            let takes_text = self.template.call_format().is_some_and(|format| format.takes_text());
            take_form(&mut call.function.arguments, takes_text);
        }
        let mut is_said = false;
        if self.template.text_tokens() == TextTokens::Literal {
            each_text(&mut messages, &mut tools, &mut |texts| {
                is_said |= !self.tokenizer.special_in(&texts.concat()).is_empty();
            });
        }
        if !is_said {
            return Ok(Conversation { rendered: render(&messages, &tools)?, breaks: Vec::new() });
        }
        let all = serde_json::to_string(&(&messages, &tools)).unwrap_or_default();
        let Some(Marks { open: mark, .. }) = Marks::absent_from([all.as_str(), self.template.source()])
        else {
            return Err(ChatError::Render("its texts use every private character of Unicode".into()));
        };
        each_text(&mut messages, &mut tools, &mut |texts| self.tokenizer.break_special(texts, mark));
        Ok(Conversation::unmarked(render(&messages, &tools)?, mark))
    }
}

/// Arguments as the template takes them: as an object, or as the text of one. What is no object stays as it is.
fn take_form(arguments: &mut Value, takes_text: bool) {
    match arguments {
        Value::Object(_) if takes_text => {
            if let Ok(text) = to_json(arguments) {
                *arguments = text.into();
            }
        }
        Value::String(_) | Value::Null if !takes_text => {
            if let Ok(object) = openai::read_arguments(arguments) {
                *arguments = Value::Object(object);
            }
        }
        _ => {}
    }
}

/// Visits the texts that the policy did not say: those of tools and of all messages but the assistant's. Texts that a
/// template may print without anything between them come together.
fn each_text(messages: &mut [Message], tools: &mut [ToolSpec], visit: &mut impl FnMut(&mut [String])) {
    for message in messages.iter_mut().filter(|message| message.role != Role::Assistant) {
        match message.parts().is_some() {
            true => {
                visit(&mut message.parts);
                message.content = Message::joined(&message.parts);
            }
            false => visit(slice::from_mut(&mut message.content)),
        }
        let others = [&mut message.reasoning_content, &mut message.tool_call_id, &mut message.name];
        others.into_iter().flatten().for_each(|text| visit(slice::from_mut(text)));
    }
    for tool in tools {
        visit(slice::from_mut(&mut tool.name));
        visit(slice::from_mut(&mut tool.description));
        each_text_of(&mut tool.parameters, visit);
        tool.more.values_mut().for_each(|value| each_text_of(value, visit));
    }
}

fn each_text_of(value: &mut Value, visit: &mut impl FnMut(&mut [String])) {
    match value {
        Value::String(text) => visit(slice::from_mut(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text_of(item, visit)),
        Value::Object(fields) => {
            let visited = std::mem::take(fields).into_iter().map(|(mut key, mut value)| {
                visit(slice::from_mut(&mut key));
                each_text_of(&mut value, visit);
                (key, value)
            });
            *fields = visited.collect();
        }
        _ => {}
    }
}
