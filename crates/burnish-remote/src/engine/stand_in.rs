//! A server for tests that speaks vLLM's wire format. Its model is a number `w`, the content of the file `w` in the
//! directory of weights: every token has the log-prob −(1 + w).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

/// How it behaves.
#[derive(Debug, Default)]
pub(super) struct Manner {
    /// It says that it has read weights, and keeps those that it had.
    pub(super) lies: bool,
    /// It fails at this path.
    pub(super) fails_at: Option<&'static str>,
    /// It closes every connection without an answer.
    pub(super) is_dead: bool,
    /// It gives up so many answers.
    pub(super) aborts: usize,
    /// It has no development mode.
    pub(super) is_plain: bool,
    /// Its log-probs are those of the distribution that is drawn from.
    pub(super) gives_drawn: bool,
    /// The ids of its answers, by their prompt's last id; any other prompt is answered with `[7, END]`.
    pub(super) answers: BTreeMap<u64, Vec<u32>>,
}

/// What it has.
#[derive(Debug)]
pub(super) struct State {
    pub(super) manner: Manner,
    pub(super) w: f64,
    pub(super) label: String,
    pub(super) is_paused: bool,
    /// The bodies of the requests for answers.
    pub(super) asked: Vec<Value>,
}

/// A running one.
#[derive(Debug, Clone)]
pub(super) struct StandIn {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    /// Starts it. `end` is the id of the end token.
    pub(super) fn start(manner: Manner, end: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State { manner, w: -0.5, label: "default".into(), is_paused: false, asked: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let own = StandIn { url, state };
        let serving = own.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.answer(&mut stream.unwrap(), end));
            }
        });
        own
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn answer(&self, stream: &mut TcpStream, end: u32) {
        let (path, body) = request(stream);
        if self.state().manner.is_dead {
            return;
        }
        let (status, answer) = self.reply(&path, &body, end);
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close", answer.len());
        // Whoever asked may have gone.
        let _ = stream.write_all(format!("{head}\r\n\r\n{answer}").as_bytes());
    }

    fn reply(&self, path: &str, body: &Value, end: u32) -> (&'static str, Value) {
        let mut state = self.state();
        let (route, query) = path.split_once('?').unwrap_or((path, ""));
        let is_development = !matches!(route, "/v1/models" | "/v1/completions" | "/health");
        if state.manner.is_plain && is_development {
            return ("404 Not Found", json!({"detail": "Not Found"}));
        }
        if state.manner.fails_at == Some(route) {
            let error = json!({"message": "Worker failed", "type": "InternalServerError", "code": 500});
            return ("500 Internal Server Error", json!({ "error": error }));
        }
        let answer = match route {
            "/v1/models" => json!({"object": "list", "data": [{"id": "policy", "max_model_len": 64}]}),
            "/is_paused" => json!({"is_paused": state.is_paused}),
            "/pause" => {
                assert_eq!(query, "mode=wait&clear_cache=true");
                state.is_paused = true;
                json!({"status": "paused"})
            }
            "/resume" => {
                state.is_paused = false;
                json!({"status": "resumed"})
            }
            "/collective_rpc" => {
                assert!(body["method"] == "reload_weights" && state.is_paused, "{body}");
                let dir = body["kwargs"]["weights_path"].as_str().unwrap();
                if !state.manner.lies {
                    state.w = std::fs::read_to_string(Path::new(dir).join("w")).unwrap().parse().unwrap();
                }
                json!({"results": [null]})
            }
            "/update_weight_version" => {
                state.label = body["new_version"].as_str().unwrap().to_owned();
                json!({"success": true, "new_version": state.label})
            }
            "/weight_info" => json!({"weight_version": state.label}),
            "/v1/completions" => return completion(&mut state, body, end),
            _ => return ("404 Not Found", json!({"detail": "Not Found"})),
        };
        ("200 OK", answer)
    }
}

fn completion(state: &mut State, body: &Value, end: u32) -> (&'static str, Value) {
    let logprob = -(1.0 + state.w);
    let prompt: Vec<u64> = body["prompt"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    if !body["prompt_logprobs"].is_null() {
        let of = |id: &u64| json!({ id.to_string(): {"logprob": logprob, "rank": 1} });
        let given: Vec<Value> = std::iter::once(Value::Null).chain(prompt[1..].iter().map(of)).collect();
        return ("200 OK", json!({"choices": [{"prompt_logprobs": given, "finish_reason": "length"}]}));
    }
    if !body["allowed_token_ids"].is_null() {
        let given = if state.manner.gives_drawn { 0.0 } else { -7.5 };
        return ("200 OK", json!({"choices": [{"logprobs": {"token_logprobs": [given]}}]}));
    }
    state.asked.push(body.clone());
    if state.manner.aborts > 0 {
        state.manner.aborts -= 1;
        return (
            "200 OK",
            json!({"choices": [{"token_ids": [], "finish_reason": "abort", "logprobs": null}]}),
        );
    }
    let last = prompt.last().copied().unwrap_or_default();
    let mut ids = state.manner.answers.get(&last).cloned().unwrap_or_else(|| vec![7, end]);
    let tokens_max = body["max_tokens"].as_u64().unwrap() as usize;
    let is_cut = ids.len() > tokens_max;
    ids.truncate(tokens_max);
    let has_ended = ids.last() == Some(&end);
    let (finish, stop) = match (is_cut || !has_ended, body["stop"][0].as_str()) {
        (true, Some(stop)) if !is_cut => ("stop", json!(stop)),
        (true, _) => ("length", Value::Null),
        (false, _) => ("stop", json!(end)),
    };
    let logprobs = vec![logprob; ids.len()];
    let choice = json!({
        "index": 0, "text": "", "token_ids": ids, "finish_reason": finish, "stop_reason": stop,
        "logprobs": {"token_logprobs": logprobs},
    });
    ("200 OK", json!({"id": "cmpl-1", "choices": [choice]}))
}

/// The path and the body of a request.
fn request(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        if reader.read_line(&mut head).unwrap() == 0 {
            return (String::new(), Value::Null);
        }
        if let Some(text) = head[from..].to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    (path, serde_json::from_slice(&body).unwrap_or_default())
}
