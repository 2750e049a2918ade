//! A server for tests: those of this crate and those of the program, which include this file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What a server answers: the status, and the body.
pub(crate) type Reply = (&'static str, Value);

/// Starts a server that answers each request in turn with what `reply` returns for the request's number and body.
/// Returns its address and all that it was asked.
#[allow(dead_code, reason = "not every program that includes this file asks")]
pub(crate) fn serve(
    reply: impl Fn(usize, &Value) -> Reply + Send + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    serve_text(move |at, asked| response(&reply(at, asked)))
}

/// As [`serve`], with whole responses.
pub(crate) fn serve_text(
    reply: impl Fn(usize, &Value) -> String + Send + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let (listener, url) = listen();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some((_, asked)) = request(&stream) else { continue };
            let mut log = log.lock().unwrap();
            let response = reply(log.len(), &asked);
            log.push(asked);
            drop(log);
            send(&mut stream, &response);
        }
    });
    (format!("{url}/v1"), sent)
}

/// Starts a server that answers requests, several at a time, with what `reply` returns for a path and a body (null if
/// there is none); `None` closes the connection without an answer. Returns its address.
#[allow(dead_code, reason = "not every program that includes this file has routes")]
pub(crate) fn serve_routes(reply: impl Fn(&str, &Value) -> Option<Reply> + Send + Sync + 'static) -> String {
    let (listener, url) = listen();
    let reply = Arc::new(reply);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, reply) = (stream.unwrap(), Arc::clone(&reply));
            std::thread::spawn(move || {
                let Some((path, asked)) = request(&stream) else { return };
                if let Some(reply) = reply(&path, &asked) {
                    send(&mut stream, &response(&reply));
                }
            });
        }
    });
    url
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

fn response((status, answer): &Reply) -> String {
    let answer = answer.to_string();
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())
}

/// Sends a response, after which the connection is closed.
fn send(stream: &mut TcpStream, response: &str) {
    // Whoever asked may have gone.
    let _ = stream.write_all(response.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes());
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

/// The path and the body of a request; `None` if the connection was closed before it.
fn request(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        if reader.read_line(&mut head).unwrap() == 0 {
            return None;
        }
        if let Some(text) = head[from..].to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    Some((path, serde_json::from_slice(&body).unwrap_or_default()))
}

/// The text of the first message of a request.
#[allow(dead_code, reason = "not every program that includes this file asks")]
pub(crate) fn question(asked: &Value) -> &str {
    asked["messages"][0]["content"].as_str().unwrap()
}

/// A model's answer with this text.
#[allow(dead_code, reason = "not every program that includes this file asks")]
pub(crate) fn said(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    ("200 OK", json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
}
