//! One process of the command: it is asked one thing after the other, within limits.

use std::time::Duration;

use burnish_sandbox::{Process, Silence};

use super::config::Config;
use super::wire::{self, Fields, Hello, PROTOCOL, Request};

/// A process that has said hello.
#[derive(Debug)]
pub(super) struct Peer {
    process: Process,
    /// Requests so far.
    asked: u64,
    /// Bytes of answers in this episode.
    read: u64,
    /// Is an episode under way?
    is_playing: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The process said why. It can be asked further.
    Said(String),
    /// The process is of no further use.
    Broken(String),
}

impl Peer {
    /// Starts a process and asks what it is.
    ///
    /// # Errors
    /// If it can't be started, or does not say that it is an environment: why, with the end of stderr.
    pub(super) fn start(config: &Config) -> Result<(Self, Hello), String> {
        let process =
            Process::start(&config.command, config.folder(), config.line_bytes).map_err(|error| {
                let place = config.folder().map(|folder| format!(" in {}", folder.display()));
                format!("`{}` can't be started{}: {error}", config.name(), place.unwrap_or_default())
            })?;
        let mut peer = Peer { process, asked: 0, read: 0, is_playing: false };
        let request = Request::Hello { protocol: PROTOCOL, settings: &config.settings };
        let hello = peer.exchange(&request, config, true).and_then(|fields| {
            wire::hello(fields)
                .map_err(|problem| Failure::Broken(format!("the environment's process: {problem}")))
        });
        match hello {
            Ok(hello) => Ok((peer, hello)),
            Err(Failure::Said(problem) | Failure::Broken(problem)) => {
                Err(peer.stop(&format!("`{}`: {problem}", config.name())))
            }
        }
    }

    /// Asks for one thing, and returns the fields of the answer.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn ask(&mut self, request: &Request<'_>, config: &Config) -> Result<Fields, Failure> {
        self.exchange(request, config, false)
    }

    fn exchange(
        &mut self,
        request: &Request<'_>,
        config: &Config,
        is_fresh: bool,
    ) -> Result<Fields, Failure> {
        let line = self.line(request)?;
        let told = self.process.ask(line, config.patience(is_fresh));
        self.read_answer(told, request.name(), config)
    }

    /// The line of the next request.
    fn line(&mut self, request: &Request<'_>) -> Result<String, Failure> {
        self.asked += 1;
        match request {
            Request::Reset { .. } | Request::Run { .. } => {
                (self.is_playing, self.read) = (true, 0);
                self.process.forget_stderr();
            }
            Request::Close => self.is_playing = false,
            _ => {}
        }
        wire::line(self.asked, request).map_err(Failure::Said)
    }

    /// Sends a request whose answer is waited for by [`Peer::hear`].
    ///
    /// # Errors
    /// If it can't be written as JSON.
    pub(super) fn tell(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        let line = self.line(request)?;
        self.process.tell(line);
        Ok(())
    }

    /// Waits for the answer to a [`Request::Run`] that was told. `None`: there is none yet.
    pub(super) fn hear(&mut self, patience: Duration, config: &Config) -> Option<Result<Fields, Failure>> {
        match self.process.hear(patience) {
            Err(Silence::Timeout(_)) => None,
            told => {
                let answer = self.read_answer(told, "run", config);
                self.is_playing = false;
                Some(answer)
            }
        }
    }

    /// Reads the answer to the last request.
    fn read_answer(
        &mut self,
        told: Result<String, Silence>,
        name: &str,
        config: &Config,
    ) -> Result<Fields, Failure> {
        let during = |problem: String| format!("the environment's process {problem} (asked to `{name}`)");
        let told = told.map_err(|silence| {
            let advice = match silence {
                Silence::Timeout(_) => "; raise timeout_seconds if it needs longer",
                Silence::Ended | Silence::Unreadable(_) => "",
            };
            Failure::Broken(format!("{}{advice}", during(silence.to_string())))
        })?;
        self.read += told.len() as u64;
        if self.is_playing && self.read > config.episode_bytes {
            let problem = format!("wrote more than {} bytes in one episode", config.episode_bytes);
            return Err(Failure::Broken(format!("{}; episode_bytes is the limit", during(problem))));
        }
        let answer = wire::answer(&told, self.asked).map_err(|problem| Failure::Broken(during(problem)))?;
        answer
            .map_err(|problem| Failure::Said(format!("the environment says: {problem} (asked to `{name}`)")))
    }

    /// Ends the episode that is under way, if one is.
    ///
    /// # Errors
    /// If the process does not say that it has.
    pub(super) fn close(&mut self, config: &Config) -> Result<(), Failure> {
        if self.is_playing {
            self.ask(&Request::Close, config)?;
        }
        Ok(())
    }

    /// Is the process still running?
    pub(super) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Kills the process, and adds the end of its stderr to the problem.
    pub(super) fn stop(self, problem: &str) -> String {
        match self.process.stop() {
            tail if tail.is_empty() => problem.to_owned(),
            tail => format!("{problem}; its stderr ends:\n{tail}"),
        }
    }
}
