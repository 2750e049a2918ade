//! A server of OpenEnv's wire whose answers a test chooses.
#![allow(unreachable_pub, reason = "a module of a test program")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

/// What the server does with one message.
#[derive(Clone)]
pub(crate) enum Reply {
    Say(String),
    SayAndClose(String),
    Nothing,
    Close,
}

/// A running server. Its actions have one field, `message`.
pub(crate) struct StandIn {
    pub(crate) url: String,
}

impl StandIn {
    pub(crate) fn start(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let reply = Arc::new(reply);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, reply) = (stream.unwrap(), Arc::clone(&reply));
                thread::spawn(move || serve(stream, &*reply));
            }
        });
        StandIn { url }
    }
}

fn serve(mut stream: TcpStream, reply: &(impl Fn(&Value) -> Reply + ?Sized)) {
    let mut head = [0; 16];
    let read = stream.peek(&mut head).unwrap_or(0);
    if !head[..read].starts_with(b"GET /ws ") {
        let _ = stream.read(&mut [0; 4096]);
        let action =
            json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
        let body = json!({"action": action, "observation": {}, "state": {}}).to_string();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        return;
    }
    let Ok(mut stream) = accept(stream) else { return };
    while let Ok(message) = stream.read() {
        let Message::Text(text) = message else { continue };
        let reply = reply(&serde_json::from_str(&text).unwrap());
        match reply {
            Reply::Say(text) => {
                let _ = stream.send(Message::text(text));
            }
            Reply::SayAndClose(text) => {
                let _ = stream.send(Message::text(text));
                let _ = stream.close(None);
                let _ = stream.flush();
                return;
            }
            Reply::Nothing => {}
            Reply::Close => return,
        }
    }
}
