#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// What the server does with one connection.
enum Reply {
    /// Sends the status line with its headers, and the body.
    Say(&'static str, String),
    /// Sends nothing, however long the client waits.
    Hang,
    /// Closes the connection in the middle of the answer.
    Break,
}

struct Asked {
    head: String,
    body: Value,
}

/// Starts a server that sends one reply per connection, in order. Returns its address and the requests that it
/// received.
fn server(replies: Vec<Reply>) -> (String, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for reply in replies {
            let (stream, _) = listener.accept().unwrap();
            // The test may have ended.
            let _ = sender.send(read_request(&stream));
            answer(&stream, &reply);
            open.extend(matches!(reply, Reply::Hang).then_some(stream));
        }
        // Until the client gives up.
        for stream in &mut open {
            let _ = stream.read(&mut [0]);
        }
    });
    (url, asked)
}

fn read_request(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap()];
    reader.read_exact(&mut body).unwrap();
    Asked { head, body: serde_json::from_slice(&body).unwrap() }
}

fn answer(mut stream: &TcpStream, reply: &Reply) {
    match reply {
        Reply::Say(head, body) => {
            let length = body.len();
            // A client that gave up has closed the connection.
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
        Reply::Hang => {}
        Reply::Break => {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{{\"choices\"");
        }
    }
}

fn completion(content: &str) -> Reply {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    });
    Reply::Say("200 OK", body.to_string())
}

fn endpoint(url: &str, retries: u32) -> Endpoint {
    Endpoint::new(EndpointConfig {
        url: url.to_owned(),
        model: "m".into(),
        api_key_env: None,
        timeout_seconds: 3.0,
        retries,
        retry_wait_seconds: 0.01,
    })
    .unwrap()
}

fn ask(endpoint: &Endpoint) -> Result<ChatAnswer, HttpError> {
    let messages = [Message::system("short"), Message::user("1 + 1 = \"?\"\n")];
    let request = ChatRequest { messages: &messages, tools: &[], temperature: 0.0, tokens_max: 7, seed: 3 };
    burnish_http::block_on(endpoint.chat(&request)).unwrap()
}

#[test]
fn a_question_goes_out_in_the_wire_format_and_its_answer_comes_back() {
    let (url, asked) = server(vec![completion("2 ü")]);
    // Cargo sets this variable for every test.
    let config = EndpointConfig { api_key_env: Some("CARGO_PKG_NAME".into()), ..endpoint(&url, 0).config };
    let answer = ask(&Endpoint::new(config).unwrap()).unwrap();
    assert_eq!(
        answer,
        ChatAnswer { content: "2 ü".into(), finish_reason: Some("stop".into()), ..ChatAnswer::default() }
    );
    let Asked { head, body } = asked.recv().unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.to_lowercase().contains("authorization: bearer burnish-remote\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json\r\n"), "{head}");
    let messages =
        json!([{"role": "system", "content": "short"}, {"role": "user", "content": "1 + 1 = \"?\"\n"}]);
    let expected =
        json!({"model": "m", "messages": messages, "temperature": 0.0, "max_tokens": 7, "seed": 3});
    assert_eq!(body, expected);
}

#[test]
fn what_may_pass_is_tried_again() {
    let busy = |head| Reply::Say(head, r#"{"error": {"message": "slow down"}}"#.into());
    let (url, asked) = server(vec![
        busy("429 Too Many Requests\r\nretry-after: 0"),
        busy("503 Service Unavailable"),
        Reply::Break,
        Reply::Hang,
        completion("yes"),
    ]);
    assert_eq!(ask(&endpoint(&url, 4)).unwrap().content, "yes");
    assert_eq!(asked.try_iter().count(), 5);
}

#[test]
fn what_does_not_pass_names_the_endpoint_and_the_status() {
    let busy = || Reply::Say("429 Too Many Requests", r#"{"error": {"message": "slow down"}}"#.into());
    let (url, _asked) = server(vec![busy(), busy()]);
    let error = ask(&endpoint(&url, 1)).unwrap_err().to_string();
    assert_eq!(error, format!("POST {url}/chat/completions: status 429 after 2 tries: slow down"));

    let (url, asked) = server(vec![Reply::Say("401 Unauthorized", "x".repeat(400)), completion("no")]);
    let error = ask(&endpoint(&url, 3)).unwrap_err().to_string();
    assert!(error.contains("status 401: x") && error.len() < 450, "{error}");
    assert_eq!(asked.try_iter().count(), 1, "a wrong key is not tried again");

    let (url, _asked) = server(vec![Reply::Hang]);
    let error = ask(&endpoint(&url, 0)).unwrap_err();
    assert!(
        matches!(&error, HttpError::Connection { problem, .. } if problem.contains("timeout")),
        "{error}"
    );

    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask(&endpoint(&format!("http://{gone}/v1/"), 1)).unwrap_err().to_string();
    assert!(error.contains(&format!("http://{gone}/v1/chat/completions")), "{error}");
    assert!(error.contains("after 2 tries"), "{error}");
}

#[test]
fn an_answer_that_is_none_is_shown() {
    for (body, parts) in [
        ("hello", &["not JSON", "hello"][..]),
        ("{}", &["`choices[0].message.content` is no text"]),
        (r#"{"choices": [{"message": {"content": null}}]}"#, &["is no text", "null"]),
        (r#"{"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]}"#, &["is no text", "3"]),
        (r#"{"choices": []}"#, &["is no text"]),
    ] {
        let (url, _asked) = server(vec![Reply::Say("200 OK", body.to_owned())]);
        let error = ask(&endpoint(&url, 2)).unwrap_err().to_string();
        assert!(error.contains(&url) && parts.iter().all(|part| error.contains(part)), "{body}: {error}");
    }
}

#[test]
fn an_answer_that_ended_without_a_word_is_empty() {
    let body = r#"{"choices": [{"message": {"role": "assistant", "content": null}, "finish_reason": "content_filter"}]}"#;
    let (url, _asked) = server(vec![Reply::Say("200 OK", body.to_owned())]);
    let answer = ask(&endpoint(&url, 0)).unwrap();
    assert_eq!((answer.content.as_str(), answer.finish_reason.as_deref()), ("", Some("content_filter")));
}

#[test]
fn settings_that_cannot_be_are_named() {
    let good = endpoint("http://localhost/v1", 1).config;
    assert_eq!(good.check(), Ok(()));
    for (key, wrong) in [
        ("url", EndpointConfig { url: "localhost".into(), ..good.clone() }),
        ("model", EndpointConfig { model: String::new(), ..good.clone() }),
        ("timeout_seconds", EndpointConfig { timeout_seconds: 0.0, ..good.clone() }),
        ("retries", EndpointConfig { retries: 101, ..good.clone() }),
        ("retry_wait_seconds", EndpointConfig { retry_wait_seconds: f64::NAN, ..good.clone() }),
    ] {
        assert_eq!(wrong.check().unwrap_err().0, key);
    }
    let config = EndpointConfig { api_key_env: Some("BURNISH_NO_SUCH_KEY".into()), ..good };
    let error = Endpoint::new(config).unwrap_err().to_string();
    assert!(error.contains("`BURNISH_NO_SUCH_KEY`") && error.contains("not set"), "{error}");
}
