//! What an answer is, once it has been read.

use num_rational::BigRational;

use crate::units::Unit;

/// An expression. Its depth is bounded by the parser, so that recursion over it is safe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// A number as written; `decimals` is the count of digits after its point, if it has one.
    Number { value: BigRational, decimals: Option<u32> },
    /// `2516_8`: digits as written, and the base.
    Based { digits: String, base: u32 },
    /// `\pi`, `e`, `i`.
    Constant(Constant),
    /// A variable, with its subscript.
    Symbol(String),
    /// Terms.
    Sum(Vec<Expr>),
    /// Factors.
    Product(Vec<Expr>),
    /// Minus.
    Negative(Box<Expr>),
    /// Numerator, denominator.
    Quotient(Box<Expr>, Box<Expr>),
    /// Base, exponent.
    Power(Box<Expr>, Box<Expr>),
    /// Radicand, index.
    Root(Box<Expr>, Box<Expr>),
    /// A function and its arguments.
    Call(Function, Vec<Expr>),
    /// `30^\circ`.
    Degrees(Box<Expr>),
    /// `50\%`.
    Percent(Box<Expr>),
    /// `\pm x`: the sign is `true` for plus in the first reading, `false` for `\mp`.
    PlusMinus(bool, Box<Expr>),
    /// `\infty`.
    Infinity,
}

/// Named constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Constant {
    Pi,
    E,
    I,
}

/// Functions that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Function {
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Ln,
    /// Value, base.
    Log,
    Exp,
    Abs,
    Floor,
    Ceiling,
    Factorial,
    /// n, k.
    Binomial,
    /// Base, exponent: a power that the normal form leaves alone.
    Power,
}

/// How two sides of a relation stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    Approx,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// One end of an interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) at: Expr,
    pub(crate) is_closed: bool,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// An expression with its unit.
    Quantity { expr: Expr, unit: Option<Unit> },
    /// Words, normalised.
    Text(String),
    /// `(a, b)`: ordered; of two elements also the open interval.
    Tuple(Vec<Value>),
    /// `a, b`: no brackets, any order.
    List(Vec<Value>),
    /// `\{a, b\}`.
    Set(Vec<Value>),
    /// `[a, b)`.
    Interval(End, End),
    /// Sets joined by `\cup`.
    Union(Vec<Value>),
    /// Rows.
    Matrix(Vec<Vec<Value>>),
    /// `a = b < c`: one more side than signs.
    Chain(Vec<Value>, Vec<Relation>),
    /// `x \in S`: what is on the right.
    Member(Box<Value>),
}

impl Expr {
    /// An integer.
    pub(crate) fn integer(value: i64) -> Expr {
        Expr::Number { value: crate::work::rational(value), decimals: None }
    }

    /// The number that this is, if it is written as one (possibly with signs).
    pub(crate) fn literal(&self) -> Option<(BigRational, Option<u32>)> {
        match self {
            Expr::Number { value, decimals } => Some((value.clone(), *decimals)),
            Expr::Negative(inner) => inner.literal().map(|(value, decimals)| (-value, decimals)),
            _ => None,
        }
    }

    /// The expressions this is made of.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Number { .. }
            | Expr::Based { .. }
            | Expr::Constant(_)
            | Expr::Symbol(_)
            | Expr::Infinity => Vec::new(),
            Expr::Sum(items) | Expr::Product(items) | Expr::Call(_, items) => items.iter().collect(),
            Expr::Negative(a) | Expr::Degrees(a) | Expr::Percent(a) | Expr::PlusMinus(_, a) => vec![a],
            Expr::Quotient(a, b) | Expr::Power(a, b) | Expr::Root(a, b) => vec![a, b],
        }
    }

    /// The same with every child replaced.
    pub(crate) fn map_children(&self, map: impl Fn(&Expr) -> Expr) -> Expr {
        let boxed = |inner: &Expr| Box::new(map(inner));
        let all = |items: &[Expr]| items.iter().map(&map).collect();
        match self {
            Expr::Number { .. }
            | Expr::Based { .. }
            | Expr::Constant(_)
            | Expr::Symbol(_)
            | Expr::Infinity => self.clone(),
            Expr::Sum(items) => Expr::Sum(all(items)),
            Expr::Product(items) => Expr::Product(all(items)),
            Expr::Call(function, items) => Expr::Call(*function, all(items)),
            Expr::Negative(a) => Expr::Negative(boxed(a)),
            Expr::Degrees(a) => Expr::Degrees(boxed(a)),
            Expr::Percent(a) => Expr::Percent(boxed(a)),
            Expr::PlusMinus(is_plus, a) => Expr::PlusMinus(*is_plus, boxed(a)),
            Expr::Quotient(a, b) => Expr::Quotient(boxed(a), boxed(b)),
            Expr::Power(a, b) => Expr::Power(boxed(a), boxed(b)),
            Expr::Root(a, b) => Expr::Root(boxed(a), boxed(b)),
        }
    }
}
