//! Python's values, as far as a template can meet them.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::error::{Error, Result, type_error};
use crate::run::{Block, Loop, Macro};

/// A value in a template. Lists, tuples and dictionaries are immutable: the sandbox forbids every method that would
/// change them.
#[derive(Debug, Clone)]
pub enum Value {
    /// The result of reading a name or an attribute that does not exist.
    Undefined(Rc<str>),
    /// Python's `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// An integer beyond 64 bits.
    Big(Rc<BigInt>),
    /// A double-precision float.
    Float(f64),
    /// A text.
    Str(Rc<str>),
    /// A text that is already HTML.
    Markup(Rc<str>),
    /// A list.
    List(Rc<Vec<Value>>),
    /// A tuple.
    Tuple(Rc<Vec<Value>>),
    /// A dictionary.
    Dict(Rc<Dict>),
    /// Values that only templates make: ranges, iterators, functions, ...
    Other(Other),
}

/// Values that templates make and no caller passes in.
#[derive(Debug, Clone)]
pub enum Other {
    /// One group of `groupby`: a tuple with the field names `grouper` and `list`.
    #[doc(hidden)]
    Group(Rc<Vec<Value>>),
    #[doc(hidden)]
    Range(Range),
    #[doc(hidden)]
    View(View, Rc<Dict>),
    /// An iterator, which loses the items that it gives.
    #[doc(hidden)]
    Iter(Rc<RefCell<Items>>),
    #[doc(hidden)]
    Namespace(Rc<RefCell<Dict>>),
    #[doc(hidden)]
    Method(Rc<Value>, Rc<str>),
    #[doc(hidden)]
    Global(&'static str),
    #[doc(hidden)]
    Macro(Rc<Macro>),
    #[doc(hidden)]
    Loop(Rc<RefCell<Loop>>),
    #[doc(hidden)]
    Cycler(Rc<RefCell<(Vec<Value>, usize)>>),
    #[doc(hidden)]
    Joiner(Rc<(Value, std::cell::Cell<bool>)>),
    #[doc(hidden)]
    Block(Rc<Block>),
    /// The blocks of a template, by name: `self`.
    #[doc(hidden)]
    Blocks(Rc<Vec<String>>),
}

/// The remaining items of an iterator; an error of its function comes after the items before it.
#[derive(Debug, Clone, Default)]
pub struct Items {
    pub(crate) left: VecDeque<Value>,
    pub(crate) error: Option<Error>,
}

/// Python's `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub(crate) start: i64,
    pub(crate) stop: i64,
    pub(crate) step: i64,
}

impl Range {
    pub(crate) fn len(self) -> usize {
        let (start, stop, step) = (i128::from(self.start), i128::from(self.stop), i128::from(self.step));
        let span = if step > 0 { stop - start } else { start - stop };
        if span <= 0 { 0 } else { ((span - 1) / step.abs() + 1) as usize }
    }

    pub(crate) fn get(self, at: usize) -> i64 {
        self.start + self.step * at as i64
    }
}

/// One of a dictionary's views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    #[doc(hidden)]
    Keys,
    #[doc(hidden)]
    Values,
    #[doc(hidden)]
    Items,
}

/// A dictionary, which keeps its keys in order.
#[derive(Debug, Clone, Default)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    /// Positions of the keys that are texts.
    places: HashMap<Rc<str>, usize>,
}

