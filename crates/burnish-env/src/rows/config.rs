//! What may be set.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::settings::{check_bounds, config_error, to_value};
use crate::{Bound, EnvError};

/// The configuration of tasks from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The jsonl file: one JSON object a line.
    pub path: String,
    /// The folder from which `path` is looked up and in which the verifier runs; the current one if absent.
    pub base_dir: Option<String>,
    /// The column with the prompt: a text (one user message) or a list of messages. A list that ends with an
    /// assistant message is a prompt with its demonstration. Where no column has this name and it was left at
    /// `prompt`, `messages` is read.
    pub prompt_key: String,
    /// The column that names the row; without it, the name comes from the row's content.
    pub id_key: Option<String>,
    /// Columns by which results are broken down.
    pub label_keys: Vec<String>,
    /// The column with an answer to imitate (text).
    pub demonstration_key: Option<String>,
    /// The command that judges. May be left out where every row has an answer to imitate.
    pub verifier: VerifierConfig,
}

/// The command that judges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierConfig {
    /// Program and arguments (`["python3", "reward.py"]`); no shell is involved. Empty: nothing judges.
    pub command: Vec<String>,
    /// Longest wait for one judgement, in seconds.
    pub timeout_seconds: f64,
    /// What a freshly started process gets on top of that, for its imports.
    pub startup_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            path: String::new(),
            base_dir: None,
            prompt_key: PROMPT.to_owned(),
            id_key: None,
            label_keys: Vec::new(),
            demonstration_key: None,
            verifier: VerifierConfig { command: Vec::new(), timeout_seconds: 10.0, startup_seconds: 30.0 },
        }
    }
}

/// The default column of prompts.
pub(super) const PROMPT: &str = "prompt";

/// The numbers of the configuration that may be changed.
pub(super) fn bounds() -> Vec<Bound> {
    let bound = |key: &str, min, help: &str| Bound { key: key.into(), min, max: 3_600.0, help: help.into() };
    vec![
        bound("verifier.timeout_seconds", 0.001, "longest wait for one judgement"),
        bound("verifier.startup_seconds", 0.0, "what a freshly started verifier gets on top of that"),
    ]
}

impl Config {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// Names the first key that is missing or out of its bounds.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        if self.path.is_empty() {
            return Err(config_error("path", "name the jsonl file with the tasks"));
        }
        if self.verifier.command.first().is_some_and(String::is_empty) {
            let example = "name the program that judges, such as [\"python3\", \"reward.py\"]";
            return Err(config_error("verifier.command", example));
        }
        check_bounds(&to_value(self)?, &bounds())
    }

    /// The data file.
    pub(super) fn data_path(&self) -> PathBuf {
        Path::new(self.base_dir.as_deref().unwrap_or_default()).join(&self.path)
    }
}

impl VerifierConfig {
    /// How long to wait for a judgement.
    pub(super) fn patience(&self, is_fresh: bool) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds + if is_fresh { self.startup_seconds } else { 0.0 })
    }
}
