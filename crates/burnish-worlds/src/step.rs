//! What a tool does, step by step, as one transaction.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::expr::{Expr, Scope, add, order};
use crate::kind::Kind;
use crate::state::State;
use crate::world::{Table, Tool, World};

/// Most rows of a list that a tool returns.
const LIST_MAX: usize = 20;

/// A step of a tool.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Find { from: Rows, name: String, otherwise: String },
    Check { condition: Expr, otherwise: String },
    Set { row: String, column: String, to: Expr },
    Insert { table: String, row: Vec<(String, Expr)>, name: Option<String> },
    Delete { row: String },
    List { from: Rows, columns: Vec<String>, name: String },
    Count { from: Rows, name: String },
    Sum { from: Rows, column: String, name: String },
    Update { from: Rows, column: String, to: Expr },
}

/// Rows of a table that fulfil a condition, in an order.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) table: String,
    pub(crate) condition: Option<Expr>,
    pub(crate) order: Option<Expr>,
    pub(crate) descending: bool,
}

impl Step {
    pub(crate) fn changes(&self) -> bool {
        matches!(self, Step::Set { .. } | Step::Insert { .. } | Step::Delete { .. } | Step::Update { .. })
    }

    pub(crate) fn refuses(&self) -> bool {
        matches!(self, Step::Find { .. } | Step::Check { .. })
    }

    /// Its expressions.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        match self {
            Step::Find { from, .. }
            | Step::List { from, .. }
            | Step::Count { from, .. }
            | Step::Sum { from, .. } => from.condition.iter().chain(&from.order).collect(),
            Step::Check { condition, .. } => vec![condition],
            Step::Set { to, .. } => vec![to],
            Step::Insert { row, .. } => row.iter().map(|(_, value)| value).collect(),
            Step::Delete { .. } => Vec::new(),
            Step::Update { from, to, .. } => from.condition.iter().chain(&from.order).chain([to]).collect(),
        }
    }
}

/// Why a call did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What the arguments are: an unknown name, a missing one, another type.
    Arguments(String),
    /// A refusal that the world's file foresees.
    Refused(String),
    /// What the file does not foresee: a change that the types forbid, a sum that is too large.
    Unforeseen(String),
}

impl Failure {
    /// What the policy reads.
    pub fn text(&self) -> &str {
        match self {
            Failure::Arguments(text) | Failure::Refused(text) | Failure::Unforeseen(text) => text,
        }
    }
}

/// What is known while a tool runs.
struct Running<'a> {
    world: &'a World,
    arguments: &'a Map<String, Value>,
    state: State,
    /// Rows that were found: table and number.
    rows: BTreeMap<&'a str, (&'a str, u64)>,
    /// What was counted or listed.
    numbers: BTreeMap<&'a str, Value>,
}

/// A running tool with the row that is looked at.
struct Looking<'a, 'b> {
    running: &'b Running<'a>,
    row: Option<(&'b str, u64)>,
}

impl Running<'_> {
    /// The value of a column of a row; null where the row is gone.
    fn cell(&self, table: &str, number: u64, column: &str) -> Value {
        match column {
            "id" => self.world.table(table).map_or(Value::Null, |table| Value::from(table.key(number))),
            column => {
                self.state.row(table, number).and_then(|row| row.get(column)).cloned().unwrap_or_default()
            }
        }
    }
}

impl Scope for Looking<'_, '_> {
    fn parameter(&self, name: &str) -> Value {
        self.running.arguments.get(name).cloned().unwrap_or_default()
    }

    fn name(&self, name: &str) -> Value {
        let column = self.row.map(|(table, number)| self.running.cell(table, number, name));
        let counted = || self.running.numbers.get(name).cloned().unwrap_or_default();
        column.filter(|value| !value.is_null()).unwrap_or_else(counted)
    }

    fn field(&self, row: &str, column: &str) -> Value {
        let found = self.running.rows.get(row);
        found.map_or(Value::Null, |(table, number)| self.running.cell(table, *number, column))
    }
}

impl<'a> Running<'a> {
    fn looking(&self) -> Looking<'a, '_> {
        Looking { running: self, row: None }
    }

