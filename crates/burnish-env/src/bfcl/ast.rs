//! Whether the calls of one answer are right: the leaderboard's comparison of calls with allowed values, for Python.
//!
//! It follows `bfcl-eval`, its oddities included, so that numbers can be compared; `docs/environments/bfcl.md` lists them.
//! The one place that differs is an argument that must be given and has no allowed value: an empty list is then right,
//! where `bfcl-eval` has no right answer at all.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::calls::Call;
use super::config::Check;
use super::data::Allowed;
use super::python::{Type, equal, shown};
use super::tools::{Function, Parameter, Parameters, called};

/// Checks the calls of an answer.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn check(
    functions: &[Arc<Function>],
    made: &[Call],
    gold: &[Allowed],
    check: Check,
) -> Result<(), String> {
    let should = if check == Check::One { 1 } else { gold.len() };
    if made.len() != should {
        return Err(format!("There should be {should} calls, but there are {}.", made.len()));
    }
    let mut left: Vec<&Call> = made.iter().collect();
    for allowed in gold.iter().take(if check == Check::Parallel { gold.len() } else { 1 }) {
        let mut complaint = String::new();
        let fits = |call: &&Call| match check_call(functions, call, allowed) {
            Ok(()) => true,
            Err(problem) => {
                complaint = problem;
                false
            }
        };
        match left.iter().position(fits) {
            Some(at) => drop(left.remove(at)),
            None if check == Check::Parallel => {
                return Err(format!("No call is the one of `{}` that is missing: {complaint}", allowed.name));
            }
            None => return Err(complaint),
        }
    }
    Ok(())
}

/// Checks one call.
fn check_call(functions: &[Arc<Function>], made: &Call, allowed: &Allowed) -> Result<(), String> {
    let name = &allowed.name;
    let function = called(functions, name).ok_or_else(|| format!("There is no function `{name}`."))?;
    if called(functions, &made.name).is_none_or(|it| it.name != function.name) {
        return Err(format!("`{name}` should be called, not `{}`.", made.name));
    }
    let parameters = function.parameters().map_err(|problem| format!("`{name}`: {problem}"))?;
    if let Some(missing) = parameters.required.iter().find(|name| !made.arguments.contains_key(**name)) {
        return Err(format!("`{name}`: the argument `{missing}` is missing."));
    }
    for (argument, value) in &made.arguments {
        let (Some(parameter), Some(values)) = (parameters.get(argument), allowed.arguments.get(argument))
        else {
            return Err(format!("`{name}`: the argument `{argument}` should not be given."));
        };
        check_value(parameter, value, values)
            .map_err(|problem| format!("`{name}`: `{argument}` {problem}"))?;
    }
    let missing = |(argument, values): &(&String, &Vec<Value>)| {
        !made.arguments.contains_key(*argument) && !may_be_left_out(values)
    };
    match allowed.arguments.iter().find(missing) {
        Some((argument, _)) => Err(format!("`{name}`: the argument `{argument}` must be given here.")),
        None => Ok(()),
    }
}

/// Whether an argument may be left out: an empty text is among its values.
pub(super) fn may_be_left_out(values: &[Value]) -> bool {
    values.iter().any(is_empty_text)
}

pub(super) fn is_empty_text(value: &Value) -> bool {
    value.as_str() == Some("")
}

