//! What is asked for.

use burnish_core::{Grammar, Message, SamplingOptions, ToolSpec, openai};
use serde_json::Value;

use crate::Refusal;
use crate::fields::Fields;

/// Most answers to one request.
const ANSWERS_MAX: usize = 128;

/// Most of the likeliest tokens at each place, as of OpenAI.
const TOP_MAX: usize = 20;

/// Fields that change no answer, and are not looked at.
const IGNORED: [&str; 11] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "cache_salt",
    "request_id",
    "priority",
    "stream_options",
];

/// The fields that decide something, for hints.
const KNOWN: [&str; 30] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "stop",
    "include_stop_str_in_output",
    "stop_token_ids",
    "ignore_eos",
    "seed",
    "n",
    "logprobs",
    "top_logprobs",
    "response_format",
    "logit_bias",
    "stream",
    "stream_options",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "add_generation_prompt",
];

/// A request for chat completions.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The model, by its name.
    pub model: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// How tokens are to be chosen. The likeliest tokens to report may be 0: then log-probs alone are asked for.
    pub sampling: SamplingOptions,
    /// Seed of the first answer.
    pub seed: Option<u64>,
    /// Number of answers, at least 1.
    pub answers: usize,
    /// How the answer is written.
    pub shape: Shape,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// As an event stream. The answer comes in one piece, when it is finished.
    pub is_stream: bool,
    /// In a stream, with a last event that counts tokens.
    pub has_usage: bool,
    /// With the ids of the prompt and of the answer.
    pub has_ids: bool,
    /// In log-probs, tokens as `token_id:N`.
    pub ids_as_tokens: bool,
}

impl ChatRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// Names the first field that is malformed, unknown, or asks for something that there is not.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let mut fields = Fields::read(body)?;
        let missing = |name: &str| Refusal::invalid(name, format!("the field `{name}` is missing"));
        let model = fields.text("model")?.ok_or_else(|| missing("model"))?;
        let messages = fields.value("messages").ok_or_else(|| missing("messages"))?;
        let messages = openai::read_messages(&messages)?;
        let mut tools = fields.value("tools").map(|tools| openai::read_tools(&tools)).transpose()?;
        match fields.value("tool_choice") {
            None => {}
            Some(Value::String(choice)) if choice == "auto" => {}
            Some(Value::String(choice)) if choice == "none" => tools = None,
            Some(other) => {
                let problem = format!("`tool_choice` must be `auto` or `none`, not {other}");
                return Err(Refusal::invalid("tool_choice", problem));
            }
        }
        fields.only("parallel_tool_calls", |value| value == true)?;
        fields.only("logit_bias", |value| value.as_object().is_some_and(serde_json::Map::is_empty))?;
        fields.only("add_generation_prompt", |value| value == true)?;
        let answers = fields.count("n")?.unwrap_or(1);
        if answers == 0 || answers > ANSWERS_MAX {
            return Err(Refusal::invalid("n", format!("`n` must be 1 to {ANSWERS_MAX}")));
        }
        let shape = shape(&mut fields)?;
        let (sampling, seed) = (sampling(&mut fields)?, fields.seed()?);
        IGNORED.iter().for_each(|name| fields.ignore(name));
        fields.finish(&KNOWN)?;
        Ok(ChatRequest { model, messages, tools: tools.unwrap_or_default(), sampling, seed, answers, shape })
    }
}

fn shape(fields: &mut Fields) -> Result<Shape, Refusal> {
    let usage = fields.value("stream_options");
    Ok(Shape {
        is_stream: fields.flag("stream")?,
        has_usage: usage.is_some_and(|options| options["include_usage"] == true),
        has_ids: fields.flag("return_token_ids")?,
        ids_as_tokens: fields.flag("return_tokens_as_token_ids")?,
    })
}

fn sampling(fields: &mut Fields) -> Result<SamplingOptions, Refusal> {
    let (tokens_max, newer) = (fields.count("max_tokens")?, fields.count("max_completion_tokens")?);
    let top = fields.count("top_logprobs")?;
    let logprobs = match (fields.flag("logprobs")?, top) {
        (false, Some(1..)) => {
            return Err(Refusal::invalid("top_logprobs", "`top_logprobs` needs `logprobs`: true"));
        }
        (_, Some(top)) if top > TOP_MAX => {
            return Err(Refusal::invalid(
                "top_logprobs",
                format!("`top_logprobs` must be {TOP_MAX} or less"),
            ));
        }
        (true, top) => Some(top.unwrap_or(0)),
        (false, _) => None,
    };
    Ok(SamplingOptions {
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        top_k: top_k(fields)?,
        min_p: fields.number("min_p")?,
        repetition_penalty: fields.number("repetition_penalty")?,
        presence_penalty: fields.number("presence_penalty")?,
        frequency_penalty: fields.number("frequency_penalty")?,
        tokens_max: newer.or(tokens_max),
        min_tokens: fields.count("min_tokens")?,
        stop: fields.texts("stop")?,
        include_stop: fields.flag("include_stop_str_in_output")?,
        stop_token_ids: fields.ids("stop_token_ids")?,
        ignore_eos: fields.flag("ignore_eos")?,
        grammar: grammar(fields)?,
        logprobs,
    })
}

/// As in vLLM, -1 keeps all tokens as well.
fn top_k(fields: &mut Fields) -> Result<Option<usize>, Refusal> {
    match fields.value("top_k") {
        None => Ok(None),
        Some(Value::Number(number)) if number.as_i64() == Some(-1) => Ok(Some(0)),
        Some(Value::Number(number)) if number.as_u64().is_some() => {
            Ok(number.as_u64().and_then(|count| usize::try_from(count).ok()))
        }
        Some(other) => {
            Err(Refusal::invalid("top_k", format!("`top_k` must be a whole number, -1 or more, not {other}")))
        }
    }
}

fn grammar(fields: &mut Fields) -> Result<Option<Grammar>, Refusal> {
    let Some(format) = fields.value("response_format") else { return Ok(None) };
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_schema") if format["json_schema"]["schema"].is_object() => {
            Ok(Some(Grammar::JsonSchema(format["json_schema"]["schema"].clone())))
        }
        _ => {
            let problem =
                "`response_format` must be {\"type\": \"text\"}, or of the type `json_schema` with a schema";
            Err(Refusal::invalid("response_format", problem))
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
