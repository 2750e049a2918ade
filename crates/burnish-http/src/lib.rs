//! One way to ask servers, for everything that has a socket: models behind an address, engines that sample, trainers.
//!
//! A [`Server`] is an address with its key. A [`Call`] to it is tried until it is answered, as long as its
//! [`Patience`] lasts; an answer is text, JSON, or arrives piece by piece ([`Incoming`]). A [`WebSocket`] is a connection
//! that stays open. Calls are futures, and one thread of this crate moves all of them ([`spawn`]): several hundred may be
//! under way at once, and one that is no longer wanted is dropped, which closes its connection, so the server stops
//! working on it. Proxies are taken from the environment (`HTTPS_PROXY`, `NO_PROXY` ...), but none leads to this machine;
//! certificates are checked against Mozilla's list and the system's own.
//!
//! It also answers others: [`listen`] is a small server, moved by the same thread; with [`listen_with_sockets`] it has
//! the other end of WebSockets.

mod connector;
mod error;
mod events;
mod incoming;
mod listen;
mod runtime;
mod server;
mod websocket;

pub use error::{HttpError, shortened};
pub use hyper::header::{HeaderName, HeaderValue};
pub use incoming::Incoming;
pub use listen::{Answer, Asked, Limits, Listening, TooLong, listen, listen_with_sockets};
pub use runtime::{Task, block_on, run_all, sleep, spawn, timeout};
pub use server::{Answered, Call, Patience, Server, key_from};
pub use websocket::WebSocket;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod websocket_tests;
