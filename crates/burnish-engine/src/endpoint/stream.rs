//! Answers that arrive piece by piece: server-sent events.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ChatAnswer, ChatRequest, Endpoint, EndpointError, Miss, complaint, text_of, wire};

/// Most bytes of an event, and of an answer in one piece.
const BYTES_MAX: u64 = 10 << 20;

/// What an answer has said since the last piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delta<'a> {
    /// Thoughts that the server keeps apart from the text.
    pub thoughts: &'a str,
    /// Text.
    pub text: &'a str,
}

impl Endpoint {
    /// As [`Endpoint::chat`], but `each` is called with every piece of the answer as it arrives, first with an empty
    /// one when the answer begins. Once it breaks off, nothing more is read, and there is no answer. A server that does
    /// not stream gives its answer in one piece.
    ///
    /// # Errors
    /// As [`Endpoint::chat`]; also if an answer that has begun does not end. It is not asked for again then, since
    /// parts of it were shown.
    pub fn chat_streaming(
        &self,
        request: &ChatRequest<'_>,
        each: &mut dyn FnMut(Delta<'_>) -> ControlFlow<()>,
    ) -> Result<Option<ChatAnswer>, EndpointError> {
        let mut body = self.body(request);
        body["stream"] = true.into();
        let body = text_of(&body);
        // The time limit is for the beginning of the answer; whoever reads the pieces knows how long to wait for them.
        let longest = Some(Duration::from_secs_f64(self.config.timeout_seconds));
        self.until_answered(|tries| {
            let limits = self.post().config().timeout_global(None).timeout_connect(longest);
            let request = limits.timeout_send_request(longest).timeout_recv_response(longest).build();
            let mut response = self.send(request, &body, tries)?;
            if each(Delta::default()).is_break() {
                return Ok(None);
            }
            let mut reader = BufReader::new(response.body_mut().as_reader());
            let broken =
                |problem: String| Miss::Fatal(EndpointError::Broken { url: self.url.clone(), problem });
            match first_byte(&mut reader) {
                Ok(Some(b'{')) => self.whole(&mut reader, each),
                Ok(_) => self.pieces(&mut reader, each),
                Err(error) => Err(broken(error.to_string())),
            }
        })
    }

    /// An answer in one piece.
    fn whole(
        &self,
        reader: &mut impl Read,
        each: &mut dyn FnMut(Delta<'_>) -> ControlFlow<()>,
    ) -> Result<Option<ChatAnswer>, Miss> {
        let mut text = String::new();
        reader.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| {
            Miss::Fatal(EndpointError::Broken { url: self.url.clone(), problem: error.to_string() })
        })?;
        let answer = wire::answer(&text).map_err(|problem| self.malformed(problem))?;
        let thoughts = answer.reasoning_content.as_deref().unwrap_or_default();
        let goes_on = each(Delta { thoughts, text: &answer.content }).is_continue();
        Ok(goes_on.then_some(answer))
    }

    fn pieces(
        &self,
        reader: &mut impl BufRead,
        each: &mut dyn FnMut(Delta<'_>) -> ControlFlow<()>,
    ) -> Result<Option<ChatAnswer>, Miss> {
        let broken = |problem: String| Miss::Fatal(EndpointError::Broken { url: self.url.clone(), problem });
        let mut gathered = Gathered::default();
        while let Some(data) = event(reader).map_err(|error| broken(error.to_string()))? {
            if data.trim() == "[DONE]" {
                gathered.is_done = true;
                break;
            }
            let value: Value = serde_json::from_str(&data).map_err(|error| {
                self.malformed(format!("an event is not JSON ({error}): {}", complaint(&data)))
            })?;
            if !value["error"].is_null() {
                return Err(broken(complaint(&data)));
            }
            let choice = &value["choices"][0];
            gathered.add(choice);
            let delta = &choice["delta"];
            let text = delta["content"].as_str().unwrap_or_default();
            if each(Delta { thoughts: wire::thoughts(delta), text }).is_break() {
                return Ok(None);
            }
        }
        if !gathered.is_done && gathered.finish_reason.is_none() {
            return Err(broken("the connection was closed before its end".to_owned()));
        }
        let (message, finish_reason) = gathered.message();
        let answer = wire::read_message(&message, finish_reason);
        answer.map(Some).map_err(|problem| self.malformed(format!("the message`{problem}")))
    }
}

/// The pieces of an answer so far.
#[derive(Default)]
struct Gathered {
    content: String,
    thoughts: String,
    /// By their index: id, name, arguments.
    calls: BTreeMap<u64, [String; 3]>,
    finish_reason: Option<String>,
    is_done: bool,
}

impl Gathered {
    fn add(&mut self, choice: &Value) {
        let delta = &choice["delta"];
        self.content += delta["content"].as_str().unwrap_or_default();
        self.thoughts += wire::thoughts(delta);
        for (at, call) in (0..).zip(delta["tool_calls"].as_array().into_iter().flatten()) {
            let [id, name, arguments] = self.calls.entry(call["index"].as_u64().unwrap_or(at)).or_default();
            for (whole, piece) in [
                (id, &call["id"]),
                (name, &call["function"]["name"]),
                (arguments, &call["function"]["arguments"]),
            ] {
                *whole += piece.as_str().unwrap_or_default();
            }
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
    }

    /// The message, as a server that does not stream would have sent it.
    fn message(self) -> (Value, Option<String>) {
        let call = |[id, name, arguments]: [String; 3]| {
            let id = if id.is_empty() { Value::Null } else { id.into() };
            json!({ "id": id, "function": { "name": name, "arguments": arguments } })
        };
        let calls: Vec<Value> = self.calls.into_values().map(call).collect();
        let message =
            json!({ "content": self.content, "reasoning_content": self.thoughts, "tool_calls": calls });
        (message, self.finish_reason)
    }
}

/// The first byte that is no white space, which is left to be read.
fn first_byte(reader: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        match bytes.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(at) => {
                let byte = bytes[at];
                reader.consume(at);
                return Ok(Some(byte));
            }
            None => {
                let length = bytes.len();
                reader.consume(length);
            }
        }
    }
}

/// The data of the next event; `None` at the end. Comments, and fields other than `data`, are skipped.
fn event(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut data: Option<String> = None;
    let mut left = BYTES_MAX;
    loop {
        let mut line = Vec::new();
        let length = reader.by_ref().take(left).read_until(b'\n', &mut line)? as u64;
        left -= length;
        if left == 0 {
            return Err(io::Error::new(ErrorKind::InvalidData, "an event is too long"));
        }
        let line =
            String::from_utf8(line).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))?;
        let text = line.trim_end_matches(['\n', '\r']);
        // What no empty line has ended was cut off.
        if length == 0 {
            return Ok(None);
        }
        if text.is_empty() && data.is_some() {
            return Ok(data);
        }
        if let Some(piece) = text.strip_prefix("data:") {
            let data = data.get_or_insert_default();
            if !data.is_empty() {
                data.push('\n');
            }
            *data += piece.strip_prefix(' ').unwrap_or(piece);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_the_standard_says() {
        let text = ": comment\r\nevent: x\r\ndata: a\r\ndata:b\r\n\r\n\n\ndata: {}\n\nid: 7\n\ndata: cut";
        let mut reader = BufReader::with_capacity(3, text.as_bytes());
        let mut events = Vec::new();
        while let Some(data) = event(&mut reader).unwrap() {
            events.push(data);
        }
        assert_eq!(events, ["a\nb", "{}"]);
        assert!(event(&mut &b"data: \xff\n\n"[..]).is_err());
        let long = vec![b'x'; BYTES_MAX as usize + 1];
        assert!(event(&mut &long[..]).unwrap_err().to_string().contains("too long"));
    }
}
