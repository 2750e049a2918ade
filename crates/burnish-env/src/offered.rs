//! An environment of ours as tools, for clients of the Model Context Protocol: `reset`, `answer`, and its own.

use std::sync::Arc;

use burnish_core::ToolSpec;
use burnish_mcp::Tools;
use serde_json::{Map, Value, json};

use crate::guest::{Guest, News, text_of};
use crate::{EnvError, Generator};

/// Begins an episode.
const RESET: &str = "reset";
/// Says something to the environment.
const ANSWER: &str = "answer";

/// What a client is told when it connects.
pub const INSTRUCTIONS: &str = "A task of an environment. `reset` begins an episode and returns what there is to read; the \
     same seed is the same task. The other tools act in it, and `answer` says a text to it. The result of the last step says \
     how the episode ended, whether it was a success, and its rewards.";

/// An environment whose episodes are played by calling tools.
pub struct Offered {
    guest: Guest,
}

impl Offered {
    /// Tasks of the generator, with at most `turns_max` turns in an episode.
    ///
    /// # Errors
    /// If the environment has a tool of a name that is needed here.
    pub fn new(generator: Arc<dyn Generator>, turns_max: usize) -> Result<Self, EnvError> {
        let own = generator.environment().tools();
        if let Some(tool) = own.iter().find(|tool| [RESET, ANSWER].contains(&tool.name.as_str())) {
            let problem =
                format!("the environment has a tool `{}`, which has another meaning here", tool.name);
            return Err(EnvError::Failed(problem));
        }
        Ok(Offered { guest: Guest::new(generator, turns_max) })
    }
}

impl Tools for Offered {
    fn tools(&self) -> Vec<ToolSpec> {
        let tool = |name: &str, description: &str, parameters: Value| ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            more: Map::new(),
        };
        let seed = json!({"type": "object", "additionalProperties": false,
            "properties": {"seed": {"type": "integer", "minimum": 0, "description": "which task; another one each time without it"}}});
        let text = json!({"type": "object", "additionalProperties": false, "required": ["text"],
            "properties": {"text": {"type": "string"}}});
        let mut tools = vec![
            tool(RESET, "Begins an episode, and returns what there is to read.", seed),
            tool(ANSWER, "Says a text to the environment.", text),
        ];
        tools.extend(self.guest.tools());
        tools
    }

    fn call(&mut self, name: &str, arguments: Map<String, Value>) -> Result<String, String> {
        let news = match name {
            RESET => self.guest.reset(seed_of(&arguments)?)?,
            ANSWER => {
                let text = arguments.get("text").and_then(Value::as_str).ok_or("`text` is missing")?;
                self.guest.say(text.to_owned(), Vec::new())?
            }
            _ => self.guest.say(String::new(), vec![(name.to_owned(), Value::Object(arguments))])?,
        };
        match news {
            News::Turn { messages, .. } => Ok(text_of(&messages)),
            News::Over(end) => {
                let end = serde_json::to_string(&end).map_err(|error| error.to_string())?;
                Ok(format!("The episode is over: {end}"))
            }
        }
    }
}

/// The seed that `reset` is given, if it is given one.
fn seed_of(arguments: &Map<String, Value>) -> Result<Option<u64>, String> {
    match arguments.get("seed") {
        None | Some(Value::Null) => Ok(None),
        Some(seed) => match seed.as_u64() {
            Some(seed) => Ok(Some(seed)),
            None => Err(format!("`seed` must be a whole number, 0 or more, not {seed}")),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burnish_core::Role;

    use super::*;
    use crate::build;

    fn offered(id: &str) -> (Offered, Arc<dyn Generator>) {
        let generator: Arc<dyn Generator> = Arc::from(build(id, &json!({})).unwrap());
        (Offered::new(Arc::clone(&generator), 100).unwrap(), generator)
    }

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_demonstrated_calls_and_answers_win() {
        for id in ["chains", "household", "accounts"] {
            let (mut offered, generator) = offered(id);
            let task = generator.tasks(7, 1).unwrap().tasks.remove(0);
            let shown = generator.demonstrations().unwrap().demonstrate_episode(&task).unwrap();
            let begun = offered.call(RESET, arguments(json!({"seed": 7}))).unwrap();
            assert_eq!(begun, task.prompt.last().unwrap().content, "{id}");
            let mut last = String::new();
            for message in shown.iter().filter(|message| message.role == Role::Assistant) {
                assert!(message.tool_calls.len() <= 1, "{id}");
                last = match message.tool_calls.first() {
                    Some(call) => {
                        offered.call(&call.function.name, arguments(call.function.arguments.clone()))
                    }
                    None => offered.call(ANSWER, arguments(json!({"text": message.content}))),
                }
                .unwrap();
            }
            assert!(
                last.starts_with("The episode is over: {") && last.contains("\"success\":true"),
                "{id}: {last}"
            );
            assert!(
                offered.call(ANSWER, arguments(json!({"text": "more"}))).unwrap_err().contains("is over")
            );
        }
    }

    #[test]
    fn tools_are_listed_and_what_is_wrong_is_said() {
        let (mut offered, generator) = offered("accounts");
        let own: Vec<String> = generator.environment().tools().into_iter().map(|tool| tool.name).collect();
        let listed: Vec<String> = offered.tools().into_iter().map(|tool| tool.name).collect();
        assert_eq!(listed[..2], [RESET, ANSWER]);
        assert_eq!(listed[2..], own);
        let error = offered.call(ANSWER, arguments(json!({"text": "hi"}))).unwrap_err();
        assert!(error.contains("reset begins one"), "{error}");
        let error = offered.call(RESET, arguments(json!({"seed": -1}))).unwrap_err();
        assert!(error.contains("-1"), "{error}");
        offered.call(RESET, Map::new()).unwrap();
        assert_eq!(offered.call(ANSWER, Map::new()).unwrap_err(), "`text` is missing");
        assert!(offered.call("nothing", Map::new()).unwrap().contains("there is no tool `nothing`"));
    }
}
