//! SGLang's routes. What it does not know in `sampling_params` is an error, as there.

use serde_json::{Value, json};

use super::{Asked, Ending, State, ids};

type Reply = (&'static str, Value);

const BAD: &str = "400 Bad Request";

/// Whether a value is of a type.
type IsOf = fn(&Value) -> bool;

/// The keys of `sampling_params`, each with the type of its values.
const KNOWN: [(&str, IsOf); 17] = [
    ("max_new_tokens", Value::is_u64),
    ("min_new_tokens", Value::is_u64),
    ("temperature", Value::is_number),
    ("top_p", Value::is_number),
    ("top_k", Value::is_i64),
    ("min_p", Value::is_number),
    ("repetition_penalty", Value::is_number),
    ("presence_penalty", Value::is_number),
    ("frequency_penalty", Value::is_number),
    ("sampling_seed", Value::is_i64),
    ("stop", Value::is_array),
    ("no_stop_trim", Value::is_boolean),
    ("stop_token_ids", Value::is_array),
    ("ignore_eos", Value::is_boolean),
    ("logit_bias", Value::is_object),
    ("skip_special_tokens", Value::is_boolean),
    ("spaces_between_special_tokens", Value::is_boolean),
];

pub(super) fn reply(state: &mut State, route: &str, body: &Value, end: u32) -> Option<Reply> {
    let answer = match route {
        "/server_info" => json!({"version": "0.5.23", "enable_deterministic_inference": true}),
        "/model_info" => json!({"model_path": "/m", "weight_version": state.label}),
        "/pause_generation" => {
            assert_eq!(body["mode"], "retract");
            state.is_paused = true;
            json!({"message": "Generation paused successfully.", "status": "ok"})
        }
        "/continue_generation" => {
            assert_eq!(body["torch_empty_cache"], false);
            state.is_paused = false;
            json!({"message": "Generation continued successfully.", "status": "ok"})
        }
        "/update_weights_from_disk" => {
            assert!(state.is_paused && body["flush_cache"] == true, "{body}");
            state.load(&body["model_path"]);
            state.label = body["weight_version"].as_str().unwrap().to_owned();
            let message =
                format!("Succeeded to update model weights. Weight version updated to {}.", state.label);
            json!({"success": true, "message": message, "num_paused_requests": 0})
        }
        "/load_lora_adapter" => match state.add(body) {
            true => json!({"success": true, "error_message": null, "loaded_adapters": {}}),
            false => {
                return Some((BAD, json!({"error": {"message": "LoRA with that name already exists."}})));
            }
        },
        "/unload_lora_adapter" => {
            state.adapters.remove(body["lora_name"].as_str().unwrap());
            json!({"success": true, "error_message": null, "loaded_adapters": {}})
        }
        "/generate" => return Some(generate(state, body, end)),
        _ => return None,
    };
    Some(("200 OK", answer))
}

fn generate(state: &mut State, body: &Value, end: u32) -> Reply {
    let sampling = &body["sampling_params"];
    for (key, value) in sampling.as_object().unwrap() {
        let known = KNOWN.iter().find(|(name, _)| name == key);
        if !known.is_some_and(|(_, fits)| fits(value)) {
            return (BAD, json!({"error": format!("sampling_params.{key}: {value}")}));
        }
    }
    let (logprob, prompt) = (state.logprob(&body["lora_path"]), ids(&body["input_ids"]));
    let tokens_max = sampling["max_new_tokens"].as_u64().unwrap() as usize;
    if prompt.len() + tokens_max > 64 {
        let said = "Requested token count exceeds the model's maximum context length of 64 tokens.";
        return (BAD, json!({"error": {"message": said}}));
    }
    if body["logprob_start_len"] == 0 {
        let of = |id: &u32| json!([logprob, id, null]);
        let mut given: Vec<Value> = prompt.iter().map(of).collect();
        given[0][0] = Value::Null;
        return ("200 OK", json!({"output_ids": [1], "meta_info": {"input_token_logprobs": given}}));
    }
    if body["top_logprobs_num"] == 8 {
        let temperature =
            if state.manner.gives_drawn { sampling["temperature"].as_f64().unwrap() } else { 1.0 };
        let given: Vec<Value> =
            (0..8).map(|at| json!([-2.0 - f64::from(at) / temperature, at, null])).collect();
        return ("200 OK", json!({"output_ids": [1], "meta_info": {"output_top_logprobs": [given]}}));
    }
    let (seed, stop_ids) = (sampling["sampling_seed"].as_u64().unwrap(), ids(&sampling["stop_token_ids"]));
    let asked = Asked { prompt, seed, stop_ids, body: body.clone() };
    let (ids, ending) = state.answer(asked, &sampling["max_new_tokens"], &sampling["stop"], end);
    let reason = match ending {
        Ending::Id(id) => json!({"type": "stop", "matched": id}),
        Ending::Text(stop) => json!({"type": "stop", "matched": stop}),
        Ending::Length => json!({"type": "length", "length": ids.len()}),
        Ending::Abort => {
            json!({"type": "abort", "message": "Aborted", "status_code": null, "err_type": null})
        }
    };
    let given: Vec<Value> = ids.iter().map(|id| json!([logprob, id, null])).collect();
    let about =
        json!({"finish_reason": reason, "output_token_logprobs": given, "weight_version": state.label});
    ("200 OK", json!({"text": "", "output_ids": ids, "meta_info": about}))
}
