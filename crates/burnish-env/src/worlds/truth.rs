//! The truth of a task, and the conversation that solves it.

use burnish_core::{FunctionCall, Message, Role, Task, ToolCall, ToolSpec, json};
use burnish_worlds::reward::GoldCall;
use burnish_worlds::{State, World};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ID;
use crate::EnvError;
use crate::tasks::read;

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

/// The worlds of a task, by their places among all, and their states before and after.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) worlds: Vec<usize>,
    pub(super) start: Vec<State>,
    pub(super) end: Vec<State>,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub(super) fn of(task: &Task) -> Result<Self, EnvError> {
        read(ID, task)
    }

    /// The worlds of the task among `worlds`.
    ///
    /// # Errors
    /// If one is not there, or can't have its states.
    pub(super) fn places(&self, worlds: &[World]) -> Result<Places, String> {
        let mut places = Places { worlds: Vec::new(), start: Vec::new(), end: Vec::new() };
        for before in &self.worlds {
            let at = worlds.iter().position(|world| world.name == before.name);
            let at = at.ok_or_else(|| format!("there is no world `{}`", before.name))?;
            places.worlds.push(at);
            places.start.push(State::from_json(&before.start, &worlds[at])?);
            places.end.push(State::from_json(&before.end, &worlds[at])?);
        }
        Ok(places)
    }

    /// All gold calls, in order.
    pub(super) fn gold(&self) -> Vec<GoldCall> {
        self.turns.iter().flat_map(|turn| turn.calls.clone()).collect()
    }

    /// The conversation that solves the task, from the policy's first answer on. `None` if a gold call is refused.
    pub(super) fn conversation(&self, worlds: &[World]) -> Option<Vec<Message>> {
        let Places { worlds: places, start: mut states, .. } = self.places(worlds).ok()?;
        let mut messages = Vec::new();
        for (at, turn) in self.turns.iter().enumerate() {
            if at > 0 {
                messages.push(Message::user(&turn.words));
            }
            for gold in &turn.calls {
                let result = call(worlds, &places, &mut states, &gold.name, &gold.arguments).ok()?;
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

/// Runs a tool of one of the worlds at `places`, which are in `states`: the result as the policy reads it, or the refusal.
pub(super) fn call(
    worlds: &[World],
    places: &[usize],
    states: &mut [State],
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<String, String> {
    let found =
        places.iter().zip(states).find_map(|(&at, state)| Some((worlds[at].tool(name)?, &worlds[at], state)));
    let (tool, world, state) = found.ok_or_else(|| format!("there is no tool `{name}`"))?;
    match tool.call(world, state, arguments) {
        Ok(result) => Ok(json::line(&Value::Object(result))),
        Err(failure) => Err(json::line(&json!({ "error": failure.text() }))),
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
