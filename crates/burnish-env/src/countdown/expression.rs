//! Arithmetic expressions: tree, value, text, and parsing of answers.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::rational::{Fault, Rational};

/// One of the four operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operator {
    /// `+`
    #[serde(rename = "+")]
    Add,
    /// `-`
    #[serde(rename = "-")]
    Subtract,
    /// `*`
    #[serde(rename = "*")]
    Multiply,
    /// `/`
    #[serde(rename = "/")]
    Divide,
}

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 4] = [Operator::Add, Operator::Subtract, Operator::Multiply, Operator::Divide];

    fn from_char(c: char) -> Option<Self> {
        match c {
            '+' => Some(Operator::Add),
            '-' | '−' => Some(Operator::Subtract),
            '*' | '×' => Some(Operator::Multiply),
            '/' | '÷' => Some(Operator::Divide),
            _ => None,
        }
    }

    /// Whether the order of the operands does not matter.
    pub fn is_commutative(self) -> bool {
        matches!(self, Operator::Add | Operator::Multiply)
    }

    fn precedence(self) -> u8 {
        match self {
            Operator::Add | Operator::Subtract => 1,
            Operator::Multiply | Operator::Divide => 2,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
        })
    }
}

/// An arithmetic expression. When printed, every operand that is an operation has parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// A given number.
    Number(i128),
    /// An operation on two expressions.
    Apply(Box<Expression>, Operator, Box<Expression>),
}

/// One operation of an expression, with the values of its operands and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Left operand.
    pub left: Rational,
    /// The operation.
    pub operator: Operator,
    /// Right operand.
    pub right: Rational,
    /// The result.
    pub result: Rational,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} = {}", self.left, self.operator, self.right, self.result)
    }
}

impl Expression {
    /// `left operator right`.
    pub fn apply(left: Expression, operator: Operator, right: Expression) -> Self {
        Expression::Apply(Box::new(left), operator, Box::new(right))
    }

    /// The value, exactly.
    ///
    /// # Errors
    /// If a divisor is 0 or a number exceeds 128 bits.
    pub fn value(&self) -> Result<Rational, Fault> {
        self.walk(&mut |_| {})
    }

    /// The operations in the order of evaluation: left operand, right operand, then the operation itself.
    ///
    /// # Errors
    /// If a divisor is 0 or a number exceeds 128 bits.
    pub fn operations(&self) -> Result<Vec<Operation>, Fault> {
        let mut operations = Vec::new();
        self.walk(&mut |operation| operations.push(operation))?;
        Ok(operations)
    }

    fn walk(&self, visit: &mut impl FnMut(Operation)) -> Result<Rational, Fault> {
        match self {
            Expression::Number(number) => Ok(Rational::whole(*number)),
            Expression::Apply(left, operator, right) => {
                let (left, operator) = (left.walk(visit)?, *operator);
                let right = right.walk(visit)?;
                let result = left.apply(operator, right)?;
                visit(Operation { left, operator, right, result });
                Ok(result)
            }
        }
    }

    /// The numbers it uses, from left to right.
    pub fn numbers(&self) -> Vec<i128> {
        match self {
            Expression::Number(number) => vec![*number],
            Expression::Apply(left, _, right) => [left.numbers(), right.numbers()].concat(),
        }
    }

    /// The operators it uses, from left to right.
    pub fn operators(&self) -> Vec<Operator> {
        match self {
            Expression::Number(_) => Vec::new(),
            Expression::Apply(left, operator, right) => {
                [left.operators(), vec![*operator], right.operators()].concat()
            }
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operand = |f: &mut fmt::Formatter<'_>, expression: &Expression| match expression {
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Apply(..) => write!(f, "({expression})"),
        };
        match self {
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Apply(left, operator, right) => {
                operand(f, left)?;
                write!(f, " {operator} ")?;
                operand(f, right)
            }
        }
    }
}

/// Most numbers, operators and parentheses in an answer. Far above any legal answer; bounds the depth of the tree.
const SYMBOLS_MAX: usize = 256;

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A number or `(` is required here, but there is something else.
    #[error("a number or `(` is needed {0}")]
    Operand(Place),
    /// An operator is required here, but there is something else.
    #[error("an operator is needed {0}")]
    Operator(Place),
    /// A `(` has no `)`.
    #[error("a `)` is missing {0}")]
    Unclosed(Place),
    /// A character that occurs in no expression.
    #[error("`{0}` does not belong in an expression")]
    Character(char),
    /// A number with too many digits.
    #[error("a number is too large")]
    TooLarge,
    /// More symbols than any legal answer has.
    #[error("the answer is longer than {SYMBOLS_MAX} symbols")]
    TooLong,
    /// The part after `=` is not the target.
    #[error("after `=` there must be the target and nothing else")]
    Tail,
}

/// Where a parse failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Before this symbol.
    Before(String),
    /// At the end of the text.
    AtEnd,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Before(symbol) => write!(f, "before `{symbol}`"),
            Place::AtEnd => f.write_str("at the end"),
        }
    }
}

