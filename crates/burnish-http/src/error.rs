use serde_json::Value;

/// Number of characters of what a server said that are shown.
const SHOWN: usize = 300;

/// Why a server gave no answer. `call` is the method with the address, such as `POST http://localhost:8000/v1/x`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The key is missing.
    #[error("the environment variable `{variable}` must hold the key for {url}, but it is not set")]
    NoKey {
        /// The server.
        url: String,
        /// The variable.
        variable: String,
    },
    /// The address is none, or the key can't be sent.
    #[error("{url}: {problem}")]
    Address {
        /// The server.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The server refused.
    #[error("{call}: status {status}{}: {said}", after(*.tries))]
    Status {
        /// What was called.
        call: String,
        /// The HTTP status.
        status: u16,
        /// Number of requests sent.
        tries: u32,
        /// The beginning of the response's text.
        said: String,
    },
    /// No answer came.
    #[error("{call}: no answer{}: {problem}", after(*.tries))]
    Connection {
        /// What was called.
        call: String,
        /// Number of requests sent.
        tries: u32,
        /// What went wrong.
        problem: String,
    },
    /// The answer began and did not end.
    #[error("{call}: the answer broke off: {problem}")]
    Broken {
        /// What was called.
        call: String,
        /// What went wrong.
        problem: String,
    },
    /// The answer is not what was asked for.
    #[error("{call}: {problem}")]
    Malformed {
        /// What was called.
        call: String,
        /// What is missing or wrong.
        problem: String,
    },
}

impl HttpError {
    /// Whether the server itself refused, rather than being away or failing: asking again would not help.
    pub fn is_refusal(&self) -> bool {
        matches!(self, HttpError::Status { status, .. } if !is_passing(*status))
    }
}

/// May a request with this status be answered if it is sent again?
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..)
}

fn after(tries: u32) -> String {
    if tries == 1 { String::new() } else { format!(" after {tries} tries") }
}

/// What a server complains about: the message of an error in one of the usual forms, or else the text as it is.
pub(crate) fn complaint(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let forms = [&value["error"]["message"], &value["error"], &value["detail"], &value["message"]];
    shortened(forms.into_iter().find_map(Value::as_str).unwrap_or(text))
}

/// The beginning of a text that a server sent, to be shown.
pub fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}
