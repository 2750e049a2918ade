//! What is sent, and what comes back, to the byte.

use burnish_http::shortened;
use serde_json::{Value, json};

use super::{Adam, Bounds, Divides, Loss, Slope};
use crate::tokens::{Ask, Completion, End};

/// Largest seed: servers that compute in JAX take 31 bits.
const SEED_MAX: u64 = i32::MAX as u64;

/// Sequences whose tokens are scored: each predicts its tokens but the first.
pub(super) fn scored(sequences: &[&[u32]]) -> Value {
    let datum = |ids: &&[u32]| {
        let (inputs, targets) = parts(ids);
        json!({
            "model_input": input(inputs),
            "loss_fn_inputs": {
                "target_tokens": numbers("int64", targets),
                "weights": numbers("float32", vec![1.0_f32; targets.len()]),
            },
        })
    };
    let data: Vec<Value> = sequences.iter().map(datum).collect();
    json!({ "data": data, "loss_fn": "cross_entropy" })
}

/// Sequences whose loss has the given derivatives by their log-probs where the ratio is 1, in an update of `sequences`
/// sequences.
pub(super) fn sloped(slopes: &[Slope<'_>], loss: Loss, divides: Divides, sequences: usize) -> Value {
    let datum = |slope: &Slope<'_>| {
        let (inputs, targets) = parts(slope.ids);
        let undone = divides.undone(targets.len(), sequences);
        let advantages: Vec<f64> = slope.d_logprobs[1..].iter().map(|slope| -slope * undone).collect();
        json!({
            "model_input": input(inputs),
            "loss_fn_inputs": {
                "target_tokens": numbers("int64", targets),
                "logprobs": numbers("float32", &slope.logprobs[1..]),
                "advantages": numbers("float32", advantages),
            },
        })
    };
    let data: Vec<Value> = slopes.iter().map(datum).collect();
    match loss {
        Loss::PolicyGradient => json!({ "data": data, "loss_fn": "importance_sampling" }),
        Loss::Clipped(Bounds { low, high }) => json!({
            "data": data,
            "loss_fn": "ppo",
            "loss_fn_config": { "clip_low_threshold": low, "clip_high_threshold": high },
        }),
    }
}

fn parts(ids: &[u32]) -> (&[u32], &[u32]) {
    (&ids[..ids.len() - 1], &ids[1..])
}

fn input(ids: &[u32]) -> Value {
    json!({ "chunks": [{ "type": "encoded_text", "tokens": ids }] })
}

fn numbers<T: serde::Serialize, S: AsRef<[T]>>(dtype: &str, data: S) -> Value {
    let data = data.as_ref();
    json!({ "data": data, "dtype": dtype, "shape": [data.len()] })
}

/// The log-probs of each sequence, one entry per token: 0 for the first, which nothing predicts.
pub(super) fn logprobs(answer: &Value, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, String> {
    let outputs = answer["loss_fn_outputs"].as_array().ok_or("the answer has no `loss_fn_outputs`")?;
    if outputs.len() != sequences.len() {
        return Err(format!("{} sequences come back of {}", outputs.len(), sequences.len()));
    }
    let of_sequence = |(output, ids): (&Value, &&[u32])| {
        let found = floats(&output["logprobs"]["data"])?;
        if found.len() != ids.len() - 1 {
            return Err(format!("{} log-probs come back for {} tokens", found.len(), ids.len() - 1));
        }
        Ok(std::iter::once(0.0).chain(found).collect())
    };
    outputs.iter().zip(sequences).map(of_sequence).collect()
}

fn floats(values: &Value) -> Result<Vec<f32>, String> {
    let values = values.as_array().ok_or("there are no numbers in the answer")?;
    let number = |value: &Value| {
        let number =
            value.as_f64().ok_or_else(|| format!("{} is no number", shortened(&value.to_string())))?;
        Ok(number as f32)
    };
    values.iter().map(number).collect()
}

pub(super) fn adam(adam: &Adam) -> Value {
    let Adam { learning_rate, beta1, beta2, epsilon, weight_decay, grad_norm_max } = *adam;
    let mut params = json!({
        "learning_rate": learning_rate, "beta1": beta1, "beta2": beta2, "eps": epsilon, "weight_decay": weight_decay,
    });
    if let Some(max) = grad_norm_max {
        params["grad_clip_norm"] = max.into();
    }
    params
}

/// A request for an answer of the weights at `path`.
pub(super) fn ask(path: &str, ask: &Ask<'_>) -> Value {
    let sampling = ask.sampling;
    let end_ids = if sampling.ignore_eos { &[] } else { ask.end_ids };
    let stop_ids = [end_ids, &sampling.stop_token_ids].concat();
    json!({
        "prompt": input(ask.prompt),
        "model_path": path,
        "num_samples": 1,
        "sampling_params": {
            "max_tokens": sampling.tokens_max.min(ask.tokens_max),
            "temperature": sampling.temperature,
            "seed": ask.seed % SEED_MAX,
            "stop": stop_ids,
            "top_k": -1,
            "top_p": 1.0,
        },
    })
}

/// Reads an answer.
pub(super) fn completion(answer: &Value) -> Result<Completion, String> {
    let sequence = &answer["sequences"][0];
    let ids = sequence["tokens"].as_array().ok_or("the answer has no `tokens`")?;
    let ids: Option<Vec<u32>> =
        ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
    let ids = ids.ok_or("a token is no id")?;
    let logprobs = floats(&sequence["logprobs"])?;
    if ids.is_empty() || logprobs.len() != ids.len() {
        return Err(format!("it has {} tokens with {} log-probs", ids.len(), logprobs.len()));
    }
    let end = match sequence["stop_reason"].as_str() {
        Some("length") => End::Length,
        Some("stop") => End::Token,
        _ => return Err(format!("`stop_reason` is {}", shortened(&sequence["stop_reason"].to_string()))),
    };
    Ok(Completion { ids, logprobs, end })
}

/// A request for the log-probs of a text under the base model.
pub(super) fn ask_base(base_model: &str, ids: &[u32]) -> Value {
    json!({
        "prompt": input(ids),
        "base_model": base_model,
        "num_samples": 1,
        "prompt_logprobs": true,
        "sampling_params": { "max_tokens": 1, "temperature": 1.0, "seed": 0, "top_k": -1, "top_p": 1.0 },
    })
}

/// The log-probs of a text that was a prompt, one entry per token.
pub(super) fn prompt_logprobs(answer: &Value, ids: &[u32]) -> Result<Vec<f32>, String> {
    let found = answer["prompt_logprobs"].as_array().ok_or("the answer has no `prompt_logprobs`")?;
    // Tinker's service has an entry for the first token, which nothing predicts; SkyRL's has none.
    let rest = match found.first() {
        Some(Value::Null) => &found[1..],
        _ => found,
    };
    if rest.len() + 1 != ids.len() {
        return Err(format!("{} log-probs come back for {} tokens", rest.len(), ids.len() - 1));
    }
    Ok(std::iter::once(0.0).chain(floats(&Value::Array(rest.to_vec()))?).collect())
}
