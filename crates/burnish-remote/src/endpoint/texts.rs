//! Log-probs of given texts: `POST URL/completions` with `echo` and `logprobs`, of OpenAI's API for completions.

use burnish_http::HttpError;
use serde::Deserialize;
use serde_json::json;

use super::{Endpoint, text_of};

/// Below a server's address.
const PATH: &str = "/completions";

/// Texts of one request.
const TEXTS_MAX: usize = 64;

/// A text whose probability after a prompt is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continuation<'a> {
    /// What comes before it.
    pub prompt: &'a str,
    /// The text.
    pub text: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: usize,
    logprobs: Option<Logprobs>,
}

/// Of the tokens of the prompt, then of those that were generated.
#[derive(Deserialize)]
struct Logprobs {
    tokens: Vec<String>,
    /// `null` for the first token, which nothing comes before.
    token_logprobs: Vec<Option<f64>>,
    /// Characters before each token.
    text_offset: Vec<usize>,
}

impl Endpoint {
    /// For each text, the log-probs, in nats, of its tokens where it follows its prompt. A token that begins in the prompt and
    /// ends in the text counts.
    ///
    /// # Errors
    /// Names the endpoint, and its status or what else went wrong.
    pub async fn text_logprobs(&self, texts: &[Continuation<'_>]) -> Result<Vec<Vec<f64>>, HttpError> {
        let mut found = Vec::with_capacity(texts.len());
        for part in texts.chunks(TEXTS_MAX) {
            let whole: Vec<String> = part.iter().map(|one| format!("{}{}", one.prompt, one.text)).collect();
            // Some servers generate a token at least; it is left out below.
            let body = json!({
                "model": self.config.model, "prompt": whole, "echo": true, "logprobs": 1, "max_tokens": 1,
                "temperature": 0,
            });
            let answer = self.server.post(PATH, text_of(&body)).text().await?;
            found.extend(logprobs_of(&answer, part).map_err(|problem| {
                let call = format!("POST {}{PATH}", self.server.url());
                HttpError::Malformed {
                    call,
                    problem: format!(
                        "the answer has no log-probs of the prompts (`echo`, `logprobs`): {problem}"
                    ),
                }
            })?);
        }
        Ok(found)
    }
}

/// The log-probs in an answer about these texts.
fn logprobs_of(answer: &str, texts: &[Continuation<'_>]) -> Result<Vec<Vec<f64>>, String> {
    let mut answer: Answer = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    answer.choices.sort_by_key(|choice| choice.index);
    if answer.choices.len() != texts.len() {
        return Err(format!("{} choices for {} prompts", answer.choices.len(), texts.len()));
    }
    answer.choices.into_iter().zip(texts).map(|(choice, text)| choice.within(text)).collect()
}

impl Choice {
    /// The log-probs of the tokens that reach into the text.
    fn within(self, text: &Continuation<'_>) -> Result<Vec<f64>, String> {
        let start = text.prompt.chars().count();
        let end = start + text.text.chars().count();
        let Logprobs { tokens, token_logprobs, text_offset } =
            self.logprobs.ok_or("`logprobs` is missing")?;
        if tokens.len() != token_logprobs.len() || tokens.len() != text_offset.len() {
            return Err("`tokens`, `token_logprobs` and `text_offset` differ in length".to_owned());
        }
        let ends = text_offset.iter().skip(1).copied().chain([usize::MAX]);
        let places = text_offset.iter().copied().zip(ends).zip(token_logprobs);
        let within = places.filter(|((first, last), _)| *last > start && *first < end);
        let found: Option<Vec<f64>> = within.map(|(_, logprob)| logprob).collect();
        match found {
            None => Err("a token of the text has none".to_owned()),
            Some(found) if found.is_empty() => Err("the server did not repeat the prompt".to_owned()),
            Some(found) => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::test_server::serve;

    fn ask(
        texts: &[(&str, &str)],
        reply: impl Fn(usize, &Value) -> Value + Send + 'static,
    ) -> (Result<Vec<Vec<f64>>, HttpError>, Vec<Value>) {
        let (url, asked) = serve(move |at, body| ("200 OK", reply(at, body)));
        let config = EndpointConfig { retries: 0, ..EndpointConfig::new(url, "m", None) };
        let texts: Vec<_> = texts.iter().map(|(prompt, text)| Continuation { prompt, text }).collect();
        let found = burnish_http::block_on(Endpoint::new(config).unwrap().text_logprobs(&texts)).unwrap();
        let asked = asked.lock().unwrap().clone();
        (found, asked)
    }

    fn choice(index: usize, tokens: &[&str], logprobs: &Value) -> Value {
        let before = |at: usize| tokens[..at].concat().chars().count();
        let offsets: Vec<usize> = (0..tokens.len()).map(before).collect();
        json!({ "index": index, "text": tokens.concat(), "logprobs": {
            "tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets,
        } })
    }

    #[test]
    fn the_text_counts_and_neither_the_prompt_nor_what_is_generated_does() {
        let (found, asked) = ask(&[("wänts", " mug red"), ("wants", " mug")], |_, _| {
            // In the second, a token holds the end of the prompt and the beginning of the text. It comes first.
            json!({ "choices": [
                choice(1, &["wa", "nts mu", "g", "."], &json!([null, -2.0, -0.5, -9.0])),
                choice(0, &["wänts", " mug", " red", " now"], &json!([null, -1.5, -0.25, -9.0])),
            ] })
        });
        assert_eq!(found.unwrap(), [[-1.5, -0.25], [-2.0, -0.5]]);
        let body = &asked[0];
        assert_eq!((&body["prompt"], &body["echo"]), (&json!(["wänts mug red", "wants mug"]), &json!(true)));
    }

    #[test]
    fn many_texts_are_asked_for_in_parts() {
        let (found, asked) = ask(&[("a", " b"); 130], |_, body| {
            let count = body["prompt"].as_array().unwrap().len();
            let choices: Vec<Value> = (0..count)
                .map(|index| choice(index, &["a", " b", "c"], &json!([null, -1.0, -1.0])))
                .collect();
            json!({ "choices": choices })
        });
        assert_eq!(found.unwrap(), vec![vec![-1.0]; 130]);
        assert_eq!(
            asked.iter().map(|body| body["prompt"].as_array().unwrap().len()).collect::<Vec<_>>(),
            [64, 64, 2]
        );
    }

    #[test]
    fn a_server_that_gives_no_log_probs_is_named() {
        let uneven = json!({ "tokens": ["x"], "token_logprobs": [], "text_offset": [0] });
        for (choices, problem) in [
            (json!([{ "text": "x", "logprobs": null }]), "`logprobs` is missing"),
            (json!([]), "0 choices for 1 prompts"),
            (json!([choice(0, &["wants mug"], &json!([null]))]), "a token of the text has none"),
            (json!([{ "logprobs": uneven }]), "differ in length"),
        ] {
            let (found, _) = ask(&[("wants", " mug")], move |_, _| json!({ "choices": choices }));
            let error = found.unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("/completions"), "{error}");
        }
    }
}
