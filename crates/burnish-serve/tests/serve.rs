//! A policy behind an address, asked over HTTP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use burnish_core::{
    Abilities, Answered, Message, Policy, PolicyError, Sampling, Script, StopReason, Turn, TurnId,
};
use burnish_http::{HttpError, Patience, block_on};
use burnish_serve::{PolicyBackend, Served, Server, ServerConfig, Serving, serve_policy};
use serde_json::{Value, json};

/// A server that runs until it is stopped.
struct Running {
    server: Option<Server>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<Served>>,
}

impl Running {
    fn new<P: Policy>(key: Option<&str>, policy: impl FnOnce() -> P + Send + 'static) -> Self {
        let (backend, inbox) = PolicyBackend::new("m", key.map(str::to_owned));
        let decode: burnish_serve::Decode =
            Arc::new(|id| if id == 9 { "\u{FFFD}".into() } else { format!("<{id}>") });
        let config = ServerConfig {
            address: "127.0.0.1:0".to_owned(),
            request_bytes: 10_000,
            connections: 64,
            decode: Some(decode),
        };
        let server = Some(Server::start(config, Arc::new(backend)).unwrap());
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopped);
        let serving = Serving { defaults: Sampling::at(0.5, 8), tokens_max: 100, seed: 1 };
        let thread =
            spawn(move || serve_policy(&mut policy(), &inbox, &serving, &|| stop.load(Ordering::Relaxed)));
        Running { server, is_stopped, thread: Some(thread) }
    }

    fn client(&self, key: Option<&str>) -> burnish_http::Server {
        let patience = Patience { timeout: Duration::from_secs(10), retries: 0, wait: Duration::ZERO };
        burnish_http::Server::new(&self.server.as_ref().unwrap().url(), key, patience).unwrap()
    }

    fn ask(&self, fields: Value) -> Result<Value, Value> {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.post("/v1/chat/completions", &body)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, Value> {
        match block_on(self.client(None).post(path, body.to_string()).text()).unwrap() {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or(Value::String(text))),
            Err(HttpError::Status { status, said, .. }) => Err(json!([status, said])),
            Err(error) => panic!("{error}"),
        }
    }

    fn stop(mut self) -> Served {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Says how it was asked.
fn script() -> impl Policy {
    Script::recorded_as(vec![7, 9], |turn: &Turn| match &*turn.messages[0].content {
        "long" => Err(PolicyError::PromptTooLong { tokens: 900, tokens_max: 500 }),
        "broken" => Err(PolicyError::Failed("it is broken".into())),
        "cut" => Ok(("so".into(), StopReason::TokensMax)),
        _ => {
            let Sampling { temperature, tokens_max, stop, .. } = &*turn.sampling;
            Ok((format!("{temperature} {tokens_max} {stop:?} {}", turn.seed), StopReason::EndToken))
        }
    })
}

#[test]
fn a_request_becomes_a_turn_and_its_answer_a_completion() {
    let running = Running::new(None, script);
    let answer =
        running.ask(json!({"temperature": 0.25, "max_tokens": 3, "stop": ["."], "seed": 5})).unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], "0.25 3 [\".\"] 5");
    assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("stop"), &Value::Null));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}));
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("m")));
    assert!(choice.get("token_ids").is_none() && answer.get("prompt_token_ids").is_none());
    // What is not said is as the server's defaults are; answers of one request differ in their seeds alone.
    let answer = running.ask(json!({"n": 2, "seed": 5, "return_token_ids": true, "logprobs": true})).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "0.5 8 [] 5");
    let second = answer["choices"][1]["message"]["content"].as_str().unwrap();
    assert!(second.starts_with("0.5 8 [] ") && !second.ends_with(" 5"), "{second}");
    assert_eq!(answer["choices"][1]["token_ids"], json!([7, 9]));
    assert_eq!(answer["prompt_token_ids"], json!([]));
    let tokens = json!([
        {"token": "<7>", "logprob": 0.0, "bytes": [60, 55, 62], "top_logprobs": []},
        {"token": "\u{FFFD}", "logprob": 0.0, "bytes": null, "top_logprobs": []},
    ]);
    assert_eq!(answer["choices"][0]["logprobs"]["content"], tokens);
    assert_eq!(running.stop(), Served { answered: 2, ..Served::default() });
}

#[test]
fn a_stream_has_the_answer_in_one_piece() {
    let running = Running::new(None, script);
    let options = json!({"stream": true, "stream_options": {"include_usage": true}, "seed": 1});
    let Value::String(text) = running.ask(options).unwrap() else { panic!("a stream is no JSON") };
    let events: Vec<&str> = text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    let event = |at: usize| serde_json::from_str::<Value>(events[at]).unwrap();
    assert_eq!(event(0)["choices"][0]["delta"]["content"], "0.5 8 [] 1");
    assert_eq!(event(0)["choices"][0]["finish_reason"], "stop");
    assert_eq!(event(0)["object"], "chat.completion.chunk");
    assert_eq!(event(1)["usage"]["completion_tokens"], 2);
    assert_eq!((events.len(), events[2]), (3, "[DONE]"));
}

