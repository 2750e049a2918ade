//! Tables: a question about a small table is answered with a plan whose steps say which cells they look at, and a fixed
//! executor runs the plan.
//!
//! The contract between a planner and an executor of TABALIGN (arXiv:2605.14465), at a size that tiny policies can
//! learn. Tables, questions, operations and the text of plans are ours. Real tables ([`Dataset`]) come without plans;
//! their masks are proxies by weak supervision, and everything about them says so.
//! `docs/environments/tables.md`.
//!
//! ```text
//! Config ─> draw (a table, a question, its one plan) ─> Task, and the same with rows or columns in another order
//! Task ─> policy: a plan ─> parse ─> execute on the table ─> Verdict
//! ```

mod config;
mod draw;
mod execute;
mod generate;
mod judge;
mod plan;
mod proxy;
mod real;
mod table;
mod truth;

use crate::Kind;

pub use config::{Component, Config, Question, Range, Shuffle};
pub use execute::{NoAnswer, execute};
pub use generate::{FORMAT, Sources, Tables};
pub use plan::{Malformed, Op, Plan, STEPS_MAX, Step};
pub use real::Dataset;
pub use table::{CellSpan, Order, Table, cells};
pub use truth::Truth;

/// Id of the environment.
const ID: &str = "tables";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Tables::KIND;
