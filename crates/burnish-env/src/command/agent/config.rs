//! The configuration of the environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::config as command;
use crate::settings::check_bounds;
use crate::{BoundRow, EnvError};

/// The configuration of a program that asks the policy by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Program and arguments (`["python3", "agent.py"]`); no shell is involved.
    pub command: Vec<String>,
    /// The folder in which it runs and is looked up. Empty: the current one.
    pub base_dir: Option<String>,
    /// What the program is told when it starts: its own configuration.
    pub settings: Map<String, Value>,
    /// Longest wait for the program's next request, or for its end, in seconds.
    pub timeout_seconds: f64,
    /// Additional time for a newly started process, for its imports.
    pub startup_seconds: f64,
    /// Most processes, and so most episodes that are played at the same time.
    pub workers: usize,
    /// Longest line that is read, in bytes.
    pub line_bytes: u64,
    /// Longest request to the policy that is read, in bytes.
    pub request_bytes: usize,
    /// Most requests of one episode that wait for their answers at the same time.
    pub waiting: usize,
}

impl Default for Config {
    fn default() -> Self {
        let command::Config {
            command,
            base_dir,
            settings,
            timeout_seconds,
            startup_seconds,
            workers,
            line_bytes,
            ..
        } = command::Config::default();
        Config {
            command,
            base_dir,
            settings,
            timeout_seconds,
            startup_seconds,
            workers,
            line_bytes,
            request_bytes: 4 << 20,
            waiting: 16,
        }
    }
}

/// The bounds of the numeric keys.
pub(super) const BOUNDS: &[BoundRow] = {
    let [timeout, startup, workers, line, _] = command::BOUNDS;
    &[
        timeout,
        startup,
        workers,
        line,
        ("request_bytes", 1024.0, (1_u64 << 30) as f64, "longest request to the policy that is read"),
        ("waiting", 1.0, 1024.0, "most requests of one episode that wait at the same time"),
    ]
};

impl Config {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the first key that is out of bounds.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)
    }

    /// How its processes are started and asked.
    pub(super) fn processes(&self) -> command::Config {
        let Config {
            command, base_dir, settings, timeout_seconds, startup_seconds, workers, line_bytes, ..
        } = self.clone();
        // One answer is all that is read in an episode.
        let episode_bytes = line_bytes;
        command::Config {
            command,
            base_dir,
            settings,
            timeout_seconds,
            startup_seconds,
            workers,
            line_bytes,
            episode_bytes,
            // An agent calls its tools itself.
            servers: BTreeMap::new(),
        }
    }
}
