//! What a server as a policy promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use burnish_core::{Piece, Trace, answer_all};

use super::*;
use crate::test_server::{question, said, serve};

fn policy(url: &str) -> EndpointPolicy {
    let config = EndpointConfig { retries: 0, ..EndpointConfig::new(url, "m", None) };
    EndpointPolicy::new(config).unwrap()
}

fn turn(text: &str, seed: u64) -> Turn {
    Turn {
        trace: Trace::new(),
        messages: Arc::new(vec![Message::user(text)]),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(Sampling::at(0.5, 7)),
        seed,
    }
}

#[test]
fn many_turns_are_answered_and_each_by_its_own_answer() {
    let (url, sent) = serve(|_, asked| said(&format!("re: {}", question(asked))));
    let mut policy = policy(&url);
    let turns = |count: u64| (0..count).map(|at| turn(&format!("q{at}"), u64::MAX - at));
    let answers = answer_all(&mut policy, turns(30));
    for (at, (trace, answer)) in answers.iter().enumerate() {
        assert_eq!(answer.as_ref().unwrap().message.content, format!("re: q{at}"));
        assert!(trace.nodes().is_empty(), "a server says no ids");
    }
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 30);
    let seeds: BTreeSet<i64> = sent.iter().map(|body| body["seed"].as_i64().unwrap()).collect();
    assert_eq!(seeds, (0..30).map(|at| i64::MAX - at).collect());
    assert!(policy.wait().is_empty() && policy.poll().is_empty());
}

#[test]
fn a_failure_that_lasts_sends_no_more_and_a_later_turn_tries_anew() {
    let (url, sent) = serve(|before, asked| match before {
        0 => ("401 Unauthorized", serde_json::json!({"error": {"message": "no such key"}})),
        _ => said(question(asked)),
    });
    let mut policy = policy(&url);
    let answers = answer_all(&mut policy, (0..100).map(|at| turn("a", at)));
    let errors: Vec<String> =
        answers.iter().filter_map(|(_, answer)| Some(answer.as_ref().err()?.to_string())).collect();
    assert!(
        errors.iter().all(|error| error.contains("status 401") && error.contains("no such key")),
        "{errors:?}"
    );
    assert!(sent.lock().unwrap().len() < 100 && errors.len() > 1, "{}", errors.len());
    let (_, later) = answer_all(&mut policy, [turn("later", 1)]).remove(0);
    assert_eq!(later.unwrap().message.content, "later");
}

