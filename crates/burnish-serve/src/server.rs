//! The server: routes, and who is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use burnish_core::{Trace, TurnOutput};
use burnish_http::{Answer, Asked, Limits, Listening, listen};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::answer::{self, Decode};
use crate::{ChatRequest, Refusal};

/// What follows the part of a path that says who asks.
const COMPLETIONS: &str = "/v1/chat/completions";
const MODELS: &str = "/v1/models";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What stands before `/v1` in the path (empty in `http://127.0.0.1:8000/v1`).
    pub base: String,
    /// The key, if one was sent.
    pub key: Option<String>,
}

/// An answer: what was said, and the trace with it at its head.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// The trace. It is empty if the policy records no tokens.
    pub trace: Trace,
    /// What was said.
    pub output: TurnOutput,
}

/// Whoever answers requests. Called on the thread that moves connections, so nothing here may take long: answers are
/// given through the [`Reply`], from wherever they are made.
pub trait Backend: Send + Sync + 'static {
    /// The names of the models that the caller may ask.
    ///
    /// # Errors
    /// Why the caller may not ask.
    fn models(&self, caller: &Caller) -> Result<Vec<String>, Refusal>;

    /// Takes a request for one of these models.
    fn ask(&self, caller: Caller, request: ChatRequest, reply: Reply);
}

/// Where the answers to a request go.
#[derive(Debug)]
pub struct Reply(oneshot::Sender<Result<Vec<Spoken>, Refusal>>);

impl Reply {
    /// Gives the answers, one for each that was asked for, or says why there are none.
    pub fn send(self, answers: Result<Vec<Spoken>, Refusal>) {
        // The client may have gone.
        let _ = self.0.send(answers);
    }

    /// Has the client gone?
    pub fn is_given_up(&self) -> bool {
        self.0.is_closed()
    }
}

/// How a server listens.
#[derive(Clone)]
pub struct ServerConfig {
    /// Address and port, as `127.0.0.1:8000`; port 0 takes a free one.
    pub address: String,
    /// Most bytes of a request.
    pub request_bytes: usize,
    /// Most connections at the same time.
    pub connections: usize,
    /// Gives the texts of tokens, for log-probs. Without it they are written as `token_id:N`.
    pub decode: Option<Decode>,
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    listening: Listening,
}

struct Routes<B> {
    backend: Arc<B>,
    decode: Option<Decode>,
    answered: AtomicU64,
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the address is none or taken.
    pub fn start(config: ServerConfig, backend: Arc<impl Backend>) -> std::io::Result<Self> {
        let ServerConfig { address, request_bytes, connections, decode } = config;
        let routes = Arc::new(Routes { backend, decode, answered: AtomicU64::new(0) });
        let limits = Limits { body_bytes: request_bytes, connections };
        let listening = listen(&address, limits, move |asked| {
            let routes = Arc::clone(&routes);
            async move { routes.answer(asked).await.unwrap_or_else(|refusal| refused(&refusal)) }
        })?;
        Ok(Server { listening })
    }

    /// The address below which `/v1` is, such as `http://127.0.0.1:8000`.
    pub fn url(&self) -> String {
        format!("http://{}", self.listening.address())
    }
}

fn refused(refusal: &Refusal) -> Answer {
    json_answer(refusal.status, &refusal.body())
}

fn json_answer(status: u16, body: &Value) -> Answer {
    Answer { status, content_type: "application/json", body: body.to_string() }
}

impl<B: Backend> Routes<B> {
    async fn answer(&self, asked: Asked) -> Result<Answer, Refusal> {
        let Asked { method, path, key, body } = asked;
        let path = path.strip_suffix('/').unwrap_or(&path);
        let caller = |base: &str| Caller { base: base.to_owned(), key: key.clone() };
        let expect = |wanted: &str| match method == wanted {
            true => Ok(()),
            false => Err(Refusal::because(
                405,
                "method_not_allowed",
                format!("{path} takes {wanted}, not {method}"),
            )),
        };
        if let Some(base) = path.strip_suffix(MODELS) {
            expect("GET")?;
            return Ok(json_answer(200, &models(&self.backend.models(&caller(base))?)));
        }
        let Some(base) = path.strip_suffix(COMPLETIONS) else {
            let message = format!("there is no {path} here: there are {COMPLETIONS} and {MODELS}");
            return Err(Refusal::because(404, "unknown_path", message));
        };
        expect("POST")?;
        let caller = caller(base);
        let models = self.backend.models(&caller)?;
        let body = body.map_err(|error| Refusal::because(413, "request_too_long", error.to_string()))?;
        let request = ChatRequest::read(&body)?;
        if !models.contains(&request.model) {
            let names = models.join("`, `");
            let message = format!("there is no model `{}` here: ask `{names}`", request.model);
            return Err(Refusal {
                param: Some("model".to_owned()),
                ..Refusal::because(404, "model_not_found", message)
            });
        }
        let (reply, answers) = oneshot::channel();
        self.backend.ask(caller, request.clone(), Reply(reply));
        let gone = || Refusal::because(503, "not_answered", "whoever answers here has stopped");
        let spoken = answers.await.map_err(|_| gone())??;
        let number = self.answered.fetch_add(1, Ordering::Relaxed);
        let (content_type, body) = answer::body(&request, &spoken, self.decode.as_ref(), number)?;
        Ok(Answer { status: 200, content_type, body })
    }
}

fn models(names: &[String]) -> Value {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let model =
        |name: &String| json!({"id": name, "object": "model", "created": created, "owned_by": "burnish"});
    json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
}
