//! A server that speaks Tinker's API as SkyRL's does, and trains and samples with this project's own trainer and sampler.
//! It stands in for one where there is none; `skyrl.rs` runs against a real one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use burnish_core::Sampling;
use burnish_engine::{Limits, Request, generate};
use burnish_model::{Loading, LoraConfig, Model, Targets, Trains};
use burnish_rl::{Evaluation, Objective, Streams, Totals};
use burnish_train::adamw::AdamwConfig;
use burnish_train::{PassConfig, Proximal, Sample, Trainer, TrainerConfig, score, totals};
use serde_json::{Value, json};

use crate::test_server::{Reply, serve_routes};

/// α of its adapters, whatever their rank.
const ALPHA: f64 = 32.0;

/// A running server.
#[derive(Clone)]
pub(crate) struct TrainingServer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

/// An adapter, as it began and as it is. What was learnt is kept as the steps that led to it, which are made again where
/// a state is restored.
#[derive(Clone)]
struct Trained {
    start: Model,
    model: Model,
    /// What went backward for each optimiser step, and its settings.
    steps: Vec<(Backward, Value)>,
    pending: Backward,
    /// Sequences that only went forward.
    scored: usize,
}

/// What went backward.
#[derive(Clone, Default)]
struct Backward {
    samples: Vec<Sample>,
    loss: PolicyLoss,
}

struct State {
    base: PathBuf,
    models: BTreeMap<String, Trained>,
    saved: BTreeMap<String, Trained>,
    /// Models that were given up.
    ended: BTreeMap<String, Trained>,
    results: Vec<Result<Value, String>>,
    names: usize,
    /// Requests until it forgets its models; `None`: it does not.
    forgets_in: Option<usize>,
}

