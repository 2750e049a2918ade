//! How a policy's answers become actions, by the schema that the server gives of them.

use burnish_core::{Message, Role, ToolCall, ToolSpec, json, openai};
use serde_json::{Map, Value};

use super::config::Config;
use crate::tools::check_call;

/// The tool that takes an action with several fields.
const ACT: &str = "act";
/// Fields that every action of OpenEnv has, which are not for a policy.
const METADATA: &str = "metadata";
/// Fields of an action that calls a tool.
const OF_A_CALL: [&str; 3] = ["type", "tool_name", "arguments"];

/// What a policy does in the environment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Its answer fills this field, which has this type.
    Text(String, Type),
    /// It fills in several fields, as the arguments of a tool.
    Fields(ToolSpec),
    /// It calls the server's tools.
    Tools(Vec<ToolSpec>),
}

/// The type of a field that an answer fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    /// A number, true or false: the answer is JSON.
    Json,
}

/// One thing that a policy does.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    /// An action, and the call that it comes from.
    Take(Map<String, Value>, Option<ToolCall>),
    /// None: this is said to the policy.
    Say(Message),
}

/// Does the server take calls of tools, and nothing else?
pub(super) fn is_of_tools(schema: &Value) -> bool {
    let mut fields = fields(schema).map(|(name, _)| name).filter(|name| *name != METADATA);
    fields.all(|name| OF_A_CALL.contains(&name))
}

impl Shape {
    /// The shape for a schema of actions that are no calls of tools.
    ///
    /// # Errors
    /// If the configuration names a field that actions do not have, or leaves nothing to do: in words.
    pub(super) fn of_schema(schema: &Value, config: &Config) -> Result<Shape, String> {
        let known: Vec<(&str, &Value)> = fields(schema).filter(|(name, _)| *name != METADATA).collect();
        let names: Vec<String> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
        let names = names.join(", ");
        let wanted = config.action.keys().chain((!config.answer.is_empty()).then_some(&config.answer));
        for wanted in wanted {
            if !known.iter().any(|(name, _)| name == wanted) {
                return Err(format!("its actions have no field `{wanted}`, only {names}"));
            }
        }
        let open: Vec<(&str, &Value)> =
            known.into_iter().filter(|(name, _)| !config.action.contains_key(*name)).collect();
        let required = |name: &str| {
            let required = schema["required"].as_array().into_iter().flatten();
            required.filter_map(Value::as_str).any(|required| required == name)
        };
        let of_answer: Vec<(&str, &Value)> = match config.answer.as_str() {
            "" if open.len() > 1 => open.iter().copied().filter(|(name, _)| required(name)).collect(),
            "" => open.clone(),
            answer => open.iter().copied().filter(|(name, _)| *name == answer).collect(),
        };
        match of_answer.as_slice() {
            [(name, field)] if has_type(field, "string") => Ok(Shape::Text((*name).to_owned(), Type::Text)),
            [(name, field)] if is_simple(field) => Ok(Shape::Text((*name).to_owned(), Type::Json)),
            _ if open.is_empty() => Err("its actions have no field that an answer could fill".to_owned()),
            _ if !config.answer.is_empty() => {
                Err(format!("`{}` is neither a text nor a number", config.answer))
            }
            _ => Ok(Shape::Fields(tool(schema, config))),
        }
    }

    /// The tools that the policy has.
    pub(super) fn tools(&self) -> &[ToolSpec] {
        match self {
            Shape::Text(..) => &[],
            Shape::Fields(tool) => std::slice::from_ref(tool),
            Shape::Tools(tools) => tools,
        }
    }

    /// What an answer does. Nothing: the policy has ended the episode.
    pub(super) fn acts(&self, answer: &Message, constants: &Map<String, Value>) -> Vec<Act> {
        let with = |fields: Map<String, Value>| constants.clone().into_iter().chain(fields).collect();
        if let Shape::Text(field, kind) = self {
            let text = answer.content.trim();
            let value = match kind {
                Type::Text => Value::String(answer.content.clone()),
                Type::Json => match json::parse(text) {
                    Ok(value) => value,
                    Err(_) => {
                        let problem = format!("`{field}` must be a number, true or false, and nothing else");
                        return vec![Act::Say(Message::user(problem))];
                    }
                },
            };
            return vec![Act::Take(with(Map::from_iter([(field.clone(), value)])), None)];
        }
        let act = |call: &ToolCall| {
            if let Err(problem) = check_call(call, self.tools()) {
                return Act::Say(result(call, problem));
            }
            let arguments = openai::read_arguments(&call.function.arguments).unwrap_or_default();
            let fields = match self {
                Shape::Tools(_) => Map::from_iter([
                    ("type".to_owned(), "call_tool".into()),
                    ("tool_name".to_owned(), call.function.name.clone().into()),
                    ("arguments".to_owned(), arguments.into()),
                ]),
                _ => arguments,
            };
            Act::Take(with(fields), Some(call.clone()))
        };
        answer.tool_calls.iter().map(act).collect()
    }
}

