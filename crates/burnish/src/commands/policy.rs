//! Options of commands that ask a policy: who it is, where it computes, and how it chooses tokens.

use std::path::{Path, PathBuf};

use burnish_core::Grammar;
use burnish_core::SamplingOptions;
use burnish_recipe::{ComputeType, TextTokens};
use burnish_run::generate::{self, Asked};
use burnish_run::items::EndpointConfig;
use clap::Args;

/// Seconds without anything from a server after which a person's prompt fails.
const TIMEOUT_SECONDS: f64 = 600.0;

/// Where a policy is and computes, beside its path or address.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Of a server: the model's name there.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Of a server: the environment variable that holds its key.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// What computes: cpu, cuda:0 and so on. [default: as the policy's run; cpu for a model directory]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// In which precision products are computed: f32 or bf16. [default: as the policy's run; f32 for a model directory]
    #[arg(long, value_name = "TYPE", value_parser = precision)]
    pub(crate) precision: Option<ComputeType>,
    /// Threads; 0 takes every core. Changes no result. [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

impl Place {
    /// The server, where the policy is one. `option` is how the policy was given: "--policy ", or nothing where it
    /// stands alone.
    pub(crate) fn endpoint(
        &self,
        policy: Option<&Path>,
        option: &str,
    ) -> Result<Option<EndpointConfig>, Box<dyn std::error::Error>> {
        let Some(url) = policy.and_then(generate::address) else {
            let given = [("--model", self.model.is_some()), ("--api-key-env", self.api_key_env.is_some())];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((given, _)) => {
                    Err(format!("{given} is for a server: give its address with {option}http://HOST/v1")
                        .into())
                }
                None => Ok(None),
            };
        };
        let Some(model) = self.model.clone() else {
            return Err(format!("{option}{url}: which model? Give its name there with --model NAME").into());
        };
        Ok(Some(EndpointConfig::new(url, model, self.api_key_env.clone())))
    }
}

/// By the names of `policy.precision`.
fn precision(name: &str) -> serde_json::Result<ComputeType> {
    serde_json::from_value(name.into())
}

/// By the names of `policy.text_tokens`.
fn text_tokens(name: &str) -> serde_json::Result<TextTokens> {
    serde_json::from_value(name.into())
}

/// Who is asked by `generate` and `chat`.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// A model directory (also an adapter's), a run directory, or http(s)://HOST/v1: a server with OpenAI's chat
    /// completions.
    #[arg(value_parser = super::path())]
    pub(crate) policy: PathBuf,
    /// Of a run: the checkpoint after this step instead of the newest.
    #[arg(long)]
    step: Option<u64>,
    /// How control tokens in messages are read: literal (as ordinary text) or as_transformers. [default: as the policy's
    /// run; literal for a model directory]
    #[arg(long, value_name = "HOW", value_parser = text_tokens)]
    text_tokens: Option<TextTokens>,
    #[command(flatten)]
    place: Place,
}

impl Who {
    /// What opens the policy, for `batch` sequences at once.
    pub(crate) fn asked(
        &self,
        batch: usize,
        is_raw: bool,
        is_streaming: bool,
    ) -> Result<Asked, Box<dyn std::error::Error>> {
        let endpoint = self.place.endpoint(Some(&self.policy), "")?;
        Ok(Asked {
            policy: self.policy.clone(),
            endpoint: endpoint
                .map(|endpoint| EndpointConfig { timeout_seconds: TIMEOUT_SECONDS, ..endpoint }),
            step: self.step,
            device: self.place.device.clone(),
            precision: self.place.precision,
            text_tokens: self.text_tokens,
            threads: self.place.threads.unwrap_or(0),
            batch,
            is_raw,
            is_streaming,
        })
    }
}

/// How tokens are chosen by `generate` and `chat`.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Sampling (by default as the model's generation_config.json says, or at temperature 1)"
)]
pub(crate) struct SamplingArguments {
    /// Temperature; 0 takes the likeliest token each time.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Keep only the K likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Keep the likeliest tokens up to this probability; 1 keeps all.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Drop tokens less likely than this times the likeliest; 0 keeps all.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Divides the logits of tokens that the text already has; 1 changes nothing.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// Subtracted from the logits of tokens that the answer already has.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Subtracted from the logit of a token each time that the answer has it.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Most tokens of an answer. [default: as the model's generation_config.json says, or 2048]
    #[arg(long, value_name = "N", visible_alias = "tokens-max")]
    max_tokens: Option<usize>,
    /// Fewest tokens of an answer.
    #[arg(long, value_name = "N")]
    min_tokens: Option<usize>,
    /// A text that ends the answer, which is then cut off before it. Can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Seed: the same command gives the same answers. [default: 0 for generate, another one each time for chat]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
}

impl SamplingArguments {
    /// The options, with a grammar if there is one.
    pub(crate) fn options(&self, grammar: Option<Grammar>) -> SamplingOptions {
        SamplingOptions {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            tokens_max: self.max_tokens,
            min_tokens: self.min_tokens,
            stop: self.stop.clone(),
            grammar,
            ..SamplingOptions::default()
        }
    }
}
