//! One way to ask servers, for everything that has a socket: models behind an address, engines that sample, trainers.
//!
//! A [`Server`] is an address with its key. A [`Call`] to it is tried until it is answered, as long as its
//! [`Patience`] lasts; an answer is text, JSON, or arrives piece by piece ([`Incoming`]). Calls are futures, and one
//! thread of this crate moves all of them ([`spawn`]): several hundred may be under way at once, and one that is no
//! longer wanted is dropped, which closes its connection, so the server stops working on it. Proxies are taken from
//! the environment (`HTTPS_PROXY`, `NO_PROXY` ...), but none leads to this machine; certificates are checked against
//! Mozilla's list and the system's own.

mod connector;
mod error;
mod events;
mod incoming;
mod runtime;
mod server;

pub use error::{HttpError, shortened};
pub use hyper::header::{HeaderName, HeaderValue};
pub use incoming::Incoming;
pub use runtime::{Task, block_on, run_all, sleep, spawn, timeout};
pub use server::{Answer, Call, Patience, Server, key_from};
#[cfg(test)]
mod tests;
