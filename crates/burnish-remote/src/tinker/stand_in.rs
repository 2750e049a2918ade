//! A server for tests that speaks Tinker's API as SkyRL's does. Its model is a number for each token, which begins at 0:
//! the token's log-prob is that number minus 6, whatever comes before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::test_server::{Reply, serve_routes};

/// How it behaves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    pub(super) divides_tokens: bool,
    pub(super) divides_sequences: bool,
    pub(super) clips: bool,
    pub(super) clipped: Clipped,
    /// It does what it is asked for at this path, once, and closes the connection without an answer.
    pub(super) silent_at: Option<&'static str>,
    /// It answers no log-probs for the first token of a prompt, as Tinker's service.
    pub(super) tells_first: bool,
}

/// Its clipped loss.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Clipped {
    /// It has none.
    #[default]
    None,
    /// With these bounds, whatever it is told, as SkyRL's.
    Fixed(f64, f64),
    /// With those that it is told, as Tinker's service.
    Told,
}

/// An adapter with the state of Adam.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights {
    pub(super) of_tokens: BTreeMap<u32, f64>,
    moments: BTreeMap<u32, (f64, f64)>,
    pub(super) updates: i32,
}

#[derive(Debug, Default)]
struct Model {
    weights: Weights,
    gradient: BTreeMap<u32, f64>,
    sequences: usize,
}

/// What it has.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) manner: Manner,
    models: BTreeMap<String, Model>,
    /// By their paths.
    pub(super) saved: BTreeMap<String, Weights>,
    results: Vec<Result<Value, String>>,
    /// Names of models so far.
    pub(super) names: usize,
    /// All paths that it was asked for, in order.
    pub(super) asked: Vec<String>,
    /// The bodies of requests for answers.
    pub(super) samples: Vec<Value>,
}

/// A running one.
#[derive(Debug, Clone)]
pub(super) struct StandIn {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    pub(super) fn start(manner: Manner) -> Self {
        let state = Arc::new(Mutex::new(State { manner, ..State::default() }));
        let held = Arc::clone(&state);
        let url = serve_routes(move |path, body| held.lock().unwrap().answer(path, body));
        StandIn { url, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Ends and comes back: only what was saved is left.
    pub(super) fn restart(&self) {
        self.state().models.clear();
    }

    /// The weights of the newest model.
    pub(super) fn weights(&self) -> Weights {
        let state = self.state();
        state.models[&format!("model_{}", state.names)].weights.clone()
    }

    /// How often it was asked at a path.
    pub(super) fn asked(&self, path: &str) -> usize {
        self.state().asked.iter().filter(|asked| *asked == path).count()
    }
}

impl State {
    fn answer(&mut self, path: &str, body: &Value) -> Option<Reply> {
        let route = path.strip_prefix("/api/v1/").unwrap();
        self.asked.push(route.to_owned());
        let answer = match route {
            "get_server_capabilities" => json!({ "supported_models": [{ "model_name": "base" }] }),
            "create_session" => json!({ "session_id": "session_1" }),
            "session_heartbeat" => json!({}),
            "retrieve_future" => return Some(self.result(body)),
            _ => {
                let result = self.work(route, body);
                self.results.push(result);
                json!({ "request_id": (self.results.len() - 1).to_string() })
            }
        };
        if self.manner.silent_at == Some(route) {
            self.manner.silent_at = None;
            return None;
        }
        Some(("200 OK", answer))
    }

    fn result(&mut self, body: &Value) -> Reply {
        let id: usize = body["request_id"].as_str().unwrap().parse().unwrap();
        match &self.results[id] {
            Ok(answer) => ("200 OK", answer.clone()),
            Err(problem) => ("400 Bad Request", json!({ "detail": problem })),
        }
    }

    fn work(&mut self, route: &str, body: &Value) -> Result<Value, String> {
        match route {
            "create_model" => {
                assert_eq!((&body["base_model"], &body["lora_config"]["rank"]), (&json!("base"), &json!(4)));
                self.names += 1;
                let id = format!("model_{}", self.names);
                self.models.insert(id.clone(), Model::default());
                return Ok(json!({ "model_id": id }));
            }
            "asample" => return self.sample(body),
            _ => {}
        }
        let id = body["model_id"].as_str().unwrap();
        let manner = self.manner;
        let model = self.models.get_mut(id).ok_or_else(|| format!("Model {id} not loaded"))?;
        match route {
            "unload_model" => drop(self.models.remove(id)),
            "forward" => return Ok(model.outputs(&body["forward_input"]["data"])),
            "forward_backward" => {
                let input = &body["forward_backward_input"];
                let told = |name: &str| input["loss_fn_config"][name].as_f64().unwrap();
                let bounds = match (input["loss_fn"].as_str().unwrap(), manner.clipped) {
                    ("importance_sampling", _) => (0.0, f64::INFINITY),
                    ("ppo", Clipped::Fixed(low, high)) => (low, high),
                    ("ppo", Clipped::Told) => (told("clip_low_threshold"), told("clip_high_threshold")),
                    (other, _) => return Err(format!("no loss {other}")),
                };
                model.accumulate(&input["data"], manner, bounds);
                return Ok(model.outputs(&input["data"]));
            }
            "optim_step" => model.step(&body["adam_params"], manner),
            "load_weights" => {
                let path = body["path"].as_str().unwrap();
                let weights = self.saved.get(path).ok_or_else(|| format!("Checkpoint not found: {path}"))?;
                *model = Model { weights: weights.clone(), ..Model::default() };
            }
            "save_weights" | "save_weights_for_sampler" => {
                let kind = if route == "save_weights" { "weights/" } else { "" };
                let path = format!("tinker://{id}/{kind}{}", body["path"].as_str().unwrap());
                assert!(self.saved.insert(path.clone(), model.weights.clone()).is_none(), "{path} exists");
                return Ok(json!({ "path": path }));
            }
            _ => panic!("no route {route}"),
        }
        Ok(json!({}))
    }

