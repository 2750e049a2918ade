//! Reading a world's file: every name must exist, every type must fit.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::WorldError;
use crate::expr::{Expr, Names};
use crate::file::{ColumnFile, ParameterFile, StepFile, TableFile, ToolFile, WorldFile};
use crate::kind::Kind;
use crate::state::{RANGE_MAX, State};
use crate::step::{Rows, Step};
use crate::world::{Column, Draw, Parameter, Returned, Source, Table, Tool, World};

/// Most tables, tools, columns, parameters and steps: files may come from anybody.
const PARTS_MAX: usize = 64;
/// Most rows of a drawn table.
const ROWS_MAX: usize = 200;

pub(crate) fn world(text: &str) -> Result<World, WorldError> {
    let file: WorldFile = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|error| WorldError(error.to_string()))?,
        false => toml_edit::de::from_str(text).map_err(|error| WorldError(error.to_string()))?,
    };
    let name = file.name.clone();
    compile(file).map_err(|problem| WorldError(format!("world `{name}`: {problem}")))
}

fn compile(file: WorldFile) -> Result<World, String> {
    check_name("world", &file.name)?;
    check_count("tables", file.tables.0.len())?;
    check_count("tools", file.tools.len())?;
    let mut world = World {
        name: file.name,
        about: file.about,
        goals: file.goals,
        aliases: file.aliases.0.into_iter().collect(),
        tables: Vec::new(),
        tools: Vec::new(),
        fixture: State::default(),
        tests: file.tests,
    };
    for (name, table) in file.tables.0 {
        let table = self::table(&world, name, table)?;
        world.tables.push(table);
    }
    for tool in file.tools {
        let name = tool.name.clone();
        let tool = self::tool(&world, tool).map_err(|problem| format!("tool `{name}`: {problem}"))?;
        if world.tool(&name).is_some() {
            return Err(format!("there are two tools `{name}`"));
        }
        world.tools.push(tool);
    }
    let fixture = State::from_json(&Value::Object(file.fixture), &world);
    world.fixture = fixture.map_err(|problem| format!("fixture: {problem}"))?;
    for (at, test) in world.tests.iter().enumerate() {
        let place = |problem: &str| format!("test {} of `{}`: {problem}", at + 1, test.tool);
        if world.tool(&test.tool).is_none() {
            return Err(place("there is no such tool"));
        }
        if test.result.is_some() == test.error.is_some() {
            return Err(place("a test has either `result` or `error`"));
        }
    }
    Ok(world)
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits) && name.len() <= 64 {
        true => Ok(()),
        false => Err(format!("the name of a {what} is lower-case letters, digits and `_`, not `{name}`")),
    }
}

fn check_count(what: &str, count: usize) -> Result<(), String> {
    match count {
        0 => Err(format!("it has no {what}")),
        _ if count > PARTS_MAX => Err(format!("it has {count} {what}, of at most {PARTS_MAX}")),
        _ => Ok(()),
    }
}

fn table(world: &World, name: String, file: TableFile) -> Result<Table, String> {
    let place = |problem: String| format!("table `{name}`: {problem}");
    check_name("table", &name)?;
    check_count("columns", file.columns.0.len()).map_err(place)?;
    let [least, most] = file.rows;
    if least > most || most > ROWS_MAX {
        return Err(place(format!(
            "`rows` is [{least}, {most}]: the least and the most, at most {ROWS_MAX}"
        )));
    }
    if file.prefix.is_empty() || file.prefix.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(place(format!("`prefix` is `{}`; it needs letters at its end", file.prefix)));
    }
    let mut columns = Vec::new();
    for (column, file) in file.columns.0 {
        let place = |problem: String| place(format!("column `{column}`: {problem}"));
        check_name("column", &column).map_err(place)?;
        if column == "id" {
            return Err(place("`id` is the key, which is not listed".to_owned()));
        }
        columns.push(self::column(world, column.clone(), file).map_err(place)?);
    }
    Ok(Table { name, prefix: file.prefix, rows: file.rows, columns })
}

