//! SGLang's wire format, as of version 0.5.23.
//!
//! Sampling is `POST /generate` with ids; weights are read by `POST /update_weights_from_disk`. A server heeds seeds
//! only if it was started with `--enable-deterministic-inference`.

use std::path::Path;

use burnish_http::{Call, HttpError, Patience, Server};
use serde_json::{Value, json};

use super::Stage;
use super::request::{Facts, Kind, logit_bias};
use crate::tokens::{Ask, Completion, End};

/// Asks for an answer.
pub(super) async fn complete(
    server: &Server,
    adapter: Option<&str>,
    ask: &Ask<'_>,
) -> Result<Value, HttpError> {
    server.post("/generate", request(adapter, ask).to_string()).json().await
}

fn request(adapter: Option<&str>, ask: &Ask<'_>) -> Value {
    let sampling = ask.sampling;
    // With `ignore_eos` it stops at no id at all.
    let stop_ids =
        if sampling.ignore_eos { Vec::new() } else { [ask.end_ids, &sampling.stop_token_ids].concat() };
    json!({
        "input_ids": ask.prompt,
        "lora_path": adapter,
        "stream": false,
        "return_logprob": true,
        "logprob_start_len": -1,
        "top_logprobs_num": 0,
        "return_text_in_logprobs": false,
        "sampling_params": {
            "max_new_tokens": sampling.tokens_max.min(ask.tokens_max),
            "temperature": sampling.temperature,
            "top_p": 1.0, "top_k": -1, "min_p": 0.0, "min_new_tokens": 0,
            "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
            "sampling_seed": ask.seed & i64::MAX as u64,
            "stop": sampling.stop,
            "no_stop_trim": true,
            "stop_token_ids": stop_ids,
            "ignore_eos": sampling.ignore_eos,
            "logit_bias": logit_bias(ask.missing_ids),
            "skip_special_tokens": false,
            "spaces_between_special_tokens": false,
        },
    })
}

/// Reads an answer.
///
/// # Errors
/// Says what is missing or wrong.
pub(super) fn completion(answer: &Value) -> Result<Completion, String> {
    let about = &answer["meta_info"];
    let reason = &about["finish_reason"];
    let end = match (reason["type"].as_str(), &reason["matched"]) {
        (Some("stop"), Value::Number(_)) => End::Token,
        (Some("stop"), Value::String(said)) if said == "NaN happened" => {
            return Err("its weights give no numbers (`NaN happened`)".to_owned());
        }
        (Some("stop"), Value::String(_)) => End::Text,
        (Some("length"), _) => End::Length,
        (Some("abort"), _) => {
            return Ok(Completion { ids: Vec::new(), logprobs: Vec::new(), end: End::Aborted });
        }
        _ => return Err(format!("`meta_info.finish_reason` is {reason}")),
    };
    let given = about["output_token_logprobs"].as_array();
    let given = given.ok_or("`meta_info.output_token_logprobs` is missing")?;
    let (ids, logprobs): (Vec<u32>, Vec<f32>) = given.iter().map(pair).collect::<Result<_, _>>()?;
    let said = answer["output_ids"].as_array().map(Vec::len);
    if ids.is_empty() || said.is_some_and(|said| said != ids.len()) {
        return Err(format!("it has {} log-probs of {} ids", ids.len(), said.unwrap_or_default()));
    }
    Ok(Completion { ids, logprobs, end })
}

/// An id with its log-prob: `[log-prob, id, text]`.
fn pair(given: &Value) -> Result<(u32, f32), String> {
    let id = given[1].as_u64().and_then(|id| u32::try_from(id).ok());
    // The lowest number stands for −∞.
    let logprob = given[0].as_f64().filter(|logprob| (-1e30..=0.0).contains(logprob));
    match (id, logprob) {
        (Some(id), Some(logprob)) => Ok((id, logprob as f32)),
        _ => Err(format!("{given} is no log-prob of a token")),
    }
}

/// The log-probs of a text's ids but the first, at temperature 1.
pub(super) async fn score(
    server: &Server,
    adapter: Option<&str>,
    ids: &[u32],
) -> Result<Result<Vec<f32>, String>, HttpError> {
    let body = json!({
        "input_ids": ids, "lora_path": adapter, "return_logprob": true, "logprob_start_len": 0,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
    });
    let answer = server.post("/generate", body.to_string()).json().await?;
    let Some(given) = answer["meta_info"]["input_token_logprobs"].as_array() else {
        return Ok(Err("`meta_info.input_token_logprobs` is missing".to_owned()));
    };
    let of = |(id, given): (&u32, &Value)| match pair(given)? {
        (given, logprob) if given == *id => Ok(logprob),
        _ => Err(format!("it gives {given} for the id {id}")),
    };
    Ok(ids.iter().zip(given).skip(1).map(of).collect())
}

