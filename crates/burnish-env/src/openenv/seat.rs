//! One client of an environment that is served over OpenEnv: a message, then its answer.

use std::sync::Arc;

use burnish_core::{Message, ToolSpec, json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Generator;
use crate::guest::{End, Guest, News, text_of};

/// A client's session: an episode at a time.
pub(super) struct Seat {
    guest: Guest,
    episode_id: Option<String>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    /// This text.
    Say(String),
    /// Nothing; the client is done.
    Close,
}

/// What a client sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    r#type: String,
    #[serde(default)]
    data: Value,
}

/// What `reset` takes.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Reset {
    seed: Option<u64>,
    episode_id: Option<String>,
}

/// An action: what the policy says, calls, or both.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    message: String,
    #[serde(default)]
    tool_calls: Vec<Call>,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
}

/// A call of a tool in an action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// The action with which OpenEnv's clients of tools call one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallTool {
    #[serde(rename = "type")]
    _type: String,
    tool_name: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
}

/// What there is to see.
#[derive(Debug, Serialize)]
struct Observation {
    /// The messages that are new, as chat templates take them.
    messages: Vec<Message>,
    /// Their texts, one after the other.
    text: String,
    /// The tools, when an episode begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(flatten)]
    end: Option<End>,
}

/// Why a message was not followed.
struct Refusal {
    code: &'static str,
    message: String,
    /// Where the message is wrong, as pydantic says it.
    errors: Option<Value>,
}

impl Refusal {
    fn execution(message: String) -> Self {
        Refusal { code: "EXECUTION_ERROR", message, errors: None }
    }

    fn invalid(error: &serde_json::Error) -> Self {
        let errors = json!([{"type": "value_error", "loc": [], "msg": error.to_string()}]);
        Refusal { code: "VALIDATION_ERROR", message: "Invalid message".to_owned(), errors: Some(errors) }
    }

    fn text(self) -> String {
        let mut data = json!({"message": self.message, "code": self.code});
        if let Some(errors) = self.errors {
            data["errors"] = errors;
        }
        json::line(&json!({"type": "error", "data": data}))
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|error| Refusal::invalid(&error))
}

impl Seat {
    /// A client that plays tasks of the generator, with at most `turns_max` turns in an episode.
    pub(super) fn new(generator: Arc<dyn Generator>, turns_max: usize) -> Self {
        Seat { guest: Guest::new(generator, turns_max), episode_id: None }
    }

