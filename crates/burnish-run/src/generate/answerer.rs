//! Whoever answers: a model on disk, or a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::{Abilities, Grammar, Piece, Sampling, SamplingOptions, Streaming};
use burnish_engine::{GrammarError, Limits, LocalPolicy, check_grammar};
use burnish_model::Tokenizer;
use burnish_remote::endpoint::{EndpointConfig, EndpointPolicy};
use burnish_serve::Decode;
use burnish_tensor::{Device, Precision};

use super::sampling::{of_model, with_options};
use crate::RunError;
use crate::inspect::{self, FoundPolicy};
use crate::policy::LoadedPolicy;
use burnish_recipe::bounds::{self, BATCH_MAX, THREADS_MAX};
use burnish_recipe::{ComputeType, TextTokens};

/// Most tokens of an answer where neither the person nor the model says how many.
const TOKENS_MAX: usize = 2048;

/// Who is asked, and how the policy is loaded.
#[derive(Debug, Clone)]
pub struct Asked {
    /// A model directory, an adapter's, or a run directory.
    pub policy: PathBuf,
    /// Instead of `policy`: a server.
    pub endpoint: Option<EndpointConfig>,
    /// Of a run: the checkpoint after this step instead of the newest.
    pub step: Option<u64>,
    /// What computes, as `"cpu"` or `"cuda:0"`: by default what the policy's run computes on, the CPU for a model
    /// directory.
    pub device: Option<String>,
    /// In which precision: by default that of the policy's run, f32 for a model directory.
    pub precision: Option<ComputeType>,
    /// How control tokens in the texts of messages are read: by default as in the policy's run.
    pub text_tokens: Option<TextTokens>,
    /// Threads; 0 takes every core. Changes no result.
    pub threads: usize,
    /// Sequences that are sampled together.
    pub batch: usize,
    /// Is text continued as it is, without a chat template?
    pub is_raw: bool,
    /// Are answers read while they are under way?
    pub is_streaming: bool,
}

/// A policy that is ready to answer.
pub struct Answerer {
    who: Who,
    shown: String,
    notes: Vec<String>,
}

enum Who {
    Local { loaded: LoadedPolicy, policy: Box<LocalPolicy> },
    Server(EndpointPolicy),
}

impl Answerer {
    /// Loads the policy. Of a server nothing is asked yet.
    ///
    /// # Errors
    /// Names the option or the file that is wrong.
    pub fn open(asked: &Asked) -> Result<Self, RunError> {
        let refuse = |problem: String| Err(RunError::Refused(problem));
        for (name, count, most) in
            [("--batch", asked.batch, BATCH_MAX), ("--threads", asked.threads, THREADS_MAX)]
        {
            if count as u64 > most {
                return refuse(format!("{name} {count}: must be {most} or less"));
            }
        }
        if let Some(endpoint) = &asked.endpoint {
            return Answerer::ask(endpoint, asked);
        }
        let found = inspect::find_policy(&asked.policy, asked.step, "")?;
        let FoundPolicy { dir, mut loading, version, device, start, notes } = found;
        loading.precision = asked.precision.map_or(loading.precision, Precision::from);
        loading.text_tokens = asked.text_tokens.unwrap_or(loading.text_tokens);
        let device = Device::open(asked.device.as_ref().unwrap_or(&device))?;
        burnish_tensor::set_threads(asked.threads);
        let load = if asked.is_raw { LoadedPolicy::load_plain } else { LoadedPolicy::load_over };
        let loaded = load(&dir, start.as_deref(), &loading)?.on(&device);
        let round_steps_max = if asked.is_streaming { 1 } else { Limits::default().round_steps_max };
        let limits = Limits { batch_max: asked.batch, round_steps_max, ..Limits::default() };
        let policy = Box::new(loaded.sampler(version, limits));
        Ok(Answerer { who: Who::Local { loaded, policy }, shown: dir.display().to_string(), notes })
    }

    fn ask(endpoint: &EndpointConfig, asked: &Asked) -> Result<Self, RunError> {
        let refuse = |problem: String| Err(RunError::Refused(problem));
        let url = &endpoint.url;
        if let Err((key, rule)) = endpoint.check() {
            return refuse(format!("{url}: `{key}` {rule}"));
        }
        let options = [
            ("--step", asked.step.is_some(), "which has no steps"),
            ("--device", asked.device.is_some(), "which computes where it is"),
            ("--precision", asked.precision.is_some(), "which computes as it was started"),
            ("--text-tokens", asked.text_tokens.is_some(), "which has a tokenizer of its own"),
            ("--raw", asked.is_raw, "which is asked through chat completions"),
        ];
        if let Some((option, _, why)) = options.into_iter().find(|(_, is_given, _)| *is_given) {
            return refuse(format!("{option}: {url} is a server, {why}"));
        }
        let policy = EndpointPolicy::new(endpoint.clone())?;
        let policy = if asked.is_streaming { policy.streaming() } else { policy };
        let shown = format!("{} at {url}", endpoint.model);
        Ok(Answerer { who: Who::Server(policy), shown, notes: Vec::new() })
    }

