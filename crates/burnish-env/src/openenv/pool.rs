//! The sessions that wait for an episode.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use burnish_http::{Server, block_on};
use serde_json::{Map, Value};

use super::config::Config;
use super::session::{Failure, Observed, Session};
use super::shape::{Shape, is_of_tools, tools};
use crate::EnvError;

/// How long it is waited before a server without room is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A server, with what a configuration makes of it.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) config: Config,
    server: Server,
    sessions: Arc<Sessions>,
    shape: OnceLock<Shape>,
}

/// The sessions with one server. Training and evaluation share them, because a server has room for so many.
#[derive(Debug, Default)]
struct Sessions {
    idle: Mutex<Vec<Session>>,
    room: Mutex<Room>,
}

/// How many sessions there can be at the same time.
#[derive(Debug, Default)]
struct Room {
    /// As many as were opened beside each other.
    known: usize,
    /// The server has refused one more.
    is_all: bool,
}

/// The address of a server and the name of its key.
type Name = (String, Option<String>);

/// The sessions that somebody has.
static SESSIONS: Mutex<Vec<(Name, Weak<Sessions>)>> = Mutex::new(Vec::new());

impl Sessions {
    fn of(config: &Config) -> Arc<Self> {
        let name = (config.url.clone(), config.api_key_env.clone());
        let mut all = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, sessions)| sessions.strong_count() > 0);
        let known = all.iter().find(|(other, _)| *other == name).and_then(|(_, sessions)| sessions.upgrade());
        known.unwrap_or_else(|| {
            let sessions = Arc::default();
            all.push((name, Arc::downgrade(&sessions)));
            sessions
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// A pool without sessions.
    ///
    /// # Errors
    /// If the address is none, or its key is missing.
    pub(super) fn new(config: Config) -> Result<Self, EnvError> {
        let (server, sessions) = (config.server()?, Sessions::of(&config));
        Ok(Pool { config, server, sessions, shape: OnceLock::new() })
    }

    /// What a policy does here; asked of the server once.
    ///
    /// # Errors
    /// If the server does not say it, or it does not fit the configuration.
    pub(super) fn shape(&self) -> Result<&Shape, String> {
        if let Some(shape) = self.shape.get() {
            return Ok(shape);
        }
        let schemas = block_on(self.server.get("/schema").json()).map_err(|error| error.to_string())?;
        let schemas = schemas.map_err(|error| error.to_string())?;
        let named = |problem: String| format!("{}: {problem}", self.server.url());
        let shape = match is_of_tools(&schemas["action"]) {
            true => Shape::Tools(self.listed().map_err(named)?),
            false => Shape::of_schema(&schemas["action"], &self.config).map_err(named)?,
        };
        Ok(self.shape.get_or_init(|| shape))
    }

    /// The tools that the server lists.
    fn listed(&self) -> Result<Vec<burnish_core::ToolSpec>, String> {
        let action = Map::from_iter([("type".to_owned(), Value::from("list_tools"))]);
        let mut session = self.open().map_err(Failure::said)?;
        let listed = session.step(action, &self.config);
        self.give_back(session);
        tools(&listed.map_err(Failure::said)?.observation)
    }

    /// How many episodes can be played at the same time: sessions are opened until there are as many as are wanted, or the
    /// server has no more room, and are kept.
    pub(super) fn room(&self) -> usize {
        let mut room = self.sessions.room.lock().unwrap_or_else(PoisonError::into_inner);
        while room.known < self.config.sessions && !room.is_all {
            match Session::open(&self.server, &self.config) {
                Ok(session) => {
                    self.sessions.idle().push(session);
                    room.known += 1;
                }
                Err(Failure::Full(_)) => room.is_all = true,
                // The first episode says why.
                Err(_) => break,
            }
        }
        room.known.clamp(1, self.config.sessions)
    }

    /// A new session. A server without room is waited for: whoever had the last one may have just left it.
    fn open(&self) -> Result<Session, Failure> {
        let end = Instant::now() + self.config.timeout();
        loop {
            match Session::open(&self.server, &self.config) {
                Err(Failure::Full(_)) if Instant::now() < end => sleep(AGAIN),
                opened => return opened,
            }
        }
    }

    /// Starts an episode. A session that was closed while nobody used it is replaced.
    ///
    /// # Errors
    /// If the server or its environment fails: in words.
    pub(super) fn reset(&self, seed: u32) -> Result<(Session, Observed), String> {
        loop {
            let waiting = self.sessions.idle().pop().filter(|session| session.fits(&self.config));
            let is_fresh = waiting.is_none();
            let mut session = match waiting {
                Some(session) => session,
                None => self.open().map_err(Failure::said)?,
            };
            match session.reset(seed, &self.config) {
                Ok(observed) => return Ok((session, observed)),
                Err(Failure::Broken(_)) if !is_fresh => {}
                Err(Failure::Refused(said) | Failure::Failed(said)) => {
                    self.give_back(session);
                    return Err(said);
                }
                Err(Failure::Broken(said) | Failure::Full(said)) => return Err(said),
            }
        }
    }

    /// Takes back a session that can be asked further.
    pub(super) fn give_back(&self, session: Session) {
        self.sessions.idle().push(session);
    }
}
