//! SGLang's wire format, as of version 0.5.23.
//!
//! Sampling is `POST /generate` with ids; weights are read by `POST /update_weights_from_disk`. A server heeds seeds
//! only if it was started with `--enable-deterministic-inference`.

use burnish_http::{HttpError, Server};
use serde_json::{Value, json};

use super::wire::{Facts, Kind, Wire, as_id, context, logit_bias};
use crate::tokens::{Ask, Completion, End};

const GENERATE: &str = "/generate";

pub(super) const WIRE: Wire = Wire {
    generate: GENERATE,
    request,
    completion,
    scoring: |name, ids| {
        json!({
            "input_ids": ids, "lora_path": adapter(name), "return_logprob": true, "logprob_start_len": 0,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        })
    },
    scores,
    too_long: &["longer than the model's context length", "maximum context length"],
    // Requests of others are computed again with the new weights.
    pause: ("/pause_generation", r#"{"mode":"retract"}"#),
    // What it would free otherwise is of another library.
    resume: ("/continue_generation", r#"{"torch_empty_cache":false}"#),
    is_paused: None,
    load: "/update_weights_from_disk",
    weights: |dir, name| json!({"model_path": dir.to_string_lossy(), "weight_version": name, "flush_cache": true}),
    is_loaded: |answer| answer["success"].as_bool() == Some(true),
    after_failure: "",
    label: None,
    name: "/model_info",
    adapters: "",
    adapters_in_json: true,
    adapter_hint: |_| "; a server takes adapters if it was started with --enable-lora",
};

/// The model itself is asked for without a name.
fn adapter(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

fn request(name: &str, ask: &Ask<'_>) -> Value {
    let sampling = ask.sampling;
    // With `ignore_eos` it stops at no id at all.
    let stop_ids =
        if sampling.ignore_eos { Vec::new() } else { [ask.end_ids, &sampling.stop_token_ids].concat() };
    json!({
        "input_ids": ask.prompt,
        "lora_path": adapter(name),
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

fn completion(answer: &Value) -> Result<Completion, String> {
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
    // The lowest number stands for −∞.
    let logprob = given[0].as_f64().filter(|logprob| (-1e30..=0.0).contains(logprob));
    match (as_id(&given[1]), logprob) {
        (Some(id), Some(logprob)) => Ok((id, logprob as f32)),
        _ => Err(format!("{given} is no log-prob of a token")),
    }
}

fn scores(ids: &[u32], answer: &Value) -> Result<Vec<f32>, String> {
    let given = answer["meta_info"]["input_token_logprobs"].as_array();
    let given = given.ok_or("`meta_info.input_token_logprobs` is missing")?;
    let of = |(id, given): (&u32, &Value)| match pair(given)? {
        (given, logprob) if given == *id => Ok(logprob),
        _ => Err(format!("it gives {given} for the id {id}")),
    };
    ids.iter().zip(given).skip(1).map(of).collect()
}

/// Looks at a server before it is used.
///
/// # Errors
/// If it does not answer; inside, what is wrong with it.
pub(super) async fn facts(server: &Server) -> Result<Result<Facts, String>, HttpError> {
    let listed = server.get("/v1/models").json().await?;
    let context = match context(&listed["data"][0], 2) {
        Ok(context) => context,
        Err(problem) => return Ok(Err(problem)),
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
        let answer = server.post(GENERATE, body.to_string()).json().await?;
        let top = &answer["meta_info"]["output_top_logprobs"][0];
        let (Some(first), Some(last)) = (top[0][0].as_f64(), top[7][0].as_f64()) else {
            return Ok(Err(format!("it gives no log-probs of the likeliest ids: {top}")));
        };
        *apart = first - last;
    }
    let kind = if apart[1] < apart[0] / 2.0 { Kind::Drawn } else { Kind::Raw };
    // The last place of the context is never sampled, and the model's name is that of its last weights.
    let (model, context_tokens_max) = (String::new(), context - 1);
    Ok(Ok(Facts { model, context_tokens_max, kind, heeds_seeds }))
}
