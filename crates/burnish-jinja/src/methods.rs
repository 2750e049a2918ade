//! The methods of values other than texts; calls on texts are passed on.

use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::Signed;

use crate::args::{Call, whole};
use crate::error::{Error, Kind, Result, type_error, value_error};
use crate::value::{Dict, Other, Value, View};
use crate::{fields, html, ops, strings};

/// Calls `value.name(...)`.
pub(crate) fn call(value: &Value, name: &str, call: Call) -> Result<Value> {
    match value {
        Value::Str(text) => match name {
            "format" | "format_map" => format(text, name, call, false).map(Value::from),
            _ => strings::call(text, name, call),
        },
        Value::Markup(text) => markup(text, name, call),
        Value::List(items) => match name {
            "copy" => call.positional::<0>(name, 0).map(|_| Value::list(items.to_vec())),
            _ => sequence(items, name, call),
        },
        Value::Tuple(items) | Value::Other(Other::Group(items)) => sequence(items, name, call),
        Value::Dict(dict) => dictionary(dict, name, call),
        Value::Bool(_) | Value::Int(_) | Value::Big(_) => {
            integer(&value.as_int().unwrap_or_default(), name, call)
        }
        Value::Float(number) => float(*number, name, call),
        Value::Other(Other::Range(_)) => sequence(&value.items()?, name, call),
        Value::Other(Other::Global("dict")) => fromkeys(call),
        Value::Other(Other::Cycler(state)) => {
            call.positional::<0>(name, 0)?;
            let (items, at) = &mut *state.borrow_mut();
            if name == "reset" {
                *at = 0;
                return Ok(Value::None);
            }
            let current = items[*at].clone();
            *at = (*at + 1) % items.len();
            Ok(current)
        }
        Value::Other(Other::Loop(state)) => state.borrow_mut().call(name, call),
        _ => Err(unknown(value, name)),
    }
}

fn unknown(value: &Value, name: &str) -> Error {
    Error::other(format!("the method `{name}` of {} is not supported", value.type_name()))
}

fn format(text: &str, name: &str, call: Call, is_markup: bool) -> Result<String> {
    let mut named = Dict::default();
    let mut positional = Vec::new();
    if name == "format_map" {
        let [mapping] = call.positional(name, 1)?;
        match mapping {
            Some(Value::Dict(dict)) => named = (*dict).clone(),
            _ => return type_error("format_map() argument must be a mapping"),
        }
    } else {
        positional = call.args;
        for (key, value) in call.named {
            named.set(&key, value);
        }
    }
    fields::format(text, &fields::Sources { positional: &positional, named: &named, is_markup })
}

/// The methods of HTML: text arguments are escaped, and the result is HTML.
fn markup(text: &str, name: &str, call: Call) -> Result<Value> {
    let as_markup = |text: &str| Value::Markup(text.into());
    match name {
        "format" | "format_map" => return format(text, name, call, true).map(|text| as_markup(&text)),
        "escape" => {
            let [value] = call.positional(name, 1)?;
            return html::escaped(&value.unwrap_or(Value::None)).map(|text| as_markup(&text));
        }
        "striptags" => {
            call.positional::<0>(name, 0)?;
            return html::striptags(text).map(Value::from);
        }
        "unescape" => return Err(Error::other("the method `unescape` of Markup is not supported")),
        "join" => {
            let [items] = call.positional(name, 1)?;
            let items = items.unwrap_or(Value::None).items()?;
            let items: Vec<String> = items.iter().map(html::escaped).collect::<Result<_>>()?;
            return Ok(as_markup(&items.join(text)));
        }
        _ => {}
    }
    let escapes = [
        "center",
        "ljust",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rjust",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "strip",
    ];
    let escape = |value: Value| match &value {
        Value::Str(text) if escapes.contains(&name) => Value::text(html::escape(text)),
        _ => value,
    };
    let call = Call {
        args: call.args.into_iter().map(escape).collect(),
        named: call.named.into_iter().map(|(name, value)| (name, escape(value))).collect(),
    };
    let wrap = |value: &Value| match value {
        Value::Str(text) => Value::Markup(text.clone()),
        value => value.clone(),
    };
    Ok(match strings::call(text, name, call)? {
        Value::List(items) => Value::list(items.iter().map(wrap).collect()),
        Value::Tuple(items) => Value::tuple(items.iter().map(wrap).collect()),
        value => wrap(&value),
    })
}

