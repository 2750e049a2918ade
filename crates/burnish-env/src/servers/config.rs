//! The configuration of servers: a table per server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use burnish_core::Repeating;
use burnish_http::key_from;
use burnish_mcp::{Address, Limits};
use serde::{Deserialize, Serialize};

use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// What stands for an episode's own folder in `command` and `env`.
pub(super) const PLACE: &str = "{workspace}";

/// A server of the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Program and arguments of a server that is started (`["python3", "server.py"]`); no shell is involved.
    pub command: Vec<String>,
    /// Environment variables of the program, in addition to those of burnish.
    pub env: BTreeMap<String, String>,
    /// Instead of `command`: an address that speaks streamable HTTP.
    pub url: Option<String>,
    /// The environment variable with the key that is sent to `url` as a bearer token.
    pub api_key_env: Option<String>,
    /// Headers that are sent to `url`, each with the environment variable that holds its value.
    pub headers_env: BTreeMap<String, String>,
    /// The tools that the policy gets; default: all.
    pub tools: Option<Vec<String>>,
    /// What repeating a call means. It has to be said.
    pub repeating: Option<Repeating>,
    /// A folder of which every episode gets a copy of its own: `{workspace}` in `command` and `env`.
    pub workspace: Option<String>,
    /// Longest wait for the result of a call, in seconds.
    pub timeout_seconds: f64,
    /// Additional time for a newly started server.
    pub startup_seconds: f64,
    /// Most sessions, and so most episodes at the same time.
    pub workers: usize,
    /// Most bytes of a result that the policy reads; the rest is cut.
    pub result_bytes: usize,
    /// Most bytes of one message.
    pub message_bytes: u64,
    /// Most bytes that are read in one episode.
    pub episode_bytes: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            command: Vec::new(),
            env: BTreeMap::new(),
            url: None,
            api_key_env: None,
            headers_env: BTreeMap::new(),
            tools: None,
            repeating: None,
            workspace: None,
            timeout_seconds: 30.0,
            startup_seconds: 60.0,
            workers: 16,
            result_bytes: 16 << 10,
            message_bytes: 4 << 20,
            episode_bytes: 64 << 20,
        }
    }
}

/// The bounds of the numeric keys of one server.
const BOUNDS: &[BoundRow] = &[
    ("timeout_seconds", 0.1, 86_400.0, "longest wait for the result of a call, in seconds"),
    ("startup_seconds", 0.0, 86_400.0, "what a new server gets on top of that"),
    ("workers", 1.0, 1024.0, "most sessions, and so most episodes at the same time"),
    ("result_bytes", 64.0, (16 << 20) as f64, "most bytes of a result that the policy reads"),
    ("message_bytes", 1024.0, burnish_sandbox::LINE_BYTES_MAX as f64, "most bytes of one message"),
    ("episode_bytes", 1024.0, (1_u64 << 40) as f64, "most bytes that are read in one episode"),
];

