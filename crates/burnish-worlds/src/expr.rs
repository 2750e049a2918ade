//! The expressions of a world's file: over parameters, the row that is looked at, and rows that were found.
//!
//! ```text
//! rooms > 0 and city == $city        hotel.price * $nights        'open'        min(balance, $amount)
//! ```
//!
//! Types are checked when a file is read ([`Expr::check`]), so that running one fails only on numbers (too large,
//! division by zero) and on values that are not there (null).

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use crate::kind::Kind;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Value(Value),
    /// `$name`
    Parameter(String),
    /// `name`: a column of the row that is looked at, or else a number that was counted.
    Name(String),
    /// `row.column`
    Field(String, String),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `min(a, b)` and `max(a, b)`; true for the greater one.
    Extreme(bool, Box<Expr>, Box<Expr>),
}

/// What joins two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Op {
    /// Words and signs, the longer first where one begins with another.
    const ALL: [(&str, Op); 12] = [
        ("or", Op::Or),
        ("and", Op::And),
        ("==", Op::Equal),
        ("!=", Op::Unequal),
        ("<=", Op::LessOrEqual),
        (">=", Op::GreaterOrEqual),
        ("<", Op::Less),
        (">", Op::Greater),
        ("+", Op::Add),
        ("-", Op::Subtract),
        ("*", Op::Multiply),
        ("/", Op::Divide),
    ];

    /// How tightly it binds.
    fn strength(self) -> u8 {
        match self {
            Op::Or => 1,
            Op::And => 2,
            Op::Equal | Op::Unequal | Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => 4,
            Op::Add | Op::Subtract => 5,
            Op::Multiply | Op::Divide => 6,
        }
    }
}

/// How tightly `not` binds: less than comparisons, more than `and`.
const NOT: u8 = 3;

/// What an expression may name, and of which types these are.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names<'a> {
    /// `$name`
    pub(crate) parameters: BTreeMap<&'a str, Kind>,
    /// Columns of the row that is looked at, `id` among them; empty where there is none.
    pub(crate) columns: BTreeMap<&'a str, Kind>,
    /// Rows that were found, with their columns.
    pub(crate) rows: BTreeMap<&'a str, BTreeMap<&'a str, Kind>>,
    /// Numbers that were counted.
    pub(crate) numbers: BTreeMap<&'a str, Kind>,
}

/// The values of what an expression names.
pub(crate) trait Scope {
    /// Of a parameter; null where it was left out.
    fn parameter(&self, name: &str) -> Value;
    /// Of a column of the row that is looked at, or of a number that was counted.
    fn name(&self, name: &str) -> Value;
    /// Of a column of a row that was found.
    fn field(&self, row: &str, column: &str) -> Value;
}

