//! Answers that arrive piece by piece.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burnish_core::{
    Answered, Message, Policy, Sampling, StopReason, Streaming, ToolSpec, Trace, Turn, TurnId, TurnOutput,
};
use serde_json::json;

use super::{EndpointConfig, EndpointPolicy};
use crate::test_server::{events, piece, question, said, serve, serve_text};

fn policy(url: &str) -> EndpointPolicy {
    let config = EndpointConfig { retries: 0, timeout_seconds: 5.0, ..EndpointConfig::new(url, "m", None) };
    EndpointPolicy::new(config).unwrap().streaming()
}

fn turn(text: &str) -> Turn {
    let tool = json!({"name": "weather", "description": "d", "parameters": {"type": "object"}});
    let tool: ToolSpec = serde_json::from_value(tool).unwrap();
    Turn {
        trace: Trace::new(),
        messages: Arc::new(vec![Message::user(text)]),
        tools: Arc::new(vec![tool]),
        prefix: Vec::new(),
        sampling: Arc::new(Sampling::at(0.5, 7)),
        seed: 1,
    }
}

/// The answer to a turn, and all that was seen of it before, as thoughts and text.
fn follow(policy: &mut EndpointPolicy) -> (Vec<(String, String)>, Answered) {
    let id = policy.submit(turn("q"));
    let mut seen = Vec::new();
    loop {
        if let Some(answered) = policy.progress(Duration::from_secs(5)).pop() {
            return (seen, answered);
        }
        let partial = policy.partial(id).unwrap();
        let now = (partial.thoughts.to_owned(), partial.text.to_owned());
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
}

fn answer(response: String) -> Result<TurnOutput, String> {
    let (url, sent) = serve_text(move |_, _| response.clone());
    let (_, answered) = follow(&mut policy(&url));
    let sent = sent.lock().unwrap();
    assert!(sent.len() == 1 && sent[0]["stream"] == true, "{sent:?}");
    answered.result.map_err(|error| error.to_string())
}

fn text(text: &str) -> String {
    piece(json!({"content": text}), None)
}

#[test]
fn pieces_add_up_to_the_answer() {
    let end = piece(json!({}), Some("stop"));
    let thought = |text: &str| piece(json!({"reasoning_content": text}), None);
    let usage = json!({"choices": [], "usage": {"total_tokens": 9}}).to_string();
    let role = piece(json!({"role": "assistant", "content": ""}), None);
    let all = [&role, &thought("hm"), &thought("m"), &text("5 €"), &text(" it is"), &end, &usage, "[DONE]"];
    let output = answer(events(&all.map(|event| event as &str))).unwrap();
    assert_eq!(output.message.content, "5 € it is");
    assert_eq!(output.message.reasoning_content.as_deref(), Some("hmm"));
    assert_eq!(output.stop, StopReason::EndToken);
    // The end is said by the reason or by the last event.
    assert_eq!(answer(events(&[&text("a"), &end])).unwrap().message.content, "a");
    assert_eq!(answer(events(&[&text("a"), "[DONE]"])).unwrap().message.content, "a");
    let cut = answer(events(&[&text("a"), &piece(json!({}), Some("length"))])).unwrap();
    assert_eq!(cut.stop, StopReason::TokensMax);
}

#[test]
fn calls_arrive_in_pieces() {
    let call = |index: u64, more: serde_json::Value| {
        let mut call = more;
        call["index"] = index.into();
        piece(json!({"tool_calls": [call]}), None)
    };
    let output = answer(events(&[
        &call(0, json!({"id": "a", "function": {"name": "weather", "arguments": ""}})),
        &call(0, json!({"function": {"arguments": "{\"city\": "}})),
        &call(1, json!({"id": "b", "function": {"name": "weather", "arguments": "{}"}})),
        &call(0, json!({"function": {"arguments": "\"Bern\"}"}})),
        &piece(json!({}), Some("tool_calls")),
        "[DONE]",
    ]))
    .unwrap();
    let calls = &output.message.tool_calls;
    assert_eq!(calls.iter().map(|call| call.id.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    assert_eq!(calls[0].function.arguments, json!({"city": "Bern"}));
    assert_eq!(output.message.content, "");
}

#[test]
fn a_server_that_does_not_stream_is_read_as_it_is() {
    let (url, _sent) = serve(|_, asked| said(&format!("re: {}", question(asked))));
    let (_, answered) = follow(&mut policy(&url));
    assert_eq!(answered.result.unwrap().message.content, "re: q");
}

#[test]
fn an_answer_that_breaks_off_is_an_error_and_not_asked_for_again() {
    let overloaded = json!({"error": {"message": "the engine died"}}).to_string();
    for (response, part) in [
        (events(&[&text("a")]), "broke off: the connection was closed"),
        (events(&[&text("a"), "{\"choices\": [{"]), "is not JSON"),
        (format!("{}data: {{\"choi", events(&[&text("a")])), "broke off: the connection was closed"),
        (events(&[&text("a"), &overloaded]), "broke off: the engine died"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\ndata: {}\n\n".to_owned(), "broke off"),
        ("HTTP/1.1 400 Bad Request\r\ncontent-length: 4\r\n\r\noops".to_owned(), "status 400"),
    ] {
        let error = answer(response).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn what_has_not_begun_is_tried_again() {
    let (url, sent) = serve_text(|before, _| match before {
        0 => "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_owned(),
        _ => events(&[&text("a"), "[DONE]"]),
    });
    let config =
        EndpointConfig { retries: 1, retry_wait_seconds: 0.01, ..EndpointConfig::new(url, "m", None) };
    let (seen, answered) = follow(&mut EndpointPolicy::new(config).unwrap().streaming());
    assert_eq!(answered.result.unwrap().message.content, "a");
    assert!(
        seen.iter().all(|(thoughts, text)| thoughts.is_empty() && "a".starts_with(text.as_str())),
        "{seen:?}"
    );
    assert_eq!(sent.lock().unwrap().len(), 2);
}

/// A server whose every answer says some, and then nothing until the other side hangs up.
fn stalled(first: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let response = events(&[first]);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, response, mut bytes) = (stream.unwrap(), response.clone(), [0; 4096]);
            std::thread::spawn(move || {
                let _ = stream.read(&mut bytes).unwrap();
                stream.write_all(response.as_bytes()).unwrap();
                while stream.read(&mut bytes).is_ok_and(|length| length > 0) {}
            });
        }
    });
    url
}

fn wait_for_text(policy: &mut EndpointPolicy, id: TurnId) {
    while policy.partial(id).is_none_or(|partial| partial.text.is_empty()) {
        assert!(policy.progress(Duration::from_secs(5)).is_empty());
    }
}

#[test]
fn an_answer_is_ended_with_what_it_has_said() {
    let mut policy = policy(&stalled(&text("so far")));
    let id = policy.submit(turn("q"));
    wait_for_text(&mut policy, id);
    assert!(policy.stop(id));
    let answered = policy.progress(Duration::from_secs(5)).remove(0);
    let output = answered.result.unwrap();
    assert_eq!((output.message.content.as_str(), output.stop), ("so far", StopReason::Control));
    assert!(!policy.stop(id) && policy.partial(id).is_none());
    // The next one is sent, although the server still holds the first.
    let next = policy.submit(turn("q"));
    wait_for_text(&mut policy, next);
    assert!(policy.stop(next) && policy.wait().len() == 1);
    // One that has said nothing does not come back.
    let id = policy.submit(turn("q"));
    assert!(!policy.stop(id) && policy.wait().is_empty());
}

#[test]
fn a_server_that_falls_silent_is_not_waited_for() {
    let url = stalled(&text("so far"));
    let config = EndpointConfig { retries: 0, timeout_seconds: 0.3, ..EndpointConfig::new(url, "m", None) };
    let mut policy = EndpointPolicy::new(config).unwrap().streaming();
    let began = Instant::now();
    let id = policy.submit(turn("q"));
    let answered = loop {
        if let Some(answered) = policy.progress(Duration::from_millis(20)).pop() {
            break answered;
        }
    };
    assert_eq!(answered.id, id);
    let error = answered.result.unwrap_err().to_string();
    assert!(error.contains("nothing more came for 0.3 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