#[test]
fn what_can_not_be_answered_is_an_error_that_says_why() {
    let running = Running::new(None, script);
    let refuse = |fields: Value, status: u16, expected: &str| {
        let said = running.ask(fields).unwrap_err();
        assert_eq!(said[0], status, "{said}");
        assert!(said[1].as_str().unwrap().contains(expected), "{said}");
    };
    let says = |text: &str| json!({"messages": [{"role": "user", "content": text}]});
    refuse(says("long"), 400, "the context length leaves room for a prompt of 500 tokens, but it has 900");
    refuse(says("broken"), 500, "it is broken");
    refuse(json!({"model": "other"}), 404, "there is no model `other` here: ask `m`");
    refuse(json!({"tempature": 1}), 400, "`tempature` is not known or not supported here");
    refuse(json!({"top_p": 2}), 400, "`top_p` must be above 0 and at most 1");
    refuse(json!({"max_tokens": 0}), 400, "`max_tokens` must be 1 or more");
    refuse(json!({"max_tokens": 101}), 400, "`max_tokens` must be 100 or less");
    refuse(json!({"logprobs": true, "top_logprobs": 1}), 400, "can't report log-probs");
    refuse(says(&"x".repeat(10_000)), 413, "longer than 10000 bytes");
    for (path, status) in [("/v1/completions", 404), ("/v1/models", 405), ("/x/v1/chat/completions", 404)] {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        assert_eq!(running.post(path, &body).unwrap_err()[0], status, "{path}");
    }
    // The answers before and after are as ever.
    let cut = running.ask(says("cut")).unwrap();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
}

#[test]
fn only_who_has_the_key_is_answered() {
    let running = Running::new(Some("secret"), script);
    let models = |key| block_on(running.client(key).get("/v1/models").text()).unwrap();
    assert!(models(None).unwrap_err().to_string().contains("status 401"));
    assert!(models(Some("other")).is_err());
    let models: Value = serde_json::from_str(&models(Some("secret")).unwrap()).unwrap();
    assert_eq!(models["data"][0]["id"], "m");
}

/// Answers nothing until it is told to, and counts.
struct Slow {
    turns: Vec<(TurnId, Turn)>,
    submitted: u64,
    cancelled: std::sync::mpsc::Sender<u64>,
    is_open: Arc<AtomicBool>,
}

impl Policy for Slow {
    fn abilities(&self) -> Abilities {
        Abilities::TEXT
    }
    fn version(&self) -> u64 {
        0
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        self.turns.push((id, turn));
        id
    }
    fn poll(&mut self) -> Vec<Answered> {
        if !self.is_open.load(Ordering::Relaxed) || self.turns.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
            return Vec::new();
        }
        let (id, turn) = self.turns.remove(0);
        let message = Message::assistant(turn.messages[0].content.clone());
        let output = burnish_core::TurnOutput::new(message, StopReason::EndToken);
        vec![Answered { id, trace: turn.trace, result: Ok(output) }]
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }
    fn cancel(&mut self, id: TurnId) -> bool {
        let _ = self.cancelled.send(id.0);
        let before = self.turns.len();
        self.turns.retain(|(under_way, _)| *under_way != id);
        self.turns.len() < before
    }
}

#[test]
fn requests_are_under_way_together_and_one_whose_client_goes_is_cancelled() {
    let (cancelled, told) = channel();
    let is_open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    let running =
        Running::new(None, move || Slow { turns: Vec::new(), submitted: 0, cancelled, is_open: gate });
    let client = running.client(None);
    let body = |text: &str, n: usize| {
        json!({"model": "m", "messages": [{"role": "user", "content": text}], "n": n}).to_string()
    };
    // Two answers are under way for a client that then goes.
    let path = "/v1/chat/completions";
    let patience = Duration::from_millis(300);
    let gone =
        block_on(async { burnish_http::timeout(patience, client.post(path, body("gone", 2)).text()).await });
    assert!(gone.unwrap().is_none());
    let mut ids = vec![told.recv_timeout(Duration::from_secs(5)).unwrap()];
    ids.push(told.recv_timeout(Duration::from_secs(5)).unwrap());
    assert_eq!(ids, [0, 1]);
    // Several others wait at the same time, and get their own answers.
    let begun = Instant::now();
    let asks = (0..8).map(|at| {
        let (client, body) = (client.clone(), body(&at.to_string(), 1));
        async move { client.post(path, body).text().await }
    });
    let opener = spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        is_open.store(true, Ordering::Relaxed);
    });
    let said = burnish_http::run_all(asks).unwrap();
    opener.join().unwrap();
    for (at, said) in said.into_iter().enumerate() {
        let said: Value = serde_json::from_str(&said.unwrap()).unwrap();
        assert_eq!(said["choices"][0]["message"]["content"], at.to_string());
    }
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert_eq!(running.stop(), Served { answered: 8, given_up: 1, refused: 0 });
}

#[test]
fn what_is_asked_after_the_end_is_refused() {
    let mut running = Running::new(None, script);
    running.is_stopped.store(true, Ordering::Relaxed);
    running.thread.take().unwrap().join().unwrap();
    let said = running.ask(json!({})).unwrap_err();
    assert_eq!((&said[0], said[1].as_str().unwrap()), (&json!(503), "whoever answers here has stopped"));
    // And nothing listens once the server is dropped.
    let client = running.client(None);
    drop(running.server.take());
    assert!(block_on(client.get("/v1/models").text()).unwrap().is_err());
}