impl Expr {
    /// Reads an expression.
    ///
    /// # Errors
    /// Says what was expected, and where.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0 };
        let expr = parser.binary(0)?;
        match parser.tokens.get(parser.at) {
            None => Ok(expr),
            Some(token) => Err(format!("`{text}` goes on with `{}` where it should end", token.shown())),
        }
    }

    /// The type of its value.
    ///
    /// # Errors
    /// Names what is not there, and operands of types that do not go together.
    pub(crate) fn check(&self, names: &Names<'_>) -> Result<Kind, String> {
        match self {
            Expr::Value(value) => Ok(Kind::of(value)),
            Expr::Parameter(name) => names
                .parameters
                .get(name.as_str())
                .copied()
                .ok_or_else(|| format!("there is no parameter `{name}`")),
            Expr::Name(name) => {
                let known = names.columns.get(name.as_str()).or_else(|| names.numbers.get(name.as_str()));
                known.copied().ok_or_else(|| format!("there is no column and no number `{name}` here"))
            }
            Expr::Field(row, column) => {
                let found =
                    names.rows.get(row.as_str()).ok_or_else(|| format!("no row `{row}` was found before"))?;
                found.get(column.as_str()).copied().ok_or_else(|| format!("`{row}` has no column `{column}`"))
            }
            Expr::Not(inner) => match inner.check(names)? {
                Kind::Boolean => Ok(Kind::Boolean),
                other => Err(format!("`not` before {other}")),
            },
            Expr::Negative(inner) => match inner.check(names)? {
                kind @ (Kind::Integer | Kind::Number) => Ok(kind),
                other => Err(format!("`-` before {other}")),
            },
            Expr::Extreme(_, left, right) => match (left.check(names)?, right.check(names)?) {
                (Kind::Integer, Kind::Integer) => Ok(Kind::Integer),
                (left, right) if left.is_numeric() && right.is_numeric() => Ok(Kind::Number),
                (left, right) => Err(format!("min and max are of numbers, not of {left} and {right}")),
            },
            Expr::Binary(op, left, right) => op.check(left.check(names)?, right.check(names)?),
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// Says which operation has no result: on null, beyond 64 bits, or by zero.
    pub(crate) fn value(&self, scope: &impl Scope) -> Result<Value, String> {
        Ok(match self {
            Expr::Value(value) => value.clone(),
            Expr::Parameter(name) => scope.parameter(name),
            Expr::Name(name) => scope.name(name),
            Expr::Field(row, column) => scope.field(row, column),
            Expr::Not(inner) => Value::Bool(!truth(&inner.value(scope)?)?),
            Expr::Negative(inner) => arithmetic(Op::Subtract, &Value::from(0), &inner.value(scope)?)?,
            Expr::Extreme(greater, left, right) => {
                let (left, right) = (left.value(scope)?, right.value(scope)?);
                let is_greater = number(&left)? > number(&right)?;
                if is_greater == *greater { left } else { right }
            }
            Expr::Binary(Op::And, left, right) => {
                Value::Bool(truth(&left.value(scope)?)? && truth(&right.value(scope)?)?)
            }
            Expr::Binary(Op::Or, left, right) => {
                Value::Bool(truth(&left.value(scope)?)? || truth(&right.value(scope)?)?)
            }
            Expr::Binary(op, left, right) => op.apply(&left.value(scope)?, &right.value(scope)?)?,
        })
    }

    /// Whether a condition holds.
    ///
    /// # Errors
    /// As [`Expr::value`].
    pub(crate) fn holds(&self, scope: &impl Scope) -> Result<bool, String> {
        truth(&self.value(scope)?)
    }

    /// Calls `seen` with the name of every parameter in it.
    pub(crate) fn parameters<'a>(&'a self, seen: &mut impl FnMut(&'a str)) {
        match self {
            Expr::Parameter(name) => seen(name),
            Expr::Value(_) | Expr::Name(_) | Expr::Field(..) => {}
            Expr::Not(inner) | Expr::Negative(inner) => inner.parameters(seen),
            Expr::Binary(_, left, right) | Expr::Extreme(_, left, right) => {
                left.parameters(seen);
                right.parameters(seen);
            }
        }
    }
}

impl Op {
    fn check(self, left: Kind, right: Kind) -> Result<Kind, String> {
        let numeric = left.is_numeric() && right.is_numeric();
        let same = left == right || numeric || left == Kind::Null || right == Kind::Null;
        match self {
            Op::And | Op::Or if left == Kind::Boolean && right == Kind::Boolean => Ok(Kind::Boolean),
            Op::Equal | Op::Unequal if same => Ok(Kind::Boolean),
            Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual
                if numeric || (left == Kind::String && right == Kind::String) =>
            {
                Ok(Kind::Boolean)
            }
            Op::Add if left == Kind::String && right == Kind::String => Ok(Kind::String),
            Op::Divide if numeric => Ok(Kind::Number),
            Op::Add | Op::Subtract | Op::Multiply if left == Kind::Integer && right == Kind::Integer => {
                Ok(Kind::Integer)
            }
            Op::Add | Op::Subtract | Op::Multiply if numeric => Ok(Kind::Number),
            _ => {
                let sign = Op::ALL.iter().find(|(_, op)| *op == self).map_or("?", |(sign, _)| sign);
                Err(format!("`{sign}` between {left} and {right}"))
            }
        }
    }

    fn apply(self, left: &Value, right: &Value) -> Result<Value, String> {
        Ok(match self {
            Op::Equal => Value::Bool(equal(left, right)),
            Op::Unequal => Value::Bool(!equal(left, right)),
            Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => {
                let order = order(left, right)?;
                Value::Bool(match self {
                    Op::Less => order.is_lt(),
                    Op::LessOrEqual => order.is_le(),
                    Op::Greater => order.is_gt(),
                    _ => order.is_ge(),
                })
            }
            _ => match (self, left, right) {
                (Op::Add, Value::String(left), Value::String(right)) => {
                    Value::String(format!("{left}{right}"))
                }
                _ => arithmetic(self, left, right)?,
            },
        })
    }
}

/// Whether two values are the same; numbers by what they are, not by how they are written.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64() == b.as_f64(),
        },
        _ => left == right,
    }
}

