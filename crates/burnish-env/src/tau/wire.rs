//! Arguments and results of tools: how they are read and written.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use burnish_core::{Repeating, ToolSpec};

/// Largest amount, in dollars, that a tool takes. Nothing in the databases comes near it, and sums can't overflow.
const AMOUNT_MAX: f64 = 1e9;

/// What a tool says: its result, or why it refuses. A refusal changes nothing.
pub(super) type Said = Result<String, String>;

/// The arguments of a call.
///
/// # Errors
/// What does not fit, in words for the policy.
pub(super) fn arguments<T: DeserializeOwned>(given: &Value) -> Result<T, String> {
    T::deserialize(given).map_err(|error| format!("Invalid arguments: {error}"))
}

/// A result as JSON with the spaces that Python's `json.dumps` puts, so that the policy reads what it reads elsewhere.
pub(super) fn text<T: Serialize>(result: &T) -> Said {
    let value = serde_json::to_value(result).map_err(|error| error.to_string())?;
    let mut text = String::new();
    write(&value, &mut text);
    Ok(text)
}

fn write(value: &Value, to: &mut String) {
    let list = |to: &mut String, at: usize| {
        if at > 0 {
            to.push_str(", ");
        }
    };
    match value {
        Value::Array(items) => {
            to.push('[');
            for (at, item) in items.iter().enumerate() {
                list(to, at);
                write(item, to);
            }
            to.push(']');
        }
        Value::Object(entries) => {
            to.push('{');
            for (at, (key, item)) in entries.iter().enumerate() {
                list(to, at);
                to.push_str(&format!("{}: ", Value::from(key.as_str())));
                write(item, to);
            }
            to.push('}');
        }
        other => to.push_str(&other.to_string()),
    }
}

/// Rounded to cents, halves as in Python: by the exact value of the float.
pub(super) fn rounded(amount: f64) -> f64 {
    format!("{amount:.2}").parse().unwrap_or(amount)
}

/// A whole number, which may be written as `2.0`.
///
/// # Errors
/// If it is not whole, or beyond what any amount here is.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let given = serde_json::Number::deserialize(from)?;
    let number = given.as_f64().unwrap_or(f64::NAN);
    if number.fract() != 0.0 || number.is_nan() || number.abs() > AMOUNT_MAX {
        return Err(D::Error::custom(format!("{given} is not a whole number of at most {AMOUNT_MAX}")));
    }
    Ok(number as i64)
}

/// What a tool does to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// It may change records.
    Writes,
}

/// A tool: its effect, and what the policy reads of it.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) effect: Effect,
    pub(super) description: &'static str,
    /// Name, type (`integer`, `text`, `texts`, or a schema as JSON), and description of each argument. All are required.
    pub(super) arguments: &'static [(&'static str, &'static str, &'static str)],
}

impl Tool {
    /// Changes of the database belong to the episode, so a replay makes them again; what only looks need not be repeated.
    pub(super) fn repeating(&self) -> Repeating {
        match self.effect {
            Effect::Reads => Repeating::Repeatable,
            Effect::Writes => Repeating::Rebuilt,
        }
    }

    pub(super) fn spec(&self) -> ToolSpec {
        let mut properties = Map::new();
        for &(name, kind, description) in self.arguments {
            let mut schema = match kind {
                "text" => json!({"type": "string"}),
                "texts" => json!({"type": "array", "items": {"type": "string"}}),
                "integer" => json!({"type": "integer", "minimum": 0}),
                schema => serde_json::from_str(schema).unwrap_or_default(),
            };
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), description.into());
            }
            properties.insert(name.to_owned(), schema);
        }
        let required: Vec<&str> = self.arguments.iter().map(|(name, _, _)| *name).collect();
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: json!({"type": "object", "properties": properties, "required": required}),
            more: Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_written_as_python_writes_them() {
        let result = json!({"b": [1, 2.5, null], "a": {"say \"hi\"": true}, "e": {}, "l": []});
        let text = text(&result).unwrap();
        assert_eq!(text, "{\"b\": [1, 2.5, null], \"a\": {\"say \\\"hi\\\"\": true}, \"e\": {}, \"l\": []}");
    }

    #[test]
    fn whole_numbers_are_read_in_both_spellings_and_others_refused() {
        for (given, number) in [(json!(3), 3), (json!(-3.0), -3), (json!(1_000_000_000), 1_000_000_000)] {
            assert_eq!(whole(given).unwrap(), number);
        }
        for given in [json!(0.5), json!(1e300), json!(u64::MAX), json!(i64::MIN)] {
            assert!(whole(given.clone()).unwrap_err().to_string().starts_with(&given.to_string()), "{given}");
        }
        assert!(whole(json!("3")).is_err());
    }

    #[test]
    fn cents_are_rounded_by_exact_value() {
        assert_eq!(
            (rounded(2.675), rounded(0.125), rounded(-1.005), rounded(54.04)),
            (2.67, 0.12, -1.0, 54.04)
        );
    }
}