fn column(world: &World, name: String, file: ColumnFile) -> Result<Column, String> {
    let ColumnFile { kind, draw, table, one_of, min, max, unique, optional } = file;
    if matches!(kind, Kind::List | Kind::Null) {
        return Err(format!("a column can't be of type {kind}"));
    }
    if let Some(named) = &table {
        if kind != Kind::String || world.table(named).is_none() {
            return Err(format!(
                "`table` names `{named}`: it must be listed before, and the type must be string"
            ));
        }
        if draw.is_some() {
            return Err("`draw` beside `table`, whose keys are drawn".to_owned());
        }
    }
    let draw = draw.map(|values| self::draw(kind, values)).transpose()?;
    let values = draw.iter().flat_map(Draw::values).chain(one_of.iter().cloned());
    for value in values {
        let is_within = value
            .as_f64()
            .is_none_or(|it| min.is_none_or(|min| it >= min) && max.is_none_or(|max| it <= max));
        let is_listed = one_of.is_empty() || one_of.contains(&value);
        if !kind.takes(Kind::of(&value)) || !is_within || !is_listed {
            return Err(format!("it could be drawn as {value}, which its type or bounds forbid"));
        }
    }
    Ok(Column { name, kind, draw, table, one_of, min, max, unique, optional })
}

fn draw(kind: Kind, values: Vec<Value>) -> Result<Draw, String> {
    let range = match (kind, values.as_slice()) {
        (Kind::Integer, [least, most]) => least.as_i64().zip(most.as_i64()),
        _ => None,
    };
    match range {
        Some((least, most)) if least <= most && most - least < RANGE_MAX => Ok(Draw::Between(least, most)),
        Some((least, most)) => Err(format!("`draw` is from {least} to {most}; at most {RANGE_MAX} numbers")),
        None if values.is_empty() => Err("`draw` is empty".to_owned()),
        None => match values.iter().find(|value| !kind.takes(Kind::of(value))) {
            Some(value) => Err(format!("`draw` has {value}, which is not of type {kind}")),
            None => Ok(Draw::Of(values)),
        },
    }
}

fn parameter(world: &World, name: String, file: ParameterFile) -> Result<Parameter, String> {
    check_name("parameter", &name)?;
    let ParameterFile { kind, about, from, draw, internal, optional } = file;
    let source = match (from, draw, internal) {
        (Some(from), None, false) => {
            let column = from.split_once('.').and_then(|(table, column)| {
                let kinds = world.table(table)?.kinds();
                Some((table.to_owned(), column.to_owned(), *kinds.get(column)?))
            });
            let (table, column, found) =
                column.ok_or_else(|| format!("`from` names `{from}`, which is no column"))?;
            if !kind.takes(found) {
                return Err(format!("`from` names `{from}`, which is of type {found}, not {kind}"));
            }
            Source::Column(table, column)
        }
        (None, Some(values), false) => Source::Drawn(self::draw(kind, values)?),
        (None, None, true) => Source::Internal,
        _ => return Err("it needs one of `from`, `draw` and `internal = true`".to_owned()),
    };
    if matches!(kind, Kind::List | Kind::Null) {
        return Err(format!("a parameter can't be of type {kind}"));
    }
    Ok(Parameter { name, kind, about, source, optional })
}

fn tool(world: &World, file: ToolFile) -> Result<Tool, String> {
    check_name("tool", &file.name)?;
    check_count("steps", file.steps.len())?;
    let mut parameters = Vec::new();
    for (name, parameter) in file.parameters.0 {
        let place = |problem: String| format!("parameter `{name}`: {problem}");
        parameters.push(self::parameter(world, name.clone(), parameter).map_err(place)?);
    }
    let mut steps = Steps { world, names: Names::default(), tables: BTreeMap::new(), lists: BTreeSet::new() };
    steps.names.parameters = parameters.iter().map(|it| (it.name.as_str(), it.kind)).collect();
    let mut compiled = Vec::new();
    for (at, step) in file.steps.iter().enumerate() {
        let step = steps.step(step).map_err(|problem| format!("step {}: {problem}", at + 1))?;
        compiled.push(step);
    }
    let mut returns = Vec::new();
    for (name, returned) in &file.returns.0 {
        let place = |problem: String| format!("returns `{name}`: {problem}");
        check_name("result", name)?;
        let value = Expr::parse(&returned.value).map_err(place)?;
        let kind = match &value {
            Expr::Name(list) if steps.lists.contains(list.as_str()) => Kind::List,
            value => value.check(&steps.names).map_err(place)?,
        };
        returns.push(Returned { name: name.clone(), about: returned.about.clone(), kind, value });
    }
    Ok(Tool {
        name: file.name,
        about: file.about,
        ask: file.ask,
        noun: file.noun,
        parameters,
        returns,
        steps: compiled,
    })
}

