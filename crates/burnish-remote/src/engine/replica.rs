//! One server of a fleet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use burnish_core::PolicyError;
use burnish_http::{HttpError, Patience, Server, key_from};
use tokio::sync::Semaphore;

use super::fleet::Served;
use super::proof::Allowed;
use super::wire::{Facts, Wire};
use super::{EngineConfig, EngineError, EngineKind, Stage, sglang, vllm};
use crate::tokens::{Ask, Completion, End};

/// A server, and what is known of it.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) server: Server,
    kind: EngineKind,
    update_patience: Patience,
    places: Semaphore,
    /// Requests that wait for it or are under way.
    load: AtomicUsize,
    state: Mutex<State>,
    /// The least that its log-probs were off in a proof.
    least_off: Mutex<Option<f64>>,
}

/// Whether it may be asked.
#[derive(Debug, Clone)]
enum State {
    /// It has proved that it has the weights after so many updates.
    Ready(u64),
    /// Why not.
    Unready(String),
}

/// How a request to it failed.
pub(super) enum Missed {
    /// Any other replica would fail as well.
    Fatal(PolicyError),
    /// This one is not to be asked any more.
    Dead(String),
    /// It gave the answer up.
    Aborted,
}

impl Replica {
    pub(super) fn new(config: &EngineConfig, url: &str) -> Result<Self, EngineError> {
        // Both forms are usual; the routes of an update are beside `/v1`.
        let root = url.trim_end_matches('/');
        let root = root.strip_suffix("/v1").unwrap_or(root);
        let key = config.api_key_env.as_ref().map(|variable| key_from(variable, root)).transpose()?;
        let patience = config.patience();
        let update = Duration::from_secs_f64(config.update_seconds);
        Ok(Replica {
            server: Server::new(root, key.as_deref(), patience)?,
            kind: config.kind,
            update_patience: Patience { timeout: update, ..patience },
            places: Semaphore::new(config.requests_max),
            load: AtomicUsize::new(0),
            state: Mutex::new(State::Unready("it was given no weights".into())),
            least_off: Mutex::new(None),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it these weights?
    pub(super) fn is_ready(&self, version: u64) -> bool {
        matches!(&*self.state(), State::Ready(ready) if *ready == version)
    }

    /// Why it is not asked, with its address.
    pub(super) fn problem(&self) -> Option<String> {
        match &*self.state() {
            State::Ready(_) => None,
            State::Unready(reason) => Some(format!("{}: {reason}", self.server.url())),
        }
    }

    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Looks at the server.
    ///
    /// # Errors
    /// If it does not answer, or is unfit.
    pub(super) async fn facts(&self, model: Option<&str>) -> Result<Facts, EngineError> {
        let facts = match self.kind {
            EngineKind::Vllm => vllm::facts(&self.server, model).await?,
            EngineKind::Sglang => sglang::facts(&self.server).await?,
        };
        facts.map_err(|problem| EngineError::Unfit { url: self.server.url().to_owned(), problem })
    }

    /// Gives it weights, and lets it prove that it has them. It is ready afterwards, or says why not.
    pub(super) async fn serve(&self, model: &str, served: &Served, tolerance: f64) {
        *self.state() = State::Unready("it is being given new weights".into());
        let state = match self.give(served).await {
            Ok(()) => match self.prove(model, served, tolerance).await {
                Ok(()) => State::Ready(served.version),
                Err(problem) => {
                    let base = if served.is_adapter { "; does it serve the base of the policy?" } else { "" };
                    State::Unready(format!("{}: {problem}{base}", Stage::Prove))
                }
            },
            Err((stage, problem)) => State::Unready(format!("{stage}: {problem}")),
        };
        *self.state() = state;
    }

    fn wire(&self) -> &'static Wire {
        match self.kind {
            EngineKind::Vllm => &vllm::WIRE,
            EngineKind::Sglang => &sglang::WIRE,
        }
    }

    async fn give(&self, served: &Served) -> Result<(), (Stage, String)> {
        let (Served { dir, name, .. }, server, patience) = (served, &self.server, self.update_patience);
        match served.is_adapter {
            false => self.wire().update(server, dir, name, patience).await,
            true => self.wire().add_adapter(server, name, dir, patience).await,
        }
    }

    /// Checks that it still has the weights that it was given, if it is asked for answers. Nobody else can change an
    /// adapter.
    ///
    /// # Errors
    /// If somebody else gave it others.
    pub(super) async fn confirm(&self, served: &Served) -> Result<(), EngineError> {
        if served.is_adapter || !self.is_ready(served.version) {
            return Ok(());
        }
        match self.wire().weights_name(&self.server).await {
            Ok(Some(told)) if told == served.name => Ok(()),
            Ok(told) => {
                let (url, name) = (self.server.url().to_owned(), &served.name);
                let problem = format!(
                    "somebody else gave it other weights while it sampled ({told:?}, and not {name}): an engine serves one \
                     run at a time"
                );
                Err(EngineError::Unfit { url, problem })
            }
            Err(error) => {
                // What it answered before was from these weights.
                *self.state() = State::Unready(error.to_string());
                Ok(())
            }
        }
    }

    /// Takes the adapter of earlier weights away. One that stays does no harm.
    pub(super) async fn forget(&self, adapter: &str) {
        let _ = self.wire().remove_adapter(&self.server, adapter).await;
    }

    async fn prove(&self, model: &str, served: &Served, tolerance: f64) -> Result<(), String> {
        let (wire, proof) = (self.wire(), &served.proof);
        let body = (wire.scoring)(served.adapter().unwrap_or(model), &proof.ids).to_string();
        let answer = self.server.post(wire.generate, body).json().await;
        let theirs = (wire.scores)(&proof.ids, &answer.map_err(|error| error.to_string())?)?;
        let mut least = self.least_off.lock().unwrap_or_else(PoisonError::into_inner);
        let off = proof.check(&theirs, Allowed { tolerance, least: *least })?;
        *least = Some(least.map_or(off, |least| least.min(off)));
        Ok(())
    }

    /// Asks it for an answer of `model`, or of an adapter over it, once it has a place.
    pub(super) async fn ask(
        &self,
        model: &str,
        adapter: Option<&str>,
        ask: &Ask<'_>,
    ) -> Result<Completion, Missed> {
        let _load = Load::on(&self.load);
        // The places are never closed.
        let _place = self.places.acquire().await;
        let wire = self.wire();
        let body = (wire.request)(adapter.unwrap_or(model), ask).to_string();
        let answer = self.server.post(wire.generate, body).json().await;
        let answer = answer.map_err(|error| self.missed(error, ask))?;
        let completion = (wire.completion)(&answer).map_err(|problem| {
            let problem = format!("{}: the answer can't be used: {problem}", self.server.url());
            Missed::Fatal(PolicyError::Failed(problem))
        })?;
        if completion.end == End::Aborted { Err(Missed::Aborted) } else { Ok(completion) }
    }

    fn missed(&self, error: HttpError, ask: &Ask<'_>) -> Missed {
        let too_long = |said: &str| self.wire().too_long.iter().any(|complaint| said.contains(complaint));
        if matches!(&error, HttpError::Status { status: 400, said, .. } if too_long(said)) {
            let (tokens, tokens_max) = (ask.prompt.len(), ask.tokens_max);
            return Missed::Fatal(PolicyError::PromptTooLong { tokens, tokens_max });
        }
        if error.is_refusal() {
            return Missed::Fatal(PolicyError::Failed(error.to_string()));
        }
        let mut state = self.state();
        if let State::Ready(_) = *state {
            *state = State::Unready(error.to_string());
        }
        Missed::Dead(error.to_string())
    }
}

/// Counts a request as long as it lives.
struct Load<'a>(&'a AtomicUsize);

impl<'a> Load<'a> {
    fn on(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Load(count)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
