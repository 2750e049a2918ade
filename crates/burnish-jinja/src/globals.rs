//! The functions that every template has.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::access::check_namespace_name;
use crate::args::{Call, text, whole};
use crate::clock;
use crate::error::{Error, Kind, Result, type_error, value_error};
use crate::value::{Dict, Other, Range, Value};

const NAMES: &[&str] =
    &["range", "dict", "lipsum", "cycler", "joiner", "namespace", "raise_exception", "strftime_now"];
/// Longest range that the sandbox allows.
const MAX_RANGE: usize = 100_000;

pub(crate) fn find(name: &str) -> Option<Value> {
    NAMES.iter().find(|known| **known == name).map(|name| Value::Other(Other::Global(name)))
}

/// Calls a function by name. `now` is the time in seconds since 1970.
pub(crate) fn call(name: &str, call: Call, now: i64) -> Result<Value> {
    match name {
        "range" => range(call),
        "dict" => dict(name, call).map(Value::dict),
        "namespace" => {
            let dict = dict(name, call)?;
            for (key, _) in dict.entries() {
                check_namespace_name(key.as_str().unwrap_or_default())?;
            }
            Ok(Value::Other(Other::Namespace(Rc::new(RefCell::new(dict)))))
        }
        "cycler" => {
            if !call.named.is_empty() {
                return type_error("cycler() got an unexpected keyword argument");
            }
            if call.args.is_empty() {
                return Err(Error::other("at least one item has to be provided"));
            }
            Ok(Value::Other(Other::Cycler(Rc::new(RefCell::new((call.args, 0))))))
        }
        "joiner" => {
            let [sep] = call.bind(name, ["sep"], 0)?;
            let sep = sep.unwrap_or_else(|| Value::text(", "));
            Ok(Value::Other(Other::Joiner(Rc::new((sep, Cell::new(false))))))
        }
        "raise_exception" => {
            let [message] = call.bind(name, ["message"], 1)?;
            Err(Error::other(message.unwrap_or(Value::None).str()?))
        }
        "strftime_now" => {
            let [format] = call.bind(name, ["format"], 1)?;
            clock::strftime(text(&format, name)?, now).map(Value::from)
        }
        _ => Err(Error::other(format!("`{name}` is not supported: prompts must not change by chance"))),
    }
}

fn range(call: Call) -> Result<Value> {
    let [first, second, third] = call.positional("range", 1)?;
    let exact = |value: &Option<Value>| match value {
        Some(Value::Big(_)) => Err(Error::new(Kind::Overflow, "Range too big")),
        value => whole(value, 1),
    };
    let (start, stop) = match &second {
        None => (0, exact(&first)?),
        Some(_) => (exact(&first)?, exact(&second)?),
    };
    let step = exact(&third)?;
    if step == 0 {
        return value_error("range() arg 3 must not be zero");
    }
    let range = Range { start, stop, step };
    if range.len() > MAX_RANGE {
        let problem =
            format!("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({MAX_RANGE}).");
        return Err(Error::new(Kind::Overflow, problem));
    }
    Ok(Value::Other(Other::Range(range)))
}

/// Python's `dict(...)`.
fn dict(name: &str, call: Call) -> Result<Dict> {
    let mut dict = match call.args.as_slice() {
        [] => Dict::default(),
        [Value::Dict(given)] => (**given).clone(),
        [given] => {
            let mut dict = Dict::default();
            for (at, pair) in given.items()?.iter().enumerate() {
                match pair.items()?.as_slice() {
                    [key, value] => dict.insert(key.clone(), value.clone())?,
                    pair => {
                        return value_error(format!(
                            "dictionary update sequence element #{at} has length {}; 2 is required",
                            pair.len()
                        ));
                    }
                }
            }
            dict
        }
        args => return type_error(format!("{name} expected at most 1 argument, got {}", args.len())),
    };
    for (key, value) in call.named {
        dict.set(&key, value);
    }
    Ok(dict)
}