impl TrainingServer {
    /// Serves the base model in `dir`.
    pub(crate) fn start(dir: &Path) -> Self {
        let state = State {
            base: dir.to_owned(),
            models: BTreeMap::new(),
            saved: BTreeMap::new(),
            ended: BTreeMap::new(),
            results: Vec::new(),
            names: 0,
            forgets_in: None,
        };
        let state = Arc::new(Mutex::new(state));
        let held = Arc::clone(&state);
        let url = serve_routes(move |path, body| Some(held.lock().unwrap().answer(path, body)));
        TrainingServer { url, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes it forget its models, as if it ended and came back, once after so many requests.
    pub(crate) fn forget_in(&self, requests: usize) {
        self.state().forgets_in = Some(requests);
    }

    /// The weights of the newest model's adapter.
    pub(crate) fn adapter(&self) -> Vec<f32> {
        self.newest(|trained| trained.model.params.data().to_vec())
    }

    /// The models before the newest one were made to find out what a server does.
    fn newest<T>(&self, of: impl FnOnce(&Trained) -> T) -> T {
        let state = self.state();
        let newest = format!("model_{}", state.names);
        of(state.models.get(&newest).unwrap_or_else(|| &state.ended[&newest]))
    }

    /// The adapter that was saved under a name.
    pub(crate) fn saved(&self, path: &str) -> Model {
        self.state().saved[path].model.clone()
    }

    /// Number of sequences that the newest model was asked for the log-probs of.
    pub(crate) fn scored(&self) -> usize {
        self.newest(|trained| trained.scored)
    }

    /// Number of models that were made.
    pub(crate) fn models(&self) -> usize {
        self.state().names
    }
}

/// How an adapter of this rank is loaded; `seed` decides how it begins.
fn loading(rank: usize, seed: u64) -> Loading {
    let lora =
        LoraConfig { rank, alpha: ALPHA, dropout: 0.0, rslora: false, target_modules: Targets::default() };
    Loading { trains: Trains::Adapter(lora, seed), ..Loading::default() }
}

impl State {
    fn answer(&mut self, path: &str, body: &Value) -> Reply {
        if let Some(left) = &mut self.forgets_in {
            *left -= 1;
            if *left == 0 {
                self.forgets_in = None;
                self.models.clear();
            }
        }
        let route = path.strip_prefix("/api/v1/").unwrap();
        let answer = match route {
            "get_server_capabilities" => json!({ "supported_models": [{ "model_name": "base" }] }),
            "create_session" => json!({ "session_id": "session_1" }),
            "session_heartbeat" => json!({}),
            "retrieve_future" => {
                let id: usize = body["request_id"].as_str().unwrap().parse().unwrap();
                return match &self.results[id] {
                    Ok(answer) => ("200 OK", answer.clone()),
                    Err(problem) => ("400 Bad Request", json!({ "detail": problem })),
                };
            }
            route => {
                let result = self.work(route, body);
                self.results.push(result);
                json!({ "request_id": (self.results.len() - 1).to_string() })
            }
        };
        ("200 OK", answer)
    }

    fn work(&mut self, route: &str, body: &Value) -> Result<Value, String> {
        if route == "create_model" {
            self.names += 1;
            let id = format!("model_{}", self.names);
            let lora = &body["lora_config"];
            let (rank, seed) = (lora["rank"].as_u64().unwrap() as usize, lora["seed"].as_u64().unwrap());
            let model = Model::load_as(&self.base, &loading(rank, seed)).unwrap();
            let start = model.clone();
            let trained =
                Trained { start, model, steps: Vec::new(), pending: Backward::default(), scored: 0 };
            self.models.insert(id.clone(), trained);
            return Ok(json!({ "model_id": id }));
        }
        if route == "asample" {
            return self.sample(body);
        }
        let id = body["model_id"].as_str().unwrap();
        let trained = self.models.get_mut(id).ok_or_else(|| format!("Model {id} not loaded"))?;
        match route {
            "unload_model" => self.ended.extend(self.models.remove_entry(id)),
            "forward" => {
                let data = &body["forward_input"]["data"];
                trained.scored += data.as_array().unwrap().len();
                return Ok(trained.outputs(data));
            }
            "forward_backward" => {
                let input = &body["forward_backward_input"];
                trained.pending.loss = match input["loss_fn"].as_str().unwrap() {
                    "importance_sampling" => PolicyLoss::ImportanceSampling,
                    "ppo" => PolicyLoss::Ppo,
                    other => return Err(format!("no loss {other}")),
                };
                let data = &input["data"];
                trained.pending.samples.extend(data.as_array().unwrap().iter().map(sample_of));
                return Ok(trained.outputs(data));
            }
            "optim_step" => {
                let step = (std::mem::take(&mut trained.pending), body["adam_params"].clone());
                trained.steps.push(step);
                trained.replay();
            }
            "load_weights" => {
                let path = body["path"].as_str().unwrap();
                *trained =
                    self.saved.get(path).ok_or_else(|| format!("Checkpoint not found: {path}"))?.clone();
            }
            "save_weights" | "save_weights_for_sampler" => {
                let path = format!("tinker://{id}/{route}/{}", body["path"].as_str().unwrap());
                self.saved.insert(path.clone(), trained.clone());
                return Ok(json!({ "path": path }));
            }
            _ => panic!("no route {route}"),
        }
        Ok(json!({}))
    }

    fn sample(&mut self, body: &Value) -> Result<Value, String> {
        let prompt = ids(&body["prompt"]["chunks"][0]["tokens"]);
        let model = match body["model_path"].as_str() {
            None => Model::load_as(&self.base, &Loading::default()).unwrap(),
            Some(path) => {
                let id = path.strip_prefix("tinker://").unwrap().split('/').next().unwrap();
                if !self.models.contains_key(id) {
                    return Err(format!("Model {id} not loaded"));
                }
                self.saved[path].model.clone()
            }
        };
        let of_prompt = score(&model, &[Sample::of_text(prompt.clone())], 4096).unwrap().remove(0);
        let asked = &body["sampling_params"];
        let temperature = asked["temperature"].as_f64().unwrap() as f32;
        let sampling = Sampling::at(temperature, asked["max_tokens"].as_u64().unwrap() as usize);
        let (seed, end_ids) = (asked["seed"].as_u64().unwrap(), ids(&asked["stop"]).into());
        let request = Request { prompt, sampling, seed, end_ids };
        let (mut answers, _) = generate(&Arc::new(model), None, &[request], &Limits::default()).unwrap();
        let answer = answers.remove(0);
        let reason = if answer.stop.is_truncated() { "length" } else { "stop" };
        let sequence =
            json!({ "stop_reason": reason, "tokens": answer.ids, "logprobs": answer.model_logprobs });
        Ok(json!({ "sequences": [sequence], "prompt_logprobs": of_prompt[1..] }))
    }
}

impl Trained {
    fn outputs(&self, data: &Value) -> Value {
        let texts: Vec<Sample> =
            data.as_array().unwrap().iter().map(|datum| Sample::of_text(tokens(datum))).collect();
        let scored = score(&self.model, &texts, 4096).unwrap();
        let output = |logprobs: &Vec<f32>| json!({ "logprobs": { "data": logprobs[1..] } });
        json!({ "loss_fn_outputs": scored.iter().map(output).collect::<Vec<_>>() })
    }

    /// Makes all optimiser steps.
    fn replay(&mut self) {
        let number = |name: &str| self.steps[0].1[name].as_f64().unwrap();
        let adamw = AdamwConfig {
            beta1: number("beta1"),
            beta2: number("beta2"),
            epsilon: number("eps"),
            weight_decay: number("weight_decay"),
            ..AdamwConfig::default()
        };
        let config = TrainerConfig { adamw, grad_norm_max: None, pass: PassConfig::new(4096) };
        self.model = self.start.clone();
        let mut trainer = Trainer::new(&self.model, config);
        for (Backward { samples, loss }, adam) in &self.steps {
            let lr = adam["learning_rate"].as_f64().unwrap();
            let totals = totals(samples, samples, 1, 4096, 0);
            trainer.update(&mut self.model, samples, loss, &totals, lr).unwrap();
        }
    }
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value["data"].clone()).unwrap()
}

/// The tokens of a datum: what is read, and the last target.
fn tokens(datum: &Value) -> Vec<u32> {
    let mut tokens = ids(&datum["model_input"]["chunks"][0]["tokens"]);
    tokens.extend(ids(&datum["loss_fn_inputs"]["target_tokens"]["data"]).last());
    tokens
}

fn sample_of(datum: &Value) -> Sample {
    let stream = |name: &str| {
        let values = floats(&datum["loss_fn_inputs"][name]);
        std::iter::once(0.0).chain(values).collect::<Vec<f32>>()
    };
    Sample {
        proximal: Proximal::Known(stream("logprobs")),
        advantages: stream("advantages"),
        ..Sample::of_text(tokens(datum))
    }
}

/// The losses of such servers for policies: means over the tokens of a sequence, and over sequences.
#[derive(Clone, Copy, Default)]
enum PolicyLoss {
    #[default]
    ImportanceSampling,
    /// With SkyRL's bounds, whatever it is told.
    Ppo,
}

impl Objective for PolicyLoss {
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut evaluation = Evaluation::zero(streams.policy.len());
        for sequence in streams.sequences {
            let divisor = sequence.len() as f64 * totals.sequences as f64;
            for at in sequence.clone() {
                let (ratio, advantage) =
                    ((streams.policy[at] - streams.proximal[at]).exp(), streams.advantage[at]);
                let clipped = match self {
                    PolicyLoss::ImportanceSampling => ratio,
                    PolicyLoss::Ppo => ratio.clamp(0.8, 1.2),
                };
                evaluation.loss -= (ratio * advantage).min(clipped * advantage) / divisor;
                if ratio * advantage <= clipped * advantage {
                    evaluation.d_policy[at] = -ratio * advantage / divisor;
                }
            }
        }
        evaluation
    }
}
