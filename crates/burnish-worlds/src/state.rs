//! The state of a world: tables of typed rows.

use std::collections::BTreeMap;

use burnish_core::rng::Stream;
use serde_json::{Map, Value};

use crate::expr::equal;
use crate::kind::Kind;
use crate::world::{Column, Draw, Table, World};

/// A row: values by column. Columns that are null are not there.
pub type Row = BTreeMap<String, Value>;

/// The state of a world: rows by table and number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    tables: BTreeMap<String, BTreeMap<u64, Row>>,
}

impl State {
    /// The rows of a table, by number.
    pub fn rows(&self, table: &str) -> impl DoubleEndedIterator<Item = (u64, &Row)> {
        self.tables.get(table).into_iter().flatten().map(|(number, row)| (*number, row))
    }

    /// The row of a number.
    pub fn row(&self, table: &str, number: u64) -> Option<&Row> {
        self.tables.get(table)?.get(&number)
    }

    pub(crate) fn put(&mut self, table: &str, number: u64, row: Row) {
        self.tables.entry(table.to_owned()).or_default().insert(number, row);
    }

    pub(crate) fn set(&mut self, table: &str, number: u64, column: &str, value: Value) {
        if let Some(row) = self.tables.get_mut(table).and_then(|rows| rows.get_mut(&number)) {
            match value {
                Value::Null => row.remove(column),
                value => row.insert(column.to_owned(), value),
            };
        }
    }

    pub(crate) fn remove(&mut self, table: &str, number: u64) {
        if let Some(rows) = self.tables.get_mut(table) {
            rows.remove(&number);
        }
    }

    /// The number of the next row of a table.
    pub(crate) fn next(&self, table: &str) -> u64 {
        self.rows(table).next_back().map_or(1, |(number, _)| number + 1)
    }

    /// The state as JSON: `{"hotels": {"H1": {"city": "Rome"}}}`, every table of the world named.
    pub fn to_json(&self, world: &World) -> Value {
        let rows = |table: &Table| -> Map<String, Value> {
            let object = |row: &Row| row.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            self.rows(&table.name)
                .map(|(number, row)| (table.key(number), Value::Object(object(row))))
                .collect()
        };
        let tables = world.tables.iter().map(|table| (table.name.clone(), Value::Object(rows(table))));
        Value::Object(tables.collect())
    }

    /// The state that JSON describes.
    ///
    /// # Errors
    /// Names the table, the row or the cell that the world can't have.
    pub fn from_json(value: &Value, world: &World) -> Result<Self, String> {
        let mut state = State::default();
        let tables = value.as_object().ok_or("a state is an object of tables")?;
        for (name, rows) in tables {
            let table = world.table(name).ok_or_else(|| format!("there is no table `{name}`"))?;
            let rows = rows.as_object().ok_or_else(|| format!("`{name}` is not an object of rows"))?;
            for (key, row) in rows {
                let place = format!("{name}.{key}");
                let number = table.number(key).ok_or_else(|| {
                    format!("`{place}`: keys of `{name}` are `{}` and a number from 1 on", table.prefix)
                })?;
                let row = row.as_object().ok_or_else(|| format!("`{place}` is not an object of columns"))?;
                let row = row.iter().filter(|(_, value)| !value.is_null());
                state.put(name, number, row.map(|(name, value)| (name.clone(), value.clone())).collect());
            }
        }
        state.check(world)?;
        Ok(state)
    }

    /// Whether every cell is what its column asks for, and every row that is named is there.
    ///
    /// # Errors
    /// Names the cell, and what it should be.
    pub fn check(&self, world: &World) -> Result<(), String> {
        for table in &world.tables {
            for (number, row) in self.rows(&table.name) {
                let place = || format!("{}.{}", table.name, table.key(number));
                if let Some(unknown) = row.keys().find(|name| table.column(name).is_none()) {
                    return Err(format!("`{}` has a column `{unknown}` that its table has not", place()));
                }
                for column in &table.columns {
                    self.check_cell(world, column, row.get(&column.name))
                        .map_err(|problem| format!("`{}.{}` {problem}", place(), column.name))?;
                }
            }
        }
        Ok(())
    }

