//! Chat templates on `minijinja`, with what `transformers` adds to Jinja and with Python's text of values.
//!
//! `minijinja` prints, compares and counts nearly as Python does. The rest is here: syntax that it does not read
//! ([`tags`]), values of JSON that print as Python's ([`values`]), `json.dumps` ([`json`]), and the filters, tests and
//! methods that differ or are missing ([`builtins`]). `docs/chat-templates.md` lists what still differs.

mod builtins;
mod json;
mod tags;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::{Environment, Error, Value};

use crate::answers::Marks;

/// Name of the template in its environment.
const NAME: &str = "chat";
/// Instructions, and 64-byte pieces of text, that one rendering may cost: minutes of work, which no conversation needs.
const FUEL: u64 = 100_000_000;

/// A compiled template.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    environment: Arc<Environment<'static>>,
    has_generation: bool,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// Says what is wrong and in which line.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let (source, has_generation) = tags::rewrite(&source.replace("\r\n", "\n").replace('\r', "\n"))?;
        let mut environment = builtins::environment().map_err(|error| told(&error))?;
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned(NAME, source).map_err(|error| told(&error))?;
        Ok(Template { environment: Arc::new(environment), has_generation })
    }

    /// Does the template have generation blocks?
    pub(crate) fn has_generation(&self) -> bool {
        self.has_generation
    }

    /// Renders the template with `variables`. `now` is the time of `strftime_now`, in seconds since 1970 (UTC); `marks`
    /// are written around the text of each generation block.
    ///
    /// # Errors
    /// Says what went wrong and in which line.
    pub(crate) fn render<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>,
        now: i64,
        marks: Option<Marks>,
    ) -> Result<String, String> {
        let mut context: BTreeMap<&str, Value> =
            variables.into_iter().map(|(name, json)| (name, values::value(json))).collect();
        context.insert(
            "strftime_now",
            Value::from_function(move |format: &str| builtins::strftime(format, now)),
        );
        if let Some(marks) = marks {
            context.insert(tags::OPEN, Value::from(marks.open));
            context.insert(tags::CLOSE, Value::from(marks.close));
        }
        let template = self.environment.get_template(NAME);
        template.and_then(|template| template.render(context)).map_err(|error| told(&error))
    }
}

/// An error's message, with the line of the template.
fn told(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    error.line().map_or_else(|| what.clone(), |line| format!("{what} (line {line})"))
}
