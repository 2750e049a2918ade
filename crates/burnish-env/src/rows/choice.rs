//! The choice of a verifier in a configuration: by name, by command, or per row.

use std::collections::BTreeMap;
use std::fmt;

use burnish_verify::Verifier;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

use super::code::CodeConfig;
use super::config::{BOUNDS, label};
use super::data::column;
use crate::EnvError;
use crate::settings::{check_bounds, config_error};

/// The verifier: the name of a built-in one, or a table for a command or for a choice by a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum VerifierConfig {
    /// Compares the answer with the row's: `number`, `math`, `choice`, `exact`, `text`, `json`, `abstention`.
    BuiltIn(Verifier),
    /// An external command.
    Command(CommandConfig),
    /// Answers are programs, and are run.
    Code(Coded),
    /// A column of each row names the verifier.
    Column(ByColumn),
    /// `none`: the episode is valid, and earns what others give it, such as a reward model.
    Elsewhere(Elsewhere),
}

/// The table `code`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coded {
    /// How programs are run and judged.
    pub code: CodeConfig,
}

/// The name `none` in place of a verifier's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Elsewhere {
    /// No verifier.
    None,
}

/// How it is written.
const NONE: &str = "none";

/// How [`Coded`] is written if everything in it is left at its defaults.
const CODE: &str = "code";

/// A command that judges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// Program and arguments (`["python3", "reward.py"]`); no shell is involved. Empty: nothing is judged.
    pub command: Vec<String>,
    /// Longest wait for one line of judgement, in seconds.
    pub timeout_seconds: f64,
    /// Additional time for a newly started process, for its imports.
    pub startup_seconds: f64,
    /// Number of processes that judge side by side; each is started when needed. Default: one per core, at least 4 and
    /// at most 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Number of requests that may be sent together: a line then holds a list of up to this many, and so does the
    /// answer. Default: a line holds one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
}

/// A verifier per row, chosen by a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByColumn {
    /// The column.
    pub column: String,
    /// The verifiers for some of its values. Every other value must be the name of a built-in verifier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub map: BTreeMap<String, VerifierConfig>,
}

/// Bounds on the default number of processes: several even on a small machine, so that some can work while others hang
/// or wait for a server; no more than that, because each takes memory.
const WORKERS: std::ops::RangeInclusive<usize> = 4..=8;

impl Default for CommandConfig {
    fn default() -> Self {
        CommandConfig {
            command: Vec::new(),
            timeout_seconds: 10.0,
            startup_seconds: 30.0,
            workers: None,
            batch: None,
        }
    }
}

impl CommandConfig {
    /// Most processes that judge side by side.
    pub(super) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.workers.unwrap_or_else(|| cores().clamp(*WORKERS.start(), *WORKERS.end()))
    }

    /// The time limit for a judgement.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    /// Additional time for a new process. Once others have answered, it is a multiple of what the slowest of them took, so that
    /// a verifier that hangs now is not waited for as if it imported something.
    pub(super) fn startup(&self, slowest: Option<Duration>) -> Duration {
        let most = Duration::from_secs_f64(self.startup_seconds);
        slowest.map_or(most, |slowest| most.min(4 * slowest + Duration::from_secs(1)))
    }
}

impl VerifierConfig {
    /// Are episodes judged, here or elsewhere?
    pub(super) fn judges(&self) -> bool {
        match self {
            VerifierConfig::BuiltIn(_)
            | VerifierConfig::Code(_)
            | VerifierConfig::Column(_)
            | VerifierConfig::Elsewhere(_) => true,
            VerifierConfig::Command(command) => !command.command.is_empty(),
        }
    }

    /// Checks what the types do not express; `key` is the verifier's key.
    ///
    /// # Errors
    /// Names the first key that is missing or out of bounds.
    pub(super) fn check(&self, key: &str) -> Result<(), EnvError> {
        match self {
            VerifierConfig::BuiltIn(_) | VerifierConfig::Elsewhere(_) => Ok(()),
            VerifierConfig::Code(coded) => coded.code.check(key),
            VerifierConfig::Command(command) => {
                if command.command.first().is_some_and(String::is_empty) {
                    let example = "name the program that judges, such as [\"python3\", \"reward.py\"]";
                    return Err(config_error(&format!("{key}.command"), example));
                }
                check_bounds(&json!({"verifier": command}), BOUNDS).map_err(|error| below(key, error))
            }
            VerifierConfig::Column(ByColumn { column, .. }) if column.is_empty() => {
                let problem = "name the column that says which verifier judges a row";
                Err(config_error(&format!("{key}.column"), problem))
            }
            VerifierConfig::Column(ByColumn { map, .. }) => map.iter().try_for_each(|(value, verifier)| {
                let key = format!("{key}.map.{value}");
                match verifier {
                    VerifierConfig::Column(_) => {
                        Err(config_error(&key, "a column can't send a row to another column"))
                    }
                    verifier if !verifier.judges() => {
                        let problem = "name the program that judges, such as [\"python3\", \"reward.py\"]";
                        Err(config_error(&format!("{key}.command"), problem))
                    }
                    verifier => verifier.check(&key),
                }
            }),
        }
    }

