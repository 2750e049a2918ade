//! A policy behind an address.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::SamplingOptions;
use burnish_recipe::{Recipe, bounds};
use burnish_serve::{Inbox, PolicyBackend, Served, Server, ServerConfig, Serving, serve_policy};

use crate::RunError;
use crate::generate::{Answerer, Asked, in_words};
use crate::inspect::is_run;
use crate::watch::Stop;

/// Most bytes of a request.
const REQUEST_BYTES: usize = 64 << 20;
/// Most connections at the same time.
const CONNECTIONS: usize = 1024;

/// What is served where.
#[derive(Debug, Clone)]
pub struct ServeSpec {
    /// Who answers.
    pub asked: Asked,
    /// The model's name; by default that of its directory.
    pub name: Option<String>,
    /// Address and port.
    pub address: String,
    /// The key that callers have to send.
    pub key: Option<String>,
    /// How tokens are chosen where a request does not say.
    pub options: SamplingOptions,
    /// Seed of requests that bring none.
    pub seed: u64,
}

/// A policy that can be asked.
pub struct Serves {
    answerer: Answerer,
    server: Server,
    inbox: Inbox,
    serving: Serving,
    name: String,
}

impl Serves {
    /// Loads the policy and listens. Requests wait until [`Serves::run`].
    ///
    /// # Errors
    /// Names the option or the file that is wrong.
    pub fn open(spec: ServeSpec) -> Result<Self, RunError> {
        let ServeSpec { mut asked, name, address, key, options, seed } = spec;
        let name = name.unwrap_or_else(|| name_of(&asked.policy));
        asked.policy = policy_of(&asked.policy)?;
        let answerer = Answerer::open(&asked)?;
        let defaults = answerer.sampling(&options)?;
        let serving = Serving { defaults, tokens_max: bounds::TOKENS_MAX as usize, seed };
        let (backend, inbox) = PolicyBackend::new(name.clone(), key);
        let config = ServerConfig {
            address: address.clone(),
            request_bytes: REQUEST_BYTES,
            connections: CONNECTIONS,
            decode: answerer.decode(),
        };
        let server = Server::start(config, Arc::new(backend))
            .map_err(|error| RunError::Refused(format!("--address {address}: {error}")))?;
        Ok(Serves { answerer, server, inbox, serving, name })
    }

    /// The address for clients, with `/v1`.
    pub fn url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// The model's name there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the policy is.
    pub fn shown(&self) -> &str {
        self.answerer.shown()
    }

    /// How tokens are chosen where a request does not say.
    pub fn defaults(&self) -> String {
        in_words(&self.serving.defaults)
    }

    /// What a person should be told about the run or the directory.
    pub fn notes(&self) -> &[String] {
        self.answerer.notes()
    }

    /// Answers requests until it is asked to stop. Those under way are then refused.
    pub fn run(mut self, stop: &Stop) -> Served {
        serve_policy(self.answerer.policy(), &self.inbox, &self.serving, &|| stop.is_asked())
    }
}

/// The name of a path without its extension, or of its folder if that is `.`.
fn name_of(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    full.file_stem().map_or_else(|| "policy".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Where the policy is: for a recipe, that of its run, or the one that it starts from if it has not run yet.
fn policy_of(path: &Path) -> Result<PathBuf, RunError> {
    if !path.is_file() {
        return Ok(path.to_owned());
    }
    let recipe = Recipe::read(path, &[])?;
    if is_run(&recipe.run.dir) {
        return Ok(recipe.run.dir);
    }
    recipe.policy.path.ok_or_else(|| {
        RunError::Refused(format!(
            "{}: nothing is in `run.dir` ({}), and `policy.path` names no model: train it first",
            path.display(),
            recipe.run.dir.display()
        ))
    })
}