/// Which of two numbers, or of two texts, comes first.
pub(crate) fn order(left: &Value, right: &Value) -> Result<std::cmp::Ordering, String> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        _ => Ok(number(left)?.total_cmp(&number(right)?)),
    }
}

/// The sum of two numbers.
pub(crate) fn add(left: &Value, right: &Value) -> Result<Value, String> {
    arithmetic(Op::Add, left, right)
}

fn truth(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "a condition has no value".to_owned())
}

fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| "a number has no value".to_owned())
}

fn arithmetic(op: Op, left: &Value, right: &Value) -> Result<Value, String> {
    let too_large = || "a number is too large".to_owned();
    if let (Some(a), Some(b), false) = (left.as_i64(), right.as_i64(), op == Op::Divide) {
        let result = match op {
            Op::Add => a.checked_add(b),
            Op::Subtract => a.checked_sub(b),
            _ => a.checked_mul(b),
        };
        return result.map(Value::from).ok_or_else(too_large);
    }
    let (a, b) = (number(left)?, number(right)?);
    let result = match op {
        Op::Add => a + b,
        Op::Subtract => a - b,
        Op::Multiply => a * b,
        _ if b == 0.0 => return Err("a division by zero".to_owned()),
        _ => a / b,
    };
    Number::from_f64(result).map(Value::Number).ok_or_else(too_large)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Value(Value),
    Parameter(String),
    Word(String),
    Sign(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Value(value) => value.to_string(),
            Token::Parameter(name) => format!("${name}"),
            Token::Word(word) => word.clone(),
            Token::Sign(sign) => (*sign).to_owned(),
        }
    }
}

const SIGNS: [&str; 14] = ["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "(", ")", ",", "."];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = |rest: &str, inside: fn(char) -> bool| rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let in_word: fn(char) -> bool = |c| c.is_ascii_alphanumeric() || c == '_';
        let taken = match first {
            '\'' => {
                let end = rest[1..].find('\'').ok_or_else(|| format!("`{text}`: a quote is not closed"))?;
                tokens.push(Token::Value(Value::from(&rest[1..=end])));
                end + 2
            }
            '$' => {
                let taken = length(&rest[1..], in_word);
                tokens.push(Token::Parameter(rest[1..=taken].to_owned()));
                taken + 1
            }
            '0'..='9' => {
                let taken = length(rest, |c| c.is_ascii_digit() || c == '.');
                let number: Value = serde_json::from_str(&rest[..taken])
                    .map_err(|_| format!("`{text}`: `{}` is no number", &rest[..taken]))?;
                tokens.push(Token::Value(number));
                taken
            }
            _ if in_word(first) => {
                let taken = length(rest, in_word);
                tokens.push(match &rest[..taken] {
                    "true" => Token::Value(Value::Bool(true)),
                    "false" => Token::Value(Value::Bool(false)),
                    "null" => Token::Value(Value::Null),
                    word => Token::Word(word.to_owned()),
                });
                taken
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let sign = sign.ok_or_else(|| format!("`{text}`: `{first}` has no meaning here"))?;
                tokens.push(Token::Sign(sign));
                sign.len()
            }
        };
        rest = rest[taken..].trim_start();
    }
    Ok(tokens)
}

