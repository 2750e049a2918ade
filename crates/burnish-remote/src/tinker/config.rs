use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Which server trains, and how it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TinkerConfig {
    /// Whose wire format the server speaks.
    pub kind: TrainerKind,
    /// Its address, such as `http://localhost:8000`.
    pub url: String,
    /// The base model's name there; not needed where it serves one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// Rank of the adapter that is trained.
    #[serde(default = "rank")]
    pub rank: u32,
    /// By what the server divides a loss that it is told to add up. Found out when connecting, if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divides: Option<Divides>,
    /// The environment variable that holds the key; without it no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Most answers that are asked for at the same time.
    #[serde(default = "requests_max")]
    pub requests_max: usize,
    /// Longest wait for the result of one request, in seconds.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: f64,
    /// How long the server may be away before the run ends, in seconds.
    #[serde(default = "away_seconds")]
    pub away_seconds: f64,
}

/// Kinds of servers that train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainerKind {
    /// Tinker's API: Thinking Machines' own service, SkyRL's `tx`.
    Tinker,
}

/// By what a server divides the sum of the tokens' losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Divides {
    /// By nothing.
    Nothing,
    /// Each sequence's by the number of its tokens.
    Tokens,
    /// By the number of sequences of the update.
    Sequences,
    /// By both.
    TokensAndSequences,
}

impl Divides {
    pub(super) fn of(tokens: bool, sequences: bool) -> Self {
        match (tokens, sequences) {
            (false, false) => Divides::Nothing,
            (true, false) => Divides::Tokens,
            (false, true) => Divides::Sequences,
            (true, true) => Divides::TokensAndSequences,
        }
    }

    /// The number that undoes it for a sequence of so many tokens in an update of so many sequences.
    pub(super) fn undone(self, tokens: usize, sequences: usize) -> f64 {
        match self {
            Divides::Nothing => 1.0,
            Divides::Tokens => tokens as f64,
            Divides::Sequences => sequences as f64,
            Divides::TokensAndSequences => tokens as f64 * sequences as f64,
        }
    }

    /// In words, for a person.
    pub(super) fn told(self) -> &'static str {
        match self {
            Divides::Nothing => "adds losses up",
            Divides::Tokens => "divides losses by tokens",
            Divides::Sequences => "divides losses by sequences",
            Divides::TokensAndSequences => "divides losses by tokens and sequences",
        }
    }
}

fn rank() -> u32 {
    32
}

fn requests_max() -> usize {
    256
}

fn timeout_seconds() -> f64 {
    1800.0
}

fn away_seconds() -> f64 {
    600.0
}

impl TinkerConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the key that is wrong, and what it may be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let is_time = |seconds: f64| seconds > 0.0 && seconds <= 86_400.0;
        let is_address = self.url.starts_with("http://") || self.url.starts_with("https://");
        let rules = [
            ("url", is_address, "must be an address that begins with http:// or https://"),
            ("rank", (1..=4096).contains(&self.rank), "must be between 1 and 4096"),
            ("requests_max", (1..=65_536).contains(&self.requests_max), "must be between 1 and 65536"),
            ("timeout_seconds", is_time(self.timeout_seconds), "must be above 0, and a day at most"),
            ("away_seconds", is_time(self.away_seconds), "must be above 0, and a day at most"),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, rule)) => Err((key, rule)),
            None => Ok(()),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    pub(super) fn away(&self) -> Duration {
        Duration::from_secs_f64(self.away_seconds)
    }
}
