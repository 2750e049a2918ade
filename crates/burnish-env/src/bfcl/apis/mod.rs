//! The simulated APIs of the rows of several turns, with the behaviour of `bfcl-eval`'s, written anew.
//!
//! A result is what Python would print ([`python::result`]). Where Python raises, the text says so: arguments that a method
//! does not take, lacks, or takes as another type. State is what the leaderboard compares: the attributes of an object that
//! do not begin with an underscore.

mod atlas;
mod files;
mod maths;
mod messages;
mod posts;
#[cfg(test)]
mod tests;
mod tickets;
mod trading;
mod travel;
mod vehicle;

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::calls::Call;
use super::python::{self, Type, equal};
use super::tools::Function;

/// The classes of APIs, each with the name of the file that documents its functions.
pub(super) const DOCUMENTS: [(&str, &str); 8] = [
    ("GorillaFileSystem", "gorilla_file_system"),
    ("MathAPI", "math_api"),
    ("MessageAPI", "message_api"),
    ("TicketAPI", "ticket_api"),
    ("TradingBot", "trading_bot"),
    ("TravelAPI", "travel_booking"),
    ("TwitterAPI", "posting_api"),
    ("VehicleControlAPI", "vehicle_control"),
];

/// What a method returns, or what Python raises.
type Outcome = Result<Value, String>;

/// An API in some state.
trait Api: std::fmt::Debug + Send + Sync {
    /// Calls a method; `None` if it has none of that name.
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome>;

    /// What is compared between two states.
    fn state(&self) -> Value;

    /// Another one in the same state.
    fn copy(&self) -> Box<dyn Api>;
}

/// The APIs of an episode.
#[derive(Debug)]
pub(super) struct Apis {
    apis: Vec<(String, Box<dyn Api>)>,
}

impl Clone for Apis {
    fn clone(&self) -> Self {
        Apis { apis: self.apis.iter().map(|(class, api)| (class.clone(), api.copy())).collect() }
    }
}

impl Apis {
    /// The APIs of these classes, each as `scenarios` describes it, or by its defaults.
    ///
    /// # Errors
    /// Names the class and the key that is not as it should be.
    pub(super) fn new(classes: &[String], scenarios: &Map<String, Value>) -> Result<Self, String> {
        let empty = Map::new();
        let mut apis = Vec::with_capacity(classes.len());
        for class in classes {
            let fields = match scenarios.get(class) {
                None => &empty,
                Some(Value::Object(fields)) => fields,
                Some(_) => return Err(format!("{class}: must be an object")),
            };
            let api = made(class, &Scenario { fields }).map_err(|problem| format!("{class}.{problem}"))?;
            apis.push((class.clone(), api));
        }
        Ok(Apis { apis })
    }

    /// Calls a function: what the policy reads.
    pub(super) fn call(&mut self, functions: &[Arc<Function>], call: &Call) -> String {
        match self.try_call(functions, call) {
            Ok(value) => python::result(&value),
            Err(raised) => format!("Error during execution: {raised}"),
        }
    }

    fn try_call(&mut self, functions: &[Arc<Function>], Call { name, arguments }: &Call) -> Outcome {
        let unknown = || format!("name '{name}' is not defined");
        let function = functions.iter().find(|function| function.name == *name).ok_or_else(unknown)?;
        let parameters = function.parameters()?;
        if let Some(key) = arguments.keys().find(|key| parameters.get(key).is_none()) {
            return Err(format!("{name}() got an unexpected keyword argument '{key}'"));
        }
        if let Some(key) = parameters.required.iter().find(|key| !arguments.contains_key(**key)) {
            return Err(format!("{name}() is missing the argument '{key}'"));
        }
        let given = Given { arguments };
        let outcome = self.apis.iter_mut().find_map(|(_, api)| api.call(name, &given));
        outcome.ok_or_else(unknown)?
    }

    /// The first class whose state differs from that in `other`.
    pub(super) fn differs(&self, other: &Apis) -> Option<&str> {
        let pairs = self.apis.iter().zip(&other.apis);
        let mut differing = pairs.filter(|((_, one), (_, other))| !equal(&one.state(), &other.state()));
        differing.next().map(|((class, _), _)| class.as_str())
    }
}

fn made(class: &str, scenario: &Scenario<'_>) -> Result<Box<dyn Api>, String> {
    Ok(match class {
        "GorillaFileSystem" => Box::new(files::Files::new(scenario)?),
        "MathAPI" => Box::new(maths::Maths),
        "MessageAPI" => Box::new(messages::Messages::new(scenario)?),
        "TicketAPI" => Box::new(tickets::Tickets::new(scenario)?),
        "TradingBot" => Box::new(trading::Trading::new(scenario)?),
        "TravelAPI" => Box::new(travel::Travel::new(scenario)?),
        "TwitterAPI" => Box::new(posts::Posts::new(scenario)?),
        "VehicleControlAPI" => Box::new(vehicle::Vehicle::new(scenario)?),
        _ => return Err("there is no such API here".to_owned()),
    })
}

/// What a row says about the state of an API. Keys that the API does not have say nothing, as in the leaderboard.
struct Scenario<'a> {
    fields: &'a Map<String, Value>,
}

