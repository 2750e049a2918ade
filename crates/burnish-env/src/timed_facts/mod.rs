//! Timed facts: who held a role in a year, between two years or after somebody, and when to say that nobody is known.
//!
//! A context states facts (entity, role, years, person), in any order. A question is answered by exactly one of them,
//! or by none; then the right answer is `No Answer`. Reward, form and the idea of a CPU-scale task follow "When Silence
//! Is Golden" (arXiv:2602.04755); contexts, questions and demonstrations are ours. `docs/environments/timed_facts.md`.
//!
//! ```text
//! Config ─> draw (relations, intervals with gaps, a question with one answer or none) ─> Task
//! Task ─> policy: <think> the intervals that matter </think> <answer> ... </answer> ─> abstention::judge ─> Verdict
//! ```

mod config;
mod draw;
mod facts;
mod generate;
mod play;

use crate::Kind;

pub use config::{Config, PromptStyle, Reward, Years};
pub use facts::{Fact, Question};
pub use generate::TimedFacts;
pub use play::Truth;
pub(crate) use play::{judge, verdict};

/// The environment's entry in the catalogue.
pub const KIND: Kind = TimedFacts::KIND;
