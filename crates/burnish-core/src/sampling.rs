//! How a policy chooses tokens.

use serde::{Deserialize, Serialize};

use crate::{Contrast, Latent, Thoughts};

/// Largest value of [`Sampling::logprobs`].
pub const LOGPROBS_MAX: usize = 1000;

/// How tokens are chosen, and when an answer ends.
///
/// The logits are treated in this order before a token is chosen: `contrast`, `thoughts`, forbidden ids (`min_tokens`,
/// `grammar`), penalties, temperature, `top_k`, `top_p`, `min_p`. The penalties are vLLM's, the filters those of
/// `transformers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Divides the logits. 0 means greedy.
    pub temperature: f32,
    /// Keep only the `top_k` likeliest tokens; 0 keeps all.
    #[serde(default)]
    pub top_k: usize,
    /// Keep the smallest set of likeliest tokens whose probability reaches `top_p`; 1 keeps all.
    #[serde(default = "one")]
    pub top_p: f32,
    /// Drop tokens less likely than `min_p` times the likeliest; 0 keeps all.
    #[serde(default)]
    pub min_p: f32,
    /// Divides a positive logit, and multiplies a negative one, for every id that occurs in the prompt or in the answer
    /// so far; 1 changes nothing.
    #[serde(default = "one")]
    pub repetition_penalty: f32,
    /// Subtracted from the logit of every id that occurs in the answer so far; 0 changes nothing.
    #[serde(default)]
    pub presence_penalty: f32,
    /// Subtracted from the logit of an id once per occurrence in the answer so far; 0 changes nothing.
    #[serde(default)]
    pub frequency_penalty: f32,
    /// Most tokens that one turn may sample.
    pub tokens_max: usize,
    /// Until this many tokens, no end token is sampled and no stop string counts.
    #[serde(default)]
    pub min_tokens: usize,
    /// Texts that end the answer, even across token boundaries.
    #[serde(default)]
    pub stop: Vec<String>,
    /// Whether the message includes the stop string that ended it.
    #[serde(default)]
    pub include_stop: bool,
    /// Ids that end the answer, besides the policy's own end tokens; the message does not include them.
    #[serde(default)]
    pub stop_token_ids: Vec<u32>,
    /// Whether the policy's own end tokens are treated like any other token.
    #[serde(default)]
    pub ignore_eos: bool,
    /// Report each token's rank and this many of the likeliest ids, with their log-probs; see
    /// [`TokenLogprobs`](crate::TokenLogprobs).
    #[serde(default)]
    pub logprobs: Option<usize>,
    /// Constrains the text of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
    /// Sets the logits against those of earlier layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<Contrast>,
    /// Controls the thoughts of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<Thoughts>,
    /// Of a model of masked diffusion: the steps in which an answer of `tokens_max` masks becomes known. `None` takes one
    /// for each token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denoising_steps: Option<usize>,
    /// Lets the answer go on in latent steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<Latent>,
}

/// A language that constrains the text of an answer, token by token: ids that lead out of it are forbidden, and the
/// answer can end only where the text is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// JSON that fits a schema.
    JsonSchema(serde_json::Value),
    /// Text that matches a regular expression as a whole.
    Regex(String),
    /// Any text in which every call that is begun is a call of a tool that the policy was given, with arguments that fit
    /// the tool's schema, written as the chat template writes it.
    Tools,
}

fn one() -> f32 {
    1.0
}

impl Sampling {
    /// Untruncated sampling at `temperature`, up to `tokens_max` tokens.
    pub fn at(temperature: f32, tokens_max: usize) -> Self {
        Sampling {
            temperature,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            tokens_max,
            min_tokens: 0,
            stop: Vec::new(),
            include_stop: false,
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            logprobs: None,
            grammar: None,
            contrast: None,
            thoughts: None,
            denoising_steps: None,
            latent: None,
        }
    }

    /// Greedy sampling: the likeliest token each time, up to `tokens_max` tokens.
    pub fn greedy(tokens_max: usize) -> Self {
        Sampling::at(0.0, tokens_max)
    }

