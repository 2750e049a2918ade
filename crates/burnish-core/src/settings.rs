//! Configurations as people write them: incomplete, and sometimes wrong.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A key of a configuration is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct SettingError {
    /// Path of the key below the configuration's own table; `configuration` is the table itself.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl SettingError {
    /// An error on `key`, or on the configuration as a whole if `key` is empty.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        let key = match key.into() {
            key if key.is_empty() => "configuration".to_owned(),
            key => key,
        };
        SettingError { key, problem: problem.into() }
    }
}

/// The defaults of `C`, overlaid with the keys of `given`, table by table.
///
/// `C` must deny unknown fields and serialise all its fields, so that its defaults show which keys are tables.
///
/// # Errors
/// Names the first key that is unknown or of the wrong type.
pub fn read<C: Default + Serialize + DeserializeOwned>(given: &Value) -> Result<C, SettingError> {
    let defaults = to_value(&C::default())?;
    let mut complete = defaults.clone();
    let mut leaves = Vec::new();
    match given {
        Value::Null => {}
        Value::Object(table) => collect_leaves(table, &defaults, &mut Vec::new(), &mut leaves),
        _ => return Err(SettingError::new("", "must be a table of keys")),
    }
    for (path, value) in &leaves {
        // Each key is first tried alone on the defaults, so that a failure can be attributed to it.
        let mut alone = defaults.clone();
        set(&mut alone, path, value);
        serde_json::from_value::<C>(alone)
            .map_err(|error| SettingError::new(path.join("."), error.to_string()))?;
        set(&mut complete, path, value);
    }
    serde_json::from_value(complete).map_err(|error| SettingError::new("", error.to_string()))
}

/// The configuration as JSON.
///
/// # Errors
/// If it can't be serialised, which no configuration here does.
pub fn to_value<C: Serialize>(config: &C) -> Result<Value, SettingError> {
    serde_json::to_value(config).map_err(|error| SettingError::new("", error.to_string()))
}

fn collect_leaves<'v>(
    given: &'v Map<String, Value>,
    defaults: &Value,
    path: &mut Vec<&'v str>,
    leaves: &mut Vec<(Vec<&'v str>, &'v Value)>,
) {
    for (key, value) in given {
        path.push(key);
        match (value, defaults.get(key)) {
            (Value::Object(table), Some(below @ Value::Object(_))) => {
                collect_leaves(table, below, path, leaves);
            }
            _ => leaves.push((path.clone(), value)),
        }
        path.pop();
    }
}

/// Sets the value at `path`; `path` comes from a leaf, so all its parts but the last are tables of `tree`.
fn set(tree: &mut Value, path: &[&str], value: &Value) {
    let mut at = tree;
    for part in path {
        at = &mut at[*part];
    }
    *at = value.clone();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        min: u32,
        max: u32,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        size: Inner,
        name: Option<String>,
    }

    impl Default for Outer {
        fn default() -> Self {
            Outer { size: Inner { min: 1, max: 5 }, name: None }
        }
    }

    fn message(given: Value) -> String {
        read::<Outer>(&given).unwrap_err().to_string()
    }

    #[test]
    fn absent_keys_take_their_defaults_inside_tables_too() {
        assert_eq!(read::<Outer>(&Value::Null).unwrap(), Outer::default());
        let config: Outer = read(&json!({"size": {"max": 9}, "name": "x"})).unwrap();
        assert_eq!(config, Outer { size: Inner { min: 1, max: 9 }, name: Some("x".into()) });
    }

    #[test]
    fn an_error_names_the_key_by_its_path() {
        assert!(
            message(json!({"size": {"maxx": 9}})).starts_with("size.maxx: unknown field `maxx`, expected")
        );
        assert!(message(json!({"size": {"min": 0, "max": "9"}})).starts_with("size.max: invalid type"));
        assert!(message(json!({"size": 3})).starts_with("size: invalid type"));
        assert!(message(json!({"other": {"a": 1}})).starts_with("other: unknown field"));
        assert!(message(json!([1])).starts_with("configuration: must be a table"));
    }
}
