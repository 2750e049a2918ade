//! What is known about a strategy. Lists and documentation are made from it.

use burnish_core::settings::SettingError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Card {
    /// Name on the command line and in recipes, in snake case; also the name of its file.
    pub id: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Authors, year, title or name, arXiv id.
    pub paper: &'static str,
    /// What it does, in one or a few lines of plain text, with the symbols of the comment at the head of the file.
    pub equation: &'static str,
    /// What its selections read of a candidate. Never a reference answer.
    pub reads: &'static str,
    /// Which part is our guess, because the source does not say.
    pub reconstructed: Option<&'static str>,
    /// What it equals under which setting; each has a test.
    pub reduces_to: &'static [&'static str],
    /// Its source file, relative to the repository.
    pub file: &'static str,
}

/// A strategy that can be named: its fields are its settings, its [`Default`] their defaults.
pub trait Part: Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What is known about it.
    const CARD: Card;

    /// Checks the ranges of its settings.
    ///
    /// # Errors
    /// Names the setting that is out of its range.
    fn check(&self) -> Result<(), SettingError>;
}

/// Refuses a count outside of `least..=most`.
pub(crate) fn require(key: &str, count: usize, least: usize, most: usize) -> Result<(), SettingError> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    Err(SettingError::new(key, format!("must be {least} to {most}, not {count}")))
}

/// Refuses a temperature that no sampler takes.
pub(crate) fn require_temperature(key: &str, temperature: Option<f32>) -> Result<(), SettingError> {
    match temperature {
        Some(given) if !(given.is_finite() && given >= 0.0) => {
            Err(SettingError::new(key, format!("must be 0 or more, not {given}")))
        }
        _ => Ok(()),
    }
}

/// Most candidates of one turn.
pub(crate) const CANDIDATES_MAX: usize = 4096;