/// Parses an expression: integers, `+ - * /` (also `− × ÷`) with the usual precedence, from left to right, and
/// parentheses; no sign before a number. It may end with `= target`.
///
/// # Errors
/// If the text is anything else.
pub fn parse(text: &str, target: i128) -> Result<Expression, ParseError> {
    let mut symbols = symbols(text)?;
    if let Some(at) = symbols.iter().position(|symbol| *symbol == Symbol::Equals) {
        if symbols[at + 1..] != [Symbol::Number(target)] {
            return Err(ParseError::Tail);
        }
        symbols.truncate(at);
    }
    let mut reader = Reader { symbols: &symbols };
    let expression = reader.expression(0)?;
    match reader.symbols {
        [] => Ok(expression),
        _ => Err(ParseError::Operator(reader.place())),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Symbol {
    Number(i128),
    Operator(Operator),
    Open,
    Close,
    Equals,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Symbol::Number(number) => write!(f, "{number}"),
            Symbol::Operator(operator) => write!(f, "{operator}"),
            Symbol::Open => f.write_str("("),
            Symbol::Close => f.write_str(")"),
            Symbol::Equals => f.write_str("="),
        }
    }
}

fn symbols(text: &str) -> Result<Vec<Symbol>, ParseError> {
    let mut symbols = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let symbol = match c {
            _ if c.is_whitespace() => continue,
            '(' => Symbol::Open,
            ')' => Symbol::Close,
            '=' => Symbol::Equals,
            '0'..='9' => {
                let mut digits = String::from(c);
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                Symbol::Number(digits.parse().map_err(|_| ParseError::TooLarge)?)
            }
            _ => Symbol::Operator(Operator::from_char(c).ok_or(ParseError::Character(c))?),
        };
        if symbols.len() == SYMBOLS_MAX {
            return Err(ParseError::TooLong);
        }
        symbols.push(symbol);
    }
    Ok(symbols)
}

struct Reader<'a> {
    symbols: &'a [Symbol],
}

impl Reader<'_> {
    /// Precedence climbing: parses operators that bind more tightly than `floor`.
    fn expression(&mut self, floor: u8) -> Result<Expression, ParseError> {
        let mut left = self.operand()?;
        while let [Symbol::Operator(operator), rest @ ..] = self.symbols
            && operator.precedence() > floor
        {
            self.symbols = rest;
            let right = self.expression(operator.precedence())?;
            left = Expression::apply(left, *operator, right);
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, ParseError> {
        match self.symbols {
            [Symbol::Number(number), rest @ ..] => {
                self.symbols = rest;
                Ok(Expression::Number(*number))
            }
            [Symbol::Open, rest @ ..] => {
                self.symbols = rest;
                let inner = self.expression(0)?;
                let [Symbol::Close, rest @ ..] = self.symbols else {
                    return Err(ParseError::Unclosed(self.place()));
                };
                self.symbols = rest;
                Ok(inner)
            }
            _ => Err(ParseError::Operand(self.place())),
        }
    }

    fn place(&self) -> Place {
        self.symbols.first().map_or(Place::AtEnd, |symbol| Place::Before(symbol.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: i128) {
        let expression = parse(text, 76).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression.value(), Ok(Rational::whole(expected)), "{text}");
    }

    fn refuse(text: &str, expected: &str) {
        let error = parse(text, 76).err().unwrap_or_else(|| panic!("{text} was read"));
        assert_eq!(error.to_string(), expected, "{text}");
    }

    #[test]
    fn precedence_and_grouping_are_the_usual_ones() {
        check("50 + 25 + 7/7", 76);
        check("2+3*4", 14);
        check("20-5-3", 12);
        check("24/4/2", 3);
        check("2*(3+4)*5", 70);
        check("((7))", 7);
        check("12 ÷ 4 × 3 − 1", 8);
        check("(50+25)+1 = 76", 76);
        check("8/(3-8/3)", 24);
    }

    #[test]
    fn what_is_not_an_expression_is_refused_with_the_reason() {
        refuse("", "a number or `(` is needed at the end");
        refuse("-3 + 4", "a number or `(` is needed before `-`");
        refuse("3 * -4", "a number or `(` is needed before `-`");
        refuse("3 4", "an operator is needed before `4`");
        refuse("(3 + 4", "a `)` is missing at the end");
        refuse("3 + 4)", "an operator is needed before `)`");
        refuse("3.5", "`.` does not belong in an expression");
        refuse("answer: 3", "`a` does not belong in an expression");
        refuse("70 + 6 = 75", "after `=` there must be the target and nothing else");
        refuse("70 + 6 = 76 = 76", "after `=` there must be the target and nothing else");
        refuse(&"9".repeat(60), "a number is too large");
        refuse(&"(".repeat(100_000), "the answer is longer than 256 symbols");
    }

    #[test]
    fn an_expression_prints_as_text_that_reads_back_as_itself() {
        let expression = parse("2*(3+4)-8/4*(1-5)", 0).unwrap();
        assert_eq!(expression.to_string(), "(2 * (3 + 4)) - ((8 / 4) * (1 - 5))");
        assert_eq!(parse(&expression.to_string(), 0), Ok(expression));
    }

    #[test]
    fn operations_come_in_the_order_in_which_they_are_worked_out() {
        let operations = parse("2*(3+4)-8/3", 0).unwrap().operations().unwrap();
        let lines: Vec<String> = operations.iter().map(Operation::to_string).collect();
        assert_eq!(lines, ["3 + 4 = 7", "2 * 7 = 14", "8 / 3 = 8/3", "14 - 8/3 = 34/3"]);
    }
}
