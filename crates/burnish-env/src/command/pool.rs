//! The processes that wait for an episode.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burnish_sandbox::find_program;

use super::config::Config;
use super::peer::{Failure, Peer};
use super::wire::{Hello, Request};
use crate::EnvError;
use crate::settings::config_error;

/// A command and its idle processes; one is started when an episode finds none.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) config: Config,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The one that came back last is taken first.
    idle: Vec<Peer>,
    /// What the first process said. Every other one must say the same.
    hello: Option<Hello>,
}

impl Pool {
    /// A pool without processes.
    ///
    /// # Errors
    /// If there is no such program.
    pub(super) fn new(config: Config) -> Result<Self, EnvError> {
        find_program(&config.command, config.folder()).map_err(|error| {
            let place = config.folder().map(|folder| format!(" in {}", folder.display()));
            let problem =
                format!("`{}` can't be started{}: {error}", config.name(), place.unwrap_or_default());
            config_error("command", &problem)
        })?;
        Ok(Pool { config, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the environment is. Starts a process if none has said it yet.
    ///
    /// # Errors
    /// If no process says it.
    pub(super) fn hello(&self) -> Result<Hello, String> {
        if let Some(hello) = &self.state().hello {
            return Ok(hello.clone());
        }
        let (peer, hello) = self.start()?;
        self.give_back(peer);
        Ok(hello)
    }

    /// A process that plays nothing.
    ///
    /// # Errors
    /// If none can be started: why.
    pub(super) fn take(&self) -> Result<Peer, String> {
        loop {
            let Some(mut peer) = self.state().idle.pop() else { return self.start().map(|(peer, _)| peer) };
            // One that ended meanwhile, or can't end what it played, is replaced.
            if peer.is_running() && !matches!(peer.close(&self.config), Err(Failure::Broken(_))) {
                return Ok(peer);
            }
        }
    }

    fn start(&self) -> Result<(Peer, Hello), String> {
        let (peer, hello) = Peer::start(&self.config)?;
        let mut state = self.state();
        let first = state.hello.get_or_insert_with(|| hello.clone());
        if *first != hello {
            drop(state);
            let problem = format!(
                "`{}` does not answer `hello` as its first process did, so episodes would not be the same again",
                self.config.name()
            );
            return Err(peer.stop(&problem));
        }
        Ok((peer, hello))
    }

    /// Takes back a process that can be asked further, with or without an episode under way.
    pub(super) fn give_back(&self, peer: Peer) {
        let mut state = self.state();
        if state.idle.len() < self.config.workers {
            state.idle.push(peer);
        }
    }

    /// Asks any process for something outside of an episode.
    ///
    /// # Errors
    /// If there is no answer.
    pub(super) fn ask<T>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(super::wire::Fields) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut peer = self.take()?;
        match peer.ask(request, &self.config) {
            Ok(fields) => {
                self.give_back(peer);
                read(fields).map_err(|problem| format!("the environment's process: {problem}"))
            }
            Err(Failure::Said(problem)) => {
                self.give_back(peer);
                Err(problem)
            }
            Err(Failure::Broken(problem)) => Err(peer.stop(&problem)),
        }
    }
}
