//! Tool worlds as files: environments for agents that call tools (EnvFactory, arXiv:2605.18703).
//!
//! A [`World`] is one TOML file: a typed state, tools that are transactions on it, and tests (`docs/environments/worlds.md`
//! shows one; `FORMAT.md` says how it is written). Nothing in it is a program, so a file that a model wrote can be run without a sandbox, and much
//! of what would be wrong with it is found by reading it. The rest is found by four acceptance tests ([`accept`]).
//!
//! ```text
//! file ─> World ─> accept ─> Graph of tools ─> chain ─> calls on a drawn state ─> words of a user   (a Problem)
//!                                                              └─> gold calls and gold state ─> reward
//! ```

pub mod accept;
pub mod builder;
mod builtin;
pub mod chain;
mod expr;
mod file;
pub mod graph;
mod kind;
mod problem;
pub mod query;
mod read;
pub mod reward;
mod state;
mod step;
mod world;

pub use builtin::{builtin, builtin_names};
pub use file::Test;
pub use kind::Kind;
pub use problem::{Options, Problem, Problems, Turn, problems};
pub use state::{Row, State};
pub use step::Failure;
pub use world::{Column, Draw, Parameter, Returned, Source, Table, Tool, World};

/// Why a file is not a world.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorldError(pub String);
