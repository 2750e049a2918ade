//! One session with a server, over its WebSocket: a message, then its answer.

use burnish_core::json;
use burnish_http::{HttpError, Server, WebSocket, block_on, shortened, timeout};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::config::Config;

/// A session; the server has an environment of its own for it.
#[derive(Debug)]
pub(super) struct Session {
    socket: WebSocket,
    /// Longest answer that it reads.
    message_bytes: usize,
    /// Bytes of answers in this episode.
    read: u64,
}

/// What a server says of an opening or a step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Observed {
    /// What there is to see.
    pub(super) observation: Value,
    /// The reward of this step. Some servers say true and false.
    #[serde(default)]
    pub(super) reward: Value,
    /// Is the episode over?
    #[serde(default)]
    pub(super) done: bool,
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// The action is none that the environment takes.
    Refused(String),
    /// The environment failed; the session can be asked further.
    Failed(String),
    /// The server has no room for another session.
    Full(String),
    /// The session is no more.
    Broken(String),
}

impl Failure {
    /// In words.
    pub(super) fn said(self) -> String {
        match self {
            Failure::Refused(said) | Failure::Failed(said) | Failure::Full(said) | Failure::Broken(said) => {
                said
            }
        }
    }
}

impl Session {
    /// Opens a session, and sees that the server has room for it.
    ///
    /// # Errors
    /// If it has none, or can't be reached.
    pub(super) fn open(server: &Server, config: &Config) -> Result<Self, Failure> {
        let opened = block_on(server.websocket("/ws", config.message_bytes));
        let socket = opened.map_err(|error| Failure::Broken(error.to_string()))?.map_err(broken)?;
        let mut session = Session { socket, message_bytes: config.message_bytes, read: 0 };
        // A server without room says so and closes the connection; any other answers.
        match session.ask(&json!({"type": "state"}), config) {
            Ok(_) | Err(Failure::Refused(_) | Failure::Failed(_)) => Ok(session),
            Err(failure) => Err(failure),
        }
    }

    /// Does it read what this configuration allows?
    pub(super) fn fits(&self, config: &Config) -> bool {
        self.message_bytes == config.message_bytes
    }

    /// Starts an episode.
    ///
    /// # Errors
    /// If the environment does not answer with what there is to see.
    pub(super) fn reset(&mut self, seed: u32, config: &Config) -> Result<Observed, Failure> {
        self.read = 0;
        let mut data = config.reset.clone();
        data.insert("seed".to_owned(), seed.into());
        self.observed("reset", data, config)
    }

    /// Takes a step.
    ///
    /// # Errors
    /// As [`Session::reset`]; also if the action is refused.
    pub(super) fn step(&mut self, action: Map<String, Value>, config: &Config) -> Result<Observed, Failure> {
        self.observed("step", action, config)
    }

    fn observed(
        &mut self,
        what: &str,
        data: Map<String, Value>,
        config: &Config,
    ) -> Result<Observed, Failure> {
        let told = self.ask(&json!({"type": what, "data": data}), config)?;
        serde_json::from_value(told).map_err(|error| {
            Failure::Broken(format!("the server's answer to `{what}` is no observation: {error}"))
        })
    }

    /// Sends a message; returns the `data` of the answer.
    fn ask(&mut self, message: &Value, config: &Config) -> Result<Value, Failure> {
        // A server that has closed may have said why, and that can still be read; otherwise reading fails as sending did.
        let _ = self.socket.send(json::line(message));
        let answer = block_on(timeout(config.timeout(), self.socket.receive()));
        let answer = answer.map_err(|error| Failure::Broken(error.to_string()))?;
        let text = answer
            .unwrap_or_else(|| {
                let problem = format!(
                    "no answer within {} s; raise timeout_seconds if it needs longer",
                    config.timeout_seconds
                );
                Err(HttpError::Broken {
                    call: format!("`{}`", message["type"].as_str().unwrap_or_default()),
                    problem,
                })
            })
            .map_err(broken)?;
        self.read += text.len() as u64;
        if self.read > config.episode_bytes {
            let problem = format!(
                "the server sent more than {} bytes in one episode; episode_bytes is the limit",
                config.episode_bytes
            );
            return Err(Failure::Broken(problem));
        }
        read(&text)
    }
}

fn broken(error: HttpError) -> Failure {
    Failure::Broken(error.to_string())
}

/// An answer of the server.
#[derive(Deserialize)]
struct Answer {
    r#type: String,
    data: Value,
}

fn read(text: &str) -> Result<Value, Failure> {
    let answer: Answer = json::read(text).map_err(|error| {
        Failure::Broken(format!("the server's answer is none ({error}): {}", shortened(text)))
    })?;
    if answer.r#type != "error" {
        return Ok(answer.data);
    }
    let message = answer.data["message"].as_str().unwrap_or("it does not say what");
    Err(match answer.data["code"].as_str().unwrap_or_default() {
        "VALIDATION_ERROR" => Failure::Refused(refusal(message, &answer.data["errors"])),
        "CAPACITY_REACHED" => Failure::Full(format!("the server has no room: {message}")),
        "FACTORY_ERROR" | "SESSION_ERROR" => Failure::Broken(format!("the server says: {message}")),
        _ => Failure::Failed(format!("the environment says: {message}")),
    })
}

/// What is wrong with an action, by field, as pydantic says it.
fn refusal(message: &str, errors: &Value) -> String {
    let said = |error: &Value| {
        let place = error["loc"].as_array().into_iter().flatten().map(|part| match part {
            Value::String(key) => key.clone(),
            other => other.to_string(),
        });
        let place: Vec<String> = place.collect();
        Some(format!("`{}`: {}", place.join("."), error["msg"].as_str()?))
    };
    let said: Vec<String> = errors.as_array().into_iter().flatten().filter_map(said).collect();
    if said.is_empty() { message.to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn errors_are_read_by_their_code() {
        let error = |data: Value| read(&json!({"type": "error", "data": data}).to_string()).unwrap_err();
        let errors =
            json!([{"loc": ["message"], "msg": "Field required"}, {"loc": ["a", 0], "msg": "too small"}]);
        assert_eq!(
            error(json!({"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": errors})),
            Failure::Refused("`message`: Field required; `a.0`: too small".to_owned())
        );
        assert!(matches!(error(json!({"message": "x", "code": "CAPACITY_REACHED"})), Failure::Full(_)));
        assert!(matches!(error(json!({"message": "x", "code": "FACTORY_ERROR"})), Failure::Broken(_)));
        assert!(matches!(error(json!({"message": "x", "code": "EXECUTION_ERROR"})), Failure::Failed(_)));
        assert!(matches!(error(json!({})), Failure::Failed(_)));
        for text in ["", "[]", "{\"type\": \"observation\"}", "nonsense"] {
            assert!(matches!(read(text).unwrap_err(), Failure::Broken(_)), "{text}");
        }
    }
}
