//! Requests and their futures: a request is answered with a number, under which its result is asked for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use burnish_http::{HttpError, Patience, Server, key_from, shortened, sleep};
use serde_json::{Value, json};

use super::error::Failure;
use super::{TinkerConfig, TinkerError};

/// Longest that a server holds a question after a result back; Tinker's and SkyRL's answer earlier, with 408.
const HELD: Duration = Duration::from_secs(360);
/// Waits between tries while a server is away.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// May a request be sent again if it is not known whether the server got it?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Its work is done twice at worst.
    Yes,
    /// It would change weights twice.
    No,
}

/// A server of Tinker's API.
#[derive(Debug)]
pub(super) struct Client {
    server: Server,
    timeout: Duration,
    away: Duration,
    /// Numbers the requests.
    requests: AtomicU64,
}

impl Client {
    pub(super) fn new(config: &TinkerConfig) -> Result<Self, TinkerError> {
        let root = config.url.trim_end_matches('/');
        let root = root.strip_suffix("/api/v1").unwrap_or(root);
        let key = config.api_key_env.as_ref().map(|variable| key_from(variable, root)).transpose()?;
        let timeout = config.timeout().min(HELD);
        // Tries are counted here, since they depend on what is asked for.
        let patience = Patience { timeout, retries: 0, wait: Duration::ZERO };
        let mut server = Server::new(&format!("{root}/api/v1"), None, patience)?;
        if let Some(key) = key {
            server = server.with_header("x-api-key", &key)?;
        }
        Ok(Client { server, timeout: config.timeout(), away: config.away(), requests: AtomicU64::new(1) })
    }

    pub(super) fn url(&self) -> &str {
        self.server.url()
    }

    pub(super) fn unfit(&self, problem: impl Into<String>) -> TinkerError {
        TinkerError::Unfit { url: self.url().to_owned(), problem: problem.into() }
    }

    /// A number that no other request has.
    pub(super) fn next_number(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// The models that it serves.
    pub(super) async fn models(&self) -> Result<Vec<String>, TinkerError> {
        let answer = self.server.get("/get_server_capabilities").json().await?;
        let models = answer["supported_models"].as_array().into_iter().flatten();
        let names: Vec<String> =
            models.filter_map(|model| model["model_name"].as_str()).map(str::to_owned).collect();
        if names.is_empty() {
            let said = shortened(&answer.to_string());
            return Err(self.unfit(format!("it names no model that it serves: {said}")));
        }
        Ok(names)
    }

    /// An answer that comes at once.
    pub(super) async fn direct(&self, path: &str, body: &str, repeat: Repeat) -> Result<Value, Failure> {
        let (began, mut wait) = (Instant::now(), WAITS.0);
        loop {
            let error = match self.server.post(path, body.to_owned()).json().await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_refusal() => return Err(self.refused(path, error)),
                Err(error) if repeat == Repeat::No => return Err(Failure::Lost(error.to_string())),
                Err(error) => error,
            };
            if began.elapsed() > self.away {
                return Err(Failure::Fatal(error.into()));
            }
            sleep(wait).await;
            wait = (2 * wait).min(WAITS.1);
        }
    }

    /// The result of a request.
    pub(super) async fn result(&self, path: &str, body: &str, repeat: Repeat) -> Result<Value, Failure> {
        let id = self.submit(path, body, repeat).await?;
        self.retrieve(path, &id).await
    }

    /// Sends a request. Returns the number of its result.
    pub(super) async fn submit(&self, path: &str, body: &str, repeat: Repeat) -> Result<String, Failure> {
        let answer = self.direct(path, body, repeat).await?;
        match &answer["request_id"] {
            Value::String(id) => Ok(id.clone()),
            Value::Number(id) => Ok(id.to_string()),
            _ => {
                let problem = format!("no `request_id` in the answer: {}", shortened(&answer.to_string()));
                Err(self.failed(path, problem).into())
            }
        }
    }

    /// The result under a number, once there is one.
    pub(super) async fn retrieve(&self, path: &str, id: &str) -> Result<Value, Failure> {
        let body = json!({ "request_id": id }).to_string();
        let began = Instant::now();
        let (mut gone, mut wait) = (None, WAITS.0);
        while began.elapsed() < self.timeout {
            match self.server.post("/retrieve_future", body.clone()).json().await {
                Ok(answer) if answer["type"] == "try_again" => {}
                Ok(answer) => match answer["error"].as_str() {
                    Some(problem) if is_of_lost_model(problem) => {
                        return Err(Failure::Lost(problem.to_owned()));
                    }
                    Some(problem) => return Err(self.failed(path, problem.to_owned()).into()),
                    None => return Ok(answer),
                },
                // It is not done yet.
                Err(HttpError::Status { status: 408, .. }) => {}
                Err(error) if error.is_refusal() => return Err(self.refused(path, error)),
                Err(error) => {
                    let since = *gone.get_or_insert_with(Instant::now);
                    if since.elapsed() > self.away {
                        return Err(Failure::Fatal(error.into()));
                    }
                    sleep(wait).await;
                    wait = (2 * wait).min(WAITS.1);
                    continue;
                }
            }
            (gone, wait) = (None, WAITS.0);
        }
        let problem = format!("no result after {} s", self.timeout.as_secs_f64());
        Err(self.failed(path, problem).into())
    }

    fn refused(&self, path: &str, error: HttpError) -> Failure {
        match &error {
            HttpError::Status { said, .. } if is_of_lost_model(said) => Failure::Lost(error.to_string()),
            // The result has been thrown away.
            HttpError::Status { status: 410, .. } => Failure::Lost(error.to_string()),
            HttpError::Status { said, .. } => self.failed(path, said.clone()).into(),
            _ => Failure::Fatal(error.into()),
        }
    }

    fn failed(&self, path: &str, problem: String) -> TinkerError {
        let request = path.trim_start_matches('/').to_owned();
        TinkerError::Failed { url: self.url().to_owned(), request, problem }
    }
}

/// Whether a server says that it does not have a model, a session or a result that it once had.
fn is_of_lost_model(said: &str) -> bool {
    let said = said.to_lowercase();
    let is_lost = ["not loaded", "not found", "expired"].iter().any(|words| said.contains(words));
    // The name of a checkpoint has that of its model in it.
    is_lost
        && !said.contains("checkpoint")
        && ["model", "session", "future"].iter().any(|what| said.contains(what))
}