/// Deepest nesting: expressions come from files that others wrote.
const DEPTH_MAX: usize = 64;

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn take(&mut self, sign: &str) -> bool {
        let is_next = match self.tokens.get(self.at) {
            Some(Token::Sign(next)) => *next == sign,
            Some(Token::Word(word)) => word == sign,
            _ => false,
        };
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(format!("`{sign}` is missing")),
        }
    }

    /// Everything that binds at least as tightly as `least`. Operators of one strength bind from the left.
    fn binary(&mut self, least: u8) -> Result<Expr, String> {
        if self.tokens.len() > DEPTH_MAX * 2 {
            return Err(format!("an expression has more than {} words and signs", DEPTH_MAX * 2));
        }
        let mut left = match self.take("not") {
            true => Expr::Not(Box::new(self.binary(NOT)?)),
            false => self.operand()?,
        };
        while let Some((sign, op)) = self.operator().filter(|(_, op)| op.strength() >= least) {
            self.take(sign);
            let right = self.binary(op.strength() + 1)?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(&'static str, Op)> {
        let next = self.tokens.get(self.at)?.shown();
        let is_operator = matches!(self.tokens[self.at], Token::Sign(_) | Token::Word(_));
        Op::ALL.into_iter().find(|(sign, _)| is_operator && *sign == next)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        if self.take("-") {
            return Ok(Expr::Negative(Box::new(self.operand()?)));
        }
        if self.take("(") {
            let inner = self.binary(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let token = self.tokens.get(self.at).cloned().ok_or("an expression ends too early")?;
        self.at += 1;
        match token {
            Token::Value(value) => Ok(Expr::Value(value)),
            Token::Parameter(name) => Ok(Expr::Parameter(name)),
            Token::Word(word) if (word == "min" || word == "max") && self.take("(") => {
                let left = self.binary(0)?;
                self.expect(",")?;
                let right = self.binary(0)?;
                self.expect(")")?;
                Ok(Expr::Extreme(word == "max", Box::new(left), Box::new(right)))
            }
            Token::Word(row) if self.take(".") => match self.tokens.get(self.at) {
                Some(Token::Word(column)) => {
                    self.at += 1;
                    Ok(Expr::Field(row, column.clone()))
                }
                _ => Err(format!("a column is missing after `{row}.`")),
            },
            Token::Word(name) => Ok(Expr::Name(name)),
            Token::Sign(sign) => Err(format!("`{sign}` stands where a value should be")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Given;

    impl Scope for Given {
        fn parameter(&self, name: &str) -> Value {
            if name == "n" { json!(3) } else { Value::Null }
        }
        fn name(&self, name: &str) -> Value {
            if name == "city" { json!("Rome") } else { json!(7) }
        }
        fn field(&self, _: &str, _: &str) -> Value {
            json!(2.5)
        }
    }

    #[test]
    fn operators_bind_as_usual() {
        for (text, value) in [
            ("1 + 2 * 3", json!(7)),
            ("(1 + 2) * 3", json!(9)),
            ("10 - 3 - 2", json!(5)),
            ("-$n + 4", json!(1)),
            ("7 / 2", json!(3.5)),
            ("price >= 7 and not city == 'Oslo'", json!(true)),
            ("false and true or true", json!(true)),
            ("not false and false", json!(false)),
            ("$m == null", json!(true)),
            ("city + '!'", json!("Rome!")),
            ("max($n, 2) + min(1, 2)", json!(4)),
            ("hotel.price * 2", json!(5.0)),
            ("2 == 2.0", json!(true)),
            ("'a' < 'b'", json!(true)),
        ] {
            let value_is = Expr::parse(text).and_then(|expr| expr.value(&Given));
            assert_eq!(value_is, Ok(value), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_an_error_and_not_a_wrong_number() {
        for text in ["9223372036854775807 + 1", "1 / 0", "$m + 1", "$m < 1", "1e308 * 10.0 * 10.0"] {
            let value = Expr::parse(text).and_then(|expr| expr.value(&Given));
            assert!(value.is_err(), "{text}: {value:?}");
        }
    }

    #[test]
    fn what_is_not_an_expression_is_refused() {
        for text in ["", "1 +", "(1", "a.", "'x", "1 2", "a ? b", "min(1)", ")", "1.2.3"] {
            assert!(Expr::parse(text).is_err(), "{text}");
        }
        assert!(Expr::parse(&"(".repeat(10_000)).is_err());
    }

    #[test]
    fn types_are_checked() {
        let names = Names {
            parameters: BTreeMap::from([("n", Kind::Integer)]),
            columns: BTreeMap::from([("city", Kind::String), ("free", Kind::Boolean)]),
            ..Names::default()
        };
        let check = |text: &str| Expr::parse(text).and_then(|expr| expr.check(&names));
        assert_eq!(check("$n + 1"), Ok(Kind::Integer));
        assert_eq!(check("$n / 1"), Ok(Kind::Number));
        assert_eq!(check("city == null or free"), Ok(Kind::Boolean));
        for text in ["city + 1", "$m", "town", "city < 1", "free and $n", "not $n", "hotel.price", "-city"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
