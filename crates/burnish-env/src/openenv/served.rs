//! An environment of ours behind an address, for trainers that speak OpenEnv.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use burnish_core::json;
use burnish_http::{Answer, Asked, Limits, Listening, WebSocket, block_on, listen_with_sockets};
use serde_json::{Value, json};

use super::seat::{Reply, Seat, schemas};
use crate::{Generator, kind};

/// Longest message of a client, in bytes.
const MESSAGE_BYTES: usize = 16 << 20;
/// Most connections: sessions, and requests beside them.
const CONNECTIONS: usize = 4096;

/// How an environment is served.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Address and port; port 0 takes a free one.
    pub address: String,
    /// Most sessions at the same time.
    pub sessions: usize,
    /// Most turns of an episode.
    pub turns_max: usize,
    /// A key that clients have to send as a bearer token.
    pub key: Option<String>,
}

/// A served environment, until this is dropped.
#[derive(Debug)]
pub struct Served {
    listening: Listening,
}

/// What all sessions share.
struct Room {
    generator: Arc<dyn Generator>,
    serving: Serving,
    taken: AtomicUsize,
}

/// A place of a session; it is free again when this is dropped.
struct Place(Arc<Room>);

impl Served {
    /// Serves tasks of a generator.
    ///
    /// # Errors
    /// If the address is none, or taken.
    pub fn start(generator: Arc<dyn Generator>, serving: Serving) -> io::Result<Self> {
        let room = Arc::new(Room { generator, serving, taken: AtomicUsize::new(0) });
        let limits = Limits { body_bytes: MESSAGE_BYTES, connections: CONNECTIONS };
        let (address, seats) = (room.serving.address.clone(), Arc::clone(&room));
        let listening = listen_with_sockets(
            &address,
            limits,
            move |asked| {
                let answer = room.answer(&asked);
                async move { answer }
            },
            move |path, key, socket| Room::sit(&seats, &path, key.as_deref(), socket),
        )?;
        Ok(Served { listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }
}

impl Room {
    fn is_allowed(&self, key: Option<&str>) -> bool {
        self.serving.key.as_deref().is_none_or(|wanted| key == Some(wanted))
    }

    /// Answers a request that is no session.
    fn answer(&self, asked: &Asked) -> Answer {
        let say = |status: u16, body: Value| Answer {
            status,
            content_type: "application/json",
            body: json::line(&body),
        };
        if !self.is_allowed(asked.key.as_deref()) && asked.path != "/health" {
            return say(401, json!({"detail": "the key is missing or wrong (Authorization: Bearer ...)"}));
        }
        let name = self.generator.id();
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/health") => say(200, json!({"status": "healthy"})),
            ("GET", "/schema") => say(200, schemas()),
            ("GET", "/state") => say(200, json!({"episode_id": null, "step_count": 0})),
            ("GET", "/metadata") => {
                let summary = kind(name).map(|kind| kind.summary).unwrap_or_default();
                say(200, json!({"name": name, "description": summary, "version": env!("CARGO_PKG_VERSION")}))
            }
            (_, "/reset" | "/step") => say(
                409,
                json!({"detail": "an episode is a session: open the WebSocket /ws and reset and step there"}),
            ),
            (_, path) => say(404, json!({"detail": format!("there is no {path}")})),
        }
    }

    /// Gives a client a seat, if there is one.
    fn sit(room: &Arc<Room>, path: &str, key: Option<&str>, socket: WebSocket) {
        let refuse = |code: &str, message: String| {
            // The client may be gone.
            let _ =
                socket.send(json!({"type": "error", "data": {"message": message, "code": code}}).to_string());
        };
        if path != "/ws" {
            return refuse("SESSION_ERROR", format!("there is no {path}; sessions are at /ws"));
        }
        if !room.is_allowed(key) {
            return refuse("SESSION_ERROR", "the key is missing or wrong".to_owned());
        }
        let sessions = room.serving.sessions;
        let taken = room.taken.fetch_add(1, Ordering::SeqCst);
        let place = Place(Arc::clone(room));
        if taken >= sessions {
            return refuse("CAPACITY_REACHED", format!("{sessions} of {sessions} sessions are taken"));
        }
        let seat = Seat::new(Arc::clone(&room.generator), room.serving.turns_max);
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("openenv".into()).spawn(move || attend(seat, socket, place));
    }
}

/// Answers a client until it leaves.
fn attend(mut seat: Seat, mut socket: WebSocket, _place: Place) {
    while let Ok(Ok(text)) = block_on(socket.receive()) {
        let Reply::Say(told) = seat.answer(&text) else { return };
        if socket.send(told).is_err() {
            return;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::build;

    /// Serves an environment, and plays it through its own client.
    fn serve(id: &str, serving: Serving) -> (Served, String, Arc<dyn Generator>) {
        let generator: Arc<dyn Generator> = Arc::from(build(id, &json!({})).unwrap());
        let served = Served::start(Arc::clone(&generator), serving).unwrap();
        let url = format!("http://{}", served.address());
        (served, url, generator)
    }

    fn serving(sessions: usize) -> Serving {
        Serving { address: "127.0.0.1:0".to_owned(), sessions, turns_max: 10, key: None }
    }

    #[test]
    fn our_client_plays_what_we_serve() {
        let (_served, url, generator) = serve("chains", serving(2));
        let keys = json!({"url": url, "answer": "message", "observation": "text", "timeout_seconds": 5.0});
        let client = build("openenv", &keys).unwrap();
        client.ready().unwrap();
        assert_eq!(client.at_once(), Some(2));
        let tasks = client.tasks(1, 4).unwrap().tasks;
        for task in &tasks {
            let own = generator.tasks(task.truth.as_u64().unwrap(), 1).unwrap().tasks.remove(0);
            let right = generator.demonstrations().unwrap().demonstrate(&own).unwrap();
            let mut environment = client.environment();
            let opening = environment.reset(task, 0).unwrap();
            assert_eq!(opening[0].content, own.prompt[0].content);
            assert_eq!(environment.step(&right).unwrap(), crate::Step::Done);
            assert!(environment.verify().unwrap().success);
        }
    }

    #[test]
    fn who_has_no_key_or_finds_no_seat_is_told() {
        let keys = |url: &str| json!({"url": url, "answer": "message", "timeout_seconds": 0.3});
        let (_served, url, _) = serve("chains", Serving { key: Some("secret".to_owned()), ..serving(1) });
        let error = build("openenv", &keys(&url)).unwrap().ready().unwrap_err().to_string();
        assert!(error.contains("401") && error.contains("the key is missing"), "{error}");
        let (_served, url, _) = serve("chains", serving(1));
        let first = build("openenv", &keys(&url)).unwrap();
        let mut environment = first.environment();
        let task = first.tasks(1, 1).unwrap().tasks.remove(0);
        environment.reset(&task, 0).unwrap();
        // Under another name the address has other sessions.
        let elsewhere = url.replace("127.0.0.1", "localhost");
        let error = build("openenv", &keys(&elsewhere)).unwrap().environment().reset(&task, 0).unwrap_err();
        assert!(error.to_string().contains("1 of 1 sessions are taken"), "{error}");
        drop(environment);
    }
}
