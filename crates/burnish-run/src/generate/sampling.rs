//! How a person's prompts are answered: what the model's makers recommend, and what the person says instead.

use burnish_core::{Sampling, SamplingOptions};
use burnish_model::GenerationDefaults;

use crate::RunError;

/// What `transformers` takes where a `generation_config.json` that samples says nothing.
const TEMPERATURE: f64 = 1.0;
const TOP_K: usize = 50;

/// The sampling that a model's `generation_config.json` recommends, read as `transformers` reads it: greedy unless
/// `do_sample` is true. `None` if it says nothing about how tokens are chosen. The number of tokens is left open.
///
/// # Errors
/// If its keys contradict each other.
pub fn of_model(defaults: &GenerationDefaults) -> Result<Option<Sampling>, RunError> {
    let GenerationDefaults { do_sample, temperature, top_k, top_p, min_p, repetition_penalty, .. } = defaults;
    let is_said = do_sample.is_some()
        || top_k.is_some()
        || [temperature, top_p, min_p, repetition_penalty].into_iter().any(Option::is_some);
    if !is_said {
        return Ok(None);
    }
    let repetition_penalty = repetition_penalty.unwrap_or(1.0) as f32;
    if *do_sample != Some(true) {
        return Ok(Some(Sampling { repetition_penalty, ..Sampling::greedy(1) }));
    }
    let temperature = temperature.unwrap_or(TEMPERATURE);
    if temperature == 0.0 {
        let problem = "has `do_sample` = true with `temperature` = 0, which contradict each other";
        return Err(RunError::Refused(format!("generation_config.json {problem}")));
    }
    Ok(Some(Sampling {
        top_k: top_k.unwrap_or(TOP_K),
        top_p: top_p.unwrap_or(1.0) as f32,
        min_p: min_p.unwrap_or(0.0) as f32,
        repetition_penalty,
        ..Sampling::at(temperature as f32, 1)
    }))
}

/// The sampling that is `recommended`, or at temperature 1, with a person's options in its place. `tokens_max` is taken
/// where the options say nothing.
///
/// # Errors
/// Names the option that is out of its range.
pub(super) fn with_options(
    options: &SamplingOptions,
    recommended: Option<Sampling>,
    tokens_max: usize,
) -> Result<Sampling, RunError> {
    let base = recommended.unwrap_or_else(|| Sampling::at(TEMPERATURE as f32, 1));
    let tokens_max = tokens_max.max(options.min_tokens.unwrap_or(0));
    let sampling = options.over(&Sampling { tokens_max, ..base });
    match sampling.check() {
        Ok(()) => Ok(sampling),
        Err(error) => {
            let option = match error.field {
                "tokens_max" => "max-tokens".to_owned(),
                field => field.replace('_', "-"),
            };
            let range = error.range.replace("tokens_max", "--max-tokens");
            Err(RunError::Refused(format!("--{option} must be {range}")))
        }
    }
}

/// The sampling in one line, for people.
pub fn in_words(sampling: &Sampling) -> String {
    let mut words = match sampling.temperature {
        0.0 => "greedy".to_owned(),
        temperature => format!("temperature {temperature}"),
    };
    let parts = [
        ("top_k", sampling.top_k as f32, 0.0),
        ("top_p", sampling.top_p, 1.0),
        ("min_p", sampling.min_p, 0.0),
        ("repetition_penalty", sampling.repetition_penalty, 1.0),
        ("presence_penalty", sampling.presence_penalty, 0.0),
        ("frequency_penalty", sampling.frequency_penalty, 0.0),
    ];
    for (name, value, _) in parts.into_iter().filter(|(_, value, off)| value != off) {
        words.push_str(&format!(", {name} {value}"));
    }
    words.push_str(&format!(", at most {} tokens", sampling.tokens_max));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_is_said_in_words() {
        assert_eq!(in_words(&Sampling::greedy(7)), "greedy, at most 7 tokens");
        let qwen = Sampling { top_k: 20, top_p: 0.5, ..Sampling::at(0.75, 9) };
        assert_eq!(in_words(&qwen), "temperature 0.75, top_k 20, top_p 0.5, at most 9 tokens");
    }

    fn defaults(change: impl FnOnce(&mut GenerationDefaults)) -> GenerationDefaults {
        let mut defaults = GenerationDefaults::default();
        change(&mut defaults);
        defaults
    }

    #[test]
    fn what_a_model_recommends_is_read_as_transformers_reads_it() {
        assert_eq!(of_model(&GenerationDefaults::default()).unwrap(), None);
        let greedy = of_model(&defaults(|said| said.temperature = Some(0.5))).unwrap().unwrap();
        assert_eq!(greedy, Sampling::greedy(1));
        let sampled = of_model(&defaults(|said| {
            (said.do_sample, said.top_p) = (Some(true), Some(0.5));
        }));
        assert_eq!(sampled.unwrap(), Some(Sampling { top_k: 50, top_p: 0.5, ..Sampling::at(1.0, 1) }));
        let wrong = of_model(&defaults(|said| {
            (said.do_sample, said.temperature) = (Some(true), Some(0.0));
        }));
        assert!(wrong.unwrap_err().to_string().contains("contradict"));
    }

    #[test]
    fn options_stand_in_place_of_the_recommendation() {
        let recommended = Sampling { top_k: 20, ..Sampling::at(0.5, 1) };
        let options = SamplingOptions { temperature: Some(0.25), ..SamplingOptions::default() };
        let expected = Sampling { top_k: 20, ..Sampling::at(0.25, 9) };
        assert_eq!(with_options(&options, Some(recommended), 9).unwrap(), expected);
        assert_eq!(with_options(&SamplingOptions::default(), None, 9).unwrap(), Sampling::at(1.0, 9));
        let wrong = SamplingOptions { top_p: Some(2.0), ..SamplingOptions::default() };
        let error = with_options(&wrong, None, 9).unwrap_err().to_string();
        assert_eq!(error, "--top-p must be above 0 and at most 1");
        let wrong = SamplingOptions { tokens_max: Some(0), ..SamplingOptions::default() };
        assert!(
            with_options(&wrong, None, 9).unwrap_err().to_string().contains("--max-tokens must be 1 or more")
        );
    }
}
