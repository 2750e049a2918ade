//! A server for tests that speaks the wire formats of vLLM and SGLang. Its model is a number `w`, the content of the file
//! `w` in the directory of weights: every token has the log-prob −(1 + w).

mod sglang;
mod vllm;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::test_server::{Reply, serve_routes};

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
    /// The same of each adapter.
    pub(super) adapters: BTreeMap<String, f64>,
    pub(super) label: String,
    pub(super) is_paused: bool,
    /// The requests for answers.
    pub(super) asked: Vec<Asked>,
}

/// A request for an answer.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) prompt: Vec<u32>,
    pub(super) seed: u64,
    pub(super) stop_ids: Vec<u32>,
    pub(super) body: Value,
}

/// How an answer ends.
enum Ending {
    Id(u32),
    Text(String),
    Length,
    Abort,
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
        let state = State {
            manner,
            w: -0.5,
            adapters: BTreeMap::new(),
            label: "default".into(),
            is_paused: false,
            asked: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let held = Arc::clone(&state);
        let url = serve_routes(move |path, body| reply(&mut held.lock().unwrap(), path, body, end));
        StandIn { url, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// `None` if it is dead.
fn reply(state: &mut State, path: &str, body: &Value, end: u32) -> Option<Reply> {
    if state.manner.is_dead {
        return None;
    }
    let (route, query) = path.split_once('?').unwrap_or((path, ""));
    let is_development = !route.starts_with("/v1/");
    if state.manner.is_plain && is_development {
        return Some(("404 Not Found", json!({"detail": "Not Found"})));
    }
    if state.manner.fails_at == Some(route) {
        let error = json!({"message": "Worker failed", "type": "InternalServerError", "code": 500});
        return Some(("500 Internal Server Error", json!({ "error": error })));
    }
    let answer = match vllm::reply(state, route, query, body, end) {
        None => sglang::reply(state, route, body, end),
        answer => answer,
    };
    Some(answer.unwrap_or(("404 Not Found", json!({"detail": "Not Found"}))))
}

impl State {
    fn load(&mut self, dir: &Value) {
        if !self.manner.lies {
            self.w = read(dir);
        }
    }

    /// Loads an adapter. Returns whether its name is new.
    fn add(&mut self, body: &Value) -> bool {
        let name = body["lora_name"].as_str().unwrap().to_owned();
        let w = if self.manner.lies { self.w } else { read(&body["lora_path"]) };
        self.adapters.insert(name, w).is_none()
    }

    /// The log-prob of every token under the adapter of this name, or under the model if there is none.
    fn logprob(&self, adapter: &Value) -> f64 {
        let adapter = adapter.as_str().and_then(|name| self.adapters.get(name));
        -(1.0 + adapter.copied().unwrap_or(self.w))
    }

    /// The ids of an answer.
    fn answer(&mut self, asked: Asked, tokens_max: &Value, stop: &Value, end: u32) -> (Vec<u32>, Ending) {
        let last = asked.prompt.last().copied().map(u64::from).unwrap_or_default();
        self.asked.push(asked);
        if self.manner.aborts > 0 {
            self.manner.aborts -= 1;
            return (Vec::new(), Ending::Abort);
        }
        let mut ids = self.manner.answers.get(&last).cloned().unwrap_or_else(|| vec![7, end]);
        let tokens_max = tokens_max.as_u64().unwrap() as usize;
        let is_cut = ids.len() > tokens_max;
        ids.truncate(tokens_max);
        let ending = match (is_cut, stop[0].as_str()) {
            (true, _) => Ending::Length,
            (false, _) if ids.last() == Some(&end) => Ending::Id(end),
            (false, Some(stop)) => Ending::Text(stop.to_owned()),
            (false, None) => Ending::Length,
        };
        (ids, ending)
    }
}

fn read(dir: &Value) -> f64 {
    std::fs::read_to_string(Path::new(dir.as_str().unwrap()).join("w")).unwrap().parse().unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}
