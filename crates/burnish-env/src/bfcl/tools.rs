//! Functions as the leaderboard writes them, and as tools for a policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use burnish_core::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::python::Type;

/// A function.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Function {
    /// Its name, which may have dots.
    pub(super) name: String,
    /// What it does.
    pub(super) description: String,
    /// Its parameters, in a JSON schema with Python's names of types.
    parameters: Value,
    /// What it returns, in the same notation.
    #[serde(default)]
    response: Option<Value>,
}

/// A parameter, as far as answers are checked by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Its type.
    pub(super) of: Type,
    /// The type of its items, if it is a list.
    pub(super) items: Option<Type>,
}

/// The parameters of a function.
pub(super) struct Parameters<'a> {
    /// Each with its name, in the function's order.
    pub(super) all: Vec<(&'a str, Parameter)>,
    /// Names of those that must be given.
    pub(super) required: Vec<&'a str>,
}

impl Parameters<'_> {
    pub(super) fn get(&self, name: &str) -> Option<Parameter> {
        self.all.iter().find(|(known, _)| *known == name).map(|(_, parameter)| *parameter)
    }
}

impl Function {
    /// Its parameters.
    ///
    /// # Errors
    /// If they are not written as the leaderboard writes them: names the field.
    pub(super) fn parameters(&self) -> Result<Parameters<'_>, String> {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        let properties = properties.ok_or("parameters.properties: must be an object")?;
        let parameter = |(name, schema): (_, &Value)| {
            let here = |problem: &str| format!("parameters.properties.{name}.{problem}");
            let of = type_of(schema).ok_or_else(|| here("type: is unknown"))?;
            let items = match of {
                Type::List => {
                    let items = schema.get("items").ok_or_else(|| here("items: is missing"))?;
                    Some(type_of(items).ok_or_else(|| here("items.type: is unknown"))?)
                }
                _ => None,
            };
            let name: &String = name;
            Ok((name.as_str(), Parameter { of, items }))
        };
        let all: Vec<_> = properties.iter().map(parameter).collect::<Result<_, String>>()?;
        let required = self.parameters.get("required").and_then(Value::as_array);
        let required = required.ok_or("parameters.required: must be a list")?;
        let required: Option<Vec<&str>> = required.iter().map(Value::as_str).collect();
        let required = required.ok_or("parameters.required: must be a list of names")?;
        Ok(Parameters { all, required })
    }

    /// The function as a tool. What it returns, if that is known, stands behind its description.
    pub(super) fn spec(&self) -> ToolSpec {
        let mut description = self.description.clone();
        if let Some(response) = &self.response {
            description += &format!(" It returns {}.", schema(response));
        }
        ToolSpec {
            name: offered(&self.name),
            description,
            parameters: schema(&self.parameters),
            more: Map::new(),
        }
    }
}

/// The name under which a function is offered: OpenAI's function names have no dots.
pub(super) fn offered(name: &str) -> String {
    name.replace('.', "_")
}

/// The function that a call means: by the name under which it was offered, or by its own.
pub(super) fn called<'a>(functions: &'a [Arc<Function>], name: &str) -> Option<&'a Function> {
    let own = functions.iter().find(|function| function.name == name);
    own.or_else(|| functions.iter().find(|function| offered(&function.name) == name)).map(Arc::as_ref)
}

/// The type of values; `any` is a string in the leaderboard.
fn type_of(schema: &Value) -> Option<Type> {
    Some(match schema.get("type")?.as_str()? {
        "string" | "any" => Type::Str,
        "integer" => Type::Int,
        "float" => Type::Float,
        "boolean" => Type::Bool,
        "array" | "tuple" => Type::List,
        "dict" => Type::Dict,
        _ => return None,
    })
}

/// A JSON schema from one with Python's names of types. `optional`, which is no keyword of JSON schema, becomes nothing:
/// `required` says the same.
fn schema(given: &Value) -> Value {
    let Value::Object(fields) = given else { return given.clone() };
    let mut made = Map::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("optional", Value::Bool(_)) => {}
            ("type", Value::String(name)) => {
                let name = match name.as_str() {
                    "dict" => "object",
                    "float" => "number",
                    "tuple" => "array",
                    "any" => "string",
                    same => same,
                };
                made.insert(key.clone(), json!(name));
            }
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter().map(|(name, of)| (name.clone(), schema(of)));
                made.insert(key.clone(), Value::Object(properties.collect()));
            }
            ("items", items) => {
                made.insert(key.clone(), schema(items));
            }
            _ => {
                made.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(made)
}

/// The tools of `functions` without those that are `held_back`.
pub(super) fn specs(functions: &[Arc<Function>], held_back: &BTreeSet<&str>) -> Vec<ToolSpec> {
    let free = functions.iter().filter(|function| !held_back.contains(function.name.as_str()));
    free.map(|function| function.spec()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn types_become_those_of_json_and_names_lose_their_dots() {
        let function: Function = serde_json::from_value(json!({
            "name": "geo.distance", "description": "Far.",
            "parameters": {"type": "dict", "required": ["from"], "properties": {
                "from": {"type": "tuple", "items": {"type": "float"}, "description": "where"},
                "type": {"type": "any", "optional": true},
                "deep": {"type": "dict", "properties": {"items": {"type": "array", "items": {"type": "dict"}}}}}},
        }))
        .unwrap();
        let spec = function.spec();
        assert_eq!(spec.name, "geo_distance");
        assert_eq!(
            spec.parameters,
            json!({"type": "object", "required": ["from"], "properties": {
                "from": {"type": "array", "items": {"type": "number"}, "description": "where"},
                "type": {"type": "string"},
                "deep": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object"}}}}}})
        );
        let functions = [Arc::new(function)];
        assert!(called(&functions, "geo_distance").is_some() && called(&functions, "geo.distance").is_some());
        assert!(called(&functions, "geo").is_none());
    }

    #[test]
    fn what_is_not_the_leaderboards_notation_is_named() {
        let function = |properties: Value| -> Function {
            let parameters = json!({"type": "dict", "properties": properties, "required": []});
            serde_json::from_value(json!({"name": "f", "description": "", "parameters": parameters})).unwrap()
        };
        let complaint = |properties| function(properties).parameters().err().unwrap();
        assert_eq!(complaint(json!({"x": {"type": "number"}})), "parameters.properties.x.type: is unknown");
        assert_eq!(complaint(json!({"x": {"type": "array"}})), "parameters.properties.x.items: is missing");
    }
}
