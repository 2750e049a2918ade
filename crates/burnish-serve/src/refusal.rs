//! Why a request is not answered, as OpenAI's error object says it.

use burnish_core::openai::WireError;
use burnish_core::{PolicyError, SamplingError};
use serde_json::{Value, json};

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, in words.
    pub message: String,
    /// The field that is wrong.
    pub param: Option<String>,
    /// What is wrong, for programs.
    pub code: Option<&'static str>,
}

impl Refusal {
    /// A request that can't be answered as it is.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Refusal { status: 400, message: message.into(), param: Some(param.to_owned()), code: None }
    }

    /// A request that has no answer, with a code for programs.
    pub fn because(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Refusal { status, message: message.into(), param: None, code: Some(code) }
    }

    /// The body of the response.
    pub(crate) fn body(&self) -> Value {
        let kind = match self.status {
            500.. => "server_error",
            401 => "authentication_error",
            404 => "not_found_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Refusal::invalid(&error.param, error.to_string())
    }
}

impl From<PolicyError> for Refusal {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::PromptTooLong { tokens, tokens_max } => Refusal {
                param: Some("messages".to_owned()),
                ..Refusal::because(
                    400,
                    "context_length_exceeded",
                    format!(
                        "the context length leaves room for a prompt of {tokens_max} tokens, but it has {tokens}"
                    ),
                )
            },
            PolicyError::Sampling(SamplingError { field, range }) => {
                // By its name on the wire.
                let field = if field == "tokens_max" { "max_tokens" } else { field };
                let range = range.replace("tokens_max", "max_tokens");
                Refusal::invalid(field, format!("`{field}` must be {range}"))
            }
            error @ PolicyError::Render(_) => Refusal::invalid("messages", error.to_string()),
            error @ PolicyError::Unable(_) => Refusal::because(400, "unsupported", error.to_string()),
            error @ PolicyError::Failed(_) => Refusal::because(500, "policy_failed", error.to_string()),
        }
    }
}