impl Dict {
    /// Sets a key. An existing key keeps its position.
    ///
    /// # Errors
    /// If the key is mutable, such as a list or a dictionary.
    pub fn insert(&mut self, key: Value, value: Value) -> std::result::Result<(), Error> {
        key.check_hashable()?;
        match self.place(&key) {
            Some(at) => self.entries[at].1 = value,
            None => {
                if let Some(text) = key.as_rc_str() {
                    self.places.insert(text.clone(), self.entries.len());
                }
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    /// Sets a key that is a text.
    pub fn set(&mut self, key: &str, value: Value) {
        match self.places.get(key) {
            Some(at) => self.entries[*at].1 = value,
            None => {
                let key: Rc<str> = key.into();
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((Value::Str(key), value));
            }
        }
    }

    fn place(&self, key: &Value) -> Option<usize> {
        match key.as_str() {
            Some(text) => self.places.get(text).copied(),
            None => self.entries.iter().position(|(other, _)| crate::ops::equal(other, key)),
        }
    }

    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        self.place(key).map(|at| &self.entries[at].1)
    }

    pub(crate) fn get_str(&self, key: &str) -> Option<&Value> {
        self.places.get(key).map(|at| &self.entries[*at].1)
    }

    pub(crate) fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Value::Str(text.into())
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(Rc::new(items))
    }

    /// A dictionary.
    pub fn dict(dict: Dict) -> Self {
        Value::Dict(Rc::new(dict))
    }

    /// An integer from its decimal digits, of any length; `None` if they are not digits.
    pub fn integer(digits: &str) -> Option<Self> {
        digits.parse::<BigInt>().ok().map(Value::big)
    }

    pub(crate) fn tuple(items: Vec<Value>) -> Self {
        Value::Tuple(Rc::new(items))
    }

    pub(crate) fn big(value: BigInt) -> Self {
        value.to_i64().map_or_else(|| Value::Big(Rc::new(value)), Value::Int)
    }

    pub(crate) fn size(value: usize) -> Self {
        Value::Int(value as i64)
    }

    pub(crate) fn iter_of(items: impl IntoIterator<Item = Value>) -> Self {
        let left = items.into_iter().collect();
        Value::Other(Other::Iter(Rc::new(RefCell::new(Items { left, error: None }))))
    }

    /// An iterator over the results of a function for each item, up to its first error.
    pub(crate) fn lazily(results: impl IntoIterator<Item = Result<Option<Value>>>) -> Self {
        let mut items = Items::default();
        for result in results {
            match result {
                Ok(value) => items.left.extend(value),
                Err(error) => {
                    items.error = Some(error);
                    break;
                }
            }
        }
        Value::Other(Other::Iter(Rc::new(RefCell::new(items))))
    }

    pub(crate) fn undefined(problem: impl Into<Rc<str>>) -> Self {
        Value::Undefined(problem.into())
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        self.as_rc_str().map(AsRef::as_ref)
    }

    fn as_rc_str(&self) -> Option<&Rc<str>> {
        match self {
            Value::Str(text) | Value::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// The integer value of an integer or a boolean.
    pub(crate) fn as_int(&self) -> Option<BigInt> {
        match self {
            Value::Bool(value) => Some(BigInt::from(i64::from(*value))),
            Value::Int(value) => Some(BigInt::from(*value)),
            Value::Big(value) => Some((**value).clone()),
            _ => None,
        }
    }

    /// A 64-bit integer; a larger one is clamped to the range, as positions in a text or list are.
    pub(crate) fn as_place(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Big(value) if value.sign() == num_bigint::Sign::Minus => Some(i64::MIN),
            Value::Big(_) => Some(i64::MAX),
            Value::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    pub(crate) fn as_tuple(&self) -> Option<&Rc<Vec<Value>>> {
        match self {
            Value::Tuple(items) | Value::Other(Other::Group(items)) => Some(items),
            _ => None,
        }
    }

    /// Python's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "Undefined",
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Big(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::Markup(_) => "Markup",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Dict(_) => "dict",
            Value::Other(other) => match other {
                Other::Group(_) => "tuple",
                Other::Range(_) => "range",
                Other::View(View::Keys, _) => "dict_keys",
                Other::View(View::Values, _) => "dict_values",
                Other::View(View::Items, _) => "dict_items",
                Other::Iter(_) => "generator",
                Other::Namespace(_) => "Namespace",
                Other::Method(..) | Other::Global(_) => "function",
                Other::Macro(_) => "Macro",
                Other::Loop(_) => "LoopContext",
                Other::Cycler(_) => "Cycler",
                Other::Joiner(_) => "Joiner",
                Other::Block(_) => "BlockReference",
                Other::Blocks(_) => "TemplateReference",
            },
        }
    }

    /// Is it true in Python's sense?
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Big(value) => !value.is_zero(),
            Value::Float(value) => *value != 0.0,
            Value::Str(text) | Value::Markup(text) => !text.is_empty(),
            Value::List(items) | Value::Tuple(items) => !items.is_empty(),
            Value::Dict(dict) => dict.len() > 0,
            Value::Other(other) => match other {
                Other::Group(items) => !items.is_empty(),
                Other::Range(range) => range.len() > 0,
                Other::View(_, dict) => dict.len() > 0,
                Other::Loop(state) => state.borrow().length() > 0,
                _ => true,
            },
        }
    }

    /// Its length, if it has one.
    pub(crate) fn len(&self) -> Result<usize> {
        Ok(match self {
            Value::Undefined(_) => 0,
            Value::Str(text) | Value::Markup(text) => text.chars().count(),
            Value::List(items) | Value::Tuple(items) | Value::Other(Other::Group(items)) => items.len(),
            Value::Dict(dict) | Value::Other(Other::View(_, dict)) => dict.len(),
            Value::Other(Other::Range(range)) => range.len(),
            Value::Other(Other::Loop(state)) => state.borrow().length(),
            _ => return type_error(format!("object of type '{}' has no len()", self.type_name())),
        })
    }

    /// The items that a loop over it visits. An iterator is then exhausted.
    pub(crate) fn items(&self) -> Result<Vec<Value>> {
        Ok(match self {
            Value::Undefined(_) => Vec::new(),
            Value::Str(text) | Value::Markup(text) => {
                let mut buffer = [0; 4];
                text.chars().map(|c| Value::text(&*c.encode_utf8(&mut buffer))).collect()
            }
            Value::List(items) | Value::Tuple(items) | Value::Other(Other::Group(items)) => items.to_vec(),
            Value::Dict(dict) => dict.entries.iter().map(|(key, _)| key.clone()).collect(),
            Value::Other(Other::View(view, dict)) => {
                let entries = dict.entries.iter();
                match view {
                    View::Keys => entries.map(|(key, _)| key.clone()).collect(),
                    View::Values => entries.map(|(_, value)| value.clone()).collect(),
                    View::Items => {
                        entries.map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()])).collect()
                    }
                }
            }
            Value::Other(Other::Range(range)) => {
                (0..range.len()).map(|at| Value::Int(range.get(at))).collect()
            }
            Value::Other(Other::Iter(items)) => {
                let mut items = items.borrow_mut();
                let left: Vec<Value> = items.left.drain(..).collect();
                match items.error.take() {
                    Some(error) => return Err(error),
                    None => left,
                }
            }
            Value::Other(Other::Loop(_)) => {
                return Err(Error::other("a loop over `loop` itself is not supported"));
            }
            _ => return type_error(format!("'{}' object is not iterable", self.type_name())),
        })
    }

    pub(crate) fn is_iterable(&self) -> bool {
        match self {
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => false,
            Value::Other(other) => matches!(
                other,
                Other::Group(_) | Other::Range(_) | Other::View(..) | Other::Iter(_) | Other::Loop(_)
            ),
            _ => true,
        }
    }

    pub(crate) fn is_callable(&self) -> bool {
        matches!(
            self,
            Value::Undefined(_)
                | Value::Other(
                    Other::Method(..)
                        | Other::Global(_)
                        | Other::Macro(_)
                        | Other::Loop(_)
                        | Other::Joiner(_)
                        | Other::Block(_)
                )
        )
    }

    pub(crate) fn check_hashable(&self) -> Result<()> {
        match self {
            Value::List(_) | Value::Dict(_) | Value::Other(Other::View(View::Keys | View::Items, _)) => {
                type_error(format!("unhashable type: '{}'", self.type_name()))
            }
            _ => match self.as_tuple() {
                Some(items) => items.iter().try_for_each(Value::check_hashable),
                None => Ok(()),
            },
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::text(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::text(value)
    }
}
