//! Scenes: a toy image of a few objects on a grid, as a line of signs for each row, and a question about it.
//!
//! Most shapes have the colour that shapes of their kind usually have, so a policy can answer many questions without
//! looking. Tasks against that prior tell the two apart: the small form of the image tasks of DaID (arXiv:2604.10071,
//! which uses POPE's questions and CHAIR's captions). Images, questions and sizes are ours.
//! `docs/environments/scenes.md`.
//!
//! ```text
//! Config ─> draw (objects on a grid, a question, with the prior or against it) ─> Task
//! Task ─> policy: one answer ─> judge ─> Verdict
//! ```

mod config;
mod draw;
mod generate;
mod scene;

use crate::Kind;

pub use config::{Config, Questions};
pub use generate::Scenes;
pub use scene::{Object, Question, Truth};

/// Id of the environment.
const ID: &str = "scenes";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Scenes::KIND;
