//! The types of values in a world.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The type of a column, a parameter or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A text.
    String,
    /// A whole number of 64 bits.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A list of objects, which a tool returns and nothing reads.
    List,
    /// Only null.
    Null,
}

impl Kind {
    /// The type of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Boolean,
            Value::Number(number) if number.as_i64().is_some() => Kind::Integer,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::String,
            Value::Array(_) | Value::Object(_) => Kind::List,
        }
    }

    /// Whether a value of type `other` can stand where this type is asked for.
    pub fn takes(self, other: Kind) -> bool {
        self == other || (self == Kind::Number && other == Kind::Integer)
    }

    pub(crate) fn is_numeric(self) -> bool {
        matches!(self, Kind::Integer | Kind::Number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::List => "list",
            Kind::Null => "null",
        })
    }
}
