//! Chat messages in the shape that chat templates and OpenAI-compatible servers use.

use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that stand above the conversation.
    System,
    /// The person, a simulated user, or an environment that speaks as the user.
    User,
    /// The policy.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text.
    #[serde(default)]
    pub content: String,
    /// The parts of the text, if it was given in parts ([`Message::in_parts`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The thoughts of a reasoning model, if they are kept apart from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tools that the assistant calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// In a tool's message: the id of the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// In a tool's message: the tool's name; elsewhere the speaker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// A message of `role` that says `content`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Message {
            role,
            content: content.into(),
            parts: Vec::new(),
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }

    /// The same message saying `parts`. Its text has each on a line of its own; a template that goes through parts
    /// prints them in its own way.
    #[must_use]
    pub fn in_parts(self, parts: Vec<String>) -> Self {
        Message { content: Message::joined(&parts), parts, ..self }
    }

    /// The parts of the text, if it was given in parts and nobody has changed it since.
    pub fn parts(&self) -> Option<&[String]> {
        (!self.parts.is_empty() && Message::joined(&self.parts) == self.content).then_some(&*self.parts)
    }

    /// Parts as one text.
    pub fn joined(parts: &[String]) -> String {
        parts.join("\n")
    }

    /// A system message.
    pub fn system(content: impl Into<String>) -> Self {
        Message::new(Role::System, content)
    }

    /// A user message.
    pub fn user(content: impl Into<String>) -> Self {
        Message::new(Role::User, content)
    }

    /// An assistant message.
    pub fn assistant(content: impl Into<String>) -> Self {
        Message::new(Role::Assistant, content)
    }
}

/// A tool call, as the assistant wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call, if the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The function and its arguments.
    pub function: FunctionCall,
}

/// The function part of a [`ToolCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments: a JSON object, or its text if the sender did not parse it.
    pub arguments: serde_json::Value,
}

/// A tool that the policy may call: an OpenAI function schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name of the tool.
    pub name: String,
    /// What it does, for the policy to read.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: serde_json::Value,
    /// Further keys (`strict`, `return`), which a template prints along with the others.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}
