//! Answers from a server that speaks OpenAI's wire format: `POST URL/chat/completions`.

use std::time::Duration;

use burnish_core::{Message, ToolCall, ToolSpec, openai};
use burnish_http::{HttpError, Patience, Server, key_from};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod embeddings;
mod policy;
mod stream;
#[cfg(test)]
mod streaming_tests;
#[cfg(test)]
mod tests;
mod texts;
mod wire;

pub use policy::EndpointPolicy;
pub use stream::Delta;
pub use texts::Continuation;

/// Below a server's address.
const PATH: &str = "/chat/completions";

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

/// A model at an address.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    server: Server,
}

impl Endpoint {
    /// Reads the key; nothing is sent yet.
    ///
    /// # Errors
    /// If a key is required and missing, or the address is none.
    pub fn new(config: EndpointConfig) -> Result<Self, HttpError> {
        let key = config.api_key_env.as_ref().map(|variable| key_from(variable, &config.url)).transpose()?;
        let patience = Patience {
            timeout: Duration::from_secs_f64(config.timeout_seconds),
            retries: config.retries,
            wait: Duration::from_secs_f64(config.retry_wait_seconds),
        };
        let server = Server::new(&config.url, key.as_deref(), patience)?;
        Ok(Endpoint { config, server })
    }

    /// Asks, and tries again after failures that may be temporary.
    ///
    /// # Errors
    /// Names the endpoint, and its status or what else went wrong.
    pub async fn chat(&self, request: &ChatRequest<'_>) -> Result<ChatAnswer, HttpError> {
        let body = text_of(&self.body(request));
        let text = self.server.post(PATH, body).text().await?;
        wire::answer(&text).map_err(|problem| self.malformed(&problem))
    }

    fn body(&self, request: &ChatRequest<'_>) -> Value {
        let mut body = json!({
            "model": self.config.model,
            "messages": openai::messages(request.messages),
            "temperature": request.temperature,
            "max_tokens": request.tokens_max,
            "seed": request.seed,
        });
        if !request.tools.is_empty() {
            body["tools"] = openai::tools(request.tools);
        }
        body
    }

    /// What is called, for errors.
    fn call(&self) -> String {
        format!("POST {}{PATH}", self.server.url())
    }

    fn malformed(&self, problem: &str) -> HttpError {
        let problem = format!("the answer is not a chat completion: {problem}");
        HttpError::Malformed { call: self.call(), problem }
    }

    fn broken(&self, problem: String) -> HttpError {
        HttpError::Broken { call: self.call(), problem }
    }
}

fn text_of(body: &Value) -> String {
    burnish_core::json::line(body)
}
