//! Programs that call a model at an address by themselves, as environments.
//!
//! ```text
//! Generator ── tasks ──▶ Pool ── run ──▶ process ── HTTP ──▶ Doors ── turns ──▶ the policy
//!                                                ◀── JSON ──        ◀── answers ──
//! ```
//!
//! The processes and their lines are those of `command`, with one request more: `run` plays a whole episode. While it is
//! under way, the process asks the policy at an address of this episode alone (`Doors`), and each of its requests is a
//! turn. `docs/environments/agent.md` says more.

mod config;
mod doors;
mod generate;
mod play;
mod posed;

use crate::{Kind, settings};

pub use config::Config;
pub use generate::Agents;

/// Id of the environment.
const ID: &str = "agent";

/// Name of the policy for programs.
const MODEL: &str = "policy";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "an agent of your own",
    summary: "Your own agent, which calls an OpenAI-compatible address for its model; also verifiers environments.",
    axes: None,
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Agents::new(settings::read(config)?)?)),
};