    /// Answers a message. Waits for the environment.
    pub(super) fn answer(&mut self, text: &str) -> Reply {
        let value: Value = match json::parse(text) {
            Ok(value) => value,
            Err(error) => {
                let message = format!("Invalid JSON: {error}");
                return Reply::Say(Refusal { code: "INVALID_JSON", message, errors: None }.text());
            }
        };
        let answered = read::<Sent>(value).and_then(|sent| match sent.r#type.as_str() {
            "reset" => self.reset(sent.data).map(|data| Some(("observation", data))),
            "step" => self.step(sent.data).map(|data| Some(("observation", data))),
            "state" => Ok(Some(("state", self.state()))),
            "mcp" => Ok(Some(("mcp", self.rpc(&sent.data)))),
            "close" => Ok(None),
            other => {
                let message = format!("Unknown message type: {other}");
                Err(Refusal { code: "UNKNOWN_TYPE", message, errors: None })
            }
        });
        match answered {
            Ok(Some((kind, data))) => Reply::Say(json::line(&json!({"type": kind, "data": data}))),
            Ok(None) => Reply::Close,
            Err(refusal) => Reply::Say(refusal.text()),
        }
    }

    fn reset(&mut self, data: Value) -> Result<Value, Refusal> {
        let Reset { seed, episode_id } = if data.is_null() { Reset::default() } else { read(data)? };
        self.episode_id = episode_id;
        let news = self.guest.reset(seed).map_err(Refusal::execution)?;
        observed(news, true)
    }

    fn step(&mut self, data: Value) -> Result<Value, Refusal> {
        match data["type"].as_str() {
            Some("list_tools") => {
                let observation = json!({"tools": listed(&self.guest.tools(), "input_schema")});
                Ok(json!({"observation": observation, "reward": null, "done": false}))
            }
            Some("call_tool") => {
                let CallTool { tool_name, arguments, .. } = read(data)?;
                let mut answered = self.say(String::new(), vec![(tool_name.clone(), arguments)])?;
                let result = answered["observation"]["text"].take();
                answered["observation"]["tool_name"] = tool_name.into();
                answered["observation"]["result"] = result;
                answered["observation"]["error"] = Value::Null;
                Ok(answered)
            }
            _ => {
                let Said { message, tool_calls, .. } = read(data)?;
                self.say(message, tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect())
            }
        }
    }

    fn say(&mut self, message: String, calls: Vec<(String, Value)>) -> Result<Value, Refusal> {
        observed(self.guest.say(message, calls).map_err(Refusal::execution)?, false)
    }

    fn state(&self) -> Value {
        json!({"episode_id": self.episode_id, "step_count": self.guest.steps()})
    }

    /// A request of MCP, in the form that OpenEnv carries: tools are listed and called.
    fn rpc(&mut self, request: &Value) -> Value {
        let parameters = &request["params"];
        let answered = match request["method"].as_str() {
            Some("tools/list") => Ok(json!({"tools": listed(&self.guest.tools(), "inputSchema")})),
            Some("tools/call") => match parameters["name"].as_str() {
                None => Err((-32602, "`params.name` is missing".to_owned())),
                Some(name) => {
                    let call = (name.to_owned(), parameters["arguments"].clone());
                    let said = self.say(String::new(), vec![call]);
                    said.map(|told| {
                        let text = &told["observation"]["text"];
                        json!({"content": [{"type": "text", "text": text}], "isError": false, "done": told["done"],
                            "reward": told["reward"]})
                    })
                    .map_err(|refusal| (-32603, refusal.message))
                }
            },
            other => Err((-32601, format!("Method not found: {}", other.unwrap_or_default()))),
        };
        let id = &request["id"];
        match answered {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        }
    }
}

fn listed(tools: &[ToolSpec], schema: &str) -> Value {
    let tool = |tool: &ToolSpec| json!({"name": tool.name, "description": tool.description, schema: tool.parameters});
    tools.iter().map(tool).collect()
}

/// The data of an observation; with the tools, if an episode begins.
fn observed(news: News, begins: bool) -> Result<Value, Refusal> {
    let (observation, reward, done) = match news {
        News::Turn { messages, tools } => {
            let tools = begins.then(|| listed(&tools, "input_schema"));
            (Observation { text: text_of(&messages), messages, tools, end: None }, None, false)
        }
        News::Over(end) => {
            let reward = end.reward();
            let (messages, text) = (Vec::new(), String::new());
            (Observation { messages, text, tools: None, end: Some(end) }, reward, true)
        }
    };
    let observation = serde_json::to_value(observation).map_err(|error| Refusal::invalid(&error))?;
    Ok(json!({"observation": observation, "reward": reward, "done": done}))
}

/// The schemas of `GET /schema`.
pub(super) fn schemas() -> Value {
    let call = json!({"type": "object", "additionalProperties": false, "required": ["name"],
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}}});
    let message = json!({"type": "object"});
    json!({
        "action": {"title": "Answer", "description": "What a policy says, and the tools that it calls.",
            "type": "object", "additionalProperties": false, "required": [],
            "properties": {
                "message": {"type": "string", "default": ""},
                "tool_calls": {"type": "array", "items": call, "default": []},
                "metadata": {"type": "object", "additionalProperties": true}}},
        "observation": {"title": "Observation", "type": "object", "properties": {
            "messages": {"type": "array", "items": message}, "text": {"type": "string"},
            "tools": {"type": "array", "items": {"type": "object"}}, "ending": {"type": "string"},
            "success": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "rewards": {"type": "object", "additionalProperties": {"type": "number"}},
            "unscored": {"type": "string"}, "feedback": {"type": "string"}}},
        "state": {"title": "State", "type": "object", "additionalProperties": true, "properties": {
            "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "step_count": {"type": "integer"}}},
    })
}
