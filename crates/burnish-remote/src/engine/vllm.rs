//! vLLM's wire format, as of version 0.32.
//!
//! Sampling is `POST /v1/completions` with ids. Every field is sent, since those that are absent are taken from the
//! model's `generation_config.json`. Weights are read by `POST /collective_rpc`, which vLLM has only in its development
//! mode (`VLLM_SERVER_DEV_MODE=1`).

use std::path::Path;

use burnish_http::{Call, HttpError, Patience, Server};
use serde_json::{Value, json};

use super::Stage;
use super::request::{Facts, Kind, logit_bias};
use crate::tokens::{Ask, Completion, End};

const COMPLETIONS: &str = "/v1/completions";
/// The least log-prob that it sends; it stands for −∞.
const LEAST: f64 = -9999.0;

/// Asks for an answer.
pub(super) async fn complete(server: &Server, model: &str, ask: &Ask<'_>) -> Result<Value, HttpError> {
    server.post(COMPLETIONS, request(model, ask).to_string()).json().await
}

fn request(model: &str, ask: &Ask<'_>) -> Value {
    let sampling = ask.sampling;
    let end_ids = if sampling.ignore_eos { &[] } else { ask.end_ids };
    let stop_ids = [end_ids, &sampling.stop_token_ids].concat();
    json!({
        "model": model,
        "prompt": ask.prompt,
        "add_special_tokens": false,
        "max_tokens": sampling.tokens_max.min(ask.tokens_max),
        "temperature": sampling.temperature,
        "top_p": 1.0, "top_k": 0, "min_p": 0.0, "min_tokens": 0,
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        // It takes a signed number, of which −1 means none.
        "seed": ask.seed & i64::MAX as u64,
        "stop": sampling.stop,
        "include_stop_str_in_output": true,
        "stop_token_ids": stop_ids,
        "ignore_eos": sampling.ignore_eos,
        "logit_bias": logit_bias(ask.missing_ids),
        "logprobs": 0,
        "return_token_ids": true,
        "return_tokens_as_token_ids": true,
        "skip_special_tokens": false,
        "spaces_between_special_tokens": false,
    })
}

/// Reads an answer.
///
/// # Errors
/// Says what is missing or wrong.
pub(super) fn completion(answer: &Value) -> Result<Completion, String> {
    let choice = &answer["choices"][0];
    let ids = choice["token_ids"].as_array().ok_or("`choices[0].token_ids` is missing")?;
    let ids = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
    let ids: Vec<u32> =
        ids.collect::<Option<_>>().ok_or("`choices[0].token_ids` has something that is no id")?;
    let end = match (choice["finish_reason"].as_str(), &choice["stop_reason"]) {
        (Some("stop"), Value::String(_)) => End::Text,
        (Some("stop"), _) => End::Token,
        (Some("length"), _) => End::Length,
        (Some("abort"), _) => return Ok(Completion { ids, logprobs: Vec::new(), end: End::Aborted }),
        (other, _) => return Err(format!("`choices[0].finish_reason` is {other:?}")),
    };
    let logprobs = choice["logprobs"]["token_logprobs"].as_array();
    let logprobs = logprobs.ok_or("`choices[0].logprobs.token_logprobs` is missing")?;
    let logprobs: Vec<f32> = logprobs.iter().map(logprob).collect::<Result<_, _>>()?;
    if ids.is_empty() || ids.len() != logprobs.len() {
        return Err(format!("it has {} ids and {} log-probs", ids.len(), logprobs.len()));
    }
    Ok(Completion { ids, logprobs, end })
}

fn logprob(value: &Value) -> Result<f32, String> {
    match value.as_f64() {
        Some(logprob) if logprob > LEAST && logprob <= 0.0 => Ok(logprob as f32),
        _ => Err(format!("{value} is no log-prob of a token that was sampled")),
    }
}