impl Scenario<'_> {
    /// The value of a key, or its default, whose type it must have: an integer does for a float, anything for `null`.
    fn get(&self, key: &str, default: Value) -> Result<Value, String> {
        let Some(value) = self.fields.get(key) else { return Ok(default) };
        let is_number = |of| matches!(of, Type::Int | Type::Float);
        let (should, is) = (Type::of(&default), Type::of(value));
        match should == is || should == Type::None || (is_number(should) && is_number(is)) {
            true => Ok(value.clone()),
            false => Err(format!("{key}: must be {}, not {}", should.name(), is.name())),
        }
    }

    fn object(&self, key: &str, default: Value) -> Result<Map<String, Value>, String> {
        match self.get(key, default)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(format!("{key}: must be an object")),
        }
    }

    fn list(&self, key: &str, default: Value) -> Result<Vec<Value>, String> {
        match self.get(key, default)? {
            Value::Array(items) => Ok(items),
            _ => Err(format!("{key}: must be a list")),
        }
    }

    fn text(&self, key: &str, default: &str) -> Result<String, String> {
        let value = self.get(key, Value::from(default))?;
        Ok(value.as_str().unwrap_or(default).to_owned())
    }

    fn whole(&self, key: &str, default: i64) -> Result<i64, String> {
        let value = self.get(key, Value::from(default))?;
        value.as_i64().ok_or_else(|| format!("{key}: must be a whole number"))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, String> {
        Ok(self.get(key, Value::Bool(default))?.as_bool().unwrap_or(default))
    }

    /// The seed of the API's random numbers.
    fn seed(&self, default: u64) -> Result<u64, String> {
        let value = self.get("random_seed", Value::from(default))?;
        value.as_u64().ok_or_else(|| "random_seed: must be a whole number, 0 or more".to_owned())
    }
}

/// The arguments of a call. An argument of another type than is asked for is refused.
struct Given<'a> {
    arguments: &'a Map<String, Value>,
}

impl<'a> Given<'a> {
    fn value(&self, key: &str) -> Result<&'a Value, String> {
        self.arguments.get(key).ok_or_else(|| format!("the argument '{key}' is missing"))
    }

    /// An argument that may be left out, or given as `None`.
    fn maybe(&self, key: &str) -> Option<&'a Value> {
        self.arguments.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<&'a str, String> {
        let value = self.value(key)?;
        value.as_str().ok_or_else(|| wrong(key, "a string", value))
    }

    fn maybe_text(&self, key: &str) -> Result<Option<&'a str>, String> {
        self.maybe(key).map(|_| self.text(key)).transpose()
    }

    fn flag_or(&self, key: &str, default: bool) -> Result<bool, String> {
        match self.maybe(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| wrong(key, "a boolean", value)),
        }
    }

    fn number(&self, key: &str) -> Result<Num, String> {
        let value = self.value(key)?;
        Num::of(value).ok_or_else(|| wrong(key, "a number", value))
    }

    /// A whole number, which may be written as a float: Python's dictionaries find `1.0` under `1`.
    fn whole(&self, key: &str) -> Result<i64, String> {
        match self.number(key)? {
            Num::Int(whole) => Ok(whole),
            Num::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Ok(value as i64),
            Num::Float(value) => Err(format!("the argument '{key}' must be an integer, not {value}")),
        }
    }

    fn list(&self, key: &str) -> Result<&'a Vec<Value>, String> {
        let value = self.value(key)?;
        value.as_array().ok_or_else(|| wrong(key, "a list", value))
    }

    /// A list of texts; none if it is left out.
    fn texts(&self, key: &str) -> Result<Vec<&'a str>, String> {
        if self.maybe(key).is_none() {
            return Ok(Vec::new());
        }
        let text = |value: &'a Value| value.as_str().ok_or_else(|| wrong(key, "a list of strings", value));
        self.list(key)?.iter().map(text).collect()
    }

    fn numbers(&self, key: &str) -> Result<Vec<Num>, String> {
        let number = |value: &Value| Num::of(value).ok_or_else(|| wrong(key, "a list of numbers", value));
        self.list(key)?.iter().map(number).collect()
    }
}

fn wrong(key: &str, should: &str, value: &Value) -> String {
    format!("the argument '{key}' must be {should}, not {}", Type::of(value).name())
}

/// A number, which stays an integer as long as Python's does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    fn of(value: &Value) -> Option<Num> {
        match value {
            Value::Number(number) if number.is_f64() => number.as_f64().map(Num::Float),
            Value::Number(number) => number.as_i64().map(Num::Int).or(number.as_f64().map(Num::Float)),
            _ => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Num::Int(whole) => whole as f64,
            Num::Float(value) => value,
        }
    }

    /// Integers by `whole` if it has room for the result, everything else by `float`.
    fn with(self, other: Num, whole: fn(i64, i64) -> Option<i64>, float: fn(f64, f64) -> f64) -> Num {
        let exact = match (self, other) {
            (Num::Int(one), Num::Int(other)) => whole(one, other),
            _ => None,
        };
        exact.map_or_else(|| Num::Float(float(self.float(), other.float())), Num::Int)
    }

    fn plus(self, other: Num) -> Num {
        self.with(other, i64::checked_add, |one, other| one + other)
    }

    fn minus(self, other: Num) -> Num {
        self.with(other, i64::checked_sub, |one, other| one - other)
    }

    fn times(self, other: Num) -> Num {
        self.with(other, i64::checked_mul, |one, other| one * other)
    }

    /// The number as JSON, which has no infinity.
    fn value(self) -> Outcome {
        match self {
            Num::Int(whole) => Ok(Value::from(whole)),
            Num::Float(value) => Number::from_f64(value)
                .map(Value::Number)
                .ok_or_else(|| "the result is no finite number".to_owned()),
        }
    }
}

/// A number in the state of an API.
fn number_of(fields: &Map<String, Value>, key: &str) -> Result<Num, String> {
    fields.get(key).and_then(Num::of).ok_or_else(|| format!("'{key}'"))
}

/// The refusal of a method, which is a result like any other.
fn refusal(text: impl Into<String>) -> Outcome {
    Ok(serde_json::json!({ "error": text.into() }))
}
