//! Being asked: a server on this machine.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as Bound};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming as Body};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::runtime::{Task, runtime};
use crate::websocket::{accepted, is_asked};
use crate::{WebSocket, sleep, timeout};

/// How long a client may take to send the head of a request, and then its body.
const SENDING: Duration = Duration::from_secs(60);
/// The wait before the next try if a connection can't be taken, as when too many files are open.
const PAUSE: Duration = Duration::from_millis(50);

/// What a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a request's body; a longer one gets the status 413.
    pub body_bytes: usize,
    /// Most connections; further ones wait.
    pub connections: usize,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET`, `POST` ...
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The bearer token, if there is one.
    pub key: Option<String>,
    /// The body; `Err` if it is longer than the limit.
    pub body: Result<Vec<u8>, TooLong>,
}

/// A body has more bytes than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is longer than {0} bytes")]
pub struct TooLong(pub usize);

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

/// A server. It ends with its connections when this is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    _task: Task,
}

impl Listening {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What is done with a connection that stays open: its path, the bearer token, and the connection. It is called on the
/// thread that moves everything, so it must not wait for anything.
type Sockets = dyn Fn(String, Option<String>, WebSocket) + Send + Sync;

/// Listens on an address (`127.0.0.1:8000`; port 0 takes a free one) and answers each request with what `answer`
/// returns for it. If the client closes its connection first, that future is dropped.
///
/// # Errors
/// If the address is none or taken, or the system gives no thread.
pub fn listen<F>(
    address: &str,
    limits: Limits,
    answer: impl Fn(Asked) -> F + Send + Sync + 'static,
) -> io::Result<Listening>
where
    F: Future<Output = Answer> + Send + 'static,
{
    listen_to(address, limits, answer, None)
}

/// As [`listen`]; a client that asks for a [`WebSocket`] gets one, and `socket` its other end, with the path and the
/// bearer token. `socket` must not wait for anything.
///
/// # Errors
/// As [`listen`].
pub fn listen_with_sockets<F>(
    address: &str,
    limits: Limits,
    answer: impl Fn(Asked) -> F + Send + Sync + 'static,
    socket: impl Fn(String, Option<String>, WebSocket) + Send + Sync + 'static,
) -> io::Result<Listening>
where
    F: Future<Output = Answer> + Send + 'static,
{
    listen_to(address, limits, answer, Some(Arc::new(socket)))
}

fn listen_to<F>(
    address: &str,
    limits: Limits,
    answer: impl Fn(Asked) -> F + Send + Sync + 'static,
    sockets: Option<Arc<Sockets>>,
) -> io::Result<Listening>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let bound = Bound::bind(address)?;
    bound.set_nonblocking(true)?;
    let address = bound.local_addr()?;
    let runtime = runtime()?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(bound)?
    };
    let task = crate::spawn(take_all(listener, limits, Arc::new(answer), sockets))?;
    Ok(Listening { address, _task: task })
}

async fn take_all<F>(
    listener: TcpListener,
    limits: Limits,
    answer: Arc<impl Fn(Asked) -> F + Send + Sync + 'static>,
    sockets: Option<Arc<Sockets>>,
) where
    F: Future<Output = Answer> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        // The places are never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (answer, sockets) = (Arc::clone(&answer), sockets.clone());
        connections.spawn(async move {
            serve(stream, limits, answer, sockets).await;
            drop(place);
        });
    }
}

/// Answers the requests of one connection.
async fn serve<F>(
    stream: TcpStream,
    limits: Limits,
    answer: Arc<impl Fn(Asked) -> F + Send + Sync + 'static>,
    sockets: Option<Arc<Sockets>>,
) where
    F: Future<Output = Answer> + Send + 'static,
{
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let (answer, sockets) = (Arc::clone(&answer), sockets.clone());
        async move {
            if let Some(sockets) = sockets
                && is_asked(&request)
            {
                let (path, key) = (request.uri().path().to_owned(), key_of(&request));
                return Ok(accepted(request, limits.body_bytes, move |socket| sockets(path, key, socket)));
            }
            let Some(request) = read(request, limits.body_bytes).await else {
                return Ok::<_, Infallible>(response(
                    StatusCode::REQUEST_TIMEOUT,
                    "text/plain",
                    String::new(),
                ));
            };
            let is_unread = request.body.is_err();
            let Answer { status, content_type, body } = answer(request).await;
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = response(status, content_type, body);
            if is_unread {
                response.headers_mut().insert(CONNECTION, hyper::header::HeaderValue::from_static("close"));
            }
            Ok(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(SENDING);
    // A connection that breaks off is the client's affair.
    let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

/// The bearer token of a request.
fn key_of(request: &Request<Body>) -> Option<String> {
    let given = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    Some(given.strip_prefix("Bearer ")?.trim().to_owned())
}

/// Reads a request; `None` if its body does not arrive.
async fn read(request: Request<Body>, body_bytes: usize) -> Option<Asked> {
    let method = request.method().to_string();
    let path = request.uri().path().to_owned();
    let key = key_of(&request);
    let collected = timeout(SENDING, Limited::new(request.into_body(), body_bytes).collect()).await?;
    let body = match collected {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => Err(TooLong(body_bytes)),
        Err(_) => return None,
    };
    Some(Asked { method, path, key, body })
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