/// Checks the value of an argument.
///
/// # Errors
/// What is wrong, to be read behind the argument's name.
pub(super) fn check_value(parameter: Parameter, value: &Value, allowed: &[Value]) -> Result<(), String> {
    if allowed.is_empty() && parameter.of == Type::List && value.as_array().is_some_and(Vec::is_empty) {
        return Ok(());
    }
    // An integer does for a float.
    let widened = match (parameter.of, Type::of(value)) {
        (Type::Float, Type::Int) => value.as_f64().map(Value::from),
        _ => None,
    };
    let value = widened.as_ref().unwrap_or(value);
    let is_variable = check_type(parameter, value, allowed)
        .ok_or_else(|| format!("should be {}, but is {}.", parameter.of.name(), Type::of(value).name()))?;
    let is_right = match (parameter.of, parameter.items) {
        // A value that stands for a variable is compared as it is.
        _ if is_variable => allowed.iter().any(|allowed| equal(allowed, value)),
        (Type::Dict, _) => fits_object(value, allowed),
        (Type::List, Some(Type::Dict)) => allowed.iter().any(|allowed| fits_objects(value, allowed)),
        (Type::Str, _) => allowed
            .iter()
            .filter(|allowed| allowed.is_string())
            .any(|allowed| standard(allowed) == standard(value)),
        (Type::List, _) => allowed.iter().any(|allowed| fits_list(value, allowed)),
        _ => allowed.iter().any(|allowed| equal(allowed, value)),
    };
    if is_right {
        return Ok(());
    }
    let listed: Vec<String> = allowed.iter().map(shown).collect();
    Err(format!("is {}, but may be {}.", shown(value), listed.join(" or ")))
}

/// Whether the type of a value is allowed. `Some(true)` if it is that of the allowed values and not the parameter's: such
/// values are names of variables.
fn check_type(parameter: Parameter, value: &Value, allowed: &[Value]) -> Option<bool> {
    let of_gold = allowed.iter().find(|allowed| !is_empty_text(allowed)).map(Type::of);
    if Type::of(value) != parameter.of {
        return (of_gold == Some(Type::of(value))).then_some(true);
    }
    let is_variable = of_gold.is_some_and(|of| of != parameter.of);
    let (Some(of), Value::Array(items)) = (parameter.items, value) else { return Some(is_variable) };
    // Every item has the type of items, or that of the items of one allowed list.
    let fits = |allowed: &Value| match allowed {
        Value::Array(allowed) => {
            let item = Parameter { of, items: None };
            items.iter().all(|value| check_type(item, value, allowed).is_some())
        }
        _ => true,
    };
    allowed.iter().any(fits).then_some(is_variable)
}

/// A value with its text made alike: without spaces and `,./-_*^`, in lower case, with double quotes.
fn standard(value: &Value) -> Value {
    let Value::String(text) = value else { return value.clone() };
    let kept = text.chars().filter(|letter| !" ,./-_*^".contains(*letter));
    Value::String(kept.collect::<String>().to_lowercase().replace('\'', "\""))
}

/// Whether a list is one of texts that are alike, or of values that are equal. An empty text allows the empty list.
fn fits_list(value: &Value, allowed: &Value) -> bool {
    let standardised = |items: &Vec<Value>| Value::Array(items.iter().map(standard).collect());
    match (value, allowed) {
        (Value::Array(items), Value::Array(allowed)) => equal(&standardised(items), &standardised(allowed)),
        (Value::Array(items), allowed) => items.is_empty() && is_empty_text(allowed),
        _ => false,
    }
}

/// Whether an object has allowed values, by one of the objects of lists of values.
fn fits_object(value: &Value, allowed: &[Value]) -> bool {
    let Value::Object(fields) = value else { return false };
    let fits = |allowed: &Value| {
        let Value::Object(allowed) = allowed else { return false };
        let values_of = |key: &String| allowed.get(key).and_then(Value::as_array);
        fields.iter().all(|(key, value)| {
            let value = standard(value);
            values_of(key)
                .is_some_and(|values| values.iter().any(|allowed| equal(&standard(allowed), &value)))
        }) && allowed.keys().all(|key| {
            fields.contains_key(key) || values_of(key).is_some_and(|values| may_be_left_out(values))
        })
    };
    allowed.iter().any(fits)
}

/// Whether a list of objects fits one allowed list, object by object.
fn fits_objects(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Array(items), Value::Array(allowed)) => {
            items.len() == allowed.len()
                && items
                    .iter()
                    .zip(allowed)
                    .all(|(item, allowed)| fits_object(item, std::slice::from_ref(allowed)))
        }
        (Value::Array(items), allowed) => items.is_empty() && is_empty_text(allowed),
        _ => false,
    }
}

