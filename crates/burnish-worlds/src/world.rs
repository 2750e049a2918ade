//! A world: what its file says, read and checked.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::expr::Expr;
use crate::file::Test;
use crate::kind::Kind;
use crate::state::State;
use crate::step::Step;
use crate::{WorldError, read};

/// A typed state, tools that read and change it, and tests of both.
#[derive(Debug, Clone)]
pub struct World {
    /// Its name, which no other world has.
    pub name: String,
    /// What it is about, for a person and for the policy.
    pub about: String,
    /// Motives that a user may begin with.
    pub goals: Vec<String>,
    /// What a user may say in place of a value.
    pub aliases: BTreeMap<String, String>,
    /// Tables of the state, in an order in which rows only name tables before their own.
    pub tables: Vec<Table>,
    /// The tools.
    pub tools: Vec<Tool>,
    /// The state that tests begin from.
    pub fixture: State,
    /// Tests of the tools.
    pub tests: Vec<Test>,
}

/// A table of the state. A row is known by its key: `prefix` and a number from 1 on.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// What its keys begin with.
    pub prefix: String,
    /// Least and most rows of a drawn state.
    pub rows: [usize; 2],
    /// Its columns, without the key.
    pub columns: Vec<Column>,
}

/// A column, with what its values must fulfil.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Type of its values.
    pub kind: Kind,
    /// Where values of a drawn state come from. Null without.
    pub draw: Option<Draw>,
    /// The table whose keys its values are.
    pub table: Option<String>,
    /// The only values that it may have; any, if empty.
    pub one_of: Vec<Value>,
    /// Least value.
    pub min: Option<f64>,
    /// Greatest value.
    pub max: Option<f64>,
    /// Whether no two rows of a drawn state have the same value.
    pub unique: bool,
    /// Whether it may be null.
    pub optional: bool,
}

/// Where values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Draw {
    /// One of these.
    Of(Vec<Value>),
    /// A whole number between two, both included.
    Between(i64, i64),
}

/// A tool: a transaction on the state.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name, which no tool of another world has.
    pub name: String,
    /// What it does, for the policy to read.
    pub about: String,
    /// How a user asks for it, with parameters in braces.
    pub ask: String,
    /// What a user calls that whose identifier it returns, with parameters in braces.
    pub noun: Option<String>,
    /// What it is given.
    pub parameters: Vec<Parameter>,
    /// What it returns.
    pub returns: Vec<Returned>,
    pub(crate) steps: Vec<Step>,
}

/// A parameter of a tool.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// What it is, for the policy to read.
    pub about: String,
    /// Where its value comes from.
    pub source: Source,
    /// Whether it may be left out.
    pub optional: bool,
}

/// Where the value of a parameter comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A user says it: a value that a column has or could have.
    Column(String, String),
    /// A user says it: drawn.
    Drawn(Draw),
    /// Only a tool gives it.
    Internal,
}

/// What a tool returns under a name.
#[derive(Debug, Clone)]
pub struct Returned {
    /// The name.
    pub name: String,
    /// What it is, for the policy to read.
    pub about: String,
    /// Its type.
    pub kind: Kind,
    pub(crate) value: Expr,
}

impl World {
    /// Reads a world from TOML, or from the same as JSON.
    ///
    /// # Errors
    /// Names the tool, the step or the table that makes no sense, and why.
    pub fn parse(text: &str) -> Result<Self, WorldError> {
        read::world(text)
    }

    /// The table of a name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The tool of a name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl Table {
    /// The key of the row of a number.
    pub fn key(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The number of the row of a key; `None` if no row can have this key.
    pub fn number(&self, key: &str) -> Option<u64> {
        let digits = key.strip_prefix(&self.prefix)?;
        let number = digits.parse().ok().filter(|number| *number > 0)?;
        // One key for each row: no leading zeros, no sign.
        (self.key(number) == key).then_some(number)
    }

    /// The column of a name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Types of its columns, the key among them as `id`.
    pub(crate) fn kinds(&self) -> BTreeMap<&str, Kind> {
        let columns = self.columns.iter().map(|column| (column.name.as_str(), column.kind));
        columns.chain([("id", Kind::String)]).collect()
    }
}

impl Tool {
    /// Whether it can change the state.
    pub fn changes(&self) -> bool {
        self.steps.iter().any(Step::changes)
    }

    /// Whether it can refuse a call.
    pub fn refuses(&self) -> bool {
        self.steps.iter().any(Step::refuses)
    }

    /// The JSON schema of its arguments.
    pub fn schema(&self) -> Value {
        let property = |parameter: &Parameter| {
            let kind = parameter.kind.to_string();
            (parameter.name.clone(), json!({ "type": kind, "description": parameter.about }))
        };
        let properties: Map<String, Value> = self.parameters.iter().map(property).collect();
        let required: Vec<&str> =
            self.parameters.iter().filter(|it| !it.optional).map(|it| it.name.as_str()).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    /// The parameter of a name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}
