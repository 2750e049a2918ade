//! Jinja as `apply_chat_template` of `transformers` runs it.
//!
//! The environment is an `ImmutableSandboxedEnvironment` with `trim_blocks`, `lstrip_blocks`, loop controls, `tojson`,
//! `raise_exception`, `strftime_now` and `{% generation %}`. Values behave as in Python: integers of any size, texts
//! indexed by characters, `str` and `repr`, `%` and `format`, the methods of texts, lists, dictionaries and numbers.
//! Anything unsupported is an error; nothing is printed differently.

mod access;
mod args;
mod ast;
mod chars;
mod checks;
mod clock;
mod convert;
mod error;
mod fields;
mod filters;
mod frames;
mod globals;
mod html;
mod json;
mod lexer;
mod methods;
mod names;
mod numbers;
mod ops;
mod parser;
mod pprint;
mod printf;
mod run;
mod sort;
mod spec;
mod strings;
mod text;
mod value;

use std::sync::Arc;

pub use error::Error;
pub use value::{Dict, Value};

/// A parsed template, which can be shared between threads.
#[derive(Debug, Clone)]
pub struct Template(Arc<parser::Parsed>);

/// Options of a rendering, besides its variables.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The time that `strftime_now` reports: seconds since 1970, in UTC.
    pub now: i64,
    /// Characters to insert before and after the text of each generation block.
    pub marks: Option<(char, char)>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// If the syntax is wrong, or a filter or test is unknown: names the line.
    pub fn new(source: &str) -> Result<Self, Error> {
        parser::parse(source).map(|parsed| Template(Arc::new(parsed)))
    }

    /// Does it have generation blocks?
    pub fn has_generation(&self) -> bool {
        self.0.has_generation
    }

    /// Renders the template with these variables.
    ///
    /// # Errors
    /// What the template raises, what Python would raise, and whatever is not supported.
    pub fn render(&self, variables: &Dict, options: &Options) -> Result<String, Error> {
        run::Run::new(&self.0, variables, options.now, options.marks).whole()
    }
}
