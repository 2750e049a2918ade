//! vLLM's wire format, as of version 0.32.
//!
//! Sampling is `POST /v1/completions` with ids. Every field is sent, since those that are absent are taken from the
//! model's `generation_config.json`. Weights are read by `POST /collective_rpc`, which vLLM has only in its development
//! mode (`VLLM_SERVER_DEV_MODE=1`).

use burnish_http::{HttpError, Server};
use serde_json::{Value, json};

use super::wire::{Facts, Kind, Wire, as_id, context, logit_bias};
use crate::tokens::{Ask, Completion, End};

const COMPLETIONS: &str = "/v1/completions";
/// The least log-prob that it sends; it stands for −∞.
const LEAST: f64 = -9999.0;

pub(super) const WIRE: Wire = Wire {
    generate: COMPLETIONS,
    request,
    completion,
    scoring: |model, ids| {
        json!({
            "model": model, "prompt": ids, "add_special_tokens": false, "max_tokens": 1, "temperature": 0.0,
            "prompt_logprobs": 0, "return_tokens_as_token_ids": true,
        })
    },
    scores,
    too_long: &["maximum context length"],
    // Requests of others end with the weights that they began with; the cache belongs to those weights.
    pause: ("/pause?mode=wait&clear_cache=true", ""),
    resume: ("/resume", ""),
    is_paused: Some("/is_paused"),
    load: "/collective_rpc",
    weights: |dir, _| json!({"method": "reload_weights", "kwargs": {"weights_path": dir.to_string_lossy()}}),
    is_loaded: |answer| answer["results"].as_array().is_some_and(|results| !results.is_empty()),
    after_failure: "; it has lost its weights: start it again",
    label: Some("/update_weight_version"),
    name: "/weight_info",
    adapters: "/v1",
    adapters_in_json: false,
    adapter_hint: |error| match error {
        HttpError::Status { status: 404, .. } => {
            "; start it with --enable-lora, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment"
        }
        _ => "",
    },
};

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

fn completion(answer: &Value) -> Result<Completion, String> {
    let choice = &answer["choices"][0];
    let ids = choice["token_ids"].as_array().ok_or("`choices[0].token_ids` is missing")?;
    let ids: Option<Vec<u32>> = ids.iter().map(as_id).collect();
    let ids = ids.ok_or("`choices[0].token_ids` has something that is no id")?;
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

fn scores(ids: &[u32], answer: &Value) -> Result<Vec<f32>, String> {
    let choice = &answer["choices"][0];
    let logprobs =
        choice["prompt_logprobs"].as_array().or_else(|| choice["prompt_token_logprobs"].as_array());
    let logprobs = logprobs.ok_or("`choices[0].prompt_logprobs` is missing")?;
    let of = |(id, given): (&u32, &Value)| {
        let logprob = given[id.to_string()]["logprob"].as_f64();
        logprob
            .map(|logprob| logprob as f32)
            .ok_or_else(|| format!("it gives no log-prob of the id {id}: {given}"))
    };
    ids.iter().zip(logprobs).skip(1).map(of).collect()
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
    let context_tokens_max = match context(found, 0) {
        Ok(context) => context,
        Err(problem) => return Ok(Err(problem)),
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
    Ok(kind.map(|kind| Facts { model, context_tokens_max, kind, heeds_seeds: true }))
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
