//! A conversation with a policy, turn by turn. What was sampled is never tokenised again, and prompts stay in the
//! policy's cache between turns.

use std::path::Path;
use std::sync::Arc;

use burnish_core::{
    Message, Partial, Role, Sampling, Streaming, ToolCall, ToolSpec, Trace, Turn, TurnOutput,
};
use burnish_data::{Columns, DataError, Row, for_each_row};
use serde_json::{Value, json};

use super::follow;
use super::many::seed;
use crate::RunError;

/// What can't be done with a conversation as it stands, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(&'static str);

/// A conversation.
#[derive(Debug, Clone)]
pub struct Conversation {
    messages: Vec<Message>,
    tools: Arc<Vec<ToolSpec>>,
    trace: Trace,
    /// How answers are sampled.
    pub sampling: Sampling,
    seed: u64,
    /// Answers that were asked for; each has random numbers of its own.
    asked: u64,
}

impl Conversation {
    /// A conversation in which nothing was said yet. `seed` decides all answers.
    pub fn new(system: Option<&str>, tools: Vec<ToolSpec>, sampling: Sampling, seed: u64) -> Self {
        let messages = system.map(Message::system).into_iter().collect();
        Conversation { messages, tools: Arc::new(tools), trace: Trace::new(), sampling, seed, asked: 0 }
    }

    /// What was said.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The tools that the policy may call.
    pub fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// What the policy has read and sampled.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The system message.
    pub fn system(&self) -> Option<&str> {
        let first = self.messages.first().filter(|first| first.role == Role::System);
        first.map(|first| first.content.as_str())
    }

    /// Sets the system message, also of what was said already, or removes it.
    pub fn set_system(&mut self, text: Option<&str>) {
        if self.system().is_some() {
            self.messages.remove(0);
        }
        if let Some(text) = text {
            self.messages.insert(0, Message::system(text));
        }
    }

    /// Forgets everything but the system message.
    pub fn clear(&mut self) {
        let is_system = self.system().is_some();
        self.messages.truncate(usize::from(is_system));
        self.trace = Trace::new();
    }

    /// Adds what the user says.
    pub fn say(&mut self, text: &str) {
        self.messages.push(Message::user(text));
    }

    /// Takes back all that was said since `before`; random numbers that were used are not used again.
    pub fn go_back_to(&mut self, before: Conversation) {
        let asked = self.asked;
        *self = Conversation { asked, ..before };
    }

    /// The calls of the last answer that have no result yet.
    pub fn open_calls(&self) -> &[ToolCall] {
        let results = self.messages.iter().rev().take_while(|message| message.role == Role::Tool).count();
        let answer = self.messages.len().checked_sub(results + 1).map(|at| &self.messages[at]);
        answer.and_then(|answer| answer.tool_calls.get(results..)).unwrap_or_default()
    }

    /// Adds the result of the first call that has none. Returns how many calls still have none.
    ///
    /// # Errors
    /// If no call waits for a result.
    pub fn give_result(&mut self, text: &str) -> Result<usize, Refusal> {
        let [call, rest @ ..] = self.open_calls() else {
            return Err(Refusal("no call of a tool waits for a result"));
        };
        let (left, tool_call_id, name) = (rest.len(), call.id.clone(), Some(call.function.name.clone()));
        self.messages.push(Message { tool_call_id, name, ..Message::new(Role::Tool, text) });
        Ok(left)
    }

    /// Takes the last answer back, so that it can be asked for again.
    ///
    /// # Errors
    /// If there is nothing to answer.
    pub fn take_answer_back(&mut self) -> Result<(), Refusal> {
        let is_asked = |message: &Message| matches!(message.role, Role::User | Role::Tool);
        let Some(last) = self.messages.iter().rposition(is_asked) else {
            return Err(Refusal("nothing was asked yet"));
        };
        self.messages.truncate(last + 1);
        Ok(())
    }

    /// Takes back what the user said last, and all that followed. Returns what the user said.
    ///
    /// # Errors
    /// If the user has said nothing.
    pub fn undo(&mut self) -> Result<String, Refusal> {
        let last = self.messages.iter().rposition(|message| message.role == Role::User);
        let last = last.ok_or(Refusal("nothing was said yet"))?;
        let said = self.messages.drain(last..).next();
        Ok(said.map(|message| message.content).unwrap_or_default())
    }

