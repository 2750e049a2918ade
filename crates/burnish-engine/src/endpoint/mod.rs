//! Answers from a server that speaks OpenAI's wire format: `POST URL/chat/completions`.
//!
//! One request at a time, over HTTP or HTTPS. Failures that may be temporary are tried again: no answer in time, a
//! failed connection, the statuses 408, 409, 429 and 5xx. Everything else is an error that names the endpoint and what
//! it said.

use std::time::Duration;

use burnish_core::{Message, ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Body, RequestBuilder};

mod policy;
mod stream;
#[cfg(test)]
mod streaming_tests;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;
mod wire;

pub use policy::EndpointPolicy;
pub use stream::Delta;

/// Longest wait before another try, whatever the server asks for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Number of characters of a server's error message that are shown.
const SHOWN: usize = 300;

/// Where a model is served, and how often and how long it is tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    /// The address above `/chat/completions`, such as `http://localhost:8000/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The environment variable that holds the key; without it no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Longest wait for one answer, in seconds.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: f64,
    /// Further tries after a failure that may be temporary.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Wait before the second try, in seconds; it doubles with every further try.
    #[serde(default = "retry_wait_seconds")]
    pub retry_wait_seconds: f64,
}

fn timeout_seconds() -> f64 {
    60.0
}

fn retries() -> u32 {
    4
}

fn retry_wait_seconds() -> f64 {
    1.0
}

impl EndpointConfig {
    /// A model at an address, with the default timeout and retries.
    pub fn new(url: impl Into<String>, model: impl Into<String>, api_key_env: Option<String>) -> Self {
        EndpointConfig {
            url: url.into(),
            model: model.into(),
            api_key_env,
            timeout_seconds: timeout_seconds(),
            retries: retries(),
            retry_wait_seconds: retry_wait_seconds(),
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the key that is wrong, and what it may be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let is_time = |seconds: f64| (0.0..=86_400.0).contains(&seconds);
        let rules = [
            (
                "url",
                self.url.starts_with("http://") || self.url.starts_with("https://"),
                "must begin with http:// or https://",
            ),
            ("model", !self.model.is_empty(), "must name the model as the server does"),
            (
                "timeout_seconds",
                self.timeout_seconds > 0.0 && is_time(self.timeout_seconds),
                "must be above 0, and a day at most",
            ),
            ("retries", self.retries <= 100, "must be 100 or less"),
            ("retry_wait_seconds", is_time(self.retry_wait_seconds), "must be 0 or more, and a day at most"),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, rule)) => Err((key, rule)),
            None => Ok(()),
        }
    }
}

/// One question to a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest<'a> {
    /// The conversation: roles, texts and tool calls are sent.
    pub messages: &'a [Message],
    /// Tools that may be called.
    pub tools: &'a [ToolSpec],
    /// 0 is greedy.
    pub temperature: f32,
    /// Most tokens in the answer.
    pub tokens_max: usize,
    /// Determines the answer, if the server supports that.
    pub seed: u64,
}

/// The answer of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatAnswer {
    /// The text. A malformed call stays in it as it came.
    pub content: String,
    /// Thoughts, if the server keeps them apart.
    pub reasoning_content: Option<String>,
    /// The tools that it calls.
    pub calls: Vec<ToolCall>,
    /// For each malformed call, why it could not be read.
    pub malformed: Vec<String>,
    /// Why the answer ended, in the server's words (`stop`, `length` ...).
    pub finish_reason: Option<String>,
}

/// Why an endpoint gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The key is missing.
    #[error("the environment variable `{variable}` must hold the key for {url}, but it is not set")]
    NoKey {
        /// The endpoint.
        url: String,
        /// The variable.
        variable: String,
    },
    /// The server refused.
    #[error("POST {url}: status {status} after {tries} tries: {said}")]
    Status {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// Number of requests sent.
        tries: u32,
        /// The beginning of the response's text.
        said: String,
    },
    /// No answer came.
    #[error("POST {url}: no answer after {tries} tries: {problem}")]
    Connection {
        /// The endpoint.
        url: String,
        /// Number of requests sent.
        tries: u32,
        /// What went wrong.
        problem: String,
    },
    /// The answer began and did not end.
    #[error("POST {url}: the answer broke off: {problem}")]
    Broken {
        /// The endpoint.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// The answer does not follow the wire format.
    #[error("POST {url}: the answer is not a chat completion: {problem}")]
    Malformed {
        /// The endpoint.
        url: String,
        /// What is missing or wrong.
        problem: String,
    },
}