    /// The policy.
    pub fn policy(&mut self) -> &mut dyn Streaming {
        match &mut self.who {
            Who::Local { policy, .. } => policy.as_mut(),
            Who::Server(policy) => policy,
        }
    }

    /// Where the policy is.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What a person should be told about the run or the directory.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Its tokenizer; `None` of a server.
    pub fn tokenizer(&self) -> Option<Arc<Tokenizer>> {
        match &self.who {
            Who::Local { loaded, .. } => Some(Arc::clone(&loaded.chat.tokenizer)),
            Who::Server(_) => None,
        }
    }

    /// Does it read and record token ids?
    pub fn has_tokens(&self) -> bool {
        matches!(self.who, Who::Local { .. })
    }

    /// What gives the text of a token; `None` of a server.
    pub fn decode(&self) -> Option<Decode> {
        let Who::Local { loaded, .. } = &self.who else { return None };
        let chat = Arc::clone(&loaded.chat);
        Some(Arc::new(move |id| chat.tokenizer.decode(&[id], false).unwrap_or_default()))
    }

    /// Prompt tokens so far, and how many of them were read: the others were in the cache. `None` of a server.
    pub fn prompt_tokens(&self) -> Option<(usize, usize)> {
        match &self.who {
            Who::Local { policy, .. } => {
                let stats = policy.stats();
                Some((stats.prompt_tokens, stats.prompt_tokens_read))
            }
            Who::Server(_) => None,
        }
    }

    /// With what a call begins in an answer to a prompt with tools; empty if that is not known.
    pub fn call_openings(&self) -> &'static [&'static str] {
        match &self.who {
            Who::Local { loaded, .. } => {
                loaded.chat.template.call_format().map_or(&[], |format| format.openings())
            }
            Who::Server(_) => &[],
        }
    }

    /// How tokens are chosen: as the model's `generation_config.json` recommends, with the options in its place.
    /// Without a recommendation, at temperature 1.
    ///
    /// # Errors
    /// Names the option that is out of its range or that the policy can't be given, or the key of the file that can't
    /// be followed.
    pub fn sampling(&self, options: &SamplingOptions) -> Result<Sampling, RunError> {
        let (recommended, tokens_max, abilities) = match &self.who {
            Who::Local { loaded, .. } => {
                let defaults = loaded.chat.generation_defaults()?;
                (of_model(&defaults)?, defaults.max_new_tokens, Abilities::ALL)
            }
            Who::Server(_) => (None, None, EndpointPolicy::ABILITIES),
        };
        let sampling = with_options(options, recommended, tokens_max.unwrap_or(TOKENS_MAX))?;
        if sampling.tokens_max as u64 > bounds::TOKENS_MAX {
            return Err(RunError::Refused(format!("--max-tokens must be {} or less", bounds::TOKENS_MAX)));
        }
        if let Some(grammar) = &sampling.grammar {
            let option = match grammar {
                Grammar::JsonSchema(_) => "--json-schema",
                Grammar::Regex(_) => "--regex",
                Grammar::Tools => "grammar",
            };
            let refuse = |error: GrammarError| RunError::Refused(format!("{option}: {error}"));
            check_grammar(grammar).map_err(refuse)?;
        }
        abilities.check_sampling(&sampling).map_err(|error| {
            RunError::Refused(format!(
                "{}: is asked with --temperature, --max-tokens and --seed and nothing else: {error}",
                self.shown
            ))
        })?;
        Ok(sampling)
    }

    /// A text as the beginning of answers.
    ///
    /// # Errors
    /// If the policy can't be given one.
    pub fn prefix(&self, text: &str) -> Result<Vec<Piece>, RunError> {
        match &self.who {
            Who::Local { loaded, .. } => Ok(vec![loaded.chat.tokenizer.piece_of_text(text)?]),
            Who::Server(_) => Err(RunError::Refused(format!(
                "--prefix: {} can't go on from the beginning of an answer",
                self.shown
            ))),
        }
    }
}

/// The server's address, if `policy` is one.
pub fn address(policy: &Path) -> Option<&str> {
    policy.to_str().filter(|url| url.starts_with("http://") || url.starts_with("https://"))
}