    /// Asks for the next answer, adds it, and returns what came of it. What the policy has said so far is shown to
    /// `each`. Once `is_stopped`, the answer ends where it is; `None` if nothing was said by then.
    ///
    /// # Errors
    /// If the policy can't answer. The conversation then stays as it was.
    pub fn answer(
        &mut self,
        policy: &mut dyn Streaming,
        is_stopped: &dyn Fn() -> bool,
        each: &mut dyn FnMut(Partial<'_>),
    ) -> Result<Option<TurnOutput>, RunError> {
        let turn = Turn {
            trace: self.trace.clone(),
            messages: Arc::new(self.messages.clone()),
            tools: Arc::clone(&self.tools),
            prefix: Vec::new(),
            sampling: Arc::new(self.sampling.clone()),
            seed: seed(self.seed, self.asked, 0),
        };
        self.asked += 1;
        let Some(answered) = follow(policy, turn, is_stopped, each) else { return Ok(None) };
        let output = answered.result.map_err(|error| RunError::Refused(error.to_string()))?;
        self.trace = answered.trace;
        self.messages.push(output.message.clone());
        Ok(Some(output))
    }

    /// The conversation as a row that `burnish sft` reads.
    ///
    /// # Errors
    /// If there is no answer in it.
    pub fn row(&self) -> Result<Value, Refusal> {
        if !self.messages.iter().any(|message| message.role == Role::Assistant) {
            return Err(Refusal("there is no answer yet, so there is nothing to save"));
        }
        let mut row = json!({ "messages": self.messages });
        for message in row["messages"].as_array_mut().into_iter().flatten() {
            for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
                call["type"] = "function".into();
            }
        }
        if !self.tools.is_empty() {
            row["tools"] =
                self.tools.iter().map(|tool| json!({ "type": "function", "function": tool })).collect();
        }
        Ok(row)
    }

    /// Puts the conversation in the first row of a file in place of this one, with its tools if it has any. Returns the
    /// number of rows in the file.
    ///
    /// # Errors
    /// Names the file, and the line that can't be read.
    pub fn load(&mut self, file: &Path) -> Result<usize, RunError> {
        let (mut first, mut rows) = (None, 0);
        for_each_row(file, &Columns::Auto, |place, row| {
            rows += 1;
            first.get_or_insert((place, row));
        })?;
        let Some((place, row)) = first else { return Err(DataError::file(file, "has no rows").into()) };
        let Row { prompt, completion, tools, .. } = row;
        if prompt.is_empty() {
            return Err(DataError::at(file, place, "is plain text, not a conversation").into());
        }
        self.messages = prompt.into_iter().chain(completion.into_iter().flatten()).collect();
        if !tools.is_empty() {
            self.tools = Arc::new(tools);
        }
        self.trace = Trace::new();
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::FunctionCall;

    fn conversation() -> Conversation {
        Conversation::new(Some("s"), Vec::new(), Sampling::greedy(4), 0)
    }

    fn calling(names: &[&str]) -> Message {
        let call = |name: &&str| ToolCall {
            id: Some(format!("id-{name}")),
            function: FunctionCall { name: (*name).into(), arguments: json!({}) },
        };
        Message { tool_calls: names.iter().map(call).collect(), ..Message::assistant("") }
    }

    #[test]
    fn what_was_said_last_is_taken_back_with_all_that_followed() {
        let mut chat = conversation();
        assert!(chat.undo().is_err() && chat.take_answer_back().is_err() && chat.row().is_err());
        chat.say("a");
        chat.messages.push(Message::assistant("b"));
        chat.say("c");
        chat.messages.extend([calling(&["x"]), Message::new(Role::Tool, "r"), Message::assistant("d")]);
        chat.take_answer_back().unwrap();
        assert_eq!(chat.messages.last().unwrap().content, "r");
        assert_eq!(chat.undo().unwrap(), "c");
        assert_eq!(chat.messages.last().unwrap().content, "b");
        chat.set_system(None);
        assert_eq!(chat.messages[0], Message::user("a"));
        chat.set_system(Some("t"));
        chat.clear();
        assert_eq!(chat.messages, [Message::system("t")]);
    }

    #[test]
    fn results_belong_to_calls_in_order() {
        let mut chat = conversation();
        assert!(chat.give_result("r").is_err());
        chat.messages.push(calling(&["x", "y"]));
        assert_eq!(chat.give_result("1"), Ok(1));
        assert_eq!(chat.open_calls()[0].function.name, "y");
        assert_eq!(chat.give_result("2"), Ok(0));
        assert!(chat.give_result("3").is_err());
        let last = chat.messages.last().unwrap();
        assert_eq!((last.tool_call_id.as_deref(), last.name.as_deref()), (Some("id-y"), Some("y")));
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let mut chat = conversation();
        chat.say("a");
        chat.messages.extend([calling(&["x"]), Message::new(Role::Tool, "r"), Message::assistant("d")]);
        let tool = json!([{ "name": "x", "description": "d", "parameters": { "type": "object" } }]);
        chat.tools = Arc::new(burnish_data::tools(&tool).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("chat.jsonl");
        std::fs::write(&file, chat.row().unwrap().to_string()).unwrap();
        let mut other = Conversation::new(None, Vec::new(), Sampling::greedy(4), 0);
        assert_eq!(other.load(&file).unwrap(), 1);
        assert_eq!((&other.messages, &other.tools), (&chat.messages, &chat.tools));
        std::fs::write(&file, "{\"messages\": [{\"role\": \"user\", \"text\": 1}]}").unwrap();
        let error = other.load(&file).unwrap_err().to_string();
        assert!(error.contains("chat.jsonl, line 1"), "{error}");
        assert_eq!(other.messages, chat.messages);
    }
}
