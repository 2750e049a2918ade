//! A connection that stays open, over which both sides send texts when they like (WebSocket, RFC 6455).

use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::{SinkExt, StreamExt};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming as Body};
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::error::complaint;
use crate::runtime::runtime;
use crate::server::reason;
use crate::{HttpError, Incoming, Server};

/// Texts that may wait to be received. While that many wait, no more are read.
const WAITING_MAX: usize = 16;

/// A connection over which texts come and go. The other side's pings are answered also while nobody waits for a text.
/// Dropping it closes the connection.
#[derive(Debug)]
pub struct WebSocket {
    /// What it is called in errors: the request that opened it.
    name: String,
    outgoing: mpsc::UnboundedSender<String>,
    incoming: mpsc::Receiver<Result<String, HttpError>>,
}

impl Server {
    /// Opens a connection at a path, which begins with a slash. It is tried once, as long as the server's patience says.
    /// A text may have `bytes_max` bytes.
    ///
    /// # Errors
    /// If there is no such server, or it speaks no WebSocket at this path.
    pub async fn websocket(&self, path: &str, bytes_max: usize) -> Result<WebSocket, HttpError> {
        let key = generate_key();
        let mut call = self.get(path);
        for (name, value) in [
            (CONNECTION, "Upgrade"),
            (UPGRADE, "websocket"),
            (SEC_WEBSOCKET_VERSION, "13"),
            (SEC_WEBSOCKET_KEY, &key),
        ] {
            // All of them can be sent: the key is base64.
            if let Ok(value) = HeaderValue::from_str(value) {
                call = call.with_header(name, value);
            }
        }
        let failed = |problem: String| HttpError::Connection { call: call.name(), tries: 1, problem };
        let response = call.response().await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status().as_u16();
            let said = complaint(&Incoming::new(call.name(), response.into_body()).text().await?);
            return Err(HttpError::Status { call: call.name(), status, tries: 1, said });
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT).map(|value| value.as_bytes());
        if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(failed("it does not answer as a WebSocket does".to_owned()));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(|error| failed(reason(&error)))?;
        let (socket, carrying) =
            WebSocket::over(stream(upgraded, Role::Client, bytes_max).await, call.name());
        runtime().map_err(|error| failed(error.to_string()))?.spawn(carrying);
        Ok(socket)
    }
}

type Stream = WebSocketStream<TokioIo<Upgraded>>;

async fn stream(upgraded: Upgraded, role: Role, bytes_max: usize) -> Stream {
    let limits = WebSocketConfig::default().max_message_size(Some(bytes_max)).max_frame_size(Some(bytes_max));
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), role, Some(limits)).await
}

/// Does a request ask for a WebSocket?
pub(crate) fn is_asked(request: &Request<Body>) -> bool {
    let upgrade = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// Answers a request for a WebSocket; `then` gets it as soon as it stands.
pub(crate) fn accepted(
    mut request: Request<Body>,
    bytes_max: usize,
    then: impl FnOnce(WebSocket) + Send + 'static,
) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        return answer;
    };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    // Base64 can always be sent.
    headers.extend(accept.map(|accept| (SEC_WEBSOCKET_ACCEPT, accept)));
    let name = format!("GET {}", request.uri().path());
    tokio::spawn(async move {
        // A client that goes before the connection stands is no concern.
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
        let (socket, carrying) = WebSocket::over(stream(upgraded, Role::Server, bytes_max).await, name);
        then(socket);
        carrying.await;
    });
    answer
}

/// Carries texts in both directions, until either side is gone.
async fn carry(
    mut stream: Stream,
    mut to_send: mpsc::UnboundedReceiver<String>,
    received: mpsc::Sender<Result<String, HttpError>>,
    name: String,
) {
    loop {
        let next = match select(pin!(to_send.recv()), stream.next()).await {
            Either::Left((text, _)) => Either::Left(text),
            Either::Right((message, _)) => Either::Right(message),
        };
        let broken = |problem: String| HttpError::Broken { call: name.clone(), problem };
        let told = match next {
            Either::Left(Some(text)) => match stream.send(Message::text(text)).await {
                Ok(()) => continue,
                Err(error) => Err(broken(error.to_string())),
            },
            Either::Left(None) => {
                // Best effort: whoever had the connection is gone.
                let _ = stream.close(None).await;
                return;
            }
            Either::Right(None | Some(Ok(Message::Close(_)))) => return,
            Either::Right(Some(Ok(Message::Text(text)))) => Ok(text.as_str().to_owned()),
            // The library answers pings itself.
            Either::Right(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => continue,
            Either::Right(Some(Ok(Message::Binary(bytes)))) => {
                Err(broken(format!("{} bytes came that are no text", bytes.len())))
            }
            Either::Right(Some(Err(error))) => Err(broken(error.to_string())),
        };
        let is_over = told.is_err();
        if received.send(told).await.is_err() || is_over {
            return;
        }
    }
}

impl WebSocket {
    /// The connection, and what carries its texts.
    fn over(stream: Stream, name: String) -> (Self, impl Future<Output = ()>) {
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let (received, incoming) = mpsc::channel(WAITING_MAX);
        let carrying = carry(stream, to_send, received, name.clone());
        (WebSocket { name, outgoing, incoming }, carrying)
    }

    /// Sends a text.
    ///
    /// # Errors
    /// If the connection is no more.
    pub fn send(&self, text: String) -> Result<(), HttpError> {
        self.outgoing.send(text).map_err(|_| self.closed())
    }

    /// Waits for a text.
    ///
    /// # Errors
    /// If the connection is closed or breaks, or what comes is no text, or longer than allowed.
    pub async fn receive(&mut self) -> Result<String, HttpError> {
        self.incoming.recv().await.unwrap_or_else(|| Err(self.closed()))
    }

    fn closed(&self) -> HttpError {
        HttpError::Broken {
            call: self.name.clone(),
            problem: "the other side closed the connection".to_owned(),
        }
    }
}
