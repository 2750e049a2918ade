//! What a call promises, against servers that misbehave.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hyper_util::client::proxy::matcher::Matcher;

use crate::{HttpError, Patience, Server, Task, block_on, key_from, spawn};

const PATIENCE: Patience =
    Patience { timeout: Duration::from_secs(3), retries: 0, wait: Duration::from_millis(5) };

/// What the server does with one connection.
enum Reply {
    /// Sends this, and closes the connection.
    Say(&'static str),
    /// Sends this, and holds the connection until the client closes it.
    Hold(&'static str),
}

use Reply::{Hold, Say};

/// What the server has seen.
#[derive(Debug, PartialEq)]
enum Seen {
    /// A request: its head and its body.
    Request(String, String),
    /// The client closed a connection that was held.
    Closed,
}

/// Starts a server that sends one reply per connection, in order.
fn server(replies: Vec<Reply>) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, seen) = channel();
    std::thread::spawn(move || {
        for reply in replies {
            let (mut stream, _) = listener.accept().unwrap();
            // The test may have ended.
            let _ = tell.send(request(&stream));
            let (Say(text) | Hold(text)) = reply;
            let _ = stream.write_all(text.as_bytes());
            if let Hold(_) = reply {
                let tell = tell.clone();
                std::thread::spawn(move || {
                    while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
                    let _ = tell.send(Seen::Closed);
                });
            }
        }
    });
    (url, seen)
}

fn request(stream: &TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        if let Some(value) = head[from..].to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Seen::Request(head, String::from_utf8(body).unwrap())
}

fn at(url: &str) -> Server {
    Server::new(url, None, PATIENCE).unwrap()
}

const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"a\": 1}";

