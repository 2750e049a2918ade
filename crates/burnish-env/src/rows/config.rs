//! The configuration of the environment.

use burnish_core::json;
use burnish_data::{Columns, Paths};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_verify::language::Language;
use burnish_verify::{Reading, Verifier};
use serde_json::Value;

use super::built_in::LanguageOf;
use super::choice::{CommandConfig, VerifierConfig};
use crate::servers::ServerConfig;
use crate::settings::config_error;
use crate::{BoundRow, EnvError};

/// The configuration of tasks from files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, or a list of files: jsonl or csv, compressed with gzip or not, tsv, or parquet.
    pub path: Paths,
    /// The folder in which `path` is looked up and the verifier runs; default: the current one.
    pub base_dir: Option<String>,
    /// The meaning of the columns: `"auto"`, or a table such as `{ prompt = "question", answer = "answer" }`.
    pub columns: Columns,
    /// The column with the row's name; without it, the name is made from the row's content.
    pub id_key: Option<String>,
    /// Columns by which results are broken down. The source of a row (`data_source`) is always one of them, and so is
    /// the file if there are several.
    pub label_keys: Vec<String>,
    /// The verifier. May be omitted if every row has an answer to imitate.
    pub verifier: VerifierConfig,
    /// The way in which built-in verifiers find the answer of a response: `mark`, `last` or `judge`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reading: Reading,
    /// The language in which all rows must be answered, checked in addition to the answer.
    pub language: Option<Language>,
    /// Instead of `language`: the column that names the language of each row (`bn`, `de`, `en`, `es`, `fr`, `ja`, `ru`,
    /// `sw`, `te`, `th`, `zh`).
    pub language_key: Option<String>,
    /// The reward components of a built-in verifier's verdict. Default: `correct`, and `language` if it is checked.
    pub rewards: Option<Vec<Component>>,
    /// The column with worked reasoning in the language of the row, from which hints are taken.
    pub reasoning_key: Option<String>,
    /// Servers whose tools the policy has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, ServerConfig>,
}

fn is_default(reading: &Reading) -> bool {
    *reading == Reading::default()
}

/// A reward component of a built-in verifier. Each is 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// 1 if the final answer is right.
    Correct,
    /// 1 if the final answer is marked, so that it need not be guessed ([`burnish_verify::is_marked`]).
    Format,
    /// 1 if the answer, including thoughts, is in the language of the row.
    Language,
    /// The product of the three.
    All,
}

impl Component {
    /// Its name in verdicts and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Component::Correct => "correct",
            Component::Format => "format",
            Component::Language => "language",
            Component::All => "all",
        }
    }

    fn needs_language(self) -> bool {
        matches!(self, Component::Language | Component::All)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            path: Paths::default(),
            base_dir: None,
            columns: Columns::Auto,
            id_key: None,
            label_keys: Vec::new(),
            verifier: VerifierConfig::Command(CommandConfig::default()),
            reading: Reading::default(),
            language: None,
            language_key: None,
            rewards: None,
            reasoning_key: None,
            servers: BTreeMap::new(),
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("verifier.timeout_seconds", 0.001, 3_600.0, "longest wait for one line of judgement"),
    ("verifier.startup_seconds", 0.0, 3_600.0, "what a freshly started verifier gets on top of that"),
    ("verifier.workers", 1.0, 256.0, "processes that judge side by side"),
    ("verifier.batch", 1.0, 4_096.0, "requests that go together on a line"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is missing or out of bounds.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        if self.path.is_empty() {
            return Err(config_error(
                "path",
                "name the file with the tasks (jsonl, csv or parquet), or a list of files",
            ));
        }
        self.check_language()?;
        self.verifier.check("verifier")
    }

    /// Checks that the verifier can do what is required of the language, the rewards and the reading.
    fn check_language(&self) -> Result<(), EnvError> {
        let key = if self.language.is_some() { "language" } else { "language_key" };
        let has_language = self.language.is_some() || self.language_key.is_some();
        if self.language.is_some() && self.language_key.is_some() {
            return Err(config_error("language_key", "can't be combined with `language`: leave one out"));
        }
        let is_compared = match self.verifier {
            VerifierConfig::BuiltIn(verifier) => verifier != Verifier::Abstention,
            VerifierConfig::Command(_) | VerifierConfig::Code(_) | VerifierConfig::Elsewhere(_) => false,
            // The check applies to those of its verifiers that are built in.
            VerifierConfig::Column(_) => true,
        };
        let names = Verifier::ALL.into_iter().filter(|verifier| *verifier != Verifier::Abstention);
        let names: Vec<&str> = names.map(Verifier::name).collect();
        let other = [
            (key, self.verifier.judges() && has_language),
            ("rewards", self.rewards.is_some()),
            ("reading", !is_default(&self.reading)),
        ];
        if let Some((key, _)) = other.into_iter().find(|(_, is_set)| *is_set && !is_compared) {
            let problem = format!(
                "goes with the verifiers {} only: a command, which gets the whole row, `code` and `abstention` give \
                 rewards of their own",
                names.join(", ")
            );
            return Err(config_error(key, &problem));
        }
        let Some(rewards) = &self.rewards else { return Ok(()) };
        let twice = rewards.iter().enumerate().any(|(index, one)| rewards[..index].contains(one));
        if rewards.is_empty() || twice {
            let problem =
                "name at least one of \"correct\", \"format\", \"language\", \"all\", and none twice";
            return Err(config_error("rewards", problem));
        }
        match rewards.iter().find(|component| component.needs_language()) {
            Some(component) if !has_language => {
                let problem = format!(
                    "`{}` needs the language of the rows: say it with `language`, or name its column with `language_key`",
                    component.name()
                );
                Err(config_error("rewards", &problem))
            }
            _ => Ok(()),
        }
    }

    /// The components of verdicts.
    pub(super) fn components(&self) -> Vec<Component> {
        self.rewards.clone().unwrap_or_else(|| {
            let language = self.language_of().map(|_| Component::Language);
            [Component::Correct].into_iter().chain(language).collect()
        })
    }

    /// Where the language of a row is given, if it is.
    pub(super) fn language_of(&self) -> Option<LanguageOf> {
        let column = || self.language_key.clone().map(LanguageOf::Column);
        self.language.map(LanguageOf::All).or_else(column)
    }

    /// The folder in which relative paths are looked up.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.base_dir.as_deref().filter(|folder| !folder.is_empty()).map(Path::new)
    }

    /// The data files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.path.below(self.folder().unwrap_or(Path::new("")))
    }
}

/// A value as a label.
pub(super) fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| json::line(value), str::to_owned)
}
