//! The transport over streamable HTTP, on the connections of burnish-http.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use burnish_core::json;
use burnish_http::{Answered, Call, HeaderName, HeaderValue, HttpError, Incoming, Server, shortened};
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::meter::Meter;

/// What the answer to a POST, and to the GET of the server's own messages, may be.
const ACCEPTED: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
const EVENTS: &str = "text/event-stream";
const NO_MESSAGE: &str = "wrote something that is no message of the protocol";

/// Asks one server.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    server: Arc<Server>,
    /// What the address ends with that [`Server`] leaves out: a slash, or nothing.
    path: &'static str,
    headers: Arc<Vec<(HeaderName, HeaderValue)>>,
    meter: Meter,
    message_bytes: usize,
}

type Failure = StreamableHttpError<HttpError>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl Web {
    pub(crate) fn new(
        server: Server,
        path: &'static str,
        headers: Vec<(HeaderName, HeaderValue)>,
        meter: Meter,
        message_bytes: usize,
    ) -> Self {
        Web { server: Arc::new(server), path, headers: Arc::new(headers), meter, message_bytes }
    }

    /// The answer to a request with these headers.
    async fn ask(
        &self,
        mut call: Call<'_>,
        session: Option<Arc<str>>,
        headers: Headers,
    ) -> Result<Answered, Failure> {
        call = call.with_header(HeaderName::from_static("accept"), ACCEPTED);
        if let Some(session) = session {
            let id = HeaderValue::from_str(&session).map_err(|_| {
                StreamableHttpError::UnexpectedServerResponse("its session's id is none".into())
            })?;
            call = call.with_header(HeaderName::from_static("mcp-session-id"), id);
        }
        for (name, value) in self.headers.iter().cloned().chain(headers) {
            call = call.with_header(name, value);
        }
        call.answer().await.map_err(StreamableHttpError::Client)
    }

    /// The whole of an answer, which may have as many bytes as one message.
    async fn whole(&self, mut body: Incoming) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(piece) = body.bytes().await.map_err(StreamableHttpError::Client)? {
            let is_allowed = self.meter.allows(piece.len());
            bytes.extend(piece);
            if bytes.len() > self.message_bytes || !is_allowed {
                let max_size = self.message_bytes;
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size });
            }
        }
        Ok(bytes)
    }

    fn events(&self, body: Incoming) -> Events {
        let reading = Reading { body, event: Event::default(), web: self.clone() };
        let meter = self.meter.clone();
        let events = SseStream::from_bytes_stream(unfold(Some(reading), |reading| async {
            let mut reading = reading?;
            match reading.next().await {
                Ok(piece) => piece.map(|piece| (Ok(Cursor::new(piece)), Some(reading))),
                Err(problem) => Some((Err(std::io::Error::other(problem)), None)),
            }
        }));
        events
            .map(move |mut event| {
                // rmcp would leave out what it can't read, and round long integers.
                if let Some(data) = event.as_mut().ok().and_then(|event| event.data.as_mut()) {
                    if !data.trim().is_empty()
                        && let Err(error) = json::read::<ServerJsonRpcMessage>(data)
                    {
                        meter.fail(format!("{NO_MESSAGE} ({error}): {}", shortened(data)));
                    }
                    *data = json::marked(data).into_owned();
                }
                event
            })
            .boxed()
    }
}

/// A stream of events that is being read.
struct Reading {
    body: Incoming,
    event: Event,
    web: Web,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(piece) = self.body.bytes().await.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        if !self.web.meter.allows(piece.len()) {
            return Err(self.web.meter.fault().unwrap_or_default());
        }
        if self.event.longest(&piece) > self.web.message_bytes {
            let problem = format!("wrote a message of more than {} bytes", self.web.message_bytes);
            self.web.meter.fail(problem.clone());
            return Err(problem);
        }
        Ok(Some(piece))
    }
}

/// The length of the event that is arriving; an empty line ends it.
#[derive(Debug, Default)]
struct Event {
    bytes: usize,
    is_at_line_start: bool,
}

impl Event {
    /// Takes further bytes. Returns the length of the longest event until now.
    fn longest(&mut self, piece: &[u8]) -> usize {
        let mut longest = 0;
        for byte in piece {
            self.bytes += 1;
            longest = longest.max(self.bytes);
            match byte {
                b'\n' if self.is_at_line_start => self.bytes = 0,
                b'\n' => self.is_at_line_start = true,
                b'\r' => {}
                _ => self.is_at_line_start = false,
            }
        }
        longest
    }
}

/// Complains about a status that is no success.
fn refused(status: u16, body: &[u8]) -> Failure {
    let said = shortened(&String::from_utf8_lossy(body));
    StreamableHttpError::UnexpectedServerResponse(format!("status {status}: {said}").into())
}

impl StreamableHttpClient for Web {
    type Error = HttpError;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _key: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let has_session = session.is_some();
        let text = json::text(&message)?;
        let answer = self.ask(self.server.post(self.path, text), session, headers).await?;
        let given = answer.header("mcp-session-id").map(str::to_owned);
        let kind = answer.header("content-type").unwrap_or_default().to_ascii_lowercase();
        match answer.status {
            202 | 204 => return Ok(StreamableHttpPostResponse::Accepted),
            404 if has_session => return Err(StreamableHttpError::SessionExpired),
            200..300 if kind.starts_with(EVENTS) => {
                return Ok(StreamableHttpPostResponse::Sse(self.events(answer.body), given));
            }
            _ => {}
        }
        let status = answer.status;
        let body = self.whole(answer.body).await?;
        // Also a refusal may be an answer of the protocol.
        match json::read::<ServerJsonRpcMessage>(&String::from_utf8_lossy(&body)) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, given)),
            Err(_) if !(200..300).contains(&status) => Err(refused(status, &body)),
            Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(error) => {
                let said = shortened(&String::from_utf8_lossy(&body));
                let problem = format!("{NO_MESSAGE} ({error}): {said}");
                self.meter.fail(problem.clone());
                Err(StreamableHttpError::UnexpectedServerResponse(problem.into()))
            }
        }
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _key: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.ask(self.server.delete(self.path), Some(session), headers).await.map(drop)
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _key: Option<String>,
        mut headers: Headers,
    ) -> Result<Events, Failure> {
        if let Some(last) = last_event.and_then(|last| HeaderValue::from_str(&last).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), last);
        }
        let answer = self.ask(self.server.get(self.path), session, headers).await?;
        let kind = answer.header("content-type").unwrap_or_default().to_ascii_lowercase();
        match answer.status {
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            200..300 if kind.starts_with(EVENTS) => Ok(self.events(answer.body)),
            200..300 => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
            status => Err(refused(status, &self.whole(answer.body).await?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_event_is_counted_wherever_the_stream_is_cut() {
        let text = b"data: 12345\r\n\r\ndata: 1234567890\n\n\ndata: 1\n\n";
        for length in 1..=text.len() {
            let mut event = Event::default();
            let longest = text.chunks(length).map(|piece| event.longest(piece)).max();
            assert_eq!(longest, Some(18), "in pieces of {length} bytes");
            assert_eq!(event.bytes, 0);
        }
    }
}