/// The first allowed call that passes the check, with every argument given that may be given.
///
/// `None` if no value of an argument passes.
pub(super) fn example(parameters: &Parameters<'_>, allowed: &Allowed) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    for (name, values) in &allowed.arguments {
        let given = parameters.get(name).and_then(|parameter| {
            let empty = (values.is_empty() && parameter.of == Type::List).then(|| Value::Array(Vec::new()));
            let candidates =
                values.iter().filter(|value| !is_empty_text(value)).map(|value| plain(parameter, value));
            candidates.chain(empty).find(|value| check_value(parameter, value, values).is_ok())
        });
        match given {
            Some(value) => drop(arguments.insert(name.clone(), value)),
            None if may_be_left_out(values) => {}
            // The only value that is left is the empty text itself.
            None => return None,
        }
    }
    // Where an empty text stands for itself, the argument must be given.
    for name in &parameters.required {
        if !arguments.contains_key(*name) {
            arguments.insert((*name).to_owned(), Value::String(String::new()));
        }
    }
    Some(arguments)
}

/// An allowed value as it is written in a call: of an object, the first value of each key.
fn plain(parameter: Parameter, allowed: &Value) -> Value {
    let object = |allowed: &Value| match allowed {
        Value::Object(fields) => {
            let first = |(key, values): (&String, &Value)| {
                let value = values.as_array()?.iter().find(|value| !is_empty_text(value))?;
                Some((key.clone(), value.clone()))
            };
            Value::Object(fields.iter().filter_map(first).collect())
        }
        other => other.clone(),
    };
    match (parameter.of, parameter.items, allowed) {
        (Type::Dict, ..) => object(allowed),
        (Type::List, Some(Type::Dict), Value::Array(items)) => {
            Value::Array(items.iter().map(object).collect())
        }
        _ => allowed.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn passes(of: Type, items: Option<Type>, value: Value, allowed: Value) -> bool {
        check_value(Parameter { of, items }, &value, allowed.as_array().unwrap()).is_ok()
    }

    #[test]
    fn values_are_right_as_in_the_leaderboards_rules() {
        use Type::{Bool, Dict, Float, Int, Str};
        let list = Type::List;
        for (of, items, value, allowed, is) in [
            (Int, None, json!(5), json!([5]), true),
            (Int, None, json!(5.0), json!([5]), false),
            (Float, None, json!(5), json!([5.0]), true),
            (Float, None, json!(5), json!([5.5]), false),
            (Bool, None, json!(true), json!([true, ""]), true),
            (Bool, None, json!(1), json!([true]), false),
            (Str, None, json!("San Francisco, CA."), json!(["san francisco ca"]), true),
            (Str, None, json!("it's"), json!(["it\"s"]), true),
            (Str, None, json!("x;y"), json!(["xy"]), false),
            // A variable: compared as it is.
            (Int, None, json!("n"), json!(["n", ""]), true),
            (Int, None, json!("N"), json!(["n"]), false),
            (Str, None, json!(null), json!([null, "x"]), true),
            (list, Some(Str), json!(["A b"]), json!([["ab"]]), true),
            (list, Some(Str), json!(["a", "b"]), json!([["b", "a"]]), false),
            (list, Some(Float), json!([1, 2]), json!([[1.0, 2.0]]), false),
            (list, Some(Float), json!([1, 2]), json!([[1, 2]]), true),
            (list, Some(Int), json!([1, "2"]), json!([[1, 2]]), false),
            (list, Some(Int), json!([]), json!([""]), true),
            (list, Some(Int), json!([]), json!([]), true),
            (list, Some(Int), json!([1]), json!([]), false),
            (Dict, None, json!({"a": "X y"}), json!([{"a": ["xy"], "b": ["", 1]}]), true),
            (Dict, None, json!({"a": "x"}), json!([{"a": ["x"], "b": [1]}]), false),
            (Dict, None, json!({"a": "x", "c": 1}), json!([{"a": ["x"]}]), false),
            (Dict, None, json!({"a": {"b": 1}}), json!([{"a": [{"b": 1.0}]}]), true),
            (list, Some(Dict), json!([{"a": 1}]), json!([[{"a": [1]}]]), true),
            (list, Some(Dict), json!([{"a": 1}, {"a": 1}]), json!([[{"a": [1]}]]), false),
        ] {
            assert_eq!(passes(of, items, value.clone(), allowed.clone()), is, "{value} {allowed}");
        }
    }

    fn function(name: &str) -> Arc<Function> {
        let function: Function =
            serde_json::from_value(json!({"name": name, "description": "", "parameters": {
            "type": "dict", "required": ["x"],
            "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}}))
            .unwrap();
        Arc::new(function)
    }

    fn allowed(name: &str, x: i64) -> Allowed {
        let arguments = json!({"x": [x], "y": ["a", ""]});
        Allowed { name: name.to_owned(), arguments: serde_json::from_value(arguments).unwrap() }
    }

    fn made(name: &str, arguments: Value) -> Call {
        Call { name: name.to_owned(), arguments: arguments.as_object().unwrap().clone() }
    }

    proptest! {
        /// Right calls are right in any order, and not if one is missing, comes again, or has another value.
        #[test]
        fn the_order_of_calls_does_not_matter_and_everything_else_does(
            order in Just((0..5i64).collect::<Vec<_>>()).prop_shuffle(),
            count in 2..5usize,
            at in 0..2usize,
        ) {
            let functions = [function("f")];
            let gold: Vec<Allowed> = order[..count].iter().map(|x| allowed("f", *x)).collect();
            let parameters = functions[0].parameters().unwrap();
            let mut calls: Vec<Call> = gold
                .iter()
                .map(|allowed| Call { name: "f".to_owned(), arguments: example(&parameters, allowed).unwrap() })
                .collect();
            calls.sort_by_key(|call| call.arguments["x"].as_i64());
            prop_assert_eq!(check(&functions, &calls, &gold, Check::Parallel), Ok(()));
            let mut changed = calls.clone();
            changed[at].arguments.insert("x".to_owned(), json!(9));
            prop_assert!(check(&functions, &changed, &gold, Check::Parallel).is_err());
            let again = calls[1 - at].clone();
            calls[at] = again;
            prop_assert!(check(&functions, &calls, &gold, Check::Parallel).is_err());
            calls.remove(at);
            prop_assert!(check(&functions, &calls, &gold, Check::Parallel).is_err());
        }
    }

    #[test]
    fn calls_are_counted_named_and_matched_in_any_order() {
        let functions = [function("a.b"), function("c")];
        let (one, two) = (made("a_b", json!({"x": 1})), made("c", json!({"x": 2, "y": "A"})));
        let gold = [allowed("a.b", 1), allowed("c", 2)];
        let both = [two.clone(), one.clone()];
        assert_eq!(check(&functions, &both, &gold, Check::Parallel), Ok(()));
        let wrong = |made: &[Call], gold: &[Allowed], of| check(&functions, made, gold, of).unwrap_err();
        assert!(wrong(&both[..1], &gold, Check::Parallel).contains("2 calls, but there are 1"));
        assert!(wrong(&[one.clone(), one.clone()], &gold, Check::Parallel).contains("`c`"));
        assert_eq!(check(&functions, std::slice::from_ref(&one), &gold[..1], Check::One), Ok(()));
        assert!(wrong(&[two], &gold[..1], Check::Multiple).contains("`a.b` should be called"));
        for (arguments, complaint) in [
            (json!({}), "`x` is missing"),
            (json!({"x": 1, "z": 1}), "`z` should not"),
            (json!({"x": 1.5}), "should be an integer, but is a float"),
            (json!({"x": 3}), "is 3, but may be 1"),
            (json!({"x": 1, "y": "b"}), "'a' or ''"),
        ] {
            let said = wrong(&[made("a.b", arguments)], &gold[..1], Check::One);
            assert!(said.contains(complaint), "{said}");
        }
    }
}
