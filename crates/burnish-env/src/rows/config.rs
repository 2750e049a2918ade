//! What may be set.

use burnish_data::{Columns, Paths};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use burnish_verify::Verifier;

use crate::settings::{check_bounds, config_error, to_value};
use crate::{Bound, EnvError};

/// The configuration of tasks from files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, or a list of files: jsonl, packed with gzip or not, or parquet.
    pub path: Paths,
    /// The folder from which `path` is looked up and in which the verifier runs; the current one if absent.
    pub base_dir: Option<String>,
    /// Which column is what: `"auto"`, or a table such as `{ prompt = "question", answer = "answer" }`.
    pub columns: Columns,
    /// The column that names the row; without it, the name comes from the row's content.
    pub id_key: Option<String>,
    /// Columns by which results are broken down. The source of a row (`data_source`) is one of them by itself, and
    /// so is the file where there are several.
    pub label_keys: Vec<String>,
    /// What judges. May be left out where every row has an answer to imitate.
    pub verifier: VerifierConfig,
}

/// What judges: the name of a built-in verifier, or a table for a command of one's own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum VerifierConfig {
    /// Compares the answer with the row's: `number`, `math`, `choice`, `exact`, `text`, `json`, `abstention`.
    BuiltIn(Verifier),
    /// An external command.
    Command(CommandConfig),
}

/// A command that judges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// Program and arguments (`["python3", "reward.py"]`); no shell is involved. Empty: nothing judges.
    pub command: Vec<String>,
    /// Longest wait for one judgement, in seconds.
    pub timeout_seconds: f64,
    /// What a freshly started process gets on top of that, for its imports.
    pub startup_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        let command = CommandConfig { command: Vec::new(), timeout_seconds: 10.0, startup_seconds: 30.0 };
        Config {
            path: Paths::default(),
            base_dir: None,
            columns: Columns::Auto,
            id_key: None,
            label_keys: Vec::new(),
            verifier: VerifierConfig::Command(command),
        }
    }
}

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
            return Err(config_error(
                "path",
                "name the file with the tasks (jsonl or parquet), or a list of files",
            ));
        }
        if let VerifierConfig::Command(command) = &self.verifier
            && command.command.first().is_some_and(String::is_empty)
        {
            let example = "name the program that judges, such as [\"python3\", \"reward.py\"]";
            return Err(config_error("verifier.command", example));
        }
        match &self.verifier {
            VerifierConfig::Command(_) => check_bounds(&to_value(self)?, &bounds()),
            VerifierConfig::BuiltIn(_) => Ok(()),
        }
    }

    /// The folder from which relative paths are looked up.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.base_dir.as_deref().filter(|folder| !folder.is_empty()).map(Path::new)
    }

    /// The data files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.path.below(self.folder().unwrap_or(Path::new("")))
    }
}

impl VerifierConfig {
    /// Does anything judge?
    pub(super) fn judges(&self) -> bool {
        match self {
            VerifierConfig::BuiltIn(_) => true,
            VerifierConfig::Command(command) => !command.command.is_empty(),
        }
    }
}

impl CommandConfig {
    /// How long to wait for a judgement.
    pub(super) fn patience(&self, is_fresh: bool) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds + if is_fresh { self.startup_seconds } else { 0.0 })
    }
}

impl<'de> Deserialize<'de> for VerifierConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = VerifierConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names = Verifier::ALL.map(Verifier::name).join(", ");
                write!(f, "one of {names}, or a table such as {{ command = [\"python3\", \"reward.py\"] }}")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<VerifierConfig, E> {
                if let Some(verifier) = Verifier::ALL.into_iter().find(|verifier| verifier.name() == name) {
                    return Ok(VerifierConfig::BuiltIn(verifier));
                }
                Err(E::custom(format_args!(
                    "no verifier is called `{name}`; possible is {}",
                    Expected(&self)
                )))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<VerifierConfig, A::Error> {
                CommandConfig::deserialize(MapAccessDeserializer::new(map)).map(VerifierConfig::Command)
            }
        }

        struct Expected<'a>(&'a NameOrTable);

        impl fmt::Display for Expected<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.expecting(f)
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}
