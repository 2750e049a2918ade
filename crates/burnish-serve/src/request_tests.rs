#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use burnish_core::Sampling;

use super::*;

fn read(fields: Value) -> Result<ChatRequest, Refusal> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ChatRequest::read(body.to_string().as_bytes())
}

#[test]
fn what_is_not_said_is_the_backends_decision() {
    let request = read(json!({"temperature": null, "user": "x", "metadata": {"a": 1}})).unwrap();
    assert_eq!(
        (request.sampling.clone(), request.seed, request.answers),
        (SamplingOptions::default(), None, 1)
    );
    let defaults = Sampling { stop: vec!["\n".into()], top_k: 4, ..Sampling::at(0.5, 9) };
    assert_eq!(request.sampling.over(&defaults), defaults);
}

#[test]
fn what_is_said_stands_in_place_of_the_defaults() {
    let request = read(json!({
        "temperature": 0, "top_p": 0.5, "top_k": -1, "min_p": 0.25, "stop": "a", "max_tokens": 3,
        "max_completion_tokens": 4, "seed": -1, "n": 2, "logprobs": true, "top_logprobs": 2,
        "presence_penalty": 1, "frequency_penalty": 0.5, "repetition_penalty": 1.5, "min_tokens": 1,
        "stop_token_ids": [7], "ignore_eos": true, "include_stop_str_in_output": true,
        "stream": true, "stream_options": {"include_usage": true}, "return_token_ids": true,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    }));
    let request = request.unwrap();
    assert_eq!((request.answers, request.seed), (2, Some(u64::MAX)));
    assert!(request.shape.is_stream && request.shape.has_usage && request.shape.has_ids);
    let defaults = Sampling { stop: vec!["\n".into()], top_k: 4, ..Sampling::at(0.5, 9) };
    let expected = Sampling {
        top_p: 0.5,
        min_p: 0.25,
        repetition_penalty: 1.5,
        presence_penalty: 1.0,
        frequency_penalty: 0.5,
        min_tokens: 1,
        stop: vec!["a".into()],
        include_stop: true,
        stop_token_ids: vec![7],
        ignore_eos: true,
        logprobs: Some(2),
        grammar: Some(Grammar::JsonSchema(json!({"type": "object"}))),
        ..Sampling::at(0.0, 4)
    };
    assert_eq!(request.sampling.over(&defaults), expected);
}

#[test]
fn tools_are_taken_unless_none_may_be_called() {
    let tools = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]);
    assert_eq!(read(json!({"tools": tools, "tool_choice": "auto"})).unwrap().tools[0].name, "add");
    assert!(read(json!({"tools": tools, "tool_choice": "none"})).unwrap().tools.is_empty());
}

#[test]
fn what_is_unknown_or_not_supported_is_refused_by_its_name() {
    for (name, value) in [
        ("temprature", json!(1)),
        ("functions", json!([])),
        ("tool_choice", json!("required")),
        ("tool_choice", json!({"type": "function"})),
        ("parallel_tool_calls", json!(false)),
        ("logit_bias", json!({"5": 1})),
        ("response_format", json!({"type": "json_object"})),
        ("temperature", json!("hot")),
        ("max_tokens", json!(-1)),
        ("n", json!(0)),
        ("n", json!(129)),
        ("top_logprobs", json!(3)),
        ("stop", json!([1])),
        ("top_k", json!(-2)),
        ("seed", json!(0.5)),
        ("modalities", json!(["audio"])),
    ] {
        let refusal = read(json!({name: value})).unwrap_err();
        assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(name)));
        assert_eq!(refusal.body()["error"]["param"], name);
    }
    assert!(read(json!({"temprature": 1})).unwrap_err().message.contains("did you mean `temperature`?"));
    assert_eq!(ChatRequest::read(b"{}").unwrap_err().param.as_deref(), Some("model"));
    assert_eq!(ChatRequest::read(b"[1]").unwrap_err().param, None);
    assert_eq!(ChatRequest::read(b"\xff").unwrap_err().status, 400);
}
