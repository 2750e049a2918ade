use http_body_util::BodyExt;
use hyper::body::Incoming as Body;

use crate::HttpError;
use crate::events::Events;

/// Most bytes of an answer in one piece, and of an event.
const BYTES_MAX: usize = 64 << 20;

/// An answer that is arriving.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) call: String,
    pub(crate) body: Body,
    events: Events,
    /// Bytes that were looked at, and are still to be read.
    looked_at: Vec<u8>,
}

impl Incoming {
    pub(crate) fn new(call: String, body: Body) -> Self {
        Incoming { call, body, events: Events::default(), looked_at: Vec::new() }
    }

    /// The rest of the answer as text.
    ///
    /// # Errors
    /// If it breaks off, is not UTF-8, or is longer than 64 MiB.
    pub async fn text(mut self) -> Result<String, HttpError> {
        let mut bytes = std::mem::take(&mut self.looked_at);
        while let Some(more) = self.more().await? {
            bytes.extend(more);
            self.check_size(bytes.len())?;
        }
        String::from_utf8(bytes).map_err(|_| self.broken("it is not UTF-8"))
    }

    /// The first byte that is no white space; it is still to be read.
    ///
    /// # Errors
    /// If the answer breaks off.
    pub async fn first_byte(&mut self) -> Result<Option<u8>, HttpError> {
        loop {
            if let Some(byte) = self.looked_at.iter().find(|byte| !byte.is_ascii_whitespace()) {
                return Ok(Some(*byte));
            }
            match self.more().await? {
                Some(more) => self.looked_at = more,
                None => return Ok(None),
            }
        }
    }

    /// The data of the next server-sent event; `None` at the end.
    ///
    /// # Errors
    /// If the answer breaks off, or an event is not UTF-8 or too long.
    pub async fn event(&mut self) -> Result<Option<String>, HttpError> {
        loop {
            let looked_at = std::mem::take(&mut self.looked_at);
            self.events.push(&looked_at);
            if let Some(data) = self.events.next().map_err(|problem| self.broken(&problem))? {
                return Ok(Some(data));
            }
            self.check_size(self.events.waiting())?;
            match self.more().await? {
                Some(more) => self.looked_at = more,
                // What no empty line has ended was cut off.
                None => return Ok(None),
            }
        }
    }

    /// The next bytes as they arrive; `None` at the end.
    ///
    /// # Errors
    /// If the answer breaks off.
    pub async fn bytes(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        match std::mem::take(&mut self.looked_at) {
            looked_at if looked_at.is_empty() => self.more().await,
            looked_at => Ok(Some(looked_at)),
        }
    }

    /// The next bytes.
    async fn more(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.broken(&crate::server::reason(&error))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes.to_vec()));
                    }
                }
            }
        }
    }

    fn check_size(&self, bytes: usize) -> Result<(), HttpError> {
        if bytes > BYTES_MAX { Err(self.broken("it is too long")) } else { Ok(()) }
    }

    fn broken(&self, problem: &str) -> HttpError {
        HttpError::Broken { call: self.call.clone(), problem: problem.to_owned() }
    }
}
