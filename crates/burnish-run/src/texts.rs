//! What a model makes of single texts, for commands that need no episodes: an answer to a prompt, or a vector.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use burnish_core::Message;
use burnish_http::block_on;
use burnish_model::Packed;
use burnish_remote::endpoint::{Endpoint, EndpointConfig};
use burnish_tensor::{Device, Layout, Tape};

use crate::RunError;
use crate::asked::{Asked, How};
use crate::inspect::{FoundPolicy, find_policy};
use crate::policy::LoadedPolicy;

/// Tokens of one pass over texts.
const PASS_TOKENS: usize = 2048;

/// Answers single prompts, greedily.
pub struct Asker {
    client: RefCell<Asked>,
    tokens_max: usize,
}

impl Asker {
    /// A model directory or a run's newest checkpoint in `path`, or a server. An answer has at most `tokens_max` tokens.
    ///
    /// # Errors
    /// If there is none, or it can't be used.
    pub fn open(path: &Path, endpoint: Option<&EndpointConfig>, tokens_max: usize) -> Result<Self, RunError> {
        let device = Device::open("cpu")?;
        let found = match endpoint {
            Some(_) => None,
            None => Some(find_policy(path, None, "")?.dir),
        };
        let client = Asked::named("the model", found.as_deref(), endpoint, &device)?;
        Ok(Asker { client: RefCell::new(client), tokens_max })
    }

    /// The answer to a prompt.
    ///
    /// # Errors
    /// If there is none: why.
    pub fn ask(&self, prompt: &str) -> Result<String, String> {
        let how = How { temperature: 0.0, tokens_max: self.tokens_max, seed: 0 };
        let said = self.client.borrow_mut().ask(vec![vec![Message::user(prompt)]], how);
        let said = said.map_err(|error| error.to_string())?;
        said.into_iter().next().ok_or_else(|| "nothing was answered".to_owned())
    }
}

/// Texts as vectors.
pub struct Embedder {
    name: String,
    who: Who,
}

enum Who {
    Model(Box<LoadedPolicy>),
    Server(Box<Endpoint>),
}

impl Embedder {
    /// A model directory or a run's newest checkpoint in `path`, or a server with OpenAI's embeddings.
    ///
    /// # Errors
    /// If there is none, or it can't be used.
    pub fn open(path: &Path, endpoint: Option<&EndpointConfig>) -> Result<Self, RunError> {
        let refused = |error: burnish_http::HttpError| RunError::Refused(error.to_string());
        let Some(endpoint) = endpoint else {
            let FoundPolicy { dir, loading, start, .. } = find_policy(path, None, "")?;
            let model = LoadedPolicy::load_over(&dir, start.as_deref(), &loading)?;
            return Ok(Embedder { name: path.display().to_string(), who: Who::Model(Box::new(model)) });
        };
        let server = Endpoint::new(endpoint.clone()).map_err(refused)?;
        Ok(Embedder {
            name: format!("{} at {}", endpoint.model, endpoint.url),
            who: Who::Server(Box::new(server)),
        })
    }

    /// The name that reports give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A vector for each text, in order. A model's is the mean of its hidden states after the last norm over the text's tokens,
    /// without a chat template; a text beyond the context window is cut. A text without tokens has zeros.
    ///
    /// # Errors
    /// If a text can't be encoded, or a server fails.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        match &self.who {
            Who::Server(server) => {
                let asked = block_on(server.embeddings(texts)).map_err(|error| error.to_string())?;
                asked.map_err(|error| error.to_string())
            }
            Who::Model(policy) => {
                let room = policy.model.context_tokens_max();
                let encoded = texts.iter().map(|text| {
                    let mut ids = policy.chat.tokenizer.encode(text).map_err(|error| error.to_string())?;
                    ids.truncate(room);
                    Ok(ids)
                });
                Ok(means(policy, &encoded.collect::<Result<Vec<_>, String>>()?))
            }
        }
    }
}

/// Runs of `texts` that each go through a model in one pass: of at most `most` tokens, or a single text.
pub(crate) fn packs<T>(texts: &[T], tokens: impl Fn(&T) -> usize, most: usize) -> impl Iterator<Item = &[T]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |text: &&T| {
            sum += tokens(text);
            sum <= most
        };
        let (pack, later) = rest.split_at_checked(rest.iter().take_while(fits).count().max(1))?;
        rest = later;
        Some(pack)
    })
}

/// The mean hidden state of each text.
fn means(policy: &LoadedPolicy, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let model = &policy.model;
    let mut found = Vec::with_capacity(texts.len());
    for pack in packs(texts, Vec::len, PASS_TOKENS) {
        let width = model.config.hidden_size;
        let lens: Vec<usize> = pack.iter().map(Vec::len).filter(|len| *len > 0).collect();
        if lens.is_empty() {
            found.extend(pack.iter().map(|_| vec![0.0; width]));
            continue;
        }
        let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
        let layout = Arc::new(Layout::roots(&lens, model.visibility()));
        let mut mixer = Packed { layout, shape: model.head_shape() };
        let mut tape = Tape::inference(&model.params);
        let hidden = model.forward(&mut tape, &pack.concat(), &positions, &mut mixer);
        let mut rows = hidden.data().chunks_exact(width);
        for ids in pack {
            let mut mean = vec![0.0_f32; width];
            for row in rows.by_ref().take(ids.len()) {
                mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            mean.iter_mut().for_each(|sum| *sum /= ids.len().max(1) as f32);
            found.push(mean);
        }
    }
    found
}
