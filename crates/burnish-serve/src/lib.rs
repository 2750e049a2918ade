//! Policies behind an address that speaks OpenAI's chat completions.
//!
//! ```text
//! client ── HTTP ──▶ Server ── ChatRequest, Reply ──▶ Backend (a policy, an episode)
//!        ◀── JSON ──        ◀── Spoken: trace + answer ──
//! ```
//!
//! A [`Server`] reads requests strictly, gives them to a [`Backend`], and writes what it answers. A [`Reply`] whose
//! client has gone says so, and one that is dropped is an error for its client. [`serve_policy`] answers by any
//! [`Policy`](burnish_core::Policy), many requests at once.

mod answer;
mod fields;
mod policy;
mod refusal;
mod request;
mod server;

pub use answer::Decode;
pub use policy::{Inbox, PolicyBackend, Served, Serving, serve_policy};
pub use refusal::Refusal;
pub use request::{ChatRequest, Shape};
pub use server::{Backend, Caller, Reply, Server, ServerConfig, Spoken};