/// Steps while they are read: what earlier ones found is known to later ones.
struct Steps<'a> {
    world: &'a World,
    names: Names<'a>,
    /// Tables of the rows that were found.
    tables: BTreeMap<&'a str, &'a Table>,
    lists: BTreeSet<&'a str>,
}

impl<'a> Steps<'a> {
    fn table(&self, name: &str) -> Result<&'a Table, String> {
        self.world.table(name).ok_or_else(|| format!("there is no table `{name}`"))
    }

    fn expect(&self, text: &str, kind: Kind, names: &Names<'_>) -> Result<Expr, String> {
        let expr = Expr::parse(text)?;
        let found = expr.check(names)?;
        match kind.takes(found) || found == Kind::Null {
            true => Ok(expr),
            false => Err(format!("`{text}` is of type {found}, not {kind}")),
        }
    }

    fn looking(&self, table: &'a Table) -> Names<'a> {
        Names { columns: table.kinds(), ..self.names.clone() }
    }

    fn rows(&self, name: &str, step: &StepFile) -> Result<(Rows, &'a Table), String> {
        let table = self.table(name)?;
        let names = self.looking(table);
        let condition =
            step.condition.as_ref().map(|text| self.expect(text, Kind::Boolean, &names)).transpose()?;
        let order = step.order.as_ref().map(|text| Expr::parse(text)).transpose()?;
        if let Some(order) = &order {
            order.check(&names)?;
        }
        let rows = Rows { table: name.to_owned(), condition, order, descending: step.descending };
        Ok((rows, table))
    }

    /// The name of what a step finds. That of a number stands alone, so it can't be the name of a column.
    fn new_name(&self, step: &'a StepFile) -> Result<&'a str, String> {
        let name = step.name.as_deref().ok_or("`as` is missing")?;
        check_name("row", name)?;
        let is_number = step.count.is_some() || step.sum.is_some();
        let is_column = is_number && self.world.tables.iter().any(|table| table.column(name).is_some());
        let names = &self.names;
        if is_column
            || names.rows.contains_key(name)
            || names.numbers.contains_key(name)
            || self.lists.contains(name)
        {
            return Err(format!("`{name}` is the name of a column, or taken"));
        }
        Ok(name)
    }

    fn found(&mut self, name: &'a str, table: &'a Table) {
        self.names.rows.insert(name, table.kinds());
        self.tables.insert(name, table);
    }

    fn column(table: &'a Table, name: &str) -> Result<&'a Column, String> {
        table.column(name).ok_or_else(|| format!("`{}` has no column `{name}` that can be set", table.name))
    }

    fn step(&mut self, file: &'a StepFile) -> Result<Step, String> {
        let verbs = [
            ("find", &file.find),
            ("check", &file.check),
            ("set", &file.set),
            ("insert", &file.insert),
            ("delete", &file.delete),
            ("list", &file.list),
            ("count", &file.count),
            ("sum", &file.sum),
            ("update", &file.update),
        ];
        let mut given = verbs.into_iter().filter_map(|(verb, value)| Some((verb, value.as_deref()?)));
        let (verb, subject) = given.next().ok_or("it does nothing: `find`, `check`, `set`, `insert` ...")?;
        if let Some((other, _)) = given.next() {
            return Err(format!("it has `{verb}` and `{other}`; a step does one thing"));
        }
        file.only(verb)?;
        let missing = |key: &str| format!("`{key}` is missing");
        Ok(match verb {
            "find" => {
                let (from, table) = self.rows(subject, file)?;
                let name = self.new_name(file)?;
                let otherwise = file.otherwise.clone().ok_or_else(|| missing("otherwise"))?;
                self.found(name, table);
                Step::Find { from, name: name.to_owned(), otherwise }
            }
            "check" => {
                let condition = self.expect(subject, Kind::Boolean, &self.names)?;
                Step::Check {
                    condition,
                    otherwise: file.otherwise.clone().ok_or_else(|| missing("otherwise"))?,
                }
            }
            "set" => {
                let (row, column) = subject.split_once('.').ok_or("`set` names `row.column`")?;
                let table = self.tables.get(row).ok_or_else(|| format!("no row `{row}` was found before"))?;
                let kind = Self::column(table, column)?.kind;
                let to = file.to.as_ref().ok_or_else(|| missing("to"))?;
                let to = self.expect(to, kind, &self.names)?;
                Step::Set { row: row.to_owned(), column: column.to_owned(), to }
            }
            "insert" => {
                let table = self.table(subject)?;
                let mut row = Vec::new();
                for (column, value) in &file.row.0 {
                    let kind = Self::column(table, column)?.kind;
                    row.push((column.clone(), self.expect(value, kind, &self.names)?));
                }
                let given = |column: &&Column| {
                    !column.optional && !file.row.0.iter().any(|(name, _)| *name == column.name)
                };
                if let Some(column) = table.columns.iter().find(given) {
                    return Err(format!("`row` has no `{}`, which may not be null", column.name));
                }
                let name = file.name.is_some().then(|| self.new_name(file)).transpose()?;
                if let Some(name) = name {
                    self.found(name, table);
                }
                Step::Insert { table: subject.to_owned(), row, name: name.map(str::to_owned) }
            }
            "delete" => match self.tables.contains_key(subject) {
                true => Step::Delete { row: subject.to_owned() },
                false => return Err(format!("no row `{subject}` was found before")),
            },
            "list" => {
                let (from, table) = self.rows(subject, file)?;
                let name = self.new_name(file)?;
                for column in file.columns.iter().filter(|column| *column != "id") {
                    Self::column(table, column)?;
                }
                if file.columns.is_empty() {
                    return Err(missing("columns"));
                }
                self.lists.insert(name);
                Step::List { from, columns: file.columns.clone(), name: name.to_owned() }
            }
            "count" => {
                let (from, _) = self.rows(subject, file)?;
                let name = self.new_name(file)?;
                self.names.numbers.insert(name, Kind::Integer);
                Step::Count { from, name: name.to_owned() }
            }
            "sum" => {
                let (table, column) = subject.split_once('.').ok_or("`sum` names `table.column`")?;
                let (from, table) = self.rows(table, file)?;
                let kind = Self::column(table, column)?.kind;
                if !kind.is_numeric() {
                    return Err(format!("`{subject}` is of type {kind}, not a number"));
                }
                let name = self.new_name(file)?;
                self.names.numbers.insert(name, kind);
                Step::Sum { from, column: column.to_owned(), name: name.to_owned() }
            }
            _ => {
                let (from, table) = self.rows(subject, file)?;
                let column = file.column.as_ref().ok_or_else(|| missing("column"))?;
                let kind = Self::column(table, column)?.kind;
                let to = file.to.as_ref().ok_or_else(|| missing("to"))?;
                let to = self.expect(to, kind, &self.looking(table))?;
                Step::Update { from, column: column.clone(), to }
            }
        })
    }
}

impl StepFile {
    /// Refuses keys that say nothing beside a verb.
    fn only(&self, verb: &str) -> Result<(), String> {
        let selects = ["find", "list", "count", "sum", "update"].contains(&verb);
        let keys = [
            ("where", self.condition.is_some(), selects),
            ("order", self.order.is_some(), ["find", "list"].contains(&verb)),
            ("descending", self.descending, self.order.is_some()),
            ("as", self.name.is_some(), ["find", "insert", "list", "count", "sum"].contains(&verb)),
            ("otherwise", self.otherwise.is_some(), ["find", "check"].contains(&verb)),
            ("to", self.to.is_some(), ["set", "update"].contains(&verb)),
            ("row", !self.row.0.is_empty(), verb == "insert"),
            ("columns", !self.columns.is_empty(), verb == "list"),
            ("column", self.column.is_some(), verb == "update"),
        ];
        match keys.iter().find(|(_, given, has_meaning)| *given && !has_meaning) {
            Some((key, ..)) => Err(format!("`{key}` has no meaning beside `{verb}`")),
            None => Ok(()),
        }
    }
}
