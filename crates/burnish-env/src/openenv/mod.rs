//! Environments that others serve over OpenEnv: one WebSocket for each session, an episode at a time.
//!
//! ```text
//! Generator ── seeds ──▶ tasks
//! Environment ─ episode ─▶ one session of the pool: reset with the task's seed, steps, rewards
//! ```
//!
//! What the server says of actions (`GET /schema`) decides what the policy does: it writes a text, fills in the fields of
//! an action, or calls the server's tools (`shape.rs`). `docs/environments/openenv.md` says how.

mod config;
mod generate;
mod play;
mod pool;
mod seat;
#[cfg(test)]
mod seat_tests;
mod served;
mod session;
mod shape;
#[cfg(test)]
mod shape_tests;

use crate::{Kind, settings};

pub use config::{Config, Counted, Repeats};
pub use generate::OpenEnv;
pub use served::{Served, Serving};

/// Id of the environment.
const ID: &str = "openenv";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "a served environment",
    summary: "An environment that somebody serves over OpenEnv.",
    axes: None,
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(OpenEnv::new(settings::read(config)?)?)),
};
