//! Configurations as people write them: read by [`burnish_core::settings`], and checked against an environment's
//! bounds.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use burnish_core::settings;

use crate::{Bound, BoundRow, EnvError};

/// The style in which a task is presented to the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// As short as possible: for policies trained on this environment.
    Short,
    /// With the rules and the required form of the answer: for any language model.
    Full,
}

/// A range, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range<T> {
    /// Least.
    pub min: T,
    /// Greatest.
    pub max: T,
}

impl<T: PartialOrd> Range<T> {
    /// Is `value` in the range?
    pub fn contains(self, value: T) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

/// The defaults of `C`, overlaid with the keys of `given`; see [`settings::read`].
///
/// # Errors
/// Names the first key that is unknown or of the wrong type.
pub(crate) fn read<C: Default + Serialize + DeserializeOwned>(given: &Value) -> Result<C, EnvError> {
    Ok(settings::read(given)?)
}

/// The configuration as JSON.
///
/// # Errors
/// If it can't be serialised, which no configuration here does.
pub(crate) fn to_value<C: Serialize>(config: &C) -> Result<Value, EnvError> {
    Ok(settings::to_value(config)?)
}

/// Checks every number of `config` that has a bound.
///
/// # Errors
/// Names the first key out of bounds, what is allowed, and the nearest allowed value.
pub(crate) fn check_bounds<C: Serialize>(config: &C, bounds: &[BoundRow]) -> Result<(), EnvError> {
    check_within(config, &Bound::of(bounds))
}

/// As [`check_bounds`].
///
/// # Errors
/// As [`check_bounds`].
pub(crate) fn check_within<C: Serialize>(config: &C, bounds: &[Bound]) -> Result<(), EnvError> {
    let config = to_value(config)?;
    for Bound { key, min, max, .. } in bounds {
        let value = key.split('.').try_fold(&config, |table, part| table.get(part)).and_then(Value::as_f64);
        if let Some(value) = value
            && !(*min..=*max).contains(&value)
        {
            let nearest = value.clamp(*min, *max);
            let problem = format!("{value} is out of range: {min} to {max} are allowed; nearest: {nearest}");
            return Err(config_error(key, &problem));
        }
    }
    Ok(())
}

/// An error on `key`.
pub(crate) fn config_error(key: &str, problem: &str) -> EnvError {
    settings::SettingError::new(key, problem).into()
}

/// Checks that `value`, the value of `key`, is not above `most`, which is `of`.
///
/// # Errors
/// If it is: names the key and `most`.
pub(crate) fn at_most(key: &str, value: usize, most: usize, of: &str) -> Result<(), EnvError> {
    match value > most {
        true => Err(config_error(key, &format!("{value} is above {of}, which is {most}; nearest: {most}"))),
        false => Ok(()),
    }
}

/// Checks that the range `key` is not empty, and blames its greatest value if it is.
///
/// # Errors
/// If the greatest value is below the least: names the nearest value.
pub(crate) fn check_range<T: PartialOrd + Display>(key: &str, range: Range<T>) -> Result<(), EnvError> {
    let Range { min, max } = range;
    match min > max {
        true => {
            let problem = format!("{max} is below {key}.min, which is {min}; nearest: {min}");
            Err(config_error(&format!("{key}.max"), &problem))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_number_out_of_its_bounds_is_named_with_the_nearest_that_is_allowed() {
        let bounds = [("size.max", 1.0, 5.0, "")];
        assert!(check_bounds(&json!({"size": {"max": 5}}), &bounds).is_ok());
        let error = check_bounds(&json!({"size": {"max": 9}}), &bounds).unwrap_err().to_string();
        assert_eq!(error, "size.max: 9 is out of range: 1 to 5 are allowed; nearest: 5");
    }
}
