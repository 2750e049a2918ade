//! Environments in any language: a program that speaks a protocol of JSON lines over its stdin and stdout.
//!
//! ```text
//! Generator ── tasks ──▶ Pool ── lines ──▶ processes of the command
//! Environment ─ episode ─▶ one process of the pool, until the verdict
//! ```
//!
//! A process plays one episode at a time, so whatever it does costs that episode at most: a crash, no answer in time,
//! too much output or a line that is no answer ends the episode unscored, with the reason and the end of stderr, and
//! the next episode gets another process. `docs/environments/command.md` is the protocol; `wire.rs` has its types.

pub mod agent;
mod config;
mod generate;
mod peer;
mod play;
mod pool;
mod wire;

use crate::{Kind, settings};

pub use config::Config;
pub use generate::Commanded;

/// Id of the environment.
const ID: &str = "command";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "an environment of your own",
    summary: "Your own program, in Python or anything else, which makes tasks, plays them and judges them.",
    axes: None,
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Commanded::new(settings::read(config)?)?)),
};
