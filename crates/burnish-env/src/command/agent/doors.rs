//! The address at which programs ask: one server, with a path for each episode.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burnish_serve::{Backend, Caller, ChatRequest, Refusal, Reply, Server, ServerConfig};

use super::play::Event;
use super::{Config, MODEL};

/// Most connections of all episodes.
const CONNECTIONS: usize = 4096;

/// The doors of all episodes. The server starts with the first of them.
#[derive(Debug)]
pub(super) struct Doors {
    request_bytes: usize,
    server: Mutex<Option<Server>>,
    rooms: Arc<Rooms>,
}

/// The episodes under way, by their keys.
#[derive(Debug)]
struct Rooms {
    by_key: Mutex<BTreeMap<String, Room>>,
    waiting_max: usize,
}

#[derive(Debug, Clone)]
struct Room {
    events: Sender<Event>,
    waiting: Waiting,
}

/// The number of an episode's requests that have no answer yet.
pub(super) type Waiting = Arc<AtomicUsize>;

/// An episode's way in. It is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) key: String,
    /// The address of this episode, with `/v1`.
    pub(super) url: String,
    pub(super) waiting: Waiting,
    rooms: Arc<Rooms>,
}

impl Doors {
    pub(super) fn new(config: &Config) -> Self {
        let rooms = Arc::new(Rooms { by_key: Mutex::default(), waiting_max: config.waiting });
        Doors { request_bytes: config.request_bytes, server: Mutex::default(), rooms }
    }

    /// Opens a door; requests arrive as `events`.
    ///
    /// # Errors
    /// If nothing can listen.
    pub(super) fn open(&self, events: Sender<Event>) -> Result<Door, String> {
        let url = {
            let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
            match &*server {
                Some(server) => server.url(),
                None => server.insert(self.start()?).url(),
            }
        };
        let mut by_key = self.rooms.lock();
        // Nobody else on this machine should guess it.
        let key = loop {
            let random = || RandomState::new().hash_one(by_key.len());
            let key = format!("{:016x}{:016x}", random(), random());
            if !by_key.contains_key(&key) {
                break key;
            }
        };
        let waiting = Waiting::default();
        by_key.insert(key.clone(), Room { events, waiting: Arc::clone(&waiting) });
        let url = format!("{url}/{key}/v1");
        Ok(Door { key, url, waiting, rooms: Arc::clone(&self.rooms) })
    }

    fn start(&self) -> Result<Server, String> {
        let config = ServerConfig {
            address: "127.0.0.1:0".to_owned(),
            request_bytes: self.request_bytes,
            connections: CONNECTIONS,
            decode: None,
        };
        Server::start(config, Arc::clone(&self.rooms))
            .map_err(|error| format!("no address can be had for the program's requests: {error}"))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.rooms.lock().remove(&self.key);
    }
}

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Room>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The episode that a caller belongs to.
    fn room(&self, caller: &Caller) -> Result<Room, Refusal> {
        let room = caller.base.strip_prefix('/').and_then(|key| self.lock().get(key).cloned());
        room.ok_or_else(|| {
            let message = "no episode has this address: it is over, or the address is not that of `base_url`";
            Refusal::because(404, "no_episode", message)
        })
    }
}

impl Backend for Rooms {
    fn models(&self, caller: &Caller) -> Result<Vec<String>, Refusal> {
        self.room(caller).map(|_| vec![MODEL.to_owned()])
    }

    fn ask(&self, caller: Caller, request: ChatRequest, reply: Reply) {
        let room = match self.room(&caller) {
            Ok(room) => room,
            Err(refusal) => return reply.send(Err(refusal)),
        };
        if room.waiting.fetch_add(1, Ordering::Relaxed) >= self.waiting_max {
            room.waiting.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{} requests of this episode wait already", self.waiting_max);
            return reply.send(Err(Refusal::because(429, "too_many_requests", message)));
        }
        // An episode that has ended drops what it did not take.
        let _ = room.events.send(Event::Asked(Box::new(request), reply));
    }
}