/// The log-probs of a text's ids but the first, at temperature 1.
pub(super) async fn score(
    server: &Server,
    model: &str,
    ids: &[u32],
) -> Result<Result<Vec<f32>, String>, HttpError> {
    let body = json!({
        "model": model, "prompt": ids, "add_special_tokens": false, "max_tokens": 1, "temperature": 0.0,
        "prompt_logprobs": 0, "return_tokens_as_token_ids": true,
    });
    let answer = server.post(COMPLETIONS, body.to_string()).json().await?;
    let choice = &answer["choices"][0];
    let logprobs =
        choice["prompt_logprobs"].as_array().or_else(|| choice["prompt_token_logprobs"].as_array());
    let Some(logprobs) = logprobs else {
        return Ok(Err("`choices[0].prompt_logprobs` is missing".to_owned()));
    };
    let of = |(id, given): (&u32, &Value)| {
        let logprob = given[id.to_string()]["logprob"].as_f64();
        logprob
            .map(|logprob| logprob as f32)
            .ok_or_else(|| format!("it gives no log-prob of the id {id}: {given}"))
    };
    Ok(ids.iter().zip(logprobs).skip(1).map(of).collect())
}

/// Looks at a server before it is used. `model` is the name to look for, if there is one.
///
/// # Errors
/// If it does not answer; inside, what is wrong with it.
pub(super) async fn facts(server: &Server, model: Option<&str>) -> Result<Result<Facts, String>, HttpError> {
    let listed = server.get("/v1/models").json().await?;
    let models = listed["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |entry: &Value| entry["id"].as_str().unwrap_or_default().to_owned();
    let found = match model {
        Some(wanted) => models.iter().find(|entry| name(entry) == wanted),
        None => models.first(),
    };
    let Some(found) = found else {
        let names: Vec<String> = models.iter().map(name).collect();
        return Ok(Err(format!(
            "it does not serve `{}`, but {}",
            model.unwrap_or("any model"),
            names.join(", ")
        )));
    };
    let model = name(found);
    let Some(context_tokens_max) = found["max_model_len"].as_u64() else {
        return Ok(Err(
            "it does not say how long a context may be (`max_model_len` in /v1/models)".to_owned()
        ));
    };
    match server.get("/is_paused").json().await {
        Ok(_) => {}
        Err(HttpError::Status { status: 404, .. }) => {
            return Ok(Err(
                "it takes no new weights: start it with VLLM_SERVER_DEV_MODE=1 in its environment".to_owned(),
            ));
        }
        Err(error) => return Err(error),
    }
    let kind = kind(server, &model).await?;
    Ok(kind.map(|kind| Facts {
        model,
        context_tokens_max: context_tokens_max as usize,
        kind,
        heeds_seeds: true,
    }))
}

/// Finds out which log-probs it gives: no route says that. Where only one token is allowed, that of the distribution
/// that is drawn from is 0, and the model's is not.
async fn kind(server: &Server, model: &str) -> Result<Result<Kind, String>, HttpError> {
    let body = json!({
        "model": model, "prompt": [0], "add_special_tokens": false, "max_tokens": 1, "temperature": 1.0,
        "logprobs": 0, "allowed_token_ids": [1], "return_token_ids": true, "return_tokens_as_token_ids": true,
        "ignore_eos": true,
    });
    let answer = server.post(COMPLETIONS, body.to_string()).json().await?;
    let given = &answer["choices"][0]["logprobs"]["token_logprobs"][0];
    Ok(match given.as_f64() {
        Some(0.0) => Ok(Kind::Drawn),
        Some(logprob) if logprob < 0.0 => Ok(Kind::Raw),
        _ => Err(format!(
            "it gives {given} for a log-prob: start it with `--logprobs-mode processed_logprobs` or `raw_logprobs`"
        )),
    })
}

/// Gives a server the weights in `dir`, and tells it their name. Each state may take as long as `patience` says, and is
/// checked before the next one begins.
///
/// # Errors
/// In which state, and why. A server that failed to load has no usable weights any more, and stays paused.
pub(super) async fn update(
    server: &Server,
    dir: &Path,
    name: &str,
    patience: Patience,
) -> Result<(), (Stage, String)> {
    let paused = Serving { server, patience }.pause().await?;
    let loaded = paused.load(dir).await?;
    let labelled = loaded.label(name).await?;
    labelled.resume().await
}

/// A server in one of the states of an update. Each step takes one state and returns the next.
struct Serving<'a> {
    server: &'a Server,
    patience: Patience,
}
struct Paused<'a>(Serving<'a>);
struct Loaded<'a>(Serving<'a>);
struct Labelled<'a>(Serving<'a>);

