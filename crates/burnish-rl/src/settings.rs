//! Settings of parts, and checks of their range.

use burnish_core::settings::SettingError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Card;

/// Something a recipe can name: its fields are its settings, its [`Default`] their defaults.
pub trait Part: Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What is known about it.
    const CARD: Card;

    /// # Errors
    /// If a setting is out of range.
    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

/// Refuses a `value` that `allowed` rejects. `rule` says what is allowed, as in "must be 0 or more".
///
/// # Errors
/// The key, the rule and the value.
pub fn require(key: &str, value: f64, allowed: impl Fn(f64) -> bool, rule: &str) -> Result<(), SettingError> {
    // TOML can write infinity and NaN like any number, but no key gives them a meaning.
    if value.is_finite() && allowed(value) {
        return Ok(());
    }
    Err(SettingError::new(key, format!("{rule}, not {value}")))
}
