//! Values as Python has them, since the leaderboard's checks and APIs are defined by it: which values are equal, and how
//! they are written.

use serde_json::{Number, Value};

/// A type, as Python tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// `None`.
    None,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `str`.
    Str,
    /// `list`.
    List,
    /// `dict`.
    Dict,
}

impl Type {
    pub(super) fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::None,
            Value::Bool(_) => Type::Bool,
            Value::Number(number) if number.is_f64() => Type::Float,
            Value::Number(_) => Type::Int,
            Value::String(_) => Type::Str,
            Value::Array(_) => Type::List,
            Value::Object(_) => Type::Dict,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::None => "None",
            Type::Bool => "a boolean",
            Type::Int => "an integer",
            Type::Float => "a float",
            Type::Str => "a string",
            Type::List => "a list",
            Type::Dict => "an object",
        }
    }
}

/// Whether Python calls two values equal: `1`, `1.0` and `True` are.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| equal(one, other)))
        }
        (Value::Bool(_) | Value::Number(_), Value::Bool(_) | Value::Number(_)) => {
            match (whole(one), whole(other)) {
                (Some(one), Some(other)) => one == other,
                _ => number(one) == number(other),
            }
        }
        _ => one == other,
    }
}

/// A boolean or an integer as an integer.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(is) => Some(i128::from(*is)),
        Value::Number(number) => number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)),
        _ => None,
    }
}

/// A boolean or a number as a float.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        value => value.as_f64(),
    }
}

/// What a policy reads of a result: a text as it is, an object as `json.dumps` writes it, anything else as `str` does.
pub(super) fn result(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::String(said) => return said.clone(),
        Value::Object(_) => dump(value, &mut text),
        value => repr(value, &mut text),
    }
    text
}

/// A value in Python's own notation.
pub(super) fn shown(value: &Value) -> String {
    let mut text = String::new();
    repr(value, &mut text);
    text
}

fn separated<T>(items: impl Iterator<Item = T>, text: &mut String, mut write: impl FnMut(T, &mut String)) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        write(item, text);
    }
}

/// `json.dumps` with its defaults.
fn dump(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(is) => text.push_str(if *is { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&digits(number)),
        Value::String(said) => dump_text(said, text),
        Value::Array(items) => {
            text.push('[');
            separated(items.iter(), text, dump);
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            separated(fields.iter(), text, |(key, value), text| {
                dump_text(key, text);
                text.push_str(": ");
                dump(value, text);
            });
            text.push('}');
        }
    }
}

/// Only ASCII: other characters as escaped UTF-16.
fn dump_text(said: &str, text: &mut String) {
    text.push('"');
    for letter in said.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(letter),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    text.push('"');
}

/// `repr`.
fn repr(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(is) => text.push_str(if *is { "True" } else { "False" }),
        Value::Number(number) => text.push_str(&digits(number)),
        Value::String(said) => repr_text(said, text),
        Value::Array(items) => {
            text.push('[');
            separated(items.iter(), text, repr);
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            separated(fields.iter(), text, |(key, value), text| {
                repr_text(key, text);
                text.push_str(": ");
                repr(value, text);
            });
            text.push('}');
        }
    }
}

fn repr_text(said: &str, text: &mut String) {
    let quote = if said.contains('\'') && !said.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for letter in said.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            letter if letter == quote => text.extend(['\\', quote]),
            letter if letter.is_control() && (letter as u32) < 0x100 => {
                text.push_str(&format!("\\x{:02x}", letter as u32));
            }
            letter => text.push(letter),
        }
    }
    text.push(quote);
}

/// A number as `repr` writes it: a float has a point or an exponent.
fn digits(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(value) => float(value),
        None => number.to_string(),
    }
}

/// The shortest digits that give the float back, with an exponent from 1e16 and below 1e-4.
pub(super) fn float(value: f64) -> String {
    let short = format!("{value:e}");
    let Some((mantissa, exponent)) = short.split_once('e') else { return short };
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}

/// The lines of a text, as `str.splitlines` finds them.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let is_end = |letter: char| {
        matches!(
            letter,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    while let Some(at) = rest.find(is_end) {
        found.push(&rest[..at]);
        let end = &rest[at..];
        let taken = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(0, char::len_utf8) };
        rest = &end[taken..];
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_equal_as_in_python() {
        for (one, other, is) in [
            (json!(1), json!(1.0), true),
            (json!(true), json!(1), true),
            (json!("1"), json!(1), false),
            (json!([1, "a"]), json!([1.0, "a"]), true),
            (json!([1]), json!([1, 2]), false),
            (json!({"a": 1, "b": 2}), json!({"b": 2.0, "a": 1}), true),
            (json!(null), json!(0), false),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64), false),
        ] {
            assert_eq!(equal(&one, &other), is, "{one} {other}");
            assert_eq!(equal(&other, &one), is, "{other} {one}");
        }
    }

    #[test]
    fn values_are_written_as_python_writes_them() {
        let value = json!({"a": [1, 2.0, 1e16, 1.5e-7, true, null], "é\"": "x\ny's"});
        assert_eq!(result(&value), r#"{"a": [1, 2.0, 1e+16, 1.5e-07, true, null], "\u00e9\"": "x\ny's"}"#);
        assert_eq!(shown(&value), r#"{'a': [1, 2.0, 1e+16, 1.5e-07, True, None], 'é"': "x\ny's"}"#);
        assert_eq!(result(&json!("plain")), "plain");
        assert_eq!(result(&json!(null)), "None");
        assert_eq!(result(&json!(["it's \"so\""])), r#"['it\'s "so"']"#);
        assert_eq!(
            [1e15, 123456789012345680.0, 0.0001, -0.0].map(float),
            ["1000000000000000.0", "1.2345678901234568e+17", "0.0001", "-0.0"]
        );
    }

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(lines("a\nb\r\nc\rd\u{2028}"), ["a", "b", "c", "d"]);
        assert_eq!(lines("a\n\nb"), ["a", "", "b"]);
        assert!(lines("").is_empty());
    }
}