    /// Answers with the token after the last one, and an end.
    fn sample(&mut self, body: &Value) -> Result<Value, String> {
        self.samples.push(body.clone());
        let prompt: Vec<u32> = ids(&body["prompt"]["chunks"][0]["tokens"]);
        let weights = match body["model_path"].as_str() {
            None => Weights::default(),
            Some(path) => {
                let model = path.strip_prefix("tinker://").unwrap().split('/').next().unwrap();
                if !self.models.contains_key(model) {
                    return Err(format!("Model {model} not loaded"));
                }
                self.saved[path].clone()
            }
        };
        let told = if self.manner.tells_first { vec![Value::Null] } else { Vec::new() };
        let rest = prompt[1..].iter().map(|id| json!(weights.logprob(*id)));
        let prompt_logprobs: Vec<Value> = told.into_iter().chain(rest).collect();
        let stop = ids(&body["sampling_params"]["stop"]).first().copied().unwrap_or_default();
        let tokens = [prompt[prompt.len() - 1] + 1, stop];
        let logprobs = tokens.map(|id| weights.logprob(id));
        let sequence = json!({ "stop_reason": "stop", "tokens": tokens, "logprobs": logprobs });
        Ok(json!({ "sequences": [sequence], "prompt_logprobs": prompt_logprobs }))
    }
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value["data"].clone()).unwrap()
}

impl Weights {
    pub(super) fn logprob(&self, id: u32) -> f64 {
        self.of_tokens.get(&id).copied().unwrap_or_default() - 6.0
    }
}

impl Model {
    fn outputs(&self, data: &Value) -> Value {
        let output = |datum: &Value| {
            let targets = ids(&datum["loss_fn_inputs"]["target_tokens"]["data"]);
            assert_eq!(targets.len(), ids(&datum["model_input"]["chunks"][0]["tokens"]).len());
            let logprobs: Vec<f64> = targets.iter().map(|id| self.weights.logprob(*id)).collect();
            json!({ "logprobs": { "data": logprobs } })
        };
        json!({ "loss_fn_outputs": data.as_array().unwrap().iter().map(output).collect::<Vec<_>>() })
    }

    fn accumulate(&mut self, data: &Value, manner: Manner, (low, high): (f64, f64)) {
        for datum in data.as_array().unwrap() {
            let inputs = &datum["loss_fn_inputs"];
            let targets = ids(&inputs["target_tokens"]["data"]);
            let (old, advantages) = (numbers(&inputs["logprobs"]), numbers(&inputs["advantages"]));
            let divisor = if manner.divides_tokens { targets.len() as f64 } else { 1.0 };
            for ((id, old), advantage) in targets.iter().zip(old).zip(advantages) {
                let ratio = (self.weights.logprob(*id) - old).exp();
                let is_beyond = if advantage > 0.0 { ratio > high } else { ratio < low };
                let ratio = if is_beyond { 0.0 } else { ratio };
                *self.gradient.entry(*id).or_default() -= ratio * advantage / divisor;
            }
            self.sequences += 1;
        }
    }

    fn step(&mut self, adam: &Value, manner: Manner) {
        let number = |name: &str| adam[name].as_f64().unwrap();
        let (beta1, beta2) = (number("beta1"), number("beta2"));
        let divisor = if manner.divides_sequences { self.sequences as f64 } else { 1.0 };
        let norm = self.gradient.values().map(|g| (g / divisor).powi(2)).sum::<f64>().sqrt();
        let longest = adam["grad_clip_norm"].as_f64().filter(|_| manner.clips).unwrap_or(f64::INFINITY);
        let scale = (longest / norm).min(1.0) / divisor;
        let weights = &mut self.weights;
        weights.updates += 1;
        for (id, gradient) in std::mem::take(&mut self.gradient) {
            let gradient = gradient * scale;
            let (m, v) = weights.moments.entry(id).or_default();
            *m = beta1 * *m + (1.0 - beta1) * gradient;
            *v = beta2 * *v + (1.0 - beta2) * gradient * gradient;
            let (m, v) = (*m / (1.0 - beta1.powi(weights.updates)), *v / (1.0 - beta2.powi(weights.updates)));
            let own = weights.of_tokens.entry(id).or_default();
            *own -=
                number("learning_rate") * (m / (v.sqrt() + number("eps")) + number("weight_decay") * *own);
        }
        self.sequences = 0;
    }
}
