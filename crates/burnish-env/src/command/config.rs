//! The configuration of the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use burnish_sandbox::LINE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::servers::ServerConfig;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// The configuration of a program that is an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Program and arguments (`["python3", "guess.py"]`); no shell is involved.
    pub command: Vec<String>,
    /// The folder in which it runs and is looked up. Empty: the current one.
    pub base_dir: Option<String>,
    /// What the program is told when it starts: its own configuration.
    pub settings: Map<String, Value>,
    /// Longest wait for one answer, in seconds.
    pub timeout_seconds: f64,
    /// Additional time for a newly started process, for its imports.
    pub startup_seconds: f64,
    /// Most processes, and so most episodes that are played at the same time.
    pub workers: usize,
    /// Longest line that is read, in bytes.
    pub line_bytes: u64,
    /// Most bytes that are read in one episode.
    pub episode_bytes: u64,
    /// Servers whose tools the policy has beside those of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, ServerConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            command: Vec::new(),
            base_dir: None,
            settings: Map::new(),
            timeout_seconds: 30.0,
            startup_seconds: 60.0,
            workers: 32,
            line_bytes: 1 << 20,
            episode_bytes: 16 << 20,
            servers: BTreeMap::new(),
        }
    }
}

/// The bounds of the numeric keys.
pub(super) const BOUNDS: [BoundRow; 5] = [
    ("timeout_seconds", 0.1, 86_400.0, "longest wait for one answer, in seconds"),
    ("startup_seconds", 0.0, 86_400.0, "what a new process gets on top of that"),
    ("workers", 1.0, 1024.0, "most processes, and so most episodes at the same time"),
    ("line_bytes", 1024.0, LINE_BYTES_MAX as f64, "longest line that is read"),
    ("episode_bytes", 1024.0, (1_u64 << 40) as f64, "most bytes that are read in one episode"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is missing or out of bounds.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        if self.command.first().is_none_or(String::is_empty) {
            let problem = "name the program that is the environment, such as [\"python3\", \"guess.py\"]";
            return Err(config_error("command", problem));
        }
        check_bounds(self, &BOUNDS)
    }

    /// The folder in which relative paths are looked up.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.base_dir.as_deref().filter(|folder| !folder.is_empty()).map(Path::new)
    }

    /// The command as a person would write it.
    pub(super) fn name(&self) -> String {
        self.command.join(" ")
    }

    /// The files that the command names: the program, unless it is looked up in PATH or is given by an absolute path, as
    /// an interpreter is, and arguments that are files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let folder = self.folder().unwrap_or(Path::new(""));
        let is_own = |(at, word): &(usize, &String)| {
            *at > 0 || (word.contains('/') && Path::new(word.as_str()).is_relative())
        };
        let words = self.command.iter().enumerate().filter(is_own).map(|(_, word)| folder.join(word));
        words.filter(|path| path.is_file()).collect()
    }

    /// The time limit for an answer.
    pub(super) fn patience(&self, is_fresh: bool) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds + if is_fresh { self.startup_seconds } else { 0.0 })
    }
}
