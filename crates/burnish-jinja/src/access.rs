//! Attributes and items, as the sandbox allows them.

use std::rc::Rc;

use num_bigint::BigInt;

use crate::error::{Error, Result, type_error};
use crate::ops;
use crate::run::Block;
use crate::value::{Other, Value, View};

const STR: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];
const MARKUP: &[&str] = &["escape", "striptags", "unescape"];
const SEQUENCE: &[&str] = &["count", "index"];
const DICT: &[&str] = &["copy", "fromkeys", "get", "items", "keys", "values"];
const INT: &[&str] = &["as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes"];
const FLOAT: &[&str] = &["as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"];
/// Methods that change their object; the sandbox hides them.
const LIST_CHANGES: &[&str] = &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const DICT_CHANGES: &[&str] = &["clear", "pop", "popitem", "setdefault", "update"];

/// `value.name`.
pub(crate) fn attribute(value: &Value, name: &str) -> Result<Value> {
    if let Value::Undefined(problem) = value {
        if name.starts_with("__") && name.ends_with("__") {
            return Ok(unsafe_attribute(value, name));
        }
        return Err(Error::other(&**problem));
    }
    if let Some(found) = own_attribute(value, name)? {
        return Ok(found);
    }
    Ok(plain_item(value, &Value::text(name))?.unwrap_or_else(|| no_attribute(value, name)))
}

/// `value[key]`.
pub(crate) fn item(value: &Value, key: &Value) -> Result<Value> {
    if let Some(found) = plain_item(value, key)? {
        return Ok(found);
    }
    if let Some(name) = key.as_str() {
        return Ok(own_attribute(value, name)?.unwrap_or_else(|| no_attribute(value, name)));
    }
    let problem = format!("{} has no element {}", described(value), ops::shown(key));
    Ok(Value::undefined(problem))
}

fn described(value: &Value) -> String {
    match value {
        Value::None => "None".into(),
        value => format!("{} object", value.type_name()),
    }
}

fn no_attribute(value: &Value, name: &str) -> Value {
    Value::undefined(format!("'{}' has no attribute '{name}'", described(value)))
}

fn unsafe_attribute(value: &Value, name: &str) -> Value {
    Value::undefined(format!("access to attribute '{name}' of '{}' object is unsafe.", value.type_name()))
}

/// The item, without looking at attributes; `None` if there is none.
fn plain_item(value: &Value, key: &Value) -> Result<Option<Value>> {
    if let Value::Undefined(problem) = value {
        return Err(Error::other(&**problem));
    }
    let at = |length: usize| match key {
        Value::Int(_) | Value::Bool(_) => key.as_place().and_then(|index| ops::place(index, length)),
        _ => None,
    };
    Ok(match value {
        Value::Dict(dict) if key.check_hashable().is_ok() => dict.get(key).cloned(),
        Value::List(items) | Value::Tuple(items) | Value::Other(Other::Group(items)) => {
            at(items.len()).map(|at| items[at].clone())
        }
        Value::Str(text) | Value::Markup(text) => {
            let found = at(text.chars().count()).and_then(|at| text.chars().nth(at));
            found.map(|c| match value {
                Value::Markup(_) => Value::Markup(c.to_string().into()),
                _ => c.to_string().into(),
            })
        }
        Value::Other(Other::Range(range)) => at(range.len()).map(|at| Value::Int(range.get(at))),
        _ => None,
    })
}

