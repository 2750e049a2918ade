//! Answers that arrive piece by piece: server-sent events.

use std::collections::BTreeMap;
use std::time::Duration;

use burnish_core::openai::thoughts;
use burnish_http::{HttpError, Incoming, shortened, timeout};
use serde_json::{Value, json};

use super::{ChatAnswer, ChatRequest, Endpoint, PATH, text_of, wire};

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
    /// one when the answer begins. A server that does not stream gives its answer in one piece.
    ///
    /// # Errors
    /// As [`Endpoint::chat`]; also if an answer that has begun does not end, or says nothing for as long as the
    /// timeout. It is not asked for again then, since parts of it were shown.
    pub async fn chat_streaming(
        &self,
        request: &ChatRequest<'_>,
        mut each: impl FnMut(Delta<'_>),
    ) -> Result<ChatAnswer, HttpError> {
        let mut body = self.body(request);
        body["stream"] = true.into();
        let mut answer = self.server.post(PATH, text_of(&body)).stream().await?;
        each(Delta::default());
        if self.awaited(answer.first_byte()).await? != Some(b'{') {
            return self.pieces(answer, each).await;
        }
        let text = self.awaited(answer.text()).await?;
        let answer = wire::answer(&text).map_err(|problem| self.malformed(&problem))?;
        let thoughts = answer.reasoning_content.as_deref().unwrap_or_default();
        each(Delta { thoughts, text: &answer.content });
        Ok(answer)
    }

    /// Waits for more of an answer, but not for ever.
    async fn awaited<T>(&self, more: impl Future<Output = Result<T, HttpError>>) -> Result<T, HttpError> {
        let seconds = self.config.timeout_seconds;
        let silent = || Err(self.broken(format!("nothing more came for {seconds} s")));
        timeout(Duration::from_secs_f64(seconds), more).await.unwrap_or_else(silent)
    }

    async fn pieces(
        &self,
        mut incoming: Incoming,
        mut each: impl FnMut(Delta<'_>),
    ) -> Result<ChatAnswer, HttpError> {
        let mut gathered = Gathered::default();
        while let Some(data) = self.awaited(incoming.event()).await? {
            if data.trim() == "[DONE]" {
                gathered.is_done = true;
                break;
            }
            let value: Value = burnish_core::json::parse(&data).map_err(|error| {
                self.malformed(&format!("an event is not JSON ({error}): {}", shortened(&data)))
            })?;
            if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
                let said = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
                return Err(self.broken(shortened(&said)));
            }
            let choice = &value["choices"][0];
            gathered.add(choice);
            let delta = &choice["delta"];
            let text = delta["content"].as_str().unwrap_or_default();
            each(Delta { thoughts: thoughts(delta), text });
        }
        if !gathered.is_done && gathered.finish_reason.is_none() {
            return Err(self.broken("the connection was closed before its end".to_owned()));
        }
        let (message, finish_reason) = gathered.message();
        let answer = wire::read_message(&message, finish_reason);
        answer.map_err(|problem| self.malformed(&format!("the message`{problem}")))
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
        self.thoughts += thoughts(delta);
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
