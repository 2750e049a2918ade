//! How answers are sampled in an evaluation.

use burnish_core::Sampling;
use burnish_model::Chat;
use serde::{Deserialize, Serialize};

use super::play::Options;
use burnish_run::{RunError, generate};

/// What decides the sampling of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingFrom {
    /// The likeliest token at each position.
    Greedy,
    /// The whole distribution, at a given temperature.
    Temperature,
    /// The model's `generation_config.json`.
    Model,
}

/// The sampling that the options ask for.
///
/// # Errors
/// If several samples would all be equal, a number is out of range, or the model's file asks for something
/// unsupported.
pub(super) fn sampling(options: &Options, chat: &Chat) -> Result<(Sampling, SamplingFrom), RunError> {
    let tokens_max = options.tokens_max.unwrap_or(options.benchmark.tokens_max);
    let (sampling, from) = match options.temperature {
        _ if options.is_model_sampling => {
            (of_model(chat, options.tokens_max, options.benchmark.tokens_max)?, SamplingFrom::Model)
        }
        None | Some(0.0) => (Sampling::greedy(tokens_max), SamplingFrom::Greedy),
        Some(temperature) => (Sampling::at(temperature, tokens_max), SamplingFrom::Temperature),
    };
    sampling.check().map_err(|error| RunError::Refused(error.to_string()))?;
    if options.samples > 1 && sampling.temperature == 0.0 {
        let why = match from {
            SamplingFrom::Model => "the model's generation_config.json asks for greedy sampling, and",
            _ => "greedy sampling would give one answer over and over:",
        };
        return Err(RunError::Refused(format!(
            "--samples {}: {why} several samples need a temperature above 0, such as --temperature 0.8",
            options.samples
        )));
    }
    Ok((sampling, from))
}

/// The model's own defaults, read as `transformers` reads them.
fn of_model(chat: &Chat, given: Option<usize>, default: usize) -> Result<Sampling, RunError> {
    let defaults = chat.generation_defaults()?;
    let refuse = |problem: String| {
        Err(RunError::Refused(format!("--sampling model: generation_config.json {problem}")))
    };
    let tokens_max = given.or(defaults.max_new_tokens);
    if let (None, Some(length)) = (tokens_max, defaults.max_length) {
        return refuse(format!(
            "has `max_length` = {length}, which counts prompt and answer together; say with --tokens-max how long an \
             answer may be"
        ));
    }
    let tokens_max = tokens_max.unwrap_or(default);
    let said = generate::of_model(&defaults)
        .map_err(|error| RunError::Refused(format!("--sampling model: {error}")))?;
    // `transformers` is greedy where the file says nothing.
    Ok(Sampling { tokens_max, ..said.unwrap_or_else(|| Sampling::greedy(1)) })
}

/// The sampling in one line, as people read it.
pub(super) fn in_words(sampling: &Sampling, from: SamplingFrom) -> String {
    let mut words = generate::in_words(sampling);
    if from == SamplingFrom::Model {
        words.push_str(" (the model's generation_config.json)");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_is_said_in_words() {
        assert_eq!(in_words(&Sampling::greedy(7), SamplingFrom::Greedy), "greedy, at most 7 tokens");
        let qwen = Sampling { top_k: 20, top_p: 0.5, ..Sampling::at(0.75, 9) };
        let expected =
            "temperature 0.75, top_k 20, top_p 0.5, at most 9 tokens (the model's generation_config.json)";
        assert_eq!(in_words(&qwen, SamplingFrom::Model), expected);
    }
}