    /// Does any filter cut the distribution?
    pub fn is_truncating(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Does any penalty change the logits?
    pub fn is_penalising(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Checks that every token is drawn from the policy's whole distribution at the temperature, so that the model's
    /// log-prob is also the sampled one.
    ///
    /// # Errors
    /// Names the first field that changes the distribution.
    pub fn check_on_policy(&self) -> Result<(), SamplingError> {
        let off_policy = [
            ("temperature", self.temperature == 0.0, "above 0 in a rollout that is trained on"),
            ("top_k", self.top_k > 0, "0 in a rollout that is trained on"),
            ("top_p", self.top_p < 1.0, "1 in a rollout that is trained on"),
            ("min_p", self.min_p > 0.0, "0 in a rollout that is trained on"),
            ("repetition_penalty", self.repetition_penalty != 1.0, "1 in a rollout that is trained on"),
            ("presence_penalty", self.presence_penalty != 0.0, "0 in a rollout that is trained on"),
            ("frequency_penalty", self.frequency_penalty != 0.0, "0 in a rollout that is trained on"),
            ("min_tokens", self.min_tokens > 0, "0 in a rollout that is trained on"),
            ("grammar", self.grammar.is_some(), "left out in a rollout that is trained on"),
            ("contrast", self.contrast.is_some(), "left out in a rollout that is trained on"),
            ("thoughts", self.thoughts.is_some(), "left out in a rollout that is trained on"),
        ];
        match off_policy.into_iter().find(|&(_, is_off_policy, _)| is_off_policy) {
            Some((field, _, range)) => Err(SamplingError { field, range }),
            None => Ok(()),
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first field that is out of range, and the range.
    pub fn check(&self) -> Result<(), SamplingError> {
        let logprobs_max = self.logprobs.unwrap_or(0);
        let rules = [
            ("temperature", self.temperature.is_finite() && self.temperature >= 0.0, "0 or more"),
            ("top_p", self.top_p > 0.0 && self.top_p <= 1.0, "above 0 and at most 1"),
            ("min_p", (0.0..=1.0).contains(&self.min_p), "0 to 1"),
            (
                "repetition_penalty",
                self.repetition_penalty.is_normal() && self.repetition_penalty > 0.0,
                "above 0 (1 changes nothing)",
            ),
            ("presence_penalty", (-2.0..=2.0).contains(&self.presence_penalty), "-2 to 2"),
            ("frequency_penalty", (-2.0..=2.0).contains(&self.frequency_penalty), "-2 to 2"),
            ("tokens_max", self.tokens_max > 0, "1 or more"),
            ("min_tokens", self.min_tokens <= self.tokens_max, "at most tokens_max"),
            ("stop", self.stop.iter().all(|stop| !stop.is_empty()), "a list of texts, none of them empty"),
            ("logprobs", logprobs_max <= LOGPROBS_MAX, "at most 1000"),
            ("denoising_steps", self.denoising_steps != Some(0), "1 or more"),
        ];
        if let Some((field, _, range)) = rules.into_iter().find(|&(_, holds, _)| !holds) {
            return Err(SamplingError { field, range });
        }
        if self.latent.is_some() {
            // Each of them would have to say what it makes of a position without a token.
            let beside = [
                ("logprobs", self.logprobs.is_some()),
                ("grammar", self.grammar.is_some()),
                ("contrast", self.contrast.is_some()),
                ("thoughts", self.thoughts.is_some()),
            ];
            if let Some((field, _)) = beside.into_iter().find(|&(_, is_there)| is_there) {
                return Err(SamplingError { field, range: "left out beside latent steps (`latent`)" });
            }
        }
        self.latent.as_ref().map_or(Ok(()), Latent::check)?;
        if self.thoughts.is_some() {
            // What a control puts has no rank among choices, and need not be in a language.
            let beside = [("logprobs", self.logprobs.is_some()), ("grammar", self.grammar.is_some())];
            if let Some((field, _)) = beside.into_iter().find(|&(_, is_there)| is_there) {
                return Err(SamplingError {
                    field,
                    range: "left out beside controls of thoughts (`thoughts`)",
                });
            }
        }
        self.thoughts.as_ref().map_or(Ok(()), Thoughts::check)?;
        self.contrast.as_ref().map_or(Ok(()), Contrast::check)
    }
}

/// A sampling parameter is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sampling.{field} must be {range}")]
pub struct SamplingError {
    /// Which field.
    pub field: &'static str,
    /// Its permitted range.
    pub range: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_out_of_range_is_named() {
        let good = Sampling::at(1.0, 4);
        assert_eq!(good.check(), Ok(()));
        let wrong = [
            ("temperature", Sampling { temperature: f32::INFINITY, ..good.clone() }),
            ("top_p", Sampling { top_p: 0.0, ..good.clone() }),
            ("min_p", Sampling { min_p: 1.5, ..good.clone() }),
            ("repetition_penalty", Sampling { repetition_penalty: 0.0, ..good.clone() }),
            ("repetition_penalty", Sampling { repetition_penalty: f32::NAN, ..good.clone() }),
            ("presence_penalty", Sampling { presence_penalty: 2.5, ..good.clone() }),
            ("frequency_penalty", Sampling { frequency_penalty: f32::NAN, ..good.clone() }),
            ("tokens_max", Sampling { tokens_max: 0, ..good.clone() }),
            ("min_tokens", Sampling { min_tokens: 5, ..good.clone() }),
            ("stop", Sampling { stop: vec!["a".into(), String::new()], ..good.clone() }),
            ("logprobs", Sampling { logprobs: Some(LOGPROBS_MAX + 1), ..good.clone() }),
        ];
        for (field, sampling) in wrong {
            assert_eq!(sampling.check().unwrap_err().field, field);
        }
    }

    #[test]
    fn what_was_written_before_a_field_was_there_still_reads() {
        let old = r#"{"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"tokens_max":7}"#;
        let expected = Sampling { top_k: 3, top_p: 0.9, min_p: 0.1, ..Sampling::at(0.5, 7) };
        assert_eq!(serde_json::from_str::<Sampling>(old).unwrap(), expected);
        assert!(serde_json::from_str::<Sampling>(r#"{"temperature":1,"tokens_max":1,"stops":[]}"#).is_err());
    }
}
