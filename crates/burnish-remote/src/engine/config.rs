use std::path::PathBuf;
use std::time::Duration;

use burnish_http::Patience;
use serde::{Deserialize, Serialize};

/// Which engine samples, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// Whose wire format the servers speak.
    pub kind: EngineKind,
    /// The addresses of the replicas, such as `http://localhost:8000`. All serve the same model.
    pub urls: Vec<String>,
    /// The model's name there, if a vLLM serves several; otherwise the first that it lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The environment variable that holds the key; without it no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Most requests to a replica at the same time.
    #[serde(default = "requests_max")]
    pub requests_max: usize,
    /// The folder in which new weights are handed over; the servers must see it. By default it is in the run directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_dir: Option<PathBuf>,
    /// The path of that folder on the servers' machines, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_dir_there: Option<PathBuf>,
    /// Whether an adapter is handed over as it is, and not merged into its base, which the servers must serve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adapters: bool,
    /// Longest wait for one answer, in seconds.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: f64,
    /// Longest wait for each state of an update of the weights, in seconds.
    #[serde(default = "timeout_seconds")]
    pub update_seconds: f64,
    /// Further tries of a request before its replica is taken to be dead.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Wait before the second try, in seconds; it doubles with every further try.
    #[serde(default = "retry_wait_seconds")]
    pub retry_wait_seconds: f64,
    /// Most that the log-probs of a replica may differ from those of the weights that it was given, in nats per token,
    /// in the mean over a known text.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
}

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// vLLM, in its development mode.
    Vllm,
    /// SGLang.
    Sglang,
}

fn requests_max() -> usize {
    256
}

fn timeout_seconds() -> f64 {
    600.0
}

fn retries() -> u32 {
    2
}

fn retry_wait_seconds() -> f64 {
    0.5
}

fn tolerance() -> f64 {
    0.05
}

impl EngineConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the key that is wrong, and what it may be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let is_address = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        let is_time = |seconds: f64| seconds > 0.0 && seconds <= 86_400.0;
        let rules = [
            (
                "urls",
                !self.urls.is_empty() && self.urls.iter().all(is_address),
                "must list addresses that begin with http:// or https://",
            ),
            ("requests_max", (1..=65_536).contains(&self.requests_max), "must be between 1 and 65536"),
            ("timeout_seconds", is_time(self.timeout_seconds), "must be above 0, and a day at most"),
            ("update_seconds", is_time(self.update_seconds), "must be above 0, and a day at most"),
            ("retries", self.retries <= 100, "must be 100 or less"),
            ("retry_wait_seconds", is_time(self.retry_wait_seconds), "must be above 0, and a day at most"),
            ("tolerance", self.tolerance > 0.0 && self.tolerance.is_finite(), "must be above 0"),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, rule)) => Err((key, rule)),
            None => Ok(()),
        }
    }

    /// How long an answer is waited for.
    pub(super) fn patience(&self) -> Patience {
        Patience {
            timeout: Duration::from_secs_f64(self.timeout_seconds),
            retries: self.retries,
            wait: Duration::from_secs_f64(self.retry_wait_seconds),
        }
    }
}
