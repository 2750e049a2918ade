//! Jinja's filters.

mod sequence;
mod text;

use num_bigint::BigInt;

use crate::access;
use crate::args::{Call, is_true, optional_whole, whole};
use crate::ast::Binary;
use crate::error::{Error, Kind, Result, type_error};
use crate::ops::{self, Number};
use crate::value::Value;
use crate::{convert, html, json, numbers, pprint, printf};

const NAMES: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "items",
    "map",
    "min",
    "max",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
    "tojson",
];

pub(crate) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// `value|name(...)`.
pub(crate) fn call(name: &str, value: &Value, call: Call) -> Result<Value> {
    let none = |call: Call| call.bind::<0>(name, [], 0).map(|_| ());
    Ok(match name {
        "abs" => {
            none(call)?;
            match Number::of(value) {
                Some(Number::Int(number)) => Value::big(number.magnitude().clone().into()),
                Some(Number::Float(number)) => Value::Float(number.abs()),
                None => return type_error(format!("bad operand type for abs(): '{}'", value.type_name())),
            }
        }
        "attr" => {
            let [attribute] = call.bind(name, ["name"], 1)?;
            let attribute = attribute.unwrap_or(Value::None);
            let Some(attribute) = attribute.as_str() else {
                return type_error("attribute name must be string");
            };
            return access::attribute_only(value, attribute);
        }
        "d" | "default" => {
            let [default, boolean] = call.bind(name, ["default_value", "boolean"], 0)?;
            let is_absent = value.is_undefined() || (is_true(&boolean) && !value.is_true());
            if is_absent { default.unwrap_or_else(|| Value::text("")) } else { value.clone() }
        }
        "count" | "length" => {
            none(call)?;
            Value::size(value.len()?)
        }
        "e" | "escape" => {
            none(call)?;
            Value::Markup(html::escaped(value)?.into())
        }
        "forceescape" => {
            none(call)?;
            Value::Markup(html::escape(&value.str()?).into())
        }
        "safe" => {
            none(call)?;
            Value::Markup(value.str()?.into())
        }
        "float" => {
            let [default] = call.bind(name, ["default"], 0)?;
            match convert::to_float(value) {
                Ok(number) => Value::Float(number),
                Err(error) if is_caught(&error) => default.unwrap_or(Value::Float(0.0)),
                Err(error) => return Err(error),
            }
        }
        "int" => {
            let [default, base] = call.bind(name, ["default", "base"], 0)?;
            int(value, default.unwrap_or(Value::Int(0)), whole(&base, 10)?)?
        }
        "round" => {
            let [precision, method] = call.bind(name, ["precision", "method"], 0)?;
            return round(value, precision, method);
        }
        "filesizeformat" => {
            let [binary] = call.bind(name, ["binary"], 0)?;
            filesizeformat(convert::to_float(value)?, is_true(&binary))?.into()
        }
        "format" => {
            if !call.args.is_empty() && !call.named.is_empty() {
                return Err(Error::other("can't handle positional and keyword arguments at the same time"));
            }
            let mut named = crate::value::Dict::default();
            for (key, value) in &call.named {
                named.set(key, value.clone());
            }
            let given = if call.named.is_empty() { Value::tuple(call.args) } else { Value::dict(named) };
            let is_markup = matches!(value, Value::Markup(_));
            let text = printf::format(&value.str()?, &given, is_markup)?;
            if is_markup { Value::Markup(text.into()) } else { text.into() }
        }
        "pprint" => {
            none(call)?;
            pprint::pformat(value)?.into()
        }
        "tojson" => return json::tojson(value, call),
        "random" => {
            return Err(Error::other(
                "the filter `random` is not supported: prompts must not change by chance",
            ));
        }
        "urlize" => return Err(Error::other("the filter `urlize` is not supported")),
        "string" => {
            none(call)?;
            match value {
                Value::Markup(_) => value.clone(),
                value => value.str()?.into(),
            }
        }
        _ => match text::call(name, value, &call)? {
            Some(found) => found,
            None => return sequence::call(name, value, call),
        },
    })
}

/// Is it an error for which `int` and `float` return their default?
fn is_caught(error: &Error) -> bool {
    [Kind::Type, Kind::Value].contains(&error.kind)
}

fn int(value: &Value, default: Value, base: i64) -> Result<Value> {
    let first = convert::to_int(value, base);
    match first {
        Ok(number) => Ok(Value::big(number)),
        Err(error) if is_caught(&error) => match convert::to_float(value).and_then(printf::float_to_int) {
            Ok(number) => Ok(Value::big(number)),
            Err(error) if is_caught(&error) || error.kind == Kind::Overflow => Ok(default),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn round(value: &Value, precision: Option<Value>, method: Option<Value>) -> Result<Value> {
    let method = method.unwrap_or_else(|| Value::text("common"));
    let Some(method) = method.as_str().filter(|method| ["common", "ceil", "floor"].contains(method)) else {
        return Err(Error::other("method must be common, ceil or floor"));
    };
    let Some(number) = Number::of(value) else {
        return Err(match value {
            Value::Undefined(problem) => Error::other(&**problem),
            _ => {
                Error::new(Kind::Type, format!("type {} doesn't define __round__ method", value.type_name()))
            }
        });
    };
    let places = optional_whole(&precision)?;
    if method == "common" {
        let is_none = matches!(precision, Some(Value::None));
        return Ok(match number {
            Number::Int(number) => Value::big(numbers::round_int(&number, places.unwrap_or(0))),
            Number::Float(number) if is_none => {
                Value::big(printf::float_to_int(numbers::round_to(number, 0))?)
            }
            Number::Float(number) => {
                let rounded = numbers::round_to(number, places.unwrap_or(0));
                if rounded.is_infinite() && number.is_finite() {
                    return Err(Error::new(Kind::Overflow, "rounded value too large to represent"));
                }
                Value::Float(rounded)
            }
        });
    }
    let ten = ops::binary(Binary::Pow, &Value::Int(10), &precision.unwrap_or(Value::Int(0)))?;
    let whole = match Number::of(&ops::binary(Binary::Mul, value, &ten)?) {
        Some(Number::Int(number)) => number,
        Some(Number::Float(number)) => {
            printf::float_to_int(if method == "ceil" { number.ceil() } else { number.floor() })?
        }
        None => BigInt::default(),
    };
    ops::binary(Binary::Div, &Value::big(whole), &ten)
}

fn filesizeformat(bytes: f64, is_binary: bool) -> Result<String> {
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    let names = if is_binary {
        ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
    } else {
        ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
    };
    if bytes == 1.0 {
        return Ok("1 Byte".into());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", printf::float_to_int(bytes)?));
    }
    let mut last = String::new();
    for (at, name) in names.into_iter().enumerate() {
        let unit = base.powi(at as i32 + 2);
        last = format!("{:.1} {name}", base * bytes / unit);
        if bytes < unit {
            break;
        }
    }
    Ok(last.replace("NaN", "nan"))
}