#[test]
fn what_a_server_can_not_be_told_is_refused_and_not_sent() {
    let (url, sent) = serve(|_, _| said("x"));
    let mut policy = policy(&url);
    let of = |sampling: Sampling| Turn { sampling: Arc::new(sampling), ..turn("a", 1) };
    let at = Sampling::at(1.0, 4);
    let refused = [
        (
            Turn { prefix: vec![Piece { text: "so".into(), ..Piece::default() }], ..turn("a", 1) },
            "the beginning of an answer",
        ),
        (of(Sampling { top_k: 3, ..at.clone() }), "`top_k`"),
        (of(Sampling { stop: vec!["x".into()], ..at.clone() }), "`stop`"),
        (of(Sampling { logprobs: Some(1), ..at.clone() }), "`logprobs`"),
        (of(Sampling { temperature: -1.0, ..at }), "temperature"),
    ];
    for (turn, part) in refused {
        let (_, answer) = answer_all(&mut policy, [turn]).remove(0);
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(sent.lock().unwrap().is_empty());
    let error = policy.abilities().check_trainable().unwrap_err().to_string();
    assert!(error.contains("token ids") && error.contains("can judge"), "{error}");
}

#[test]
fn a_turn_that_is_given_up_does_not_come_back() {
    let (url, _sent) = serve(|_, asked| said(question(asked)));
    let mut policy = policy(&url);
    let ids: Vec<TurnId> = (0..20).map(|at| policy.submit(turn(&format!("{at}"), at))).collect();
    for id in &ids[1..] {
        assert!(policy.cancel(*id));
    }
    let answers = policy.wait();
    assert_eq!(answers.iter().map(|answered| answered.id).collect::<Vec<_>>(), ids[..1]);
    assert!(policy.wait().is_empty() && !policy.cancel(ids[0]) && !policy.cancel(ids[1]));
}

fn status(status: u16, said: &str) -> HttpError {
    HttpError::Status { call: "u".into(), status, tries: 1, said: said.into() }
}

#[test]
fn a_prompt_that_is_too_long_for_the_server_is_told_from_other_failures() {
    let vllm = "This model's maximum context length is 4096 tokens. However, you requested 5120 tokens (4864 in the \
                messages, 256 in the completion).";
    let found = too_long(&status(400, vllm));
    assert!(
        matches!(found, Some(PolicyError::PromptTooLong { tokens: 5120, tokens_max: 4096 })),
        "{found:?}"
    );
    assert!(too_long(&status(400, "unknown model `x`")).is_none());
    assert!(too_long(&status(500, vllm)).is_none());
}

#[test]
fn tools_are_sent_and_their_calls_come_back() {
    let tool =
        serde_json::json!({ "name": "weather", "description": "d", "parameters": { "type": "object" } });
    let (url, sent) = serve(|_, _| {
        let call = |name: &str, arguments: &str| {
            let function = serde_json::json!({ "name": name, "arguments": arguments });
            serde_json::json!({ "id": "c1", "type": "function", "function": function })
        };
        let calls = [call("weather", "{\"city\": \"Bern\"}"), call("weather", "{\"city\""), call("stop", "")];
        let message = serde_json::json!({ "role": "assistant", "content": null, "tool_calls": calls });
        ("200 OK", serde_json::json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] }))
    });
    let mut policy = policy(&url);
    let asks = |tools: Arc<Vec<burnish_core::ToolSpec>>, messages| Turn {
        tools,
        messages: Arc::new(messages),
        ..turn("a", 1)
    };
    let tools = Arc::new(vec![serde_json::from_value(tool.clone()).unwrap()]);
    let (_, answer) = answer_all(&mut policy, [asks(Arc::clone(&tools), vec![Message::user("a")])]).remove(0);
    let TurnOutput { message, malformed, .. } = answer.unwrap();
    assert_eq!(malformed, ["call 2: the arguments are not JSON: it ends within an object at column 7"]);
    assert!(message.content.contains("weather"), "{}", message.content);
    let names: Vec<&str> = message.tool_calls.iter().map(|call| call.function.name.as_str()).collect();
    assert_eq!(names, ["weather", "stop"]);
    assert_eq!(message.tool_calls[0].function.arguments, serde_json::json!({ "city": "Bern" }));
    assert_eq!(message.tool_calls[0].id.as_deref(), Some("c1"));
    // A call without an id, and its result.
    let mut calls = message.clone();
    calls.tool_calls.truncate(1);
    calls.tool_calls[0].id = None;
    let result = Message::new(burnish_core::Role::Tool, "sunny");
    answer_all(&mut policy, [asks(tools, vec![Message::user("a"), calls, result])]);
    let sent = sent.lock().unwrap();
    assert_eq!(sent[0]["tools"], serde_json::json!([{ "type": "function", "function": tool }]));
    let call = &sent[1]["messages"][1]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], "{\"city\":\"Bern\"}");
    assert_eq!(
        (&call["id"], &sent[1]["messages"][2]["tool_call_id"]),
        (&"burnish_call_1".into(), &"burnish_call_1".into())
    );
}

#[test]
fn an_answer_at_the_limit_is_cut_off() {
    let with = |reason: &str| {
        output(ChatAnswer { finish_reason: Some(reason.into()), ..ChatAnswer::default() }).stop
    };
    assert_eq!((with("length"), with("stop")), (StopReason::TokensMax, StopReason::EndToken));
}
