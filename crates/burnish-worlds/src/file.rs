//! A world's file as it is written, before anything is known to make sense.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::kind::Kind;

/// A table of a file whose order matters.
#[derive(Debug, Clone)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Ordered(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorldFile {
    pub(crate) name: String,
    pub(crate) about: String,
    #[serde(default)]
    pub(crate) goals: Vec<String>,
    #[serde(default)]
    pub(crate) aliases: Ordered<String>,
    pub(crate) tables: Ordered<TableFile>,
    pub(crate) tools: Vec<ToolFile>,
    #[serde(default)]
    pub(crate) fixture: Map<String, Value>,
    #[serde(default)]
    pub(crate) tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableFile {
    pub(crate) prefix: String,
    pub(crate) rows: [usize; 2],
    #[serde(default)]
    pub(crate) columns: Ordered<ColumnFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnFile {
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) draw: Option<Vec<Value>>,
    pub(crate) table: Option<String>,
    #[serde(default)]
    pub(crate) one_of: Vec<Value>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    #[serde(default)]
    pub(crate) unique: bool,
    #[serde(default)]
    pub(crate) optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolFile {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) ask: String,
    pub(crate) noun: Option<String>,
    #[serde(default)]
    pub(crate) steps: Vec<StepFile>,
    #[serde(default)]
    pub(crate) parameters: Ordered<ParameterFile>,
    #[serde(default)]
    pub(crate) returns: Ordered<ReturnFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterFile {
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) about: String,
    pub(crate) from: Option<String>,
    pub(crate) draw: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) internal: bool,
    #[serde(default)]
    pub(crate) optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReturnFile {
    pub(crate) value: String,
    pub(crate) about: String,
}

/// A step, by which verb it has.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StepFile {
    pub(crate) find: Option<String>,
    pub(crate) check: Option<String>,
    pub(crate) set: Option<String>,
    pub(crate) insert: Option<String>,
    pub(crate) delete: Option<String>,
    pub(crate) list: Option<String>,
    pub(crate) count: Option<String>,
    pub(crate) sum: Option<String>,
    pub(crate) update: Option<String>,
    #[serde(rename = "where")]
    pub(crate) condition: Option<String>,
    pub(crate) order: Option<String>,
    pub(crate) descending: bool,
    #[serde(rename = "as")]
    pub(crate) name: Option<String>,
    pub(crate) otherwise: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) row: Ordered<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) column: Option<String>,
}

/// A test of a tool, which begins from the fixture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The tool that is called.
    pub tool: String,
    /// What it is given.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// What it must return; or else it must fail with `error`.
    pub result: Option<Map<String, Value>>,
    /// The refusal that it must fail with.
    pub error: Option<String>,
    /// Exactly what must differ afterwards: cells by `table.key.column`, whole new rows by `table.key`.
    #[serde(default)]
    pub changed: Map<String, Value>,
    /// Rows that must be gone, `table.key`.
    #[serde(default)]
    pub removed: Vec<String>,
}
