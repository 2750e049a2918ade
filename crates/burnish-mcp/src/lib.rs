//! Servers of the [Model Context Protocol](https://modelcontextprotocol.io): started or connected to, asked for their
//! tools, called within limits.
//!
//! ```text
//! Client ─ rmcp (the protocol) ─┬─ Lines: stdin and stdout of a process of ours (burnish-sandbox)
//!                               └─ Web: streamable HTTP (burnish-http)
//! ```
//!
//! A [`Client`] is one session with one server. Whatever the server does (it crashes, hangs, writes without end, or writes
//! what is no message) ends that session, with the reason, and nothing else. Async code stays in here: to the outside, a
//! call blocks, on a thread that may wait.

mod client;
mod lines;
mod meter;
mod reply;
mod serve;
mod web;

pub use client::{Address, Client, Limits};
pub use reply::Reply;

/// Why a session is over, or did not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);
pub use serve::{Tools, serve_stdio};
