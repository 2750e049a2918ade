//! A part of a sampling.

use crate::{Grammar, Sampling};

/// What somebody says about how tokens are chosen; the rest is decided elsewhere.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingOptions {
    /// Divides the logits; 0 is greedy.
    pub temperature: Option<f32>,
    /// Keep only the likeliest tokens; 0 keeps all.
    pub top_k: Option<usize>,
    /// Keep the likeliest tokens up to this probability; 1 keeps all.
    pub top_p: Option<f32>,
    /// Drop tokens less likely than this times the likeliest; 0 keeps all.
    pub min_p: Option<f32>,
    /// Divides the logits of tokens that the text already has; 1 changes nothing.
    pub repetition_penalty: Option<f32>,
    /// Subtracted from the logit of every id that the answer has; 0 changes nothing.
    pub presence_penalty: Option<f32>,
    /// Subtracted from the logit of an id once per occurrence in the answer; 0 changes nothing.
    pub frequency_penalty: Option<f32>,
    /// Most tokens of an answer.
    pub tokens_max: Option<usize>,
    /// Until this many tokens no end token is sampled and no stop string counts.
    pub min_tokens: Option<usize>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Does the answer include the stop string that ended it?
    pub include_stop: bool,
    /// Ids that end the answer.
    pub stop_token_ids: Vec<u32>,
    /// Are the policy's end tokens treated like any other token?
    pub ignore_eos: bool,
    /// Report each token's rank and this many of the likeliest.
    pub logprobs: Option<usize>,
    /// Constrains the text of the answer.
    pub grammar: Option<Grammar>,
}

impl SamplingOptions {
    /// These options, and `defaults` where they say nothing.
    pub fn over(&self, defaults: &Sampling) -> Sampling {
        let own = self.clone();
        let tokens_max = own.tokens_max.unwrap_or(defaults.tokens_max);
        let stop = if own.stop.is_empty() { defaults.stop.clone() } else { own.stop };
        let stop_token_ids = match own.stop_token_ids.is_empty() {
            true => defaults.stop_token_ids.clone(),
            false => own.stop_token_ids,
        };
        Sampling {
            temperature: own.temperature.unwrap_or(defaults.temperature),
            top_k: own.top_k.unwrap_or(defaults.top_k),
            top_p: own.top_p.unwrap_or(defaults.top_p),
            min_p: own.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: own.repetition_penalty.unwrap_or(defaults.repetition_penalty),
            presence_penalty: own.presence_penalty.unwrap_or(defaults.presence_penalty),
            frequency_penalty: own.frequency_penalty.unwrap_or(defaults.frequency_penalty),
            tokens_max,
            min_tokens: own.min_tokens.unwrap_or(defaults.min_tokens.min(tokens_max)),
            stop,
            include_stop: own.include_stop || defaults.include_stop,
            stop_token_ids,
            ignore_eos: own.ignore_eos || defaults.ignore_eos,
            logprobs: own.logprobs.or(defaults.logprobs),
            grammar: own.grammar.or_else(|| defaults.grammar.clone()),
            ..defaults.clone()
        }
    }
}
