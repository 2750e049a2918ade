//! Servers of the Model Context Protocol whose tools an environment's policy has.
//!
//! ```text
//! Generator ─ Servers ─▶ what each server is, and which tools it has
//! Environment ─ Hands ─▶ one episode's sessions and folders
//! ```
//!
//! A server that says its calls may be repeated is asked in sessions that episodes share one after the other; any other one
//! has a session per episode, which begins with its first call. What a server does wrong ends the episode that called it.
//! `docs/environments/mcp.md`.

mod config;
mod hands;
mod pool;
mod workspace;

pub use config::ServerConfig;
pub(crate) use hands::Hands;
pub(crate) use pool::Servers;