#[test]
fn requests_and_answers_are_what_they_were() {
    let (url, seen) = server(vec![Say(OK), Say("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n ")]);
    let server = Server::new(&format!("{url}/v1/"), Some("k y"), PATIENCE).unwrap();
    let server = server.with_header("x-more", "m").unwrap();
    assert_eq!(block_on(server.post("/do", "{\"ü\": 2}".into()).json()).unwrap().unwrap()["a"], 1);
    let Seen::Request(head, body) = seen.recv().unwrap() else { panic!() };
    let head = head.to_lowercase();
    for line in [
        "post /v1/do http/1.1\r\n",
        "content-type: application/json\r\n",
        "authorization: bearer k y\r\n",
        "x-more: m\r\n",
        "user-agent: burnish/",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert_eq!(body, "{\"ü\": 2}");
    assert!(block_on(server.get("/x").json()).unwrap().unwrap().is_null());
    let Seen::Request(head, body) = seen.recv().unwrap() else { panic!() };
    assert!(head.starts_with("GET /v1/x HTTP/1.1\r\n") && !head.contains("content-type"), "{head}");
    assert_eq!(body, "");
}

#[test]
fn failures_that_may_pass_are_tried_again_and_others_are_not() {
    let busy =
        || Say("HTTP/1.1 503 Busy\r\nretry-after: 0\r\nconnection: close\r\n\r\n{\"error\": \"full\"}");
    let cut = || Say("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{");
    let (url, seen) =
        server(vec![busy(), cut(), Say(""), Hold("HTTP/1.1 200 OK\r\n"), Say(OK), busy(), busy()]);
    let patience = Patience { retries: 4, timeout: Duration::from_millis(500), ..PATIENCE };
    let server = Server::new(&url, None, patience).unwrap();
    let began = Instant::now();
    assert!(block_on(server.get("/").text()).unwrap().is_ok());
    // One of them was waited for in vain, as long as the patience lasts and not for ever.
    assert!((patience.timeout..20 * patience.timeout).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(seen.try_iter().filter(|seen| *seen != Seen::Closed).count(), 5);
    let error = block_on(server.get("/a").once().text()).unwrap().unwrap_err();
    assert_eq!(error.to_string(), format!("GET {url}/a: status 503: full"));
    assert!(!error.is_refusal());
    let twice = Patience { retries: 1, ..patience };
    let error = block_on(server.get("/a").with(twice).text()).unwrap().unwrap_err().to_string();
    assert!(error.contains("after 2 tries: "), "{error}");
}

#[test]
fn refusals_say_what_the_server_said() {
    for (reply, said) in [
        ("HTTP/1.1 404 Not Found\r\n\r\n{\"detail\": \"no such route\"}", "status 404: no such route"),
        ("HTTP/1.1 400 Bad\r\n\r\n{\"error\": {\"message\": \"too long\"}}", "status 400: too long"),
        ("HTTP/1.1 400 Bad\r\n\r\n{\"detail\": [{\"loc\": [\"a\"]}]}", "{\"detail\": [{\"loc\": [\"a\"]}]}"),
        ("HTTP/1.1 308 Moved\r\nlocation: https://else/\r\n\r\n", "status 308: it points to https://else/"),
    ] {
        let (url, _seen) = server(vec![Say(reply), Say(OK)]);
        let server = Server::new(&url, None, Patience { retries: 1, ..PATIENCE }).unwrap();
        let error = block_on(server.get("/").text()).unwrap().unwrap_err();
        assert!(error.to_string().contains(said) && error.is_refusal(), "{error}");
    }
    let (url, _seen) = server(vec![Say("HTTP/1.1 200 OK\r\n\r\nhello")]);
    let error = block_on(at(&url).get("/").json()).unwrap().unwrap_err().to_string();
    assert!(error.contains("is not JSON") && error.ends_with("hello"), "{error}");
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_reason() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = block_on(at(&format!("http://{gone}")).get("/x").text()).unwrap().unwrap_err().to_string();
    assert!(error.starts_with(&format!("GET http://{gone}/x: no answer: ")), "{error}");
    assert!(error.contains("refused") && !error.contains("client error"), "{error}");
    // It speaks no TLS.
    let error = block_on(at(&server_of_noise()).get("/").text()).unwrap().unwrap_err().to_string();
    assert!(error.contains("no answer"), "{error}");
}

/// A server without TLS, at an address that begins with https.
fn server_of_noise() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    url
}

#[test]
fn a_proxy_is_asked_for_a_way_through() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxies = Matcher::builder()
        .all(format!("http://me:secret@{}", proxy.local_addr().unwrap()))
        .no("near.example".to_owned())
        .build();
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        tell.send(request(&stream)).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        tell.send(request(&stream)).unwrap();
        stream.write_all(OK.as_bytes()).unwrap();
        drop(stream);
        let (mut stream, _) = proxy.accept().unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
    });
    let server = Server::through("http://far.example", None, PATIENCE, proxies).unwrap();
    block_on(server.get("/x").text()).unwrap().unwrap();
    let Seen::Request(connect, _) = asked.recv().unwrap() else { panic!() };
    assert!(connect.starts_with("CONNECT far.example:80 HTTP/1.1\r\n"), "{connect}");
    // `me:secret`.
    assert!(connect.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{connect}");
    let Seen::Request(head, _) = asked.recv().unwrap() else { panic!() };
    assert!(head.starts_with("GET /x HTTP/1.1\r\n"), "{head}");
    let error = block_on(server.get("/x").text()).unwrap().unwrap_err().to_string();
    assert!(error.contains("through the proxy http://") && !error.contains("secret"), "{error}");
    // This machine is reached without.
    let (url, _seen) = self::server(vec![Say(OK)]);
    let nobody = Matcher::builder().all("http://127.0.0.1:9").build();
    let server = Server::through(&url, None, PATIENCE, nobody).unwrap();
    assert!(block_on(server.get("/").text()).unwrap().is_ok());
    let socks = Matcher::builder().all("socks5://localhost:9").build();
    let server = Server::through("http://far.example", None, PATIENCE, socks).unwrap();
    let error = block_on(server.get("/x").text()).unwrap().unwrap_err().to_string();
    assert!(error.contains("socks5") && error.contains("http://"), "{error}");
}

