//! Values of JSON as templates see them: they print as Python's.

use std::fmt;
use std::sync::Arc;

use burnish_core::json::long_digits;
use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, ValueKind};

/// Converts a JSON value to a template value.
pub(super) fn value(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Value::from(number),
            (None, Some(number), _) => Value::from(number),
            (None, None, float) => {
                let float = float.unwrap_or(f64::NAN);
                let text = python_float(float);
                // minijinja has no exponents.
                if text.contains('e') { Value::from_object(Exact(text)) } else { Value::from(float) }
            }
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => printed(items.iter().map(value).collect::<Vec<Value>>().into()),
        Json::Object(map) => match long_digits(json) {
            Some(digits) => digits
                .parse::<i128>()
                .map_or_else(|_| Value::from_object(Exact(digits.to_owned())), Value::from),
            None => printed(Value::from_pairs(map.iter().map(|(key, item)| (key.as_str(), value(item))))),
        },
    }
}

fn printed(container: Value) -> Value {
    match container.as_object() {
        Some(object) => Value::from_object(Printed(object.clone())),
        None => container,
    }
}

/// A number that minijinja would print otherwise or can't hold. It can be printed, not calculated with.
#[derive(Debug)]
pub(super) struct Exact(String);

impl Object for Exact {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A list or a dictionary that prints as in Python.
#[derive(Debug)]
struct Printed(DynObject);

impl Object for Printed {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_map = self.repr() == ObjectRepr::Map;
        f.write_str(if is_map { "{" } else { "[" })?;
        for (at, item) in self.0.try_iter().into_iter().flatten().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write_repr(&item, f)?;
            if is_map {
                f.write_str(": ")?;
                write_repr(&self.get_value(&item).unwrap_or_default(), f)?;
            }
        }
        f.write_str(if is_map { "}" } else { "]" })
    }
}

fn write_repr(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(text) = value.as_str() else { return write!(f, "{value}") };
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    write!(f, "{quote}")?;
    for c in text.chars() {
        match c {
            '\\' | '\n' | '\r' | '\t' => write!(f, "{}", c.escape_default())?,
            c if c == quote => write!(f, "\\{c}")?,
            c if is_printable(c) => write!(f, "{c}")?,
            c => match u32::from(c) {
                number @ ..=0xff => write!(f, "\\x{number:02x}")?,
                number @ 0x100..=0xffff => write!(f, "\\u{number:04x}")?,
                number => write!(f, "\\U{number:08x}")?,
            },
        }
    }
    write!(f, "{quote}")
}

/// Python's `isprintable`. Rust's `Debug` escapes the same characters, save those that join the character before them
/// where there is one.
fn is_printable(c: char) -> bool {
    (' '..='~').contains(&c) || !format!("{:?}", String::from_iter(['a', c])).contains('\\')
}

/// Python's `str` of a value, also of containers that the template made.
pub(super) fn text(value: &Value) -> String {
    match (value.kind(), value.as_object()) {
        (ValueKind::Number, _) => number(value),
        (ValueKind::Seq | ValueKind::Iterable, Some(object))
            if !value.is_tuple() && value.len().is_some() =>
        {
            Value::from_object(Printed(object.clone())).to_string()
        }
        _ => value.to_string(),
    }
}

/// A number as Python prints it.
pub(super) fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => python_float(float),
        _ => value.to_string(),
    }
}

/// Is the value a number that minijinja does not know as one?
pub(super) fn is_exact(value: &Value) -> bool {
    value.downcast_object_ref::<Exact>().is_some()
}

/// Rust's `Debug` uses exponents where Python does, below 1e-4 and from 1e16 on; Python writes them with a sign and at
/// least two digits: `1e-05`, `1e+16`.
fn python_float(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e').and_then(|(mantissa, e)| Some((mantissa, e.parse::<i32>().ok()?))) {
        Some((mantissa, exponent)) => format!("{mantissa}e{exponent:+03}"),
        None => text,
    }
}

/// Is the value a container or an iterator?
pub(super) fn has_items(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
}