impl<'a> Serving<'a> {
    fn post(&self, path: &str, body: String) -> Call<'a> {
        self.server.post(path, body).with(self.patience)
    }

    async fn is_paused(&self) -> Result<bool, String> {
        let answer = self.server.get("/is_paused").json().await.map_err(said)?;
        answer["is_paused"].as_bool().ok_or_else(|| format!("/is_paused answers {answer}"))
    }

    async fn pause(self) -> Result<Paused<'a>, (Stage, String)> {
        let at = |problem| (Stage::Pause, problem);
        // Requests of others end with the weights that they began with; the cache belongs to those weights.
        let call = self.post("/pause?mode=wait&clear_cache=true", String::new());
        call.json().await.map_err(|error| at(said(error)))?;
        match self.is_paused().await.map_err(at)? {
            true => Ok(Paused(self)),
            false => Err(at("it says that it is not paused".to_owned())),
        }
    }
}

impl<'a> Paused<'a> {
    async fn load(self, dir: &Path) -> Result<Loaded<'a>, (Stage, String)> {
        let dir = dir.to_string_lossy();
        let body = json!({"method": "reload_weights", "kwargs": {"weights_path": dir}}).to_string();
        // Not twice: a server that failed once may end at the second try.
        let answer = self.0.post("/collective_rpc", body).once().json().await;
        let answer = answer.map_err(|error| {
            (Stage::Load, format!("{}; it has lost its weights: start it again", said(error)))
        })?;
        match answer["results"].as_array() {
            Some(results) if !results.is_empty() => Ok(Loaded(self.0)),
            _ => Err((Stage::Load, format!("/collective_rpc answers {answer}"))),
        }
    }
}

impl<'a> Loaded<'a> {
    async fn label(self, name: &str) -> Result<Labelled<'a>, (Stage, String)> {
        let at = |problem| (Stage::Label, problem);
        let call = self.0.post("/update_weight_version", json!({"new_version": name}).to_string());
        call.json().await.map_err(|error| at(said(error)))?;
        match weights_name(self.0.server).await.map_err(|error| at(said(error)))? {
            Some(told) if told == name => Ok(Labelled(self.0)),
            told => Err(at(format!("/weight_info says {told:?} after the weights were named {name}"))),
        }
    }
}

/// The name that it was last told of its weights.
pub(super) async fn weights_name(server: &Server) -> Result<Option<String>, HttpError> {
    Ok(server.get("/weight_info").json().await?["weight_version"].as_str().map(str::to_owned))
}

impl Labelled<'_> {
    async fn resume(self) -> Result<(), (Stage, String)> {
        let at = |problem| (Stage::Resume, problem);
        self.0.post("/resume", String::new()).json().await.map_err(|error| at(said(error)))?;
        match self.0.is_paused().await.map_err(at)? {
            false => Ok(()),
            true => Err(at("it says that it is still paused".to_owned())),
        }
    }
}

/// Gives a server the adapter in `dir` under a name that it does not know. Its requests and those of others go on.
///
/// # Errors
/// In which state, and why.
pub(super) async fn add_adapter(
    server: &Server,
    name: &str,
    dir: &Path,
    patience: Patience,
) -> Result<(), (Stage, String)> {
    let body = json!({"lora_name": name, "lora_path": dir.to_string_lossy()}).to_string();
    let answer = server.post("/v1/load_lora_adapter", body).with(patience).once().text().await;
    if answer.as_ref().is_err_and(is_known) {
        return Ok(());
    }
    answer.map(|_| ()).map_err(|error| {
        let hint = match &error {
            HttpError::Status { status: 404, .. } => {
                "; start it with --enable-lora, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment"
            }
            _ => "",
        };
        (Stage::Load, format!("{error}{hint}"))
    })
}

/// Whether it has the adapter already, because it was lost only for a while.
fn is_known(error: &HttpError) -> bool {
    matches!(error, HttpError::Status { status: 400, said, .. } if said.contains("already"))
}

/// Takes an adapter away again.
pub(super) async fn remove_adapter(server: &Server, name: &str) -> Result<(), HttpError> {
    let body = json!({ "lora_name": name }).to_string();
    server.post("/v1/unload_lora_adapter", body).once().text().await.map(|_| ())
}

fn said(error: HttpError) -> String {
    error.to_string()
}

/// Whether it complains about a prompt that does not fit.
pub(super) fn is_too_long(error: &HttpError) -> bool {
    matches!(error, HttpError::Status { status: 400, said, .. } if said.contains("maximum context length"))
}
