//! The processes that wait for an episode.

use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use burnish_sandbox::find_program;

use super::config::Config;
use super::peer::{Failure, Peer};
use super::wire::{Hello, Request};
use crate::EnvError;
use crate::settings::config_error;

/// Failures to start after which an episode no longer waits for a process.
const FAILURES_MAX: u64 = 4;

/// A command and its idle processes. Where an episode finds none, it waits for one to come back or starts another, whichever is
/// possible first. No more start at once than there are cores: an interpreter that starts keeps one busy, so that more of them
/// would only keep all episodes waiting for each other.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) config: Config,
    state: Mutex<State>,
    /// A process is idle again, or the start of one is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The one that came back last is taken first.
    idle: Vec<Peer>,
    /// Number of processes that are being started.
    starting: usize,
    /// Number of starts that failed, and why the last one did.
    failures: (u64, String),
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
        Ok(Pool { config, state: Mutex::default(), changed: Condvar::new() })
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
        let starts_max = available_parallelism().map_or(1, NonZero::get).max(2);
        let mut state = self.state();
        let (failures, _) = state.failures;
        loop {
            if let Some(mut peer) = state.idle.pop() {
                drop(state);
                // One that ended meanwhile, or can't end what it played, is replaced.
                if peer.is_running() && !matches!(peer.close(&self.config), Err(Failure::Broken(_))) {
                    return Ok(peer);
                }
                state = self.state();
            } else if state.starting < starts_max {
                state.starting += 1;
                drop(state);
                let started = self.start();
                state = self.state();
                state.starting -= 1;
                if let Err(problem) = &started {
                    state.failures = (state.failures.0 + 1, problem.clone());
                }
                self.changed.notify_all();
                return started.map(|(peer, _)| peer);
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                if state.failures.0 >= failures + FAILURES_MAX {
                    return Err(state.failures.1.clone());
                }
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
            self.changed.notify_one();
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
