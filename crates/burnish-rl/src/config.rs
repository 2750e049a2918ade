//! What is wrong with a configuration.

/// A key of a configuration has a value that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The key, below the configuration's own table.
    pub key: &'static str,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

/// Refuses a `value` that `allowed` rejects. `rule` says what is allowed, as in "must be 0 or more".
pub(crate) fn require(
    key: &'static str,
    value: f64,
    allowed: impl Fn(f64) -> bool,
    rule: &str,
) -> Result<(), ConfigError> {
    // Infinite and NaN are written in TOML as easily as any number, and no key means anything by them.
    if value.is_finite() && allowed(value) {
        return Ok(());
    }
    Err(ConfigError { key, problem: format!("{rule}, not {value}") })
}