impl ServerConfig {
    /// Checks what the types do not express; `key` is the server's key.
    ///
    /// # Errors
    /// Names the first key that is missing, out of bounds, or does not go with another one.
    pub(super) fn check(&self, key: &str) -> Result<(), EnvError> {
        let wrong = |name: &str, problem: &str| Err(config_error(&format!("{key}.{name}"), problem));
        let has_command = self.command.first().is_some_and(|program| !program.is_empty());
        match (&self.url, has_command) {
            (None, false) => {
                return wrong(
                    "command",
                    "name the program that is the server, such as [\"python3\", \"server.py\"], or its `url`",
                );
            }
            (Some(_), true) => {
                return wrong("url", "can't be combined with `command`: leave one out");
            }
            (Some(_), false) if !self.env.is_empty() => {
                return wrong("env", "goes with `command`: a server behind a `url` has its own environment");
            }
            (None, true) if self.api_key_env.is_some() || !self.headers_env.is_empty() => {
                return wrong(
                    "api_key_env",
                    "goes with `url`, as `headers_env` does; a program inherits the environment",
                );
            }
            _ => {}
        }
        let Some(repeating) = self.repeating else {
            return wrong(
                "repeating",
                "say what repeating a call means: \"repeatable\" if calls change nothing, \"rebuilt\" if they change only \
                 what the server keeps for the session, \"outside\" if they change the world",
            );
        };
        if self.tools.as_ref().is_some_and(Vec::is_empty) {
            return wrong("tools", "name at least one tool, or leave the key out");
        }
        let names_place = self.command.iter().chain(self.env.values()).any(|text| text.contains(PLACE));
        match (&self.workspace, names_place) {
            (Some(_), false) => {
                return wrong(
                    "workspace",
                    "has no effect: say where it goes, `{workspace}` in `command` or `env`",
                );
            }
            (None, true) => return wrong("workspace", "name the folder of which `{workspace}` is a copy"),
            (Some(_), true) if repeating != Repeating::Rebuilt => {
                return wrong(
                    "repeating",
                    "a copy of `workspace` belongs to the episode, so this is \"rebuilt\"",
                );
            }
            _ => {}
        }
        check_bounds(self, BOUNDS).map_err(|error| match error {
            EnvError::Config { key: below, problem } => config_error(&format!("{key}.{below}"), &problem),
            other => other,
        })
    }

    /// What repeating a call means.
    pub(super) fn repeating(&self) -> Repeating {
        self.repeating.unwrap_or(Repeating::Outside)
    }

    /// Does a session belong to one episode?
    pub(super) fn has_state(&self) -> bool {
        self.repeating() != Repeating::Repeatable
    }

    /// The folder of which every episode gets a copy.
    pub(super) fn workspace(&self, folder: Option<&Path>) -> Option<PathBuf> {
        self.workspace.as_ref().map(|path| folder.unwrap_or(Path::new("")).join(path))
    }

    /// The files that the command names, and those of the workspace.
    pub(super) fn files(&self, folder: Option<&Path>) -> Vec<PathBuf> {
        let base = folder.unwrap_or(Path::new(""));
        let is_own = |(at, word): &(usize, &String)| {
            *at > 0 || (word.contains('/') && Path::new(word.as_str()).is_relative())
        };
        let words = self.command.iter().enumerate().filter(is_own).map(|(_, word)| base.join(word));
        let mut files: Vec<PathBuf> = words.filter(|path| path.is_file()).collect();
        if let Some(workspace) = self.workspace(folder) {
            super::workspace::files_below(&workspace, &mut files);
        }
        files
    }

    /// Where the server is; `workspace` is the episode's own folder.
    ///
    /// # Errors
    /// If an environment variable with a key is not set.
    pub(super) fn address(&self, folder: Option<&Path>, workspace: Option<&Path>) -> Result<Address, String> {
        let Some(url) = &self.url else {
            let place = workspace.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            let filled = |text: &String| text.replace(PLACE, &place);
            return Ok(Address::Command {
                command: self.command.iter().map(filled).collect(),
                variables: self.env.iter().map(|(name, value)| (name.clone(), filled(value))).collect(),
                folder: folder.map(Path::to_owned),
            });
        };
        let secret = |variable: &String| key_from(variable, url).map_err(|error| error.to_string());
        let key = self.api_key_env.as_ref().map(secret).transpose()?;
        let header = |(name, variable): (&String, &String)| Ok((name.clone(), secret(variable)?));
        let headers = self.headers_env.iter().map(header).collect::<Result<_, String>>()?;
        Ok(Address::Url { url: url.clone(), key, headers })
    }

    /// What a session may take.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            start: Duration::from_secs_f64(self.timeout_seconds + self.startup_seconds),
            call: Duration::from_secs_f64(self.timeout_seconds),
            message_bytes: self.message_bytes,
            episode_bytes: self.episode_bytes,
            result_bytes: self.result_bytes,
        }
    }
}
