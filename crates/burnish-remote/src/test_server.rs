//! A server for tests: those of this crate and those of the program, which include this file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What a server answers: the status, and the body.
pub(crate) type Reply = (&'static str, Value);

/// Starts a server that answers each request in turn with what `reply` returns for the request's number and body.
/// Returns its address and all that it was asked.
pub(crate) fn serve(
    reply: impl Fn(usize, &Value) -> Reply + Send + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    serve_text(move |at, asked| {
        let (status, answer) = reply(at, asked);
        let answer = answer.to_string();
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())
    })
}

/// As [`serve`], with whole responses.
pub(crate) fn serve_text(
    reply: impl Fn(usize, &Value) -> String + Send + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let asked = request(&stream);
            let mut log = log.lock().unwrap();
            let response = reply(log.len(), &asked);
            log.push(asked);
            drop(log);
            // Whoever asked may have gone.
            let _ = stream.write_all(response.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes());
        }
    });
    (url, sent)
}

/// A response of server-sent events, which ends when the connection is closed.
#[allow(dead_code, reason = "not every program that includes this file streams")]
pub(crate) fn events(events: &[&str]) -> String {
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}")
}

/// An event with a piece of an answer.
#[allow(dead_code, reason = "not every program that includes this file streams")]
pub(crate) fn piece(delta: Value, finish_reason: Option<&str>) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}).to_string()
}

/// The body of a request.
fn request(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        assert!(reader.read_line(&mut head).unwrap() > 0);
        if let Some(text) = head[from..].to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// The text of the first message of a request.
#[allow(dead_code, reason = "not every program that includes this file asks")]
pub(crate) fn question(asked: &Value) -> &str {
    asked["messages"][0]["content"].as_str().unwrap()
}

/// A model's answer with this text.
pub(crate) fn said(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    ("200 OK", json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
}