    fn check_cell(&self, world: &World, column: &Column, value: Option<&Value>) -> Result<(), String> {
        let Some(value) = value else {
            return if column.optional { Ok(()) } else { Err("has no value".to_owned()) };
        };
        if !column.kind.takes(Kind::of(value)) {
            return Err(format!("is {value}, which is not of type {}", column.kind));
        }
        if !column.one_of.is_empty() && !column.one_of.iter().any(|it| equal(it, value)) {
            return Err(format!("is {value}, which is none of {}", Value::from(column.one_of.clone())));
        }
        let number = value.as_f64();
        if let (Some(number), Some(min)) = (number, column.min)
            && number < min
        {
            return Err(format!("would be {number}, below {min}"));
        }
        if let (Some(number), Some(max)) = (number, column.max)
            && number > max
        {
            return Err(format!("would be {number}, above {max}"));
        }
        if let (Some(name), Some(key)) = (&column.table, value.as_str()) {
            let number = world.table(name).and_then(|table| table.number(key));
            if number.and_then(|number| self.row(name, number)).is_none() {
                return Err(format!("names `{key}`, which is not in `{name}`"));
            }
        }
        Ok(())
    }

    /// A state that is drawn by what the tables say.
    pub fn draw(world: &World, stream: &mut Stream) -> Self {
        let mut state = State::default();
        for table in &world.tables {
            let [least, most] = table.rows;
            let count = least + stream.index(most - least + 1);
            for number in 1..=count as u64 {
                let row: Option<Vec<(String, Value)>> = table
                    .columns
                    .iter()
                    .map(|column| Some((column.name.clone(), state.draw_cell(world, table, column, stream)?)))
                    .collect();
                // Without a value for each column (no row to name, no unique value left) the table ends here.
                let Some(row) = row else { break };
                state.put(
                    &table.name,
                    number,
                    row.into_iter().filter(|(_, value)| !value.is_null()).collect(),
                );
            }
        }
        state
    }

    fn draw_cell(&self, world: &World, table: &Table, column: &Column, stream: &mut Stream) -> Option<Value> {
        if let Some(named) = column.table.as_deref().and_then(|name| world.table(name)) {
            let numbers: Vec<u64> = self.rows(&named.name).map(|(number, _)| number).collect();
            if numbers.is_empty() {
                return column.optional.then_some(Value::Null);
            }
            return Some(Value::from(named.key(numbers[stream.index(numbers.len())])));
        }
        let is_taken = |value: &Value| {
            column.unique
                && self
                    .rows(&table.name)
                    .any(|(_, row)| row.get(&column.name).is_some_and(|it| equal(it, value)))
        };
        let free: Vec<Value> = match &column.draw {
            None => return column.optional.then_some(Value::Null),
            Some(draw) => draw.values().into_iter().filter(|value| !is_taken(value)).collect(),
        };
        (!free.is_empty()).then(|| free[stream.index(free.len())].clone())
    }

    /// What differs in `after`: cells by `table.key.column` (null where there is no value any more) and new rows by
    /// `table.key`; and the rows that are gone.
    pub fn changes(&self, after: &State, world: &World) -> (Map<String, Value>, Vec<String>) {
        let (mut changed, mut removed) = (Map::new(), Vec::new());
        for table in &world.tables {
            for (number, row) in self.rows(&table.name) {
                let place = format!("{}.{}", table.name, table.key(number));
                let Some(now) = after.row(&table.name, number) else {
                    removed.push(place);
                    continue;
                };
                for column in &table.columns {
                    let (before, now) = (row.get(&column.name), now.get(&column.name));
                    let same = match (before, now) {
                        (Some(before), Some(now)) => equal(before, now),
                        (before, now) => before == now,
                    };
                    if !same {
                        let value = now.cloned().unwrap_or_default();
                        changed.insert(format!("{place}.{}", column.name), value);
                    }
                }
            }
            for (number, row) in after.rows(&table.name) {
                if self.row(&table.name, number).is_none() {
                    let row = row.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                    changed.insert(format!("{}.{}", table.name, table.key(number)), Value::Object(row));
                }
            }
        }
        (changed, removed)
    }
}

/// Most numbers of a range: all are listed where one is drawn.
pub(crate) const RANGE_MAX: i64 = 10_000;

impl Draw {
    /// All values that it can give.
    pub(crate) fn values(&self) -> Vec<Value> {
        match self {
            Draw::Of(values) => values.clone(),
            Draw::Between(least, most) => (*least..=*most).map(Value::from).collect(),
        }
    }
}
