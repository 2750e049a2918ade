//! Texts made from several columns.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use burnish_core::names::nearest;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::columns::names_of;

const NAME: &str = "template";

/// A text with placeholders for columns, in the language of chat templates (Jinja): `Question: {{question}}`.
///
/// Numbers, booleans, lists and tables are written as in JSON. A null can be tested (`{% if context %}`) but not
/// written.
#[derive(Clone)]
pub struct Template {
    source: String,
    compiled: Arc<Environment<'static>>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// If it is not a valid template: says what is wrong, and in which of its lines.
    pub fn parse(source: &str) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|error| told(&error))?);
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_formatter(write_plainly);
        environment.add_template_owned(NAME, source.to_owned()).map_err(|error| told(&error))?;
        let template = Template { source: source.to_owned(), compiled: Arc::new(environment) };
        if template.columns().is_empty() {
            return Err("reads no column: name them between double braces, such as `{{question}}`".to_owned());
        }
        Ok(template)
    }

    /// The columns that the template reads.
    pub fn columns(&self) -> BTreeSet<String> {
        let names = self.compiled.get_template(NAME).map(|template| template.undeclared_variables(false));
        let is_global = |name: &String| self.compiled.globals().any(|(global, _)| global == name);
        names.unwrap_or_default().into_iter().filter(|name| !is_global(name)).collect()
    }

    /// Checks that the row has every column that the template reads.
    ///
    /// # Errors
    /// Names the first missing column, with the nearest one that is there.
    pub(crate) fn check(&self, row: &Map<String, Value>) -> Result<(), String> {
        let Some(missing) = self.columns().into_iter().find(|name| !row.contains_key(name)) else {
            return Ok(());
        };
        let nearest = nearest(&missing, row.keys().map(String::as_str));
        let nearest = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        Err(format!("has no column `{missing}`; the columns are: {}{nearest}", names_of(row)))
    }

    /// The text for a row.
    ///
    /// # Errors
    /// If a column to be written is missing or has no value.
    pub(crate) fn render(&self, row: &Map<String, Value>) -> Result<String, String> {
        let rendered = self
            .compiled
            .get_template(NAME)
            .and_then(|template| template.render(minijinja::Value::from(Serde(row))));
        rendered.map_err(|error| {
            let is_empty = |name: &String| row.get(name).is_none_or(Value::is_null);
            let empty: Vec<String> = self.columns().into_iter().filter(is_empty).collect();
            let names = empty.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            match empty.first() {
                Some(first) => format!(
                    "{}; without a value here: {names} (a part that may be missing is written \
                     {{% if {first} %}}...{{% endif %}})",
                    told(&error)
                ),
                None => told(&error),
            }
        })
    }
}

/// The template engine's message, with the line of the template.
fn told(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    error.line().map_or_else(|| what.clone(), |line| format!("{what} (line {line} of the template)"))
}

fn write_plainly(out: &mut Output, _: &mut State, value: &minijinja::Value) -> Result<(), Error> {
    let failed = |what: &str| Error::new(ErrorKind::InvalidOperation, what.to_owned());
    let text = match (value.kind(), value.as_str()) {
        (ValueKind::Undefined, _) => return Err(failed("the value to be written is missing")),
        (ValueKind::None, _) => return Err(failed("the value to be written is null")),
        (_, Some(text)) => text.to_owned(),
        _ => burnish_core::json::text(value).map_err(|error| failed(&error.to_string()))?,
    };
    out.write_str(&text).map_err(Error::from)
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Template {}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Template::parse(&source).map_err(D::Error::custom)
    }
}
