//! JSON as a policy writes it: somewhere in a text, perhaps broken.

use std::collections::HashSet;
use std::fmt;

use burnish_core::{FunctionCall, ToolCall, names};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value without repeated keys. If two arguments have the same name, it is unclear which one is meant.
struct Checked;

struct CheckedVisitor;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CheckedVisitor)
    }
}

impl<'de> Visitor<'de> for CheckedVisitor {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Checked, A::Error> {
        while items.next_element::<Checked>()?.is_some() {}
        Ok(Checked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Checked, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands twice")));
            }
            entries.next_value::<Checked>()?;
            keys.insert(key);
        }
        Ok(Checked)
    }
}

/// Reads the JSON value at the beginning of a text; returns the value and its length in bytes.
pub(super) fn prefix(text: &str) -> Result<(Value, usize), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Checked>();
    match values.next() {
        None => Err("nothing stands there".into()),
        Some(Err(error)) => Err(in_words(&error)),
        Some(Ok(Checked)) => {
            let length = values.byte_offset();
            let value = burnish_core::json::parse(&text[..length]).map_err(|error| in_words(&error))?;
            Ok((value, length))
        }
    }
}

/// Reads a text that is exactly one JSON value.
pub(super) fn whole(text: &str) -> Result<Value, String> {
    // This also finds what `prefix` accepts at the end of a value, such as a letter after a number.
    serde_json::from_str::<Checked>(text).map_err(|error| in_words(&error))?;
    burnish_core::json::parse(text).map_err(|error| in_words(&error))
}

/// The parser's message, with the position as a person counts it.
fn in_words(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let said = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
    let said = match (said.strip_prefix("EOF while parsing "), said) {
        (Some(what), _) => format!("it ends within {what}"),
        (None, "expected ident") => "expected `true`, `false` or `null`".into(),
        _ => said.to_owned(),
    };
    match line {
        0 => said,
        1 => format!("{said} at column {column}"),
        _ => format!("{said} at line {line}, column {column}"),
    }
}

/// What kind of value it is, for a sentence.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The beginning of a text, for an error message.
pub(super) fn shown(text: &str) -> String {
    const LENGTH: usize = 40;
    let text = text.trim();
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("`{} ...`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// A call to a tool by name.
pub(super) fn call(name: &str, arguments: Map<String, Value>) -> ToolCall {
    ToolCall {
        id: None,
        function: FunctionCall { name: name.to_owned(), arguments: Value::Object(arguments) },
    }
}

/// The arguments of a call as a JSON object, which may be given as a text.
///
/// # Errors
/// Why they can't be read, in words for the policy.
pub fn arguments(value: Value) -> Result<Map<String, Value>, String> {
    let value = match value {
        Value::String(text) => {
            whole(&text).map_err(|problem| format!("the arguments are not JSON: {problem}"))?
        }
        value => value,
    };
    match value {
        Value::Object(arguments)
            if burnish_core::json::long_digits(&Value::Object(arguments.clone())).is_none() =>
        {
            Ok(arguments)
        }
        other => Err(format!("the arguments must be a JSON object, but are {}", kind(&other))),
    }
}

/// A call that is one JSON object. `argument_keys` are the possible names of its arguments.
pub(super) fn call_object(value: Value, argument_keys: &[&str]) -> Result<ToolCall, String> {
    let argument_key = argument_keys.first().copied().unwrap_or("arguments");
    let Value::Object(mut object) = value else {
        return Err(format!(
            "it must be a JSON object with `name` and `{argument_key}`, but is {}",
            kind(&value)
        ));
    };
    let known = ["name", "id", "type"].into_iter().chain(argument_keys.iter().copied());
    if let Some(unknown) = object.keys().find(|key| !known.clone().any(|known| known == key.as_str())) {
        let hint = names::nearest(unknown, ["name"].into_iter().chain([argument_key]));
        let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(format!("it has the key `{unknown}`, which a call does not have{hint}"));
    }
    let name = match object.remove("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => name,
        Some(Value::String(_)) => return Err("its `name` is empty".into()),
        Some(other) => return Err(format!("its `name` must be a text, but is {}", kind(&other))),
        None => return Err("it has no `name`".into()),
    };
    let mut given = argument_keys.iter().filter_map(|key| Some((key, object.remove(*key)?)));
    let (_, value) = given.next().ok_or_else(|| format!("it has no `{argument_key}`"))?;
    if let Some((second, _)) = given.next() {
        return Err(format!("it has `{second}` beside its other arguments"));
    }
    drop(given);
    let mut call = call(&name, arguments(value)?);
    call.id = object.remove("id").and_then(|id| id.as_str().map(str::to_owned)).filter(|id| !id.is_empty());
    Ok(call)
}