/// Looks at a server before it is used.
///
/// # Errors
/// If it does not answer; inside, what is wrong with it.
pub(super) async fn facts(server: &Server) -> Result<Result<Facts, String>, HttpError> {
    let listed = server.get("/v1/models").json().await?;
    let Some(context) = listed["data"][0]["max_model_len"].as_u64().filter(|context| *context > 1) else {
        return Ok(Err(
            "it does not say how long a context may be (`max_model_len` in /v1/models)".to_owned()
        ));
    };
    let settings = server.get("/server_info").json().await?;
    let heeds_seeds = settings["enable_deterministic_inference"].as_bool().unwrap_or(false);
    // How far the likeliest ids are apart, at two temperatures.
    let mut apart = [0.0; 2];
    for (apart, temperature) in apart.iter_mut().zip([1.0, 1000.0]) {
        let body = json!({
            "input_ids": [0], "return_logprob": true, "top_logprobs_num": 8,
            "sampling_params": {"max_new_tokens": 1, "temperature": temperature, "ignore_eos": true},
        });
        let answer = server.post("/generate", body.to_string()).json().await?;
        let top = &answer["meta_info"]["output_top_logprobs"][0];
        let (Some(first), Some(last)) = (top[0][0].as_f64(), top[7][0].as_f64()) else {
            return Ok(Err(format!("it gives no log-probs of the likeliest ids: {top}")));
        };
        *apart = first - last;
    }
    let kind = if apart[1] < apart[0] / 2.0 { Kind::Drawn } else { Kind::Raw };
    // The last place of the context is never sampled, and the model's name is that of its last weights.
    let (model, context_tokens_max) = (String::new(), context as usize - 1);
    Ok(Ok(Facts { model, context_tokens_max, kind, heeds_seeds }))
}

/// Gives a server the weights in `dir`, and tells it their name. Each state may take as long as `patience` says, and is
/// checked before the next one begins.
///
/// # Errors
/// In which state, and why. A server that failed to load ends.
pub(super) async fn update(
    server: &Server,
    dir: &Path,
    name: &str,
    patience: Patience,
) -> Result<(), (Stage, String)> {
    let paused = Serving { server, patience }.pause().await?;
    let loaded = paused.load(dir, name).await?;
    loaded.resume().await
}

/// A server in one of the states of an update. Each step takes one state and returns the next.
struct Serving<'a> {
    server: &'a Server,
    patience: Patience,
}
struct Paused<'a>(Serving<'a>);
struct Loaded<'a>(Serving<'a>);

impl<'a> Serving<'a> {
    fn post(&self, path: &str, body: Value) -> Call<'a> {
        self.server.post(path, body.to_string()).with(self.patience)
    }

    async fn pause(self) -> Result<Paused<'a>, (Stage, String)> {
        // Requests of others are computed again with the new weights.
        let call = self.post("/pause_generation", json!({"mode": "retract"}));
        call.json().await.map_err(|error| (Stage::Pause, error.to_string()))?;
        Ok(Paused(self))
    }
}

impl<'a> Paused<'a> {
    async fn load(self, dir: &Path, name: &str) -> Result<Loaded<'a>, (Stage, String)> {
        let body = json!({"model_path": dir.to_string_lossy(), "weight_version": name, "flush_cache": true});
        // Not twice: a server that failed once ends.
        let answer = self.0.post("/update_weights_from_disk", body).once().json().await;
        let answer = answer.map_err(|error| (Stage::Load, error.to_string()))?;
        if answer["success"].as_bool() != Some(true) {
            return Err((Stage::Load, format!("/update_weights_from_disk answers {answer}")));
        }
        let told = weights_name(self.0.server).await;
        match told.map_err(|error| (Stage::Label, error.to_string()))? {
            Some(told) if told == name => Ok(Loaded(self.0)),
            told => {
                Err((Stage::Label, format!("/model_info says {told:?} after the weights were named {name}")))
            }
        }
    }
}

/// The name that it was last told of its weights.
pub(super) async fn weights_name(server: &Server) -> Result<Option<String>, HttpError> {
    Ok(server.get("/model_info").json().await?["weight_version"].as_str().map(str::to_owned))
}

impl Loaded<'_> {
    async fn resume(self) -> Result<(), (Stage, String)> {
        // What it would free otherwise is of another library.
        let call = self.0.post("/continue_generation", json!({"torch_empty_cache": false}));
        call.json().await.map(|_| ()).map_err(|error| (Stage::Resume, error.to_string()))
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
    let answer = server.post("/load_lora_adapter", body).with(patience).once().json().await;
    match answer {
        Ok(answer) if answer["success"].as_bool() == Some(true) => Ok(()),
        Ok(answer) => Err((Stage::Load, format!("/load_lora_adapter answers {answer}"))),
        Err(error) if is_known(&error) => Ok(()),
        Err(error) => Err((
            Stage::Load,
            format!("{error}; a server takes adapters if it was started with --enable-lora"),
        )),
    }
}

/// Whether it has the adapter already, because it was lost only for a while.
fn is_known(error: &HttpError) -> bool {
    matches!(error, HttpError::Status { status: 400, said, .. } if said.contains("already"))
}

/// Takes an adapter away again.
pub(super) async fn remove_adapter(server: &Server, name: &str) -> Result<(), HttpError> {
    server
        .post("/unload_lora_adapter", json!({ "lora_name": name }).to_string())
        .once()
        .text()
        .await
        .map(|_| ())
}

/// Whether it complains about a prompt that does not fit.
pub(super) fn is_too_long(error: &HttpError) -> bool {
    matches!(error, HttpError::Status { status: 400, said, .. }
        if said.contains("longer than the model's context length") || said.contains("maximum context length"))
}