/// An attribute of the value itself, as Python's `getattr` finds it.
fn own_attribute(value: &Value, name: &str) -> Result<Option<Value>> {
    if name.starts_with("__") && name.ends_with("__") {
        // Attributes that every object has exist, but are never safe.
        let is_common =
            ["__class__", "__doc__", "__init__", "__str__", "__repr__", "__eq__", "__hash__", "__dir__"]
                .contains(&name);
        return Ok(is_common.then(|| unsafe_attribute(value, name)));
    }
    let method = || Some(Value::Other(Other::Method(Rc::new(value.clone()), name.into())));
    let knows = |names: &[&str]| names.contains(&name);
    Ok(match value {
        Value::Str(_) if knows(STR) => method(),
        Value::Markup(_) if knows(STR) || knows(MARKUP) => method(),
        Value::List(_) if knows(SEQUENCE) || name == "copy" => method(),
        Value::List(_) if knows(LIST_CHANGES) => Some(unsafe_attribute(value, name)),
        Value::Dict(_) if knows(DICT) => method(),
        Value::Dict(_) if knows(DICT_CHANGES) => Some(unsafe_attribute(value, name)),
        Value::Tuple(_) if knows(SEQUENCE) => method(),
        Value::Int(_) | Value::Big(_) | Value::Bool(_) => match name {
            "real" | "numerator" => Some(Value::big(value.as_int().unwrap_or_default())),
            "imag" => Some(Value::Int(0)),
            "denominator" => Some(Value::big(BigInt::from(1))),
            _ if knows(INT) => method(),
            _ => None,
        },
        Value::Float(number) => match name {
            "real" => Some(Value::Float(*number)),
            "imag" => Some(Value::Float(0.0)),
            _ if knows(FLOAT) => method(),
            _ => None,
        },
        Value::Other(other) => other_attribute(value, other, name)?,
        _ => None,
    })
}

fn other_attribute(value: &Value, other: &Other, name: &str) -> Result<Option<Value>> {
    let method = || Some(Value::Other(Other::Method(Rc::new(value.clone()), name.into())));
    Ok(match (other, name) {
        (Other::Group(items), "grouper") => items.first().cloned(),
        (Other::Group(items), "list") => items.get(1).cloned(),
        (Other::Group(_) | Other::Range(_), "count" | "index") => method(),
        (Other::Range(range), "start") => Some(Value::Int(range.start)),
        (Other::Range(range), "stop") => Some(Value::Int(range.stop)),
        (Other::Range(range), "step") => Some(Value::Int(range.step)),
        (Other::View(View::Keys | View::Items, _), "isdisjoint") | (Other::View(..), "mapping") => {
            return Err(Error::other(format!("`{name}` of a dictionary's view is not supported")));
        }
        (Other::Iter(_), "close" | "send" | "throw") => {
            return Err(Error::other(format!("`{name}` of a generator is not supported")));
        }
        (Other::Namespace(dict), name) => dict.borrow().get_str(name).cloned(),
        (Other::Macro(body), name) => body.attribute(name),
        (Other::Loop(state), name) => state.borrow().attribute(value, name)?,
        (Other::Cycler(state), "current") => {
            let (items, at) = &*state.borrow();
            Some(items[*at].clone())
        }
        (Other::Cycler(state), "items") => Some(Value::tuple(state.borrow().0.clone())),
        (Other::Cycler(state), "pos") => Some(Value::size(state.borrow().1)),
        (Other::Cycler(_), "next" | "reset") => method(),
        (Other::Joiner(state), "sep") => Some(state.0.clone()),
        (Other::Joiner(state), "used") => Some(Value::Bool(state.1.get())),
        (Other::Global("dict"), "fromkeys") => method(),
        (Other::Block(block), "name") => Some(Value::text(block.name.as_str())),
        (Other::Blocks(names), name) if names.iter().any(|known| known == name) => {
            Some(Value::Other(Other::Block(Rc::new(Block { name: name.to_owned() }))))
        }
        _ => None,
    })
}

/// Sets `namespace.name`.
pub(crate) fn set_attribute(namespace: &Value, name: &str, value: Value) -> Result<()> {
    let Value::Other(Other::Namespace(dict)) = namespace else {
        return type_error("cannot assign attribute on non-namespace object");
    };
    check_namespace_name(name)?;
    dict.borrow_mut().set(name, value);
    Ok(())
}

pub(crate) fn check_namespace_name(name: &str) -> Result<()> {
    match name.starts_with('_') {
        true => Err(Error::other(format!(
            "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{name}'. Please \
             rename the attribute."
        ))),
        false => Ok(()),
    }
}

/// The filter `attr`: an attribute, never an item.
pub(crate) fn attribute_only(value: &Value, name: &str) -> Result<Value> {
    if value.is_undefined() {
        return attribute(value, name);
    }
    Ok(own_attribute(value, name)?.unwrap_or_else(|| no_attribute(value, name)))
}
