//! A request of a program as a turn: what of it is honoured, and what is not.

use burnish_core::SamplingOptions;
use burnish_serve::{ChatRequest, Refusal, Shape};

use crate::Posed;

/// What the policy is asked. The recipe decides how tokens are drawn, so temperature, filters, penalties and the seed of
/// the request are not looked at; its token limit and its stop strings are honoured.
///
/// # Errors
/// If the request wants something that an episode can't give: names the field.
pub(super) fn posed(request: ChatRequest) -> Result<Posed, Refusal> {
    let ChatRequest { messages, tools, sampling, answers, shape, .. } = request;
    let SamplingOptions {
        tokens_max, stop, include_stop, stop_token_ids, ignore_eos, grammar, logprobs, ..
    } = sampling;
    let Shape { has_ids, ids_as_tokens, .. } = shape;
    let refuse = |field: &str, why: &str| Err(Refusal::invalid(field, format!("`{field}`: {why}")));
    let recipe = "the recipe decides this; leave it out";
    let record = "the run records tokens by itself; leave it out";
    for (field, is_asked, why) in [
        ("n", answers > 1, "an episode gives one answer at a time"),
        ("response_format", grammar.is_some(), recipe),
        ("include_stop_str_in_output", include_stop, recipe),
        ("stop_token_ids", !stop_token_ids.is_empty(), recipe),
        ("ignore_eos", ignore_eos, recipe),
        ("logprobs", logprobs.is_some(), record),
        ("return_token_ids", has_ids, record),
        ("return_tokens_as_token_ids", ids_as_tokens, record),
        ("max_tokens", tokens_max == Some(0), "must be 1 or more"),
        ("stop", stop.iter().any(String::is_empty), "must be texts, none of them empty"),
    ] {
        if is_asked {
            return refuse(field, why);
        }
    }
    Ok(Posed { messages, tools, tokens_max, stop })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burnish_core::Message;
    use serde_json::{Value, json};

    use super::*;

    fn read(more: Value) -> Result<Posed, Refusal> {
        let mut body = json!({"model": "policy", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        posed(ChatRequest::read(body.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn an_answer_can_be_shortened_and_how_it_is_drawn_is_not_looked_at() {
        let asked = read(json!({
            "temperature": 0, "top_p": 0.5, "seed": 4, "presence_penalty": 1, "max_tokens": 5, "stop": ["x"], "n": 1
        }));
        let expected = Posed {
            messages: vec![Message::user("hi")],
            tools: vec![],
            tokens_max: Some(5),
            stop: vec!["x".into()],
        };
        assert_eq!(asked.unwrap(), expected);
    }

    #[test]
    fn what_an_episode_can_not_give_is_refused() {
        for (field, value) in [
            ("n", json!(2)),
            ("logprobs", json!(true)),
            ("return_token_ids", json!(true)),
            ("stop_token_ids", json!([1])),
            ("ignore_eos", json!(true)),
            ("max_tokens", json!(0)),
            ("stop", json!([""])),
            ("response_format", json!({"type": "json_schema", "json_schema": {"schema": {}}})),
        ] {
            assert_eq!(read(json!({field: value})).unwrap_err().param.as_deref(), Some(field));
        }
    }
}
