//! A server that speaks vLLM's wire format and computes with this project's own sampler. It stands in for a vLLM where
//! there is none; `vllm.rs` runs against a real one.

use std::path::Path;
use std::sync::{Arc, Mutex};

use burnish_core::{Sampling, StopReason};
use burnish_engine::{Limits, Request, generate};
use burnish_model::{Loading, Model, Tokenizer};
use burnish_train::{Sample, score};
use serde_json::{Value, json};

use crate::test_server::{Reply, serve_routes};

/// A running server.
#[derive(Clone)]
pub(crate) struct StandIn {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    model: Arc<Model>,
    tokenizer: Arc<Tokenizer>,
    label: String,
    is_paused: bool,
    /// Names of the directories of weights that it was given.
    given: Vec<String>,
}

impl StandIn {
    /// Serves the model in `dir`.
    pub(crate) fn start(dir: &Path) -> Self {
        let tokenizer = Arc::new(Tokenizer::load(&dir.join("tokenizer.json")).unwrap());
        let (label, given) = ("default".to_owned(), Vec::new());
        let state = State { model: load(dir), tokenizer, label, is_paused: false, given };
        let state = Arc::new(Mutex::new(state));
        let held = Arc::clone(&state);
        let url = serve_routes(move |path, body| Some(reply(&mut held.lock().unwrap(), path, body)));
        StandIn { url, state }
    }

    /// The names of the directories of weights that it was given, in order.
    pub(crate) fn given(&self) -> Vec<String> {
        self.state.lock().unwrap().given.clone()
    }
}

fn reply(state: &mut State, path: &str, body: &Value) -> Reply {
    let answer = match path.split_once('?').map_or(path, |(route, _)| route) {
        "/v1/models" => {
            let context = state.model.context_tokens_max();
            json!({"object": "list", "data": [{"id": "policy", "max_model_len": context}]})
        }
        "/is_paused" => json!({"is_paused": state.is_paused}),
        "/pause" => {
            state.is_paused = true;
            json!({"status": "paused"})
        }
        "/resume" => {
            state.is_paused = false;
            json!({"status": "resumed"})
        }
        "/collective_rpc" => {
            let dir = Path::new(body["kwargs"]["weights_path"].as_str().unwrap());
            state.model = load(dir);
            state.given.push(dir.file_name().unwrap().to_string_lossy().into_owned());
            json!({"results": [null]})
        }
        "/update_weight_version" => {
            state.label = body["new_version"].as_str().unwrap().to_owned();
            json!({"success": true, "new_version": state.label})
        }
        "/weight_info" => json!({"weight_version": state.label}),
        "/v1/completions" => completion(state, body),
        _ => return ("404 Not Found", json!({"detail": "Not Found"})),
    };
    ("200 OK", answer)
}

fn load(dir: &Path) -> Arc<Model> {
    Arc::new(Model::load_as(dir, &Loading::default()).unwrap())
}

fn completion(state: &State, body: &Value) -> Value {
    let ids = |key: &str| -> Vec<u32> { serde_json::from_value(body[key].clone()).unwrap_or_default() };
    let prompt = ids("prompt");
    if !body["prompt_logprobs"].is_null() {
        let texts = [Sample::of_text(prompt.clone())];
        let scored = score(&state.model, &texts, 4096).unwrap().remove(0);
        let of = |(id, logprob): (&u32, &f32)| json!({ id.to_string(): {"logprob": logprob} });
        let mut given: Vec<Value> = prompt.iter().zip(&scored).map(of).collect();
        given[0] = Value::Null;
        return json!({"choices": [{"prompt_logprobs": given, "finish_reason": "length"}]});
    }
    if !body["allowed_token_ids"].is_null() {
        // It gives the log-probs of what is drawn.
        return json!({"choices": [{"logprobs": {"token_logprobs": [0.0]}}]});
    }
    let sampling = Sampling {
        stop: serde_json::from_value(body["stop"].clone()).unwrap(),
        ignore_eos: body["ignore_eos"].as_bool().unwrap(),
        ..Sampling::at(
            body["temperature"].as_f64().unwrap() as f32,
            body["max_tokens"].as_u64().unwrap() as usize,
        )
    };
    let (seed, end_ids) = (body["seed"].as_u64().unwrap(), ids("stop_token_ids").into());
    let request = Request { prompt, sampling, seed, end_ids };
    let mut model = Model::clone(&state.model);
    model.restrict_vocab(|id| body["logit_bias"][id.to_string()].is_null());
    let (mut answers, _) =
        generate(&Arc::new(model), Some(&state.tokenizer), &[request], &Limits::default()).unwrap();
    let answer = answers.remove(0);
    let (finish, stop) = match answer.stop {
        StopReason::EndToken => ("stop", json!(answer.ids.last())),
        StopReason::StopString => ("stop", body["stop"][0].clone()),
        _ => ("length", Value::Null),
    };
    let choice = json!({
        "index": 0, "text": "", "token_ids": answer.ids, "finish_reason": finish, "stop_reason": stop,
        "logprobs": {"token_logprobs": answer.model_logprobs},
    });
    json!({"id": "cmpl-1", "choices": [choice]})
}
