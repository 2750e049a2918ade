#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::{Patience, Server, block_on};

const LIMITS: Limits = Limits { body_bytes: 1000, connections: 2 };

fn told(body: String) -> Answer {
    Answer { status: 200, content_type: "application/json", body }
}

fn echo() -> Listening {
    let answer = async |asked: Asked| match asked.body {
        Ok(body) => {
            let said = String::from_utf8(body).unwrap();
            told(format!("{} {} {:?} {said}", asked.method, asked.path, asked.key))
        }
        Err(error) => Answer { status: 413, ..told(error.to_string()) },
    };
    listen("127.0.0.1:0", LIMITS, answer).unwrap()
}

fn server(listening: &Listening, key: Option<&str>) -> Server {
    let patience = Patience { timeout: Duration::from_secs(5), retries: 0, wait: Duration::from_millis(1) };
    Server::new(&format!("http://{}", listening.address()), key, patience).unwrap()
}

#[test]
fn a_request_is_answered_with_what_the_function_returns() {
    let listening = echo();
    let asked = server(&listening, Some("secret"));
    let said = block_on(asked.post("/a/b", "\"hm\"".to_owned()).text()).unwrap().unwrap();
    assert_eq!(said, "POST /a/b Some(\"secret\") \"hm\"");
    let asked = server(&listening, None);
    let said = block_on(asked.get("/a?b=c").text()).unwrap().unwrap();
    assert_eq!(said, "GET /a None ");
}

#[test]
fn a_body_beyond_the_limit_is_not_read() {
    let listening = echo();
    let asked = server(&listening, None);
    let error = block_on(asked.post("/", "x".repeat(1001)).text()).unwrap().unwrap_err();
    assert!(error.to_string().contains("status 413: the request is longer than 1000 bytes"), "{error}");
    assert!(block_on(asked.post("/", "x".repeat(1000)).text()).unwrap().is_ok());
}

/// Says so when it is dropped.
struct Dropped(Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

fn waiting(
    tell: Sender<&'static str>,
) -> impl Fn(Asked) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>> {
    move |_| {
        let tell = tell.clone();
        Box::pin(async move {
            let _dropped = Dropped(tell.clone());
            let _ = tell.send("begun");
            std::future::pending::<Answer>().await
        })
    }
}

#[test]
fn work_for_a_client_that_has_gone_is_dropped() {
    let (tell, told) = channel();
    let listening = listen("127.0.0.1:0", LIMITS, waiting(tell)).unwrap();
    let mut stream = std::net::TcpStream::connect(listening.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let patience = Duration::from_secs(5);
    assert_eq!(told.recv_timeout(patience).unwrap(), "begun");
    drop(stream);
    assert_eq!(told.recv_timeout(patience).unwrap(), "dropped");
}

#[test]
fn a_server_that_is_dropped_closes_its_connections() {
    let (tell, told) = channel();
    let listening = listen("127.0.0.1:0", LIMITS, waiting(tell)).unwrap();
    let mut stream = std::net::TcpStream::connect(listening.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), "begun");
    let address = listening.address();
    drop(listening);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(Bound::bind(address).is_ok());
}

#[test]
fn an_address_that_is_none_is_an_error() {
    assert!(listen("nowhere", LIMITS, async |_| told(String::new())).is_err());
}