#[test]
fn addresses_and_keys_that_can_not_be_are_refused() {
    for url in ["localhost:80", "ftp://x", "http://", "http:// x", ""] {
        let error = Server::new(url, None, PATIENCE).unwrap_err();
        assert!(matches!(error, HttpError::Address { .. }), "{url}: {error}");
    }
    let error = Server::new("http://x", Some("a\nb"), PATIENCE).unwrap_err().to_string();
    assert!(error.contains("key") && !error.contains("a\nb"), "{error}");
    let error = key_from("BURNISH_NO_SUCH_KEY", "http://x").unwrap_err().to_string();
    assert!(error.contains("`BURNISH_NO_SUCH_KEY`") && error.contains("http://x"), "{error}");
    // Cargo sets this variable for every test.
    assert_eq!(key_from("CARGO_PKG_NAME", "").unwrap(), "burnish-http");
}

#[test]
fn a_call_that_is_dropped_closes_its_connection() {
    let (url, seen) = server(vec![Hold("")]);
    let server = at(&url);
    let task = spawn(async move {
        let _ = server.get("/").text().await;
    })
    .unwrap();
    assert!(matches!(seen.recv().unwrap(), Seen::Request(..)));
    let dropped = Instant::now();
    drop(task);
    assert_eq!(seen.recv_timeout(Duration::from_secs(2)).unwrap(), Seen::Closed);
    assert!(dropped.elapsed() < PATIENCE.timeout);
}

#[test]
fn many_calls_are_under_way_at_once() {
    let count = 200;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let patience = Patience { timeout: Duration::from_secs(60), ..PATIENCE };
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::new(&url, None, patience).unwrap();
    // Nobody is answered before everybody has asked, and nobody asks on a connection that was used already.
    std::thread::spawn(move || {
        let streams: Vec<TcpStream> = (0..count).map(|_| listener.accept().unwrap().0).collect();
        for mut stream in streams {
            let Seen::Request(head, _) = request(&stream) else { continue };
            let path = head.split(' ').nth(1).unwrap();
            let head = "HTTP/1.1 200 OK\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{path}", path.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let (tell, heard) = channel();
    let tasks: Vec<Task> = (0..count)
        .map(|at| {
            let (server, tell) = (server.clone(), tell.clone());
            spawn(async move { tell.send((at, server.get(&format!("/{at}")).text().await)).unwrap() })
                .unwrap()
        })
        .collect();
    for _ in 0..count {
        let (at, answer) = heard.recv_timeout(patience.timeout).unwrap();
        assert_eq!(answer.unwrap(), format!("/{at}"));
    }
    drop(tasks);
}

#[test]
fn a_stream_is_read_as_it_arrives() {
    let (url, _seen) = server(vec![Hold("HTTP/1.1 200 OK\r\n\r\n \ndata: 1\n\ndata: 2\n")]);
    let patience = Patience { timeout: Duration::from_millis(300), ..PATIENCE };
    let read = async {
        let server = Server::new(&url, None, patience).unwrap();
        let mut answer = server.get("/").stream().await.unwrap();
        assert_eq!(answer.first_byte().await.unwrap(), Some(b'd'));
        assert_eq!(answer.event().await.unwrap().as_deref(), Some("1"));
        // The time limit is for the beginning only.
        assert!(crate::timeout(2 * patience.timeout, answer.event()).await.is_none());
    };
    block_on(read).unwrap();
    let (url, _seen) = server(vec![Say("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\ndata: 1\n\ndata: 2")]);
    let read = async {
        let mut answer = at(&url).get("/").stream().await.unwrap();
        assert_eq!(answer.event().await.unwrap().as_deref(), Some("1"));
        answer.event().await.unwrap_err()
    };
    let error = block_on(read).unwrap().to_string();
    assert!(error.contains("broke off"), "{error}");
}
