//! The part of Python in which the families of tasks are written: expressions and assignments.
//!
//! What stands in `families.rs` is Python: a reference program, and the assertions of a strong specification. It is read
//! ([`parse`]), evaluated ([`eval`]) and mutated ([`mutate`]) here, so that tasks are made without an interpreter, on any
//! machine. A test runs the same texts in Python and compares.

mod eval;
mod mutate;
mod parse;

use std::fmt;

pub(super) use eval::{Halt, Scope, eval};
pub(super) use parse::{expression, program};

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
mod tests {
    use super::*;

    fn value(text: &str) -> Result<String, Halt> {
        let scope: Scope = [
            ("xs".to_owned(), Value::ints(&[3, -1, 4, 1])),
            ("s".to_owned(), Value::Text("banana".into())),
            ("n".to_owned(), Value::Int(-7)),
        ]
        .into();
        eval(&expression(text).unwrap(), &scope).map(|value| value.to_string())
    }

    #[test]
    fn expressions_mean_what_they_mean_in_python() {
        for (text, expected) in [
            ("1 + 2 * 3 - 4", "3"),
            ("n // 2", "-4"),
            ("n % 3", "2"),
            ("-n % -3", "-2"),
            ("-xs[0]", "-3"),
            ("xs[-1]", "1"),
            ("xs[1:3]", "[-1, 4]"),
            ("xs[::-1]", "[1, 4, -1, 3]"),
            ("xs[-2:]", "[4, 1]"),
            ("xs[5:]", "[]"),
            ("s[1:4]", "'ana'"),
            ("[x * 2 for x in xs if x > 0]", "[6, 8, 2]"),
            ("[[i, j] for i in range(3) for j in range(i + 1, 3)]", "[[0, 1], [0, 2], [1, 2]]"),
            ("0 <= len(xs) < 5", "True"),
            ("1 < 2 > 3", "False"),
            ("'an' in s and 'x' not in s", "True"),
            ("s.count('an')", "2"),
            ("''.join([c for c in s if c != 'a'])", "'bnn'"),
            ("sum(xs) if len(xs) > 2 else None", "7"),
            ("max([abs(x) for x in xs])", "4"),
            ("sorted(xs) == [-1, 1, 3, 4]", "True"),
            ("sorted(s)", "['a', 'a', 'a', 'b', 'n', 'n']"),
            ("all([]) and not any([])", "True"),
            ("isinstance(True, int) and not isinstance(s, list)", "True"),
            ("isinstance(n, int) or 1 // 0", "True"),
            ("chr((ord('y') - 97 + 3) % 26 + 97)", "'b'"),
            ("list(range(5, 0, -2))", "[5, 3, 1]"),
            ("int(str(12) + '3')", "123"),
            ("True == 1", "True"),
            ("max(1, 5, 3)", "5"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_python_refuses_raises_and_what_never_ends_runs_out_of_fuel() {
        for text in [
            "xs[9]",
            "1 // 0",
            "n < s",
            "s + n",
            "max([])",
            "len(n)",
            "unknown",
            "int('x')",
            "ord('ab')",
            "n in n",
        ] {
            assert_eq!(value(text), Err(Halt::Raised), "{text}");
        }
        assert_eq!(value("len([i for i in range(10000000)])"), Err(Halt::Fuel));
        assert_eq!(value("[i for i in range(1000) for j in range(1000)]"), Err(Halt::Fuel));
    }

    #[test]
    fn mutants_differ_from_their_program_in_one_place() {
        let original =
            program(&["kept = [x for x in xs if x > 2]".into(), "return sum(kept)".into()]).unwrap();
        let mutants = original.mutants();
        assert_eq!(mutants.len(), 7);
        for (at, mutant) in mutants.iter().enumerate() {
            assert_ne!(mutant, &original);
            assert!(!mutants[..at].contains(mutant));
        }
        let texts: Vec<String> = mutants
            .iter()
            .filter_map(|mutant| {
                let scope = [("xs".to_owned(), Value::ints(&[1, 2, 3, 4]))].into();
                mutant.run(&scope).ok().map(|value| value.to_string())
            })
            .collect();
        // `>` to `>=`, 2 to 1; no filter; 2 to 3; `>` to `<`; sum to max.
        for expected in ["9", "10", "4", "1"] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_language_is_refused_with_the_place() {
        for text in ["1 +", "xs[", "x for x in xs", "'open", "f(x=1)", "a b", "1 $ 2", "[x for x in]"] {
            assert!(expression(text).is_err(), "{text}");
        }
        assert!(expression("1 $ 2").unwrap_err().contains("`$`"));
        assert!(program(&["x = 1".into()]).is_err());
    }
}
