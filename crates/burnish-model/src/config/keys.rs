//! Reads keys of a JSON object and remembers which were read, so that no key is ignored unnoticed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::ConfigError;

/// The keys of a `config.json`. `null` counts as absent, as in `transformers`.
pub(crate) struct Keys<'a> {
    map: &'a Map<String, Value>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>) -> Self {
        Keys { map, asked: RefCell::default() }
    }

    pub(crate) fn get(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// An integer from 1 to `max`, which must be present.
    pub(crate) fn size(&self, key: &'static str, max: u64) -> Result<usize, ConfigError> {
        let expected = format!("a whole number from 1 to {max}");
        let Some(value) = self.get(key) else {
            return Err(ConfigError::Missing { key: key.into(), expected });
        };
        match value.as_u64() {
            Some(size) if (1..=max).contains(&size) => Ok(size as usize),
            _ => Err(Keys::invalid(key, value, expected)),
        }
    }

    /// A number of at least `min`, or the default.
    pub(crate) fn number(
        &self,
        key: &'static str,
        default: f64,
        min: f64,
        expected: &str,
    ) -> Result<f64, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_f64().filter(|number| *number >= min).ok_or_else(|| Keys::invalid(key, value, expected))
    }

    pub(crate) fn flag(&self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| Keys::invalid(key, value, "true or false"))
    }

    /// The key is absent or has one of the values `allowed`.
    pub(crate) fn only(
        &self,
        key: &'static str,
        allowed: &[Value],
        supported: &str,
    ) -> Result<(), ConfigError> {
        match self.get(key) {
            Some(value) if !allowed.contains(value) => Err(Keys::unsupported(key, value, supported)),
            _ => Ok(()),
        }
    }

    /// Checks that every key was read, is `harmless`, or turns a feature off.
    pub(crate) fn finish(&self, harmless: &[&str]) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        let is_known = |key: &str| asked.contains(key) || harmless.contains(&key);
        let is_off = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
        match self.map.iter().find(|(key, value)| !is_known(key) && !is_off(value)) {
            Some((key, value)) => Err(ConfigError::Unknown { key: key.clone(), value: value.to_string() }),
            None => Ok(()),
        }
    }

    pub(crate) fn invalid(key: &str, value: &Value, expected: impl Into<String>) -> ConfigError {
        ConfigError::Invalid { key: key.into(), value: value.to_string(), expected: expected.into() }
    }

    pub(crate) fn unsupported(key: &str, value: &Value, supported: impl Into<String>) -> ConfigError {
        ConfigError::Unsupported { key: key.into(), value: value.to_string(), supported: supported.into() }
    }
}
