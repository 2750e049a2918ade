//! Errors of templates.

use std::fmt;

/// The kinds of Python's exceptions that templates can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value of the wrong type.
    Type,
    /// A wrong value of the right type.
    Value,
    /// A number that is too large.
    Overflow,
    /// Anything else, such as what a template raises itself.
    Other,
}

/// A template does not compile, or fails on its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub(crate) kind: Kind,
    problem: String,
    line: Option<usize>,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: Kind, problem: impl Into<String>) -> Self {
        Error { kind, problem: problem.into(), line: None }
    }

    pub(crate) fn other(problem: impl Into<String>) -> Self {
        Error::new(Kind::Other, problem)
    }

    /// Adds the line, unless a line further inside is already named.
    pub(crate) fn at(mut self, line: usize) -> Self {
        self.line.get_or_insert(line);
        self
    }
}

pub(crate) fn type_error<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::new(Kind::Type, problem))
}

pub(crate) fn value_error<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::new(Kind::Value, problem))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} (line {line})", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for Error {}
