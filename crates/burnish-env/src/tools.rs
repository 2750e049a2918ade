//! Checks whether a tool can carry out a call.

use burnish_core::{ToolCall, ToolSpec, json, names, openai};
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

/// Most complaints about one call.
const COMPLAINTS_MAX: usize = 5;
/// Most names of tools in a complaint.
const NAMES_MAX: usize = 20;
/// Number of characters shown of one complaint.
const SHOWN: usize = 200;

/// Checks a call against the available tools: the tool's name, and its arguments by their schema.
///
/// An argument that the schema does not name is refused, unless the schema explicitly allows further ones
/// (`additionalProperties`). Integers of any length are compared as their nearest floats. A part of the schema that is
/// not JSON schema, or is stored elsewhere (`$ref` to an address), is not checked.
///
/// # Errors
/// What is wrong, in words for the policy.
pub fn check_call(call: &ToolCall, tools: &[ToolSpec]) -> Result<(), String> {
    let name = call.function.name.as_str();
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        return Err(unknown_tool(name, tools));
    };
    let arguments = arguments(&call.function.arguments).map_err(|problem| format!("`{name}`: {problem}"))?;
    let schema = json::rounded(tool.parameters.clone());
    let mut complaints = unknown_arguments(&arguments, &schema);
    // A schema may use terms of its own (`float`), which can't be checked.
    if let Ok(validator) = jsonschema::validator_for(&schema) {
        let arguments = Value::Object(arguments);
        let errors = validator.iter_errors(&arguments);
        complaints.extend(errors.filter_map(|error| in_words(&error)));
    } else {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        complaints.extend(required.filter(|key| !arguments.contains_key(*key)).map(missing));
    }
    complaints.truncate(COMPLAINTS_MAX);
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("`{name}`: {}", complaints.join("; "))),
    }
}

fn unknown_tool(name: &str, tools: &[ToolSpec]) -> String {
    let known = || tools.iter().map(|tool| tool.name.as_str());
    if let Some(near) = names::nearest(name, known()) {
        return format!("there is no tool `{name}`; did you mean `{near}`?");
    }
    let listed: Vec<String> = known().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
    match listed.is_empty() {
        true => format!("there is no tool `{name}`, nor any other"),
        false => {
            let more = if tools.len() > NAMES_MAX { ", ..." } else { "" };
            format!("there is no tool `{name}`; there are {}{more}", listed.join(", "))
        }
    }
}

/// The arguments as an object, which may be given as a text.
fn arguments(value: &Value) -> Result<Map<String, Value>, String> {
    let read = openai::read_arguments(value).map_err(|problem| format!("the arguments {problem}"))?;
    Ok(read.into_iter().map(|(name, value)| (name, json::rounded(value))).collect())
}

fn unknown_arguments(arguments: &Map<String, Value>, schema: &Value) -> Vec<String> {
    let is_open = |key| schema.get(key).is_some_and(|value| *value != Value::Bool(false));
    let Some(known) = schema["properties"].as_object() else { return Vec::new() };
    if is_open("additionalProperties") || is_open("patternProperties") {
        return Vec::new();
    }
    let unknown = arguments.keys().filter(|key| !known.contains_key(*key));
    let complaint = |key: &String| match names::nearest(key, known.keys().map(String::as_str)) {
        Some(near) => format!("it has no argument `{key}`; did you mean `{near}`?"),
        None => format!("it has no argument `{key}`"),
    };
    unknown.map(complaint).collect()
}

fn missing(key: &str) -> String {
    format!("the argument `{key}` is missing")
}

