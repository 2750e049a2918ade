//! Connections that stay open, against a server of the same wire.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::WebSocket as Accepted;
use tokio_tungstenite::tungstenite::{Message, accept};

use crate::{HttpError, Patience, Server, WebSocket, block_on, timeout};

const PATIENCE: Patience =
    Patience { timeout: Duration::from_secs(3), retries: 0, wait: Duration::from_millis(5) };

/// A server that serves one connection by `serve`.
fn server(serve: impl FnOnce(Accepted<TcpStream>) + Send + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || serve(accept(listener.accept().unwrap().0).unwrap()));
    Server::new(&url, None, PATIENCE).unwrap()
}

fn open(server: &Server) -> WebSocket {
    block_on(server.websocket("/ws", 1000)).unwrap().unwrap()
}

fn receive(socket: &mut WebSocket) -> Result<String, HttpError> {
    block_on(timeout(PATIENCE.timeout, socket.receive())).unwrap().unwrap()
}

#[test]
fn texts_go_both_ways_until_the_server_closes() {
    let server = server(|mut stream| {
        for _ in 0..2 {
            let Message::Text(text) = stream.read().unwrap() else { panic!("no text") };
            stream.send(Message::text(format!("<{text}>"))).unwrap();
        }
        stream.close(None).unwrap();
        let _ = stream.flush();
        while stream.read().is_ok() {}
    });
    let mut socket = open(&server);
    socket.send("one".to_owned()).unwrap();
    socket.send("zwö".to_owned()).unwrap();
    assert_eq!(receive(&mut socket).unwrap(), "<one>");
    assert_eq!(receive(&mut socket).unwrap(), "<zwö>");
    let error = receive(&mut socket).unwrap_err().to_string();
    assert!(error.contains("/ws") && error.contains("closed the connection"), "{error}");
}

#[test]
fn pings_are_answered_while_nobody_waits_for_a_text() {
    let server = server(|mut stream| {
        stream.send(Message::Ping(vec![7].into())).unwrap();
        let answer = stream.read().unwrap();
        stream.send(Message::text(format!("{answer:?}"))).unwrap();
    });
    let mut socket = open(&server);
    thread::sleep(Duration::from_millis(100));
    let answer = receive(&mut socket).unwrap();
    assert!(answer.contains("Pong"), "{answer}");
}

#[test]
fn what_is_no_text_or_too_long_is_an_error() {
    for (message, problem) in [
        (Message::binary(vec![1, 2, 3]), "3 bytes came that are no text"),
        (Message::text("x".repeat(1001)), "too long"),
    ] {
        let server = server(move |mut stream| {
            stream.send(message).unwrap();
            while stream.read().is_ok() {}
        });
        let error = receive(&mut open(&server)).unwrap_err().to_string();
        assert!(error.to_lowercase().contains(problem), "{error}");
    }
}

#[test]
fn dropping_it_closes_the_connection() {
    let (tell, told) = std::sync::mpsc::channel();
    let server = server(move |mut stream| {
        let _ = tell.send(stream.read());
    });
    drop(open(&server));
    let last = told.recv_timeout(PATIENCE.timeout).unwrap().unwrap();
    assert!(matches!(last, Message::Close(_)), "{last:?}");
}

#[test]
fn a_server_without_websockets_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\nnothing");
    });
    let server = Server::new(&url, None, PATIENCE).unwrap();
    let error = block_on(server.websocket("/ws", 1000)).unwrap().unwrap_err().to_string();
    assert!(error.contains("/ws: status 404") && error.contains("nothing"), "{error}");
}
