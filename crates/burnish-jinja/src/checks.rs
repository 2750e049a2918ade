//! Jinja's tests: what follows `is`.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::args::Call;
use crate::ast::{Binary, Comparison};
use crate::error::{Error, Result};
use crate::value::{Other, Value};
use crate::{filters, ops, strings};

const NAMES: &[&str] = &[
    "odd",
    "even",
    "divisibleby",
    "defined",
    "undefined",
    "filter",
    "test",
    "none",
    "boolean",
    "false",
    "true",
    "integer",
    "float",
    "lower",
    "upper",
    "string",
    "mapping",
    "number",
    "sequence",
    "iterable",
    "callable",
    "sameas",
    "escaped",
    "in",
    "==",
    "eq",
    "equalto",
    "!=",
    "ne",
    ">",
    "gt",
    "greaterthan",
    "ge",
    ">=",
    "<",
    "lt",
    "lessthan",
    "<=",
    "le",
];

pub(crate) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// `value is name(...)`.
pub(crate) fn call(name: &str, value: &Value, call: Call) -> Result<bool> {
    if !is_known(name) {
        return Err(Error::other(format!("No test named '{name}'.")));
    }
    let rest = |divisor: &Value| ops::binary(Binary::Mod, value, divisor);
    let is_rest = |divisor: &Value, wanted: i64| Ok(ops::equal(&rest(divisor)?, &Value::Int(wanted)));
    let parameter = match name {
        "divisibleby" => Some("num"),
        "in" => Some("seq"),
        "sameas" => Some("other"),
        "==" | "eq" | "equalto" | "!=" | "ne" | ">" | "gt" | "greaterthan" | "ge" | ">=" | "<" | "lt"
        | "lessthan" | "<=" | "le" => Some("b"),
        _ => None,
    };
    if let Some(parameter) = parameter {
        let [other] = match parameter {
            "b" => call.positional(name, 1)?,
            parameter => call.bind(name, [parameter], 1)?,
        };
        let other = other.unwrap_or(Value::None);
        let compare = |op| ops::compare(op, value, &other);
        return match name {
            "divisibleby" => is_rest(&other, 0),
            "in" => ops::contains(&other, value),
            "sameas" => same(value, &other),
            "==" | "eq" | "equalto" => compare(Comparison::Eq),
            "!=" | "ne" => compare(Comparison::Ne),
            ">" | "gt" | "greaterthan" => ops::ordered(value, &other, ">", Ordering::is_gt),
            ">=" | "ge" => compare(Comparison::Ge),
            "<" | "lt" | "lessthan" => compare(Comparison::Lt),
            _ => compare(Comparison::Le),
        };
    }
    call.bind::<0>(name, [], 0)?;
    Ok(match name {
        "odd" => return is_rest(&Value::Int(2), 1),
        "even" => return is_rest(&Value::Int(2), 0),
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "filter" => {
            value.check_hashable()?;
            value.as_str().is_some_and(filters::is_known)
        }
        "test" => {
            value.check_hashable()?;
            value.as_str().is_some_and(is_known)
        }
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "false" => matches!(value, Value::Bool(false)),
        "true" => matches!(value, Value::Bool(true)),
        "integer" => matches!(value, Value::Int(_) | Value::Big(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => matches!(value, Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_)),
        "lower" => strings::is_lower(&value.str()?),
        "upper" => strings::is_upper(&value.str()?),
        "string" => value.as_str().is_some(),
        "mapping" => matches!(value, Value::Dict(_)),
        "sequence" => matches!(
            value,
            Value::Undefined(_)
                | Value::Str(_)
                | Value::Markup(_)
                | Value::List(_)
                | Value::Tuple(_)
                | Value::Dict(_)
                | Value::Other(Other::Group(_) | Other::Range(_))
        ),
        "iterable" => value.is_iterable(),
        "callable" => value.is_callable(),
        _ => matches!(value, Value::Markup(_)),
    })
}

/// Python's `is`. Whether equal numbers or texts are the same object depends on Python's implementation, so that case
/// is an error.
fn same(left: &Value, right: &Value) -> Result<bool> {
    Ok(match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) if left != right || (-5..=256).contains(left) => left == right,
        (Value::List(left), Value::List(right)) => Rc::ptr_eq(left, right),
        (Value::Dict(left), Value::Dict(right)) => Rc::ptr_eq(left, right),
        (Value::Str(left), Value::Str(right)) if Rc::ptr_eq(left, right) || left != right => left == right,
        (Value::Other(left), Value::Other(right)) => {
            !matches!(left, Other::Range(_) | Other::Method(..) | Other::View(..))
                && ops::equal(&Value::Other(left.clone()), &Value::Other(right.clone()))
        }
        _ if left.type_name() != right.type_name() || !ops::equal(left, right) => false,
        _ => {
            return Err(Error::other(
                "`is sameas` between equal texts, numbers or tuples is not supported; compare them with `==`",
            ));
        }
    })
}
