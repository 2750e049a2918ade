//! The part of Python in which the families of tasks are written: expressions and assignments.
//!
//! What stands in `families.rs` is Python: a reference program, and the assertions of a strong specification. It is read
//! ([`parse`]), evaluated ([`eval`]) and mutated ([`mutate`]) here, so that tasks are made without an interpreter, on any
//! machine. A test runs the same texts in Python and compares. What a policy wrote is read only where it is sure to mean here
//! what it means in Python ([`sure`]).

mod eval;
mod mutate;
mod parse;
mod sure;

use std::fmt;

pub(super) use eval::{Halt, Scope, eval};
pub(super) use parse::{expression, program};
pub(super) use sure::{is_free_name, sure_expression};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Value>),
}

impl Value {
    /// A list of whole numbers.
    #[cfg(test)]
    pub(super) fn ints(items: &[i64]) -> Value {
        Value::List(items.iter().copied().map(Value::Int).collect())
    }

    /// The number that a number or a truth value is.
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Bool(holds) => Some(i64::from(*holds)),
            _ => None,
        }
    }

    /// Python's truth.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::None => false,
            Value::Bool(holds) => *holds,
            Value::Int(number) => *number != 0,
            Value::Text(text) => !text.is_empty(),
            Value::List(items) => !items.is_empty(),
        }
    }
}

/// Python's `==`: truth values are the numbers 0 and 1.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Text(one), Value::Text(two)) => one == two,
            (Value::List(one), Value::List(two)) => one == two,
            _ => self.number().is_some() && self.number() == other.number(),
        }
    }
}

/// As Python writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Int(number) => write!(f, "{number}"),
            // Texts here have letters, digits and spaces; the others are escaped to be safe.
            Value::Text(text) => {
                let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
                write!(f, "'{escaped}'")
            }
            Value::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    Times,
    Div,
    Rest,
}

/// Comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    Unequal,
    In,
    NotIn,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Literal(Value),
    Name(String),
    List(Vec<Expr>),
    Minus(Box<Expr>),
    Not(Box<Expr>),
    Sign(Sign, Box<[Expr; 2]>),
    /// A chain: `0 <= i < n`.
    Compare(Box<Expr>, Vec<(Relation, Expr)>),
    And(Box<[Expr; 2]>),
    Or(Box<[Expr; 2]>),
    /// The condition, the value if it holds, and the other.
    If(Box<[Expr; 3]>),
    Index(Box<[Expr; 2]>),
    /// From, to, step.
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(String, Vec<Expr>),
    /// `object.name(arguments)`.
    Method(Box<Expr>, String, Vec<Expr>),
    /// The item; for each `for` the name and what it goes through; the condition.
    Each(Box<Expr>, Vec<(String, Expr)>, Option<Box<Expr>>),
}

/// Assignments, then what is returned.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    pub(super) lines: Vec<(String, Expr)>,
    pub(super) returns: Expr,
}

impl Program {
    /// What it returns for these inputs.
    pub(super) fn run(&self, inputs: &Scope) -> Result<Value, Halt> {
        let mut scope = inputs.clone();
        for (name, expr) in &self.lines {
            let value = eval(expr, &scope)?;
            scope.insert(name.clone(), value);
        }
        eval(&self.returns, &scope)
    }
}

#[cfg(test)]
mod tests;