/// The result of a call, as a message.
pub(super) fn result(call: &ToolCall, text: String) -> Message {
    Message {
        tool_call_id: call.id.clone(),
        name: Some(call.function.name.clone()),
        ..Message::new(Role::Tool, text)
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, field)| (name.as_str(), field))
}

/// Is a value of this type allowed? Pydantic writes optional ones as `anyOf`.
fn has_type(field: &Value, name: &str) -> bool {
    let among = |types: &Value| types.as_array().is_some_and(|types| types.iter().any(|one| one == name));
    field["type"] == name
        || among(&field["type"])
        || field["anyOf"].as_array().is_some_and(|ways| ways.iter().any(|way| has_type(way, name)))
        || field["enum"]
            .as_array()
            .is_some_and(|values| name == "string" && values.iter().all(Value::is_string))
}

fn is_simple(field: &Value) -> bool {
    ["integer", "number", "boolean"].iter().any(|name| has_type(field, name))
}

/// The tool that takes the fields of an action that are not constant.
fn tool(schema: &Value, config: &Config) -> ToolSpec {
    let mut parameters = schema.clone();
    let is_open = |name: &str| name != METADATA && !config.action.contains_key(name);
    if let Some(properties) = parameters["properties"].as_object_mut() {
        properties.retain(|name, _| is_open(name));
    }
    if let Some(required) = parameters["required"].as_array_mut() {
        required.retain(|name| name.as_str().is_some_and(is_open));
    }
    let description = schema["description"].as_str().unwrap_or("Acts in the environment.").trim().to_owned();
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.retain(|key, _| !["title", "description"].contains(&key.as_str()));
    }
    ToolSpec { name: ACT.to_owned(), description, parameters, more: Map::new() }
}

/// The server's tools, as it lists them in an observation or over MCP.
///
/// # Errors
/// If it lists none: in words.
pub(super) fn tools(listed: &Value) -> Result<Vec<ToolSpec>, String> {
    let tools = listed["tools"].as_array().ok_or("it lists no tools")?;
    let tool = |tool: &Value| {
        let schema =
            ["input_schema", "inputSchema"].iter().map(|key| &tool[*key]).find(|schema| schema.is_object());
        Some(ToolSpec {
            name: tool["name"].as_str()?.to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            parameters: schema
                .cloned()
                .unwrap_or_else(|| serde_json::json!({"type": "object", "properties": {}})),
            more: Map::new(),
        })
    };
    let tools: Option<Vec<ToolSpec>> = tools.iter().map(tool).collect();
    match tools {
        Some(tools) if !tools.is_empty() => Ok(tools),
        _ => Err("it lists no tools, or one without a name".to_owned()),
    }
}

/// An observation as the policy reads it: its part `path`, or all of it; a text as it is, anything else as JSON.
pub(super) fn shown(observation: &Value, path: &str) -> Result<String, String> {
    let mut part = observation;
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let index = key.parse::<usize>().ok();
        part = part.get(key).or_else(|| part.get(index?)).ok_or_else(|| {
            format!("an observation has no `{path}`: {}", burnish_http::shortened(&observation.to_string()))
        })?;
    }
    Ok(match part {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// The result of a tool as the policy reads it: its texts, or else the JSON of it.
pub(super) fn shown_result(observation: &Value) -> String {
    if let Some(error) = observation["error"]["message"].as_str() {
        return error.to_owned();
    }
    let result = &observation["result"];
    let texts: Option<Vec<&str>> = result["content"]
        .as_array()
        .map(|parts| parts.iter().filter_map(|part| part["text"].as_str()).collect());
    match (result, texts) {
        (Value::String(text), _) => text.clone(),
        (_, Some(texts)) if !texts.is_empty() => texts.join("\n"),
        (other, _) => other.to_string(),
    }
}
