//! The configuration of the environment.

use std::time::Duration;

use burnish_core::Repeating;
use burnish_http::{Patience, Server, key_from};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// Wait before a request is repeated that failed.
const WAIT: Duration = Duration::from_millis(500);
/// Further tries of what is asked outside of sessions.
const RETRIES: u32 = 3;

/// The configuration of an environment that is served over OpenEnv.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address of the server (`http://localhost:8000`).
    pub url: String,
    /// Environment variable with the key that it asks for, which is sent as a bearer token.
    pub api_key_env: Option<String>,
    /// What the policy reads before the first observation, as the system's message. Empty: nothing.
    pub prompt: String,
    /// Further parameters of `reset`, beside `seed`.
    pub reset: Map<String, Value>,
    /// Fields of every action that are the same each time.
    pub action: Map<String, Value>,
    /// The field of an action that the policy's answer fills. Empty: the only one that is left to fill, or else a tool that
    /// takes all of them.
    pub answer: String,
    /// The part of an observation that the policy reads, with dots between keys. Empty: all of it.
    pub observation: String,
    /// Which of an episode's rewards count.
    pub reward: Counted,
    /// Least reward of an episode that is a success.
    pub success_at: f64,
    /// What it means to take a step again.
    pub repeating: Repeats,
    /// Most sessions, and so most episodes at the same time. A server that allows fewer is asked for as many as it allows.
    pub sessions: usize,
    /// Longest wait for one answer, in seconds.
    pub timeout_seconds: f64,
    /// Longest answer that is read, in bytes.
    pub message_bytes: usize,
    /// Most bytes that are read in one episode.
    pub episode_bytes: u64,
}

/// Which of an episode's rewards count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Their sum.
    Sum,
    /// The last one.
    Last,
}

/// What it means to take a step again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// The seed and the actions decide everything.
    Rebuilt,
    /// Steps change the world, or chance decides.
    Outside,
}

impl From<Repeats> for Repeating {
    fn from(repeats: Repeats) -> Self {
        match repeats {
            Repeats::Rebuilt => Repeating::Rebuilt,
            Repeats::Outside => Repeating::Outside,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            url: String::new(),
            api_key_env: None,
            prompt: String::new(),
            reset: Map::new(),
            action: Map::new(),
            answer: String::new(),
            observation: String::new(),
            reward: Counted::Sum,
            success_at: 1.0,
            repeating: Repeats::Outside,
            sessions: 16,
            timeout_seconds: 60.0,
            message_bytes: 4 << 20,
            episode_bytes: 64 << 20,
        }
    }
}

/// The bounds of the numeric keys.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("success_at", -1e9, 1e9, "least reward of an episode that is a success"),
    ("sessions", 1.0, 1024.0, "most sessions, and so most episodes at the same time"),
    ("timeout_seconds", 0.1, 86_400.0, "longest wait for one answer, in seconds"),
    ("message_bytes", 1024.0, (1_u64 << 30) as f64, "longest answer that is read"),
    ("episode_bytes", 1024.0, (1_u64 << 40) as f64, "most bytes that are read in one episode"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is missing or out of bounds.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        if self.url.is_empty() {
            return Err(config_error("url", "name the server, such as \"http://localhost:8000\""));
        }
        if !self.answer.is_empty() && self.action.contains_key(&self.answer) {
            let problem =
                format!("`{}` is a field of `action` already, so the answer can't fill it", self.answer);
            return Err(config_error("answer", &problem));
        }
        if self.reset.contains_key("seed") {
            return Err(config_error("reset", "the seed is the task's; leave `seed` out"));
        }
        check_bounds(self, BOUNDS)
    }

    /// The server, of which nothing is asked yet.
    ///
    /// # Errors
    /// If the address is none, or the key is missing.
    pub(super) fn server(&self) -> Result<Server, EnvError> {
        // OpenEnv's own clients take both.
        let url = match self.url.split_once("://") {
            Some(("ws", rest)) => format!("http://{rest}"),
            Some(("wss", rest)) => format!("https://{rest}"),
            _ => self.url.clone(),
        };
        let key = self.api_key_env.as_ref().map(|variable| key_from(variable, &url)).transpose();
        let key = key.map_err(|error| config_error("api_key_env", &error.to_string()))?;
        let patience = Patience { timeout: self.timeout(), retries: RETRIES, wait: WAIT };
        Server::new(&url, key.as_deref(), patience).map_err(|error| config_error("url", &error.to_string()))
    }

    /// The time limit for an answer.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }
}
