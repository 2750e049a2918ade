//! The syntax tree of a template.

use std::rc::Rc;
use std::sync::Arc;

use crate::value::Value;

/// A constant, which can be shared between threads.
#[derive(Debug, Clone)]
pub(crate) enum Const {
    None,
    Bool(bool),
    Int(i64),
    /// The digits of an integer beyond 64 bits.
    Big(String),
    Float(f64),
    Str(Arc<str>),
}

impl Const {
    pub(crate) fn value(&self) -> Value {
        match self {
            Const::None => Value::None,
            Const::Bool(value) => Value::Bool(*value),
            Const::Int(value) => Value::Int(*value),
            Const::Big(digits) => Value::integer(digits).unwrap_or(Value::None),
            Const::Float(value) => Value::Float(*value),
            Const::Str(text) => Value::Str(Rc::from(&**text)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

/// The arguments of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Expr>,
    pub(crate) named: Vec<(String, Expr)>,
    pub(crate) rest: Option<Box<Expr>>,
    pub(crate) rest_named: Option<Box<Expr>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Const(Const),
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// Condition, value, alternative value.
    If(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Attribute(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    /// Slices among the items of a subscript, which no value accepts.
    BadSlice,
    Call(Box<Expr>, Args, usize),
    /// Without a value in a filter block.
    Filter(Option<Box<Expr>>, String, Args, usize),
    Test(Box<Expr>, String, Args, usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Target {
    Name(String),
    /// A namespace and its attribute.
    Attribute(String, String),
    Tuple(Vec<Target>),
}

/// The parameters of a macro, with the defaults of the last ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    pub(crate) names: Vec<String>,
    pub(crate) defaults: Vec<Expr>,
}

#[derive(Debug, Clone)]
pub(crate) struct MacroBody {
    pub(crate) name: Option<String>,
    pub(crate) parameters: Parameters,
    pub(crate) body: Vec<Node>,
    pub(crate) uses_caller: bool,
    pub(crate) uses_kwargs: bool,
    pub(crate) uses_varargs: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) over: Expr,
    pub(crate) test: Option<Expr>,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
    pub(crate) is_recursive: bool,
}

/// A statement, with the line it begins on.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) statement: Statement,
}

#[derive(Debug, Clone)]
pub(crate) enum Statement {
    /// Names that have no value yet, even if a variable outside the scope has that name.
    Unset(Vec<String>),
    Text(Arc<str>),
    Print(Expr),
    Set(Target, Expr),
    SetBlock(Target, Option<Expr>, Vec<Node>),
    For(Arc<For>),
    /// Branches with their conditions, then the `else` branch.
    If(Vec<(Expr, Vec<Node>)>, Vec<Node>),
    With(Vec<(Target, Expr)>, Vec<Node>),
    Filter(Expr, Vec<Node>),
    Macro(Arc<MacroBody>),
    /// The call, and its caller.
    CallBlock(Expr, Arc<MacroBody>),
    Generation(Vec<Node>),
    Block(String, bool),
    Autoescape(Expr, Vec<Node>),
    Break,
    Continue,
    /// A statement that needs another template.
    Load(&'static str),
}
