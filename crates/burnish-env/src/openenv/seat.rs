//! One client of an environment that is served over OpenEnv: a message, then its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{Episode, FunctionCall, Message, ToolCall, ToolSpec, Validity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Generator;
use crate::session::{Seen, Session};

/// A client's session: an episode at a time.
pub struct Seat {
    generator: Arc<dyn Generator>,
    turns_max: usize,
    /// The number of the next episode that is begun without a seed.
    unseeded: u64,
    episode_id: Option<String>,
    playing: Playing,
}

/// Where the episode is.
enum Playing {
    Nothing,
    Turn {
        session: Session,
        /// Messages that the client has seen or said.
        known: usize,
        tools: Arc<Vec<ToolSpec>>,
        steps: usize,
    },
    Over {
        steps: usize,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
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
#[derive(Debug, Default, Serialize)]
struct Observation {
    /// The messages that are new, as chat templates take them.
    messages: Vec<Message>,
    /// Their texts, one after the other.
    text: String,
    /// The tools, when an episode begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    /// How it ended, and what it was judged to be.
    #[serde(flatten)]
    end: Option<End>,
}

/// The end of an episode.
#[derive(Debug, Serialize)]
struct End {
    ending: Value,
    success: Option<bool>,
    rewards: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unscored: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<String>,
}

/// Why a message was not followed.
pub(crate) struct Refusal {
    code: &'static str,
    message: String,
    /// Where the message is wrong, as pydantic says it.
    errors: Option<Value>,
}

impl Refusal {
    fn execution(message: impl Into<String>) -> Self {
        Refusal { code: "EXECUTION_ERROR", message: message.into(), errors: None }
    }

    fn invalid(error: &serde_json::Error) -> Self {
        let errors = json!([{"type": "value_error", "loc": [], "msg": error.to_string()}]);
        Refusal { code: "VALIDATION_ERROR", message: "Invalid message".to_owned(), errors: Some(errors) }
    }

    /// In words.
    pub(crate) fn said(&self) -> String {
        let errors = self.errors.iter().flat_map(|errors| errors.as_array()).flatten();
        let said: Vec<&str> = errors.filter_map(|error| error["msg"].as_str()).collect();
        if said.is_empty() { self.message.clone() } else { said.join("; ") }
    }

    fn text(self) -> String {
        let mut data = json!({"message": self.message, "code": self.code});
        if let Some(errors) = self.errors {
            data["errors"] = errors;
        }
        json!({"type": "error", "data": data}).to_string()
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|error| Refusal::invalid(&error))
}

impl Seat {
    /// A client that plays tasks of the generator, with at most `turns_max` turns in an episode.
    pub fn new(generator: Arc<dyn Generator>, turns_max: usize) -> Self {
        Seat { generator, turns_max, unseeded: 0, episode_id: None, playing: Playing::Nothing }
    }

    /// Answers a message. Waits for the environment.
    pub fn answer(&mut self, text: &str) -> Reply {
        let value: Value = match serde_json::from_str(text) {
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
            Ok(Some((kind, data))) => Reply::Say(json!({"type": kind, "data": data}).to_string()),
            Ok(None) => Reply::Close,
            Err(refusal) => Reply::Say(refusal.text()),
        }
    }

    /// Begins an episode: `seed` and `episode_id`, both of which may be left out.
    ///
    /// # Errors
    /// If they are none, or the environment fails.
    pub(crate) fn reset(&mut self, data: Value) -> Result<Value, Refusal> {
        let Reset { seed, episode_id } = if data.is_null() { Reset::default() } else { read(data)? };
        let seed = seed.unwrap_or_else(|| {
            self.unseeded += 1;
            self.unseeded - 1
        });
        self.playing = Playing::Nothing;
        self.episode_id = episode_id;
        let made = self.generator.tasks(seed, 1).map_err(|error| Refusal::execution(error.to_string()))?;
        let task = made.tasks.into_iter().next().ok_or_else(|| Refusal::execution("no task was made"))?;
        let begun = Session::begin(Arc::clone(&self.generator), task, seed, self.turns_max);
        let session = begun.map_err(|error| Refusal::execution(error.to_string()))?;
        let seen = session.look();
        self.observe(session, seen, 0, 0)
    }

    fn step(&mut self, data: Value) -> Result<Value, Refusal> {
        let is_call = match data["type"].as_str() {
            Some("list_tools") => {
                let observation = json!({"tools": listed(&self.tools(), "input_schema")});
                return Ok(json!({"observation": observation, "reward": null, "done": false}));
            }
            Some("call_tool") => true,
            _ => false,
        };
        if !is_call {
            let Said { message, tool_calls, .. } = read(data)?;
            let calls = tool_calls.into_iter().map(|call| (call.name, call.arguments));
            return self.say(message, calls.collect());
        }
        let CallTool { tool_name, arguments, .. } = read(data)?;
        let mut answered = self.say(String::new(), vec![(tool_name.clone(), arguments)])?;
        let result = answered["observation"]["text"].take();
        answered["observation"]["tool_name"] = tool_name.into();
        answered["observation"]["result"] = result;
        answered["observation"]["error"] = Value::Null;
        Ok(answered)
    }

    /// Says a message and calls tools, with their names and arguments.
    ///
    /// # Errors
    /// If no episode is under way, or it can't go on.
    pub(crate) fn say(&mut self, message: String, calls: Vec<(String, Value)>) -> Result<Value, Refusal> {
        let (session, known, steps) = match std::mem::replace(&mut self.playing, Playing::Nothing) {
            Playing::Turn { session, known, steps, .. } => (session, known, steps),
            Playing::Over { steps } => {
                self.playing = Playing::Over { steps };
                return Err(Refusal::execution("the episode is over; reset begins another"));
            }
            Playing::Nothing => return Err(Refusal::execution("no episode is under way; reset begins one")),
        };
        let call = |(at, (name, arguments)): (usize, (String, Value))| {
            let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
            ToolCall { id: Some(format!("call{at:05}")), function: FunctionCall { name, arguments } }
        };
        let tool_calls = calls.into_iter().enumerate().map(call).collect();
        let seen = session.answer(Message { tool_calls, ..Message::assistant(message) });
        // What the client said itself is not new to it.
        self.observe(session, seen, known + 1, steps + 1)
    }

    /// What the client is told, and where the episode then is.
    fn observe(
        &mut self,
        session: Session,
        seen: Seen,
        known: usize,
        steps: usize,
    ) -> Result<Value, Refusal> {
        let (observation, reward, done) = match seen {
            Seen::Failed(problem) => {
                self.playing = Playing::Over { steps };
                return Err(Refusal::execution(problem));
            }
            Seen::Turn { messages, tools } => {
                let new = messages.get(known..).unwrap_or_default().to_vec();
                let texts: Vec<&str> = new.iter().map(|message| message.content.as_str()).collect();
                let observation = Observation {
                    text: texts.join("\n"),
                    tools: (steps == 0).then(|| listed(&tools, "input_schema")),
                    messages: new,
                    end: None,
                };
                self.playing = Playing::Turn { session, known: messages.len(), tools, steps };
                (observation, None, false)
            }
            Seen::Over(episode) => {
                self.playing = Playing::Over { steps };
                let reward = episode.verdict.total(&BTreeMap::new());
                (Observation { end: Some(end(&episode)), ..Observation::default() }, reward, true)
            }
        };
        let observation = serde_json::to_value(observation).map_err(|error| Refusal::invalid(&error))?;
        Ok(json!({"observation": observation, "reward": reward, "done": done}))
    }

    fn state(&self) -> Value {
        let steps = match self.playing {
            Playing::Nothing => 0,
            Playing::Turn { steps, .. } | Playing::Over { steps } => steps,
        };
        json!({"episode_id": self.episode_id, "step_count": steps})
    }

    /// The tools that may be called.
    pub(crate) fn tools(&self) -> Vec<ToolSpec> {
        match &self.playing {
            Playing::Turn { tools, .. } => tools.to_vec(),
            _ => self.generator.environment().tools(),
        }
    }

    /// A request of MCP, in the form that OpenEnv carries: tools are listed and called.
    fn rpc(&mut self, request: &Value) -> Value {
        let parameters = &request["params"];
        let answered = match request["method"].as_str() {
            Some("tools/list") => Ok(json!({"tools": listed(&self.tools(), "inputSchema")})),
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

fn end(episode: &Episode) -> End {
    let verdict = &episode.verdict;
    let unscored = match &verdict.validity {
        Validity::Scored => None,
        Validity::Unscored { reason } => Some(reason.clone()),
    };
    End {
        ending: serde_json::to_value(episode.ending).unwrap_or_default(),
        success: (verdict.has_success && unscored.is_none()).then_some(verdict.success),
        rewards: verdict.rewards.clone(),
        unscored,
        feedback: verdict.feedback.clone(),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use burnish_core::Role;

    use super::*;
    use crate::build;

    fn seat(id: &str) -> (Seat, Arc<dyn Generator>) {
        let generator: Arc<dyn Generator> = Arc::from(build(id, &json!({})).unwrap());
        (Seat::new(Arc::clone(&generator), 100), generator)
    }

    fn said(seat: &mut Seat, message: Value) -> Value {
        match seat.answer(&message.to_string()) {
            Reply::Say(text) => serde_json::from_str(&text).unwrap(),
            Reply::Close => panic!("closed"),
        }
    }

    fn reset(seat: &mut Seat, seed: u64) -> Value {
        said(seat, json!({"type": "reset", "data": {"seed": seed, "episode_id": "e"}}))["data"].take()
    }

    #[test]
    fn demonstrated_answers_win_and_the_end_says_so() {
        for id in ["chains", "household", "countdown"] {
            let (mut seat, generator) = seat(id);
            let task = generator.tasks(7, 1).unwrap().tasks.remove(0);
            let shown = generator.demonstrations().unwrap().demonstrate_episode(&task).unwrap();
            let begun = reset(&mut seat, 7);
            assert_eq!(begun["observation"]["messages"], serde_json::to_value(&task.prompt).unwrap(), "{id}");
            let mut last = begun;
            for answer in shown.iter().filter(|message| message.role == Role::Assistant) {
                assert_eq!(last["done"], false);
                let calls = answer
                    .tool_calls
                    .iter()
                    .map(|call| json!({"name": call.function.name, "arguments": call.function.arguments}));
                let calls: Vec<Value> = calls.collect();
                let action = json!({"message": answer.content, "tool_calls": calls});
                last = said(&mut seat, json!({"type": "step", "data": action}))["data"].take();
            }
            assert_eq!(
                (&last["done"], &last["observation"]["success"]),
                (&json!(true), &json!(true)),
                "{id}: {last}"
            );
            let rewards = last["observation"]["rewards"].as_object().unwrap();
            let total: f64 = rewards.values().map(|reward| reward.as_f64().unwrap()).sum();
            assert_eq!(last["reward"].as_f64(), Some(total));
            let state = said(&mut seat, json!({"type": "state"}));
            assert_eq!(state["data"]["episode_id"], "e");
            let after = said(&mut seat, json!({"type": "step", "data": {"message": "x"}}));
            assert!(after["data"]["message"].as_str().unwrap().contains("the episode is over"));
            assert_eq!(reset(&mut seat, 7)["done"], false, "the next episode");
        }
    }

    #[test]
    fn tools_are_listed_and_called_in_three_ways() {
        let (mut seat, generator) = seat("accounts");
        let names: Vec<String> = generator.environment().tools().into_iter().map(|tool| tool.name).collect();
        let listed = said(&mut seat, json!({"type": "step", "data": {"type": "list_tools"}}));
        let tools = listed["data"]["observation"]["tools"].as_array().unwrap();
        assert!(tools.iter().map(|tool| tool["name"].as_str().unwrap()).eq(names.iter().map(String::as_str)));
        reset(&mut seat, 1);
        let no = json!({"type": "call_tool", "tool_name": "no_such_tool", "arguments": {}});
        let told = said(&mut seat, json!({"type": "step", "data": no}));
        let result = told["data"]["observation"]["result"].as_str().unwrap();
        assert!(result.contains("there is no tool `no_such_tool`"), "{told}");
        let several = json!({"message": "", "tool_calls": [{"name": "a"}, {"name": "b", "arguments": {}}]});
        let told = said(&mut seat, json!({"type": "step", "data": several}));
        let messages = told["data"]["observation"]["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!(
            (&messages[0]["role"], &messages[1]["tool_call_id"]),
            (&json!("tool"), &json!("call00001"))
        );
        let rpc = |method: &str, params: Value| {
            json!({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 7,
            "method": method, "params": params}})
        };
        let listed = said(&mut seat, rpc("tools/list", json!({})));
        assert_eq!(listed["data"]["id"], 7);
        assert_eq!(listed["data"]["result"]["tools"][0]["name"], json!(names[0]));
        assert!(listed["data"]["result"]["tools"][0]["inputSchema"].is_object());
        let called = said(&mut seat, rpc("tools/call", json!({"name": "x", "arguments": {}})));
        assert!(called["data"]["result"]["content"][0]["text"].as_str().unwrap().contains("no tool `x`"));
        assert_eq!(said(&mut seat, rpc("prompts/list", json!({})))["data"]["error"]["code"], -32601);
        assert_eq!(said(&mut seat, json!({"type": "state"}))["data"]["step_count"], 3);
    }

    #[test]
    fn what_is_no_message_is_refused_by_its_code() {
        let (mut seat, _) = seat("chains");
        for (text, code) in [
            ("{", "INVALID_JSON"),
            ("[]", "VALIDATION_ERROR"),
            (r#"{"type": "fly"}"#, "UNKNOWN_TYPE"),
            (r#"{"type": "reset", "data": {"seed": -1}}"#, "VALIDATION_ERROR"),
            (r#"{"type": "reset", "data": {"level": 3}}"#, "VALIDATION_ERROR"),
            (r#"{"type": "step", "data": {"message": "x"}}"#, "EXECUTION_ERROR"),
            (r#"{"type": "step", "data": {"mesage": "x"}}"#, "VALIDATION_ERROR"),
        ] {
            let Reply::Say(told) = seat.answer(text) else { panic!("{text}") };
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(
                (&told["type"], &told["data"]["code"]),
                (&json!("error"), &json!(code)),
                "{text}: {told}"
            );
        }
        assert_eq!(seat.answer(r#"{"type": "close"}"#), Reply::Close);
        assert_eq!(reset(&mut seat, 1), reset(&mut seat, 1), "a seed gives the same episode");
        let begun = [
            said(&mut seat, json!({"type": "reset"})),
            said(&mut seat, json!({"type": "reset", "data": {}})),
        ];
        assert_ne!(begun[0], begun[1], "without a seed, another one each time");
    }
}
