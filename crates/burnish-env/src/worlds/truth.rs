//! The truth of a task, and the conversation that solves it.

use burnish_core::{FunctionCall, Message, Role, Task, ToolCall, ToolSpec};
use burnish_worlds::reward::GoldCall;
use burnish_worlds::{State, World};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::config::foreign;
use crate::EnvError;

/// What the user hears when everything is done.
const DONE: &str = "done";

/// The part of a task that the policy is not told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Truth {
    /// Worlds that the task is about, with their states before and after.
    pub(super) worlds: Vec<Before>,
    /// What the user says, turn by turn, and the calls that do it.
    pub(super) turns: Vec<Asked>,
    /// Names of the tools that are offered.
    pub(super) tools: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    pub(super) name: String,
    pub(super) start: Value,
    pub(super) end: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) words: String,
    pub(super) calls: Vec<GoldCall>,
}

/// A world in an episode: its definition, its state, and the state that is right in the end.
#[derive(Debug, Clone)]
pub(super) struct Server<'a> {
    pub(super) world: &'a World,
    pub(super) state: State,
    pub(super) right: State,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub(super) fn of(task: &Task) -> Result<Self, EnvError> {
        Truth::deserialize(&task.truth).map_err(|error| foreign(&task.id, &error.to_string()))
    }

    /// The worlds of the task, in their states before.
    ///
    /// # Errors
    /// If a world is not among `worlds`, or can't have the state.
    pub(super) fn servers<'a>(&self, worlds: &'a [World]) -> Result<Vec<Server<'a>>, String> {
        let server = |before: &Before| {
            let world = worlds.iter().find(|world| world.name == before.name);
            let world = world.ok_or_else(|| format!("there is no world `{}`", before.name))?;
            let (state, right) =
                (State::from_json(&before.start, world)?, State::from_json(&before.end, world)?);
            Ok(Server { world, state, right })
        };
        self.worlds.iter().map(server).collect()
    }

    /// All gold calls, in order.
    pub(super) fn gold(&self) -> Vec<GoldCall> {
        self.turns.iter().flat_map(|turn| turn.calls.clone()).collect()
    }

    /// The conversation that solves the task, from the policy's first answer on. `None` if a gold call is refused.
    pub(super) fn conversation(&self, worlds: &[World]) -> Option<Vec<Message>> {
        let mut servers = self.servers(worlds).ok()?;
        let mut messages = Vec::new();
        for (at, turn) in self.turns.iter().enumerate() {
            if at > 0 {
                messages.push(Message::user(&turn.words));
            }
            for gold in &turn.calls {
                let result = call(&mut servers, &gold.name, &gold.arguments).ok()?;
                let function = FunctionCall {
                    name: gold.name.clone(),
                    arguments: Value::Object(gold.arguments.clone()),
                };
                let tool_calls = vec![ToolCall { id: None, function }];
                messages.push(Message { tool_calls, ..Message::assistant("") });
                messages.push(Message { name: Some(gold.name.clone()), ..Message::new(Role::Tool, result) });
            }
            messages.push(Message::assistant(DONE));
        }
        Some(messages)
    }
}

/// Runs a tool of one of the worlds: the result as the policy reads it, or the refusal.
pub(super) fn call(
    servers: &mut [Server<'_>],
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<String, String> {
    let server = servers.iter_mut().find(|server| server.world.tool(name).is_some());
    let server = server.ok_or_else(|| format!("there is no tool `{name}`"))?;
    let tool = server.world.tool(name).ok_or_else(|| format!("there is no tool `{name}`"))?;
    match tool.call(server.world, &mut server.state, arguments) {
        Ok(result) => Ok(Value::Object(result).to_string()),
        Err(failure) => Err(json!({ "error": failure.text() }).to_string()),
    }
}

/// The tools that are offered, as the policy reads them.
pub(super) fn specs(worlds: &[World], names: &[String]) -> Vec<ToolSpec> {
    let tools = names.iter().filter_map(|name| worlds.iter().find_map(|world| world.tool(name)));
    let spec = |tool: &burnish_worlds::Tool| ToolSpec {
        name: tool.name.clone(),
        description: tool.about.clone(),
        parameters: tool.schema(),
        more: Map::new(),
    };
    tools.map(spec).collect()
}