/// A complaint from the schema; `None` for what [`unknown_arguments`] says better.
fn in_words(error: &ValidationError<'_>) -> Option<String> {
    let place = error.instance_path().as_str().trim_start_matches('/');
    match (error.kind(), place) {
        (ValidationErrorKind::Required { property: Value::String(key) }, "") => Some(missing(key)),
        (ValidationErrorKind::AdditionalProperties { .. }, "") => None,
        (_, "") => Some(shortened(error.to_string())),
        (_, place) => Some(format!("the argument `{place}`: {}", shortened(error.to_string()))),
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use burnish_core::FunctionCall;
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, parameters: Value| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters,
            more: Map::new(),
        };
        let properties = json!({
            "city": { "type": "string", "enum": ["Bern", "Basel"] },
            "days": { "type": "integer", "minimum": 1 },
            "places": { "type": "array", "items": { "type": "object", "required": ["name"] } },
        });
        vec![
            tool("get_weather", json!({ "type": "object", "properties": properties, "required": ["city"] })),
            tool("stop", json!({ "type": "object", "properties": {} })),
            tool("open", json!({ "type": "object", "properties": {}, "additionalProperties": true })),
            tool("anything", json!({})),
            tool(
                "odd",
                json!({ "type": "dict", "properties": { "x": { "type": "float" } }, "required": ["x"] }),
            ),
            tool(
                "away",
                json!({ "type": "object", "properties": { "x": { "$ref": "http://localhost/x" } } }),
            ),
        ]
    }

    fn check(name: &str, arguments: Value) -> Result<(), String> {
        check_call(&ToolCall { id: None, function: FunctionCall { name: name.into(), arguments } }, &tools())
    }

    #[test]
    fn what_a_tool_takes_is_right() {
        for (name, arguments) in [
            ("get_weather", json!({ "city": "Bern" })),
            ("get_weather", json!({ "days": 2.0, "city": "Basel", "places": [{ "name": 1 }] })),
            ("get_weather", json!("{\"city\": \"Bern\", \"days\": 123456789012345678901234567890}")),
            ("stop", json!({})),
            ("open", json!({ "x": 1 })),
            ("anything", json!({ "x": 1 })),
            ("odd", json!({ "x": "y" })),
            ("away", json!({ "x": "y" })),
        ] {
            assert_eq!(check(name, arguments.clone()), Ok(()), "{name} {arguments}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        for (name, arguments, complaint) in [
            ("get_wether", json!({}), "there is no tool `get_wether`; did you mean `get_weather`?"),
            (
                "zzz",
                json!({}),
                "there is no tool `zzz`; there are `get_weather`, `stop`, `open`, `anything`, `odd`, `away`",
            ),
            ("get_weather", json!({}), "`get_weather`: the argument `city` is missing"),
            (
                "get_weather",
                json!({ "citty": "Bern" }),
                "`get_weather`: it has no argument `citty`; did you mean `city`?; the argument `city` is missing",
            ),
            ("stop", json!({ "x": 1 }), "`stop`: it has no argument `x`"),
            (
                "get_weather",
                json!({ "city": "Bern", "days": "five" }),
                "`get_weather`: the argument `days`: \"five\" is not of type \"integer\"",
            ),
            (
                "get_weather",
                json!({ "city": "Bonn", "days": 0 }),
                "`get_weather`: the argument `city`: \"Bonn\" is not one of \"Bern\" or \"Basel\"; the argument `days`: 0 \
                 is less than the minimum of 1",
            ),
            (
                "get_weather",
                json!({ "city": "Bern", "places": [{}] }),
                "`get_weather`: the argument `places/0`: \"name\" is a required property",
            ),
            (
                "get_weather",
                json!([]),
                "`get_weather`: the arguments must be a JSON object, or the text of one",
            ),
            ("odd", json!({}), "`odd`: the argument `x` is missing"),
        ] {
            assert_eq!(check(name, arguments), Err(complaint.into()));
        }
        let error = check("get_weather", json!("{\"city\"")).unwrap_err();
        assert!(error.starts_with("`get_weather`: the arguments must be a JSON object, or the text of one, and it is not JSON: EOF"), "{error}");
        let call = ToolCall { id: None, function: FunctionCall { name: "x".into(), arguments: json!({}) } };
        assert_eq!(check_call(&call, &[]), Err("there is no tool `x`, nor any other".into()));
    }
}