    /// Numbers of the rows that fulfil a condition, in order.
    fn select(&self, from: &'a Rows) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        for (number, _) in self.state.rows(&from.table) {
            let looking = Looking { running: self, row: Some((&from.table, number)) };
            if from.condition.as_ref().map_or(Ok(true), |condition| condition.holds(&looking))? {
                let by = from.order.as_ref().map(|order| order.value(&looking)).transpose()?;
                found.push((by, number));
            }
        }
        // Values of one column: all can be compared, or none.
        let mut failed = None;
        found.sort_by(|(a, left), (b, right)| {
            let by = match (a, b) {
                (Some(a), Some(b)) => order(a, b).unwrap_or_else(|problem| {
                    failed = Some(problem);
                    std::cmp::Ordering::Equal
                }),
                _ => std::cmp::Ordering::Equal,
            };
            let by = if from.descending { by.reverse() } else { by };
            by.then(left.cmp(right))
        });
        match failed {
            Some(problem) => Err(problem),
            None => Ok(found.into_iter().map(|(_, number)| number).collect()),
        }
    }

    fn table(&self, name: &str) -> Result<&'a Table, String> {
        self.world.table(name).ok_or_else(|| format!("there is no table `{name}`"))
    }

    fn step(&mut self, step: &'a Step) -> Result<(), Failure> {
        let unforeseen = Failure::Unforeseen;
        match step {
            Step::Find { from, name, otherwise } => match self.select(from).map_err(unforeseen)?.first() {
                Some(number) => {
                    self.rows.insert(name, (&from.table, *number));
                }
                None => return Err(Failure::Refused(otherwise.clone())),
            },
            Step::Check { condition, otherwise } => {
                if !condition.holds(&self.looking()).map_err(unforeseen)? {
                    return Err(Failure::Refused(otherwise.clone()));
                }
            }
            Step::Set { row, column, to } => {
                let value = to.value(&self.looking()).map_err(unforeseen)?;
                if let Some((table, number)) = self.rows.get(row.as_str()) {
                    self.state.set(table, *number, column, value);
                }
            }
            Step::Insert { table, row, name } => {
                let mut values = BTreeMap::new();
                for (column, value) in row {
                    let value = value.value(&self.looking()).map_err(unforeseen)?;
                    if !value.is_null() {
                        values.insert(column.clone(), value);
                    }
                }
                let number = self.state.next(table);
                self.state.put(table, number, values);
                if let Some(name) = name {
                    self.rows.insert(name, (table, number));
                }
            }
            Step::Delete { row } => {
                if let Some((table, number)) = self.rows.get(row.as_str()) {
                    self.state.remove(table, *number);
                }
            }
            Step::List { from, columns, name } => {
                let numbers = self.select(from).map_err(unforeseen)?;
                let object = |number: &u64| {
                    let cell = |column: &String| (column.clone(), self.cell(&from.table, *number, column));
                    Value::Object(columns.iter().map(cell).collect())
                };
                let list: Vec<Value> = numbers.iter().take(LIST_MAX).map(object).collect();
                self.numbers.insert(name, Value::from(list));
            }
            Step::Count { from, name } => {
                let count = self.select(from).map_err(unforeseen)?.len();
                self.numbers.insert(name, Value::from(count));
            }
            Step::Sum { from, column, name } => {
                let mut sum = Value::from(0);
                for number in self.select(from).map_err(unforeseen)? {
                    let cell = self.cell(&from.table, number, column);
                    if !cell.is_null() {
                        sum = add(&sum, &cell).map_err(unforeseen)?;
                    }
                }
                self.numbers.insert(name, sum);
            }
            Step::Update { from, column, to } => {
                let table = self.table(&from.table).map_err(unforeseen)?;
                for number in self.select(from).map_err(unforeseen)? {
                    let looking = Looking { running: self, row: Some((&table.name, number)) };
                    let value = to.value(&looking).map_err(unforeseen)?;
                    self.state.set(&table.name, number, column, value);
                }
            }
        }
        Ok(())
    }
}

impl Tool {
    /// Runs the tool on a state of its world: what it returns, or why it did nothing. The state changes only if the whole
    /// call succeeds, and never to one that the world's types forbid.
    ///
    /// # Errors
    /// What the policy reads in place of a result.
    pub fn call(
        &self,
        world: &World,
        state: &mut State,
        arguments: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        self.check_arguments(arguments).map_err(Failure::Arguments)?;
        let mut running = Running {
            world,
            arguments,
            state: state.clone(),
            rows: BTreeMap::new(),
            numbers: BTreeMap::new(),
        };
        for step in &self.steps {
            running.step(step)?;
        }
        running.state.check(world).map_err(Failure::Unforeseen)?;
        let mut result = Map::new();
        for returned in &self.returns {
            // What a row was before it was deleted is read from the state before the call.
            let value = returned.value.value(&Returning { running: &running, before: state });
            result.insert(returned.name.clone(), value.map_err(Failure::Unforeseen)?);
        }
        *state = running.state;
        Ok(result)
    }

    fn check_arguments(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        if let Some(unknown) = arguments.keys().find(|name| self.parameter(name).is_none()) {
            return Err(format!("`{}` has no parameter `{unknown}`", self.name));
        }
        for parameter in &self.parameters {
            let name = &parameter.name;
            match arguments.get(name).unwrap_or(&Value::Null) {
                Value::Null if parameter.optional => {}
                Value::Null => return Err(format!("`{}`: the parameter `{name}` is missing", self.name)),
                value if !parameter.kind.takes(Kind::of(value)) => {
                    return Err(format!(
                        "`{}`: `{name}` is {value}, which is not of type {}",
                        self.name, parameter.kind
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A tool that returns: rows that it deleted are still known.
struct Returning<'a, 'b> {
    running: &'b Running<'a>,
    before: &'b State,
}

impl Scope for Returning<'_, '_> {
    fn parameter(&self, name: &str) -> Value {
        self.running.looking().parameter(name)
    }

    fn name(&self, name: &str) -> Value {
        self.running.looking().name(name)
    }

    fn field(&self, row: &str, column: &str) -> Value {
        let Some((table, number)) = self.running.rows.get(row) else { return Value::Null };
        match self.running.state.row(table, *number).is_none() && column != "id" {
            true => {
                self.before.row(table, *number).and_then(|row| row.get(column)).cloned().unwrap_or_default()
            }
            false => self.running.cell(table, *number, column),
        }
    }
}