/// A model at an address.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    url: String,
    key: Option<String>,
    agent: ureq::Agent,
}

/// How one try failed.
enum Miss {
    /// It may be temporary; the server may say how long to wait.
    Retryable(EndpointError, Option<Duration>),
    /// It is permanent.
    Fatal(EndpointError),
}

impl Endpoint {
    /// Reads the key; nothing is sent yet.
    ///
    /// # Errors
    /// If a key is required and missing.
    pub fn new(config: EndpointConfig) -> Result<Self, EndpointError> {
        let url = format!("{}/chat/completions", config.url.trim_end_matches('/'));
        let key = match &config.api_key_env {
            None => None,
            Some(variable) => Some(
                std::env::var(variable)
                    .ok()
                    .filter(|key| !key.is_empty())
                    .ok_or_else(|| EndpointError::NoKey { url: url.clone(), variable: variable.clone() })?,
            ),
        };
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs_f64(config.timeout_seconds)))
            .http_status_as_error(false)
            .build()
            .into();
        Ok(Endpoint { config, url, key, agent })
    }

    /// The address of its chat completions.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks, and tries again after failures that may be temporary.
    ///
    /// # Errors
    /// Names the endpoint, and its status or what else went wrong.
    pub fn chat(&self, request: &ChatRequest<'_>) -> Result<ChatAnswer, EndpointError> {
        let body = text_of(&self.body(request));
        self.until_answered(|tries| {
            let mut response = self.send(self.post(), &body, tries)?;
            let text = response.body_mut().read_to_string().map_err(|error| self.lost(error, tries))?;
            wire::answer(&text).map_err(|problem| self.malformed(problem))
        })
    }

    /// Tries until there is an answer or a failure that lasts. `once` is told how often that makes.
    fn until_answered<T>(&self, mut once: impl FnMut(u32) -> Result<T, Miss>) -> Result<T, EndpointError> {
        let mut wait = Duration::from_secs_f64(self.config.retry_wait_seconds);
        let mut tries = 1;
        loop {
            let (error, asked) = match once(tries) {
                Ok(answer) => return Ok(answer),
                Err(Miss::Fatal(error)) => return Err(error),
                Err(Miss::Retryable(error, asked)) => (error, asked),
            };
            if tries > self.config.retries {
                return Err(error);
            }
            std::thread::sleep(asked.unwrap_or(wait).min(WAIT_MAX));
            wait = (2 * wait).min(WAIT_MAX);
            tries += 1;
        }
    }

    fn body(&self, request: &ChatRequest<'_>) -> Value {
        let mut body = json!({
            "model": self.config.model,
            "messages": wire::messages(request.messages),
            "temperature": request.temperature,
            "max_tokens": request.tokens_max,
            "seed": request.seed,
        });
        if !request.tools.is_empty() {
            body["tools"] = wire::tools(request.tools);
        }
        body
    }

    fn post(&self) -> RequestBuilder<WithBody> {
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// Sends a request. Returns the response once its status says that there is an answer.
    fn send(
        &self,
        request: RequestBuilder<WithBody>,
        body: &str,
        tries: u32,
    ) -> Result<Response<Body>, Miss> {
        let mut response = request.send(body).map_err(|error| self.lost(error, tries))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let text = response.body_mut().read_to_string().map_err(|error| self.lost(error, tries))?;
        let error = EndpointError::Status { url: self.url.clone(), status, tries, said: complaint(&text) };
        match status {
            408 | 409 | 429 | 500.. => Err(Miss::Retryable(error, asked.map(Duration::from_secs))),
            _ => Err(Miss::Fatal(error)),
        }
    }

    fn lost(&self, error: ureq::Error, tries: u32) -> Miss {
        let (url, problem) = (self.url.clone(), error.to_string());
        let lasting = matches!(error, ureq::Error::BadUri(_) | ureq::Error::Tls(_));
        let error = EndpointError::Connection { url, tries, problem };
        if lasting { Miss::Fatal(error) } else { Miss::Retryable(error, None) }
    }

    fn malformed(&self, problem: String) -> Miss {
        Miss::Fatal(EndpointError::Malformed { url: self.url.clone(), problem })
    }
}

fn text_of(body: &Value) -> String {
    burnish_core::json::text(body).unwrap_or_else(|_| body.to_string())
}

/// The message of an error in the wire format, or else the text as it is.
fn complaint(text: &str) -> String {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let message = value.as_ref().and_then(|value| value["error"]["message"].as_str());
    shortened(message.unwrap_or(text))
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}