fn sequence(items: &[Value], name: &str, call: Call) -> Result<Value> {
    let [value, start, stop] = call.positional(name, 1)?;
    let value = value.unwrap_or(Value::None);
    if name == "count" {
        return Ok(Value::size(items.iter().filter(|item| ops::equal(item, &value)).count()));
    }
    let length = items.len() as i64;
    let bound = |bound: &Option<Value>, default: i64| -> Result<usize> {
        let at = whole(bound, default)?;
        Ok((if at < 0 { at.saturating_add(length) } else { at }).clamp(0, length) as usize)
    };
    let (start, stop) = (bound(&start, 0)?, bound(&stop, length)?);
    let found = (start..stop).find(|at| ops::equal(&items[*at], &value));
    found.map_or_else(
        || value_error(format!("{} is not in list", ops::shown(&value))),
        |at| Ok(Value::size(at)),
    )
}

fn dictionary(dict: &Rc<Dict>, name: &str, call: Call) -> Result<Value> {
    let view = |view| Value::Other(Other::View(view, dict.clone()));
    Ok(match name {
        "get" => {
            let [key, default] = call.positional(name, 1)?;
            let key = key.unwrap_or(Value::None);
            key.check_hashable()?;
            dict.get(&key).cloned().or(default).unwrap_or(Value::None)
        }
        "fromkeys" => return fromkeys(call),
        _ => {
            call.positional::<0>(name, 0)?;
            match name {
                "keys" => view(View::Keys),
                "values" => view(View::Values),
                "items" => view(View::Items),
                "copy" => Value::dict((**dict).clone()),
                _ => return Err(unknown(&Value::Dict(dict.clone()), name)),
            }
        }
    })
}

fn fromkeys(call: Call) -> Result<Value> {
    let [keys, value] = call.positional("fromkeys", 1)?;
    let value = value.unwrap_or(Value::None);
    let mut dict = Dict::default();
    for key in keys.unwrap_or(Value::None).items()? {
        dict.insert(key, value.clone())?;
    }
    Ok(Value::dict(dict))
}

fn integer(value: &BigInt, name: &str, call: Call) -> Result<Value> {
    let none = |call: Call| call.positional::<0>(name, 0).map(|_| ());
    match name {
        "bit_length" => none(call).map(|()| Value::Int(value.bits() as i64)),
        "bit_count" => {
            let ones = value.magnitude().iter_u64_digits().map(|digit| i64::from(digit.count_ones())).sum();
            none(call).map(|()| Value::Int(ones))
        }
        "conjugate" => none(call).map(|()| Value::big(value.clone())),
        "as_integer_ratio" => {
            none(call).map(|()| Value::tuple(vec![Value::big(value.clone()), Value::Int(1)]))
        }
        _ => Err(unknown(&Value::Int(0), name)),
    }
}

fn float(value: f64, name: &str, call: Call) -> Result<Value> {
    if name == "fromhex" {
        return Err(unknown(&Value::Float(value), name));
    }
    call.positional::<0>(name, 0)?;
    Ok(match name {
        "is_integer" => Value::Bool(value.is_finite() && value.fract() == 0.0),
        "conjugate" => Value::Float(value),
        "hex" => hex(value).into(),
        "as_integer_ratio" => {
            if value.is_nan() {
                return value_error("cannot convert NaN to integer ratio");
            }
            if value.is_infinite() {
                return Err(Error::new(Kind::Overflow, "cannot convert Infinity to integer ratio"));
            }
            let (mantissa, exponent) = parts(value);
            let mut top = BigInt::from(mantissa);
            let mut bottom = BigInt::from(1);
            if exponent >= 0 {
                top <<= exponent;
            } else {
                bottom <<= -exponent;
            }
            let shared = num_integer::Integer::gcd(&top, &bottom);
            let top = if value < 0.0 { -(top / &shared).abs() } else { top / &shared };
            Value::tuple(vec![Value::big(top), Value::big(bottom / shared)])
        }
        _ => return Err(unknown(&Value::Float(value), name)),
    })
}

/// A float's mantissa as an integer, and its power of two.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

fn hex(value: f64) -> String {
    let sign = if value.is_sign_negative() && !value.is_nan() { "-" } else { "" };
    if !value.is_finite() {
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    if value == 0.0 {
        return format!("{sign}0x0.0p+0");
    }
    let bits = value.to_bits();
    let (whole, exponent) = match ((bits >> 52) & 0x7ff) as i32 {
        0 => (0, -1022),
        exponent => (1, exponent - 1023),
    };
    format!("{sign}0x{whole}.{:013x}p{exponent:+}", bits & ((1 << 52) - 1))
}
