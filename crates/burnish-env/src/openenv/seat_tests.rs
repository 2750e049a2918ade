#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use burnish_core::Role;
use serde_json::{Value, json};

use super::seat::{Reply, Seat};
use crate::{Generator, build};

fn seat(id: &str) -> (Seat, Arc<dyn Generator>) {
    let generator: Arc<dyn Generator> = Arc::from(build(id, &json!({})).unwrap());
    (Seat::new(Arc::clone(&generator), 100), generator)
}

fn said(seat: &mut Seat, message: Value) -> Value {
    match seat.answer(&message.to_string()) {
        Reply::Say(text) => serde_json::from_str(&text).unwrap(),
        Reply::Close => panic!("closed"),
    }
}

fn reset(seat: &mut Seat, seed: u64) -> Value {
    said(seat, json!({"type": "reset", "data": {"seed": seed, "episode_id": "e"}}))["data"].take()
}

#[test]
fn demonstrated_answers_win_and_the_end_says_so() {
    for id in ["chains", "household", "countdown"] {
        let (mut seat, generator) = seat(id);
        let task = generator.tasks(7, 1).unwrap().tasks.remove(0);
        let shown = generator.demonstrations().unwrap().demonstrate_episode(&task).unwrap();
        let begun = reset(&mut seat, 7);
        assert_eq!(begun["observation"]["messages"], serde_json::to_value(&task.prompt).unwrap(), "{id}");
        let mut last = begun;
        for answer in shown.iter().filter(|message| message.role == Role::Assistant) {
            assert_eq!(last["done"], false);
            let calls = answer
                .tool_calls
                .iter()
                .map(|call| json!({"name": call.function.name, "arguments": call.function.arguments}));
            let calls: Vec<Value> = calls.collect();
            let action = json!({"message": answer.content, "tool_calls": calls});
            last = said(&mut seat, json!({"type": "step", "data": action}))["data"].take();
        }
        assert_eq!(
            (&last["done"], &last["observation"]["success"]),
            (&json!(true), &json!(true)),
            "{id}: {last}"
        );
        let rewards = last["observation"]["rewards"].as_object().unwrap();
        let total: f64 = rewards.values().map(|reward| reward.as_f64().unwrap()).sum();
        assert_eq!(last["reward"].as_f64(), Some(total));
        let state = said(&mut seat, json!({"type": "state"}));
        assert_eq!(state["data"]["episode_id"], "e");
        let after = said(&mut seat, json!({"type": "step", "data": {"message": "x"}}));
        assert!(after["data"]["message"].as_str().unwrap().contains("the episode is over"));
        assert_eq!(reset(&mut seat, 7)["done"], false, "the next episode");
    }
}

#[test]
fn tools_are_listed_and_called_in_three_ways() {
    let (mut seat, generator) = seat("accounts");
    let names: Vec<String> = generator.environment().tools().into_iter().map(|tool| tool.name).collect();
    let listed = said(&mut seat, json!({"type": "step", "data": {"type": "list_tools"}}));
    let tools = listed["data"]["observation"]["tools"].as_array().unwrap();
    assert!(tools.iter().map(|tool| tool["name"].as_str().unwrap()).eq(names.iter().map(String::as_str)));
    reset(&mut seat, 1);
    let no = json!({"type": "call_tool", "tool_name": "no_such_tool", "arguments": {}});
    let told = said(&mut seat, json!({"type": "step", "data": no}));
    let result = told["data"]["observation"]["result"].as_str().unwrap();
    assert!(result.contains("there is no tool `no_such_tool`"), "{told}");
    let several = json!({"message": "", "tool_calls": [{"name": "a"}, {"name": "b", "arguments": {}}]});
    let told = said(&mut seat, json!({"type": "step", "data": several}));
    let messages = told["data"]["observation"]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[0]["role"], &messages[1]["tool_call_id"]), (&json!("tool"), &json!("call00001")));
    let rpc = |method: &str, params: Value| {
        json!({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 7,
        "method": method, "params": params}})
    };
    let listed = said(&mut seat, rpc("tools/list", json!({})));
    assert_eq!(listed["data"]["id"], 7);
    assert_eq!(listed["data"]["result"]["tools"][0]["name"], json!(names[0]));
    assert!(listed["data"]["result"]["tools"][0]["inputSchema"].is_object());
    let called = said(&mut seat, rpc("tools/call", json!({"name": "x", "arguments": {}})));
    assert!(called["data"]["result"]["content"][0]["text"].as_str().unwrap().contains("no tool `x`"));
    assert_eq!(said(&mut seat, rpc("prompts/list", json!({})))["data"]["error"]["code"], -32601);
    assert_eq!(said(&mut seat, json!({"type": "state"}))["data"]["step_count"], 3);
}

#[test]
fn what_is_no_message_is_refused_by_its_code() {
    let (mut seat, _) = seat("chains");
    for (text, code) in [
        ("{", "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        (r#"{"type": "fly"}"#, "UNKNOWN_TYPE"),
        (r#"{"type": "reset", "data": {"seed": -1}}"#, "VALIDATION_ERROR"),
        (r#"{"type": "reset", "data": {"level": 3}}"#, "VALIDATION_ERROR"),
        (r#"{"type": "step", "data": {"message": "x"}}"#, "EXECUTION_ERROR"),
        (r#"{"type": "step", "data": {"mesage": "x"}}"#, "VALIDATION_ERROR"),
    ] {
        let Reply::Say(told) = seat.answer(text) else { panic!("{text}") };
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["type"], &told["data"]["code"]), (&json!("error"), &json!(code)), "{text}: {told}");
    }
    assert_eq!(seat.answer(r#"{"type": "close"}"#), Reply::Close);
    assert_eq!(reset(&mut seat, 1), reset(&mut seat, 1), "a seed gives the same episode");
    let begun =
        [said(&mut seat, json!({"type": "reset"})), said(&mut seat, json!({"type": "reset", "data": {}}))];
    assert_ne!(begun[0], begun[1], "without a seed, another one each time");
}