    /// The verifier of a row.
    ///
    /// # Errors
    /// If a column should name it but does not.
    pub(super) fn of(&self, row: &Map<String, Value>) -> Result<VerifierConfig, String> {
        let VerifierConfig::Column(by) = self else { return Ok(self.clone()) };
        let value = by.value(row)?;
        if let Some(verifier) = by.map.get(&value) {
            return Ok(verifier.clone());
        }
        named(&value).ok_or_else(|| {
            format!(
                "column `{}`: no verifier is called `{value}`; possible is one of {}, or name one for it in `verifier.map`",
                by.column,
                names()
            )
        })
    }
}

impl ByColumn {
    /// The column's value in a row.
    ///
    /// # Errors
    /// If it is missing.
    pub(super) fn value(&self, row: &Map<String, Value>) -> Result<String, String> {
        column(row, &self.column, "verifier.column").map(label)
    }
}

/// An error on a key of `verifier`, where `verifier` itself is under `key`.
fn below(key: &str, error: EnvError) -> EnvError {
    match error {
        EnvError::Config { key: inner, problem } => {
            EnvError::Config { key: inner.replacen("verifier", key, 1), problem }
        }
        other => other,
    }
}

fn named(name: &str) -> Option<VerifierConfig> {
    if name == CODE {
        return Some(VerifierConfig::Code(Coded::default()));
    }
    Verifier::ALL.into_iter().find(|verifier| verifier.name() == name).map(VerifierConfig::BuiltIn)
}

fn names() -> String {
    format!("{}, {CODE}", Verifier::ALL.map(Verifier::name).join(", "))
}

/// The table as it is written: for a command, or for a column.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    command: Vec<String>,
    timeout_seconds: f64,
    startup_seconds: f64,
    workers: Option<usize>,
    batch: Option<usize>,
    column: Option<String>,
    map: Option<BTreeMap<String, VerifierConfig>>,
    code: Option<CodeConfig>,
}

impl Default for Table {
    fn default() -> Self {
        let CommandConfig { command, timeout_seconds, startup_seconds, workers, batch } =
            CommandConfig::default();
        Table {
            command,
            timeout_seconds,
            startup_seconds,
            workers,
            batch,
            column: None,
            map: None,
            code: None,
        }
    }
}

impl Table {
    fn read(self) -> Result<VerifierConfig, &'static str> {
        let Table { command, timeout_seconds, startup_seconds, workers, batch, column, map, code } = self;
        let command = CommandConfig { command, timeout_seconds, startup_seconds, workers, batch };
        if let Some(code) = code {
            if command != CommandConfig::default() || column.is_some() || map.is_some() {
                return Err("verifier: `code` stands alone: a program is run, or a command judges it");
            }
            return Ok(VerifierConfig::Code(Coded { code }));
        }
        match (column, map) {
            (None, None) => Ok(VerifierConfig::Command(command)),
            _ if command != CommandConfig::default() => Err(
                "verifier: `column` goes with `map` alone: a command for some values of the column, and how long to wait \
                 for it, stand in `map`",
            ),
            (column, map) => Ok(VerifierConfig::Column(ByColumn {
                column: column.unwrap_or_default(),
                map: map.unwrap_or_default(),
            })),
        }
    }
}

impl<'de> Deserialize<'de> for VerifierConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = VerifierConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names = names();
                write!(
                    f,
                    "one of {names}, `none`, or a table such as {{ command = [\"python3\", \"reward.py\"] }} or {{ column = \"kind\" }}"
                )
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<VerifierConfig, E> {
                if name == NONE {
                    return Ok(VerifierConfig::Elsewhere(Elsewhere::None));
                }
                named(name).ok_or_else(|| {
                    E::custom(format_args!("no verifier is called `{name}`; possible is {}", Expected(&self)))
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<VerifierConfig, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map))?.read().map_err(A::Error::custom)
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
