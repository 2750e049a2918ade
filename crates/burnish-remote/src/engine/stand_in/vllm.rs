//! vLLM's routes.

use serde_json::{Value, json};

use super::{Asked, Ending, State, ids};

type Reply = (&'static str, Value);

pub(super) fn reply(state: &mut State, route: &str, query: &str, body: &Value, end: u32) -> Option<Reply> {
    let answer = match route {
        "/v1/models" => json!({"object": "list", "data": [{"id": "policy", "max_model_len": 64}]}),
        "/is_paused" => json!({"is_paused": state.is_paused}),
        "/pause" => {
            assert_eq!(query, "mode=wait&clear_cache=true");
            state.is_paused = true;
            json!({"status": "paused"})
        }
        "/resume" => {
            state.is_paused = false;
            json!({"status": "resumed"})
        }
        "/collective_rpc" => {
            assert!(body["method"] == "reload_weights" && state.is_paused, "{body}");
            state.load(&body["kwargs"]["weights_path"]);
            json!({"results": [null]})
        }
        "/update_weight_version" => {
            state.label = body["new_version"].as_str().unwrap().to_owned();
            json!({"success": true, "new_version": state.label})
        }
        "/weight_info" => json!({"weight_version": state.label}),
        "/v1/load_lora_adapter" => match state.add(body) {
            true => json!("Success: LoRA adapter added successfully."),
            false => {
                let message = "The lora adapter has already been loaded.";
                return Some(("400 Bad Request", json!({"error": {"message": message}})));
            }
        },
        "/v1/unload_lora_adapter" => {
            state.adapters.remove(body["lora_name"].as_str().unwrap());
            json!("Success: LoRA adapter removed successfully.")
        }
        "/v1/completions" => completion(state, body, end),
        _ => return None,
    };
    Some(("200 OK", answer))
}

fn completion(state: &mut State, body: &Value, end: u32) -> Value {
    let (logprob, prompt) = (state.logprob(&body["model"]), ids(&body["prompt"]));
    if !body["prompt_logprobs"].is_null() {
        let of = |id: &u32| json!({ id.to_string(): {"logprob": logprob, "rank": 1} });
        let given: Vec<Value> = std::iter::once(Value::Null).chain(prompt[1..].iter().map(of)).collect();
        return json!({"choices": [{"prompt_logprobs": given, "finish_reason": "length"}]});
    }
    if !body["allowed_token_ids"].is_null() {
        let given = if state.manner.gives_drawn { 0.0 } else { -7.5 };
        return json!({"choices": [{"logprobs": {"token_logprobs": [given]}}]});
    }
    let (seed, stop_ids) = (body["seed"].as_u64().unwrap(), ids(&body["stop_token_ids"]));
    let asked = Asked { prompt, seed, stop_ids, body: body.clone() };
    let (ids, ending) = state.answer(asked, &body["max_tokens"], &body["stop"], end);
    let (finish, stop) = match ending {
        Ending::Id(id) => ("stop", json!(id)),
        Ending::Text(stop) => ("stop", json!(stop)),
        Ending::Length => ("length", Value::Null),
        Ending::Abort => ("abort", Value::Null),
    };
    let choice = json!({
        "index": 0, "text": "", "token_ids": ids, "finish_reason": finish, "stop_reason": stop,
        "logprobs": {"token_logprobs": vec![logprob; ids.len()]},
    });
    json!({"id": "cmpl-1", "choices": [choice]})
}
