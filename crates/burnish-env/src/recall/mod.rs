//! Recall: find what was said once in a long text, and say it.
//!
//! The needle tasks of RULER (Hsieh et al. 2024, arXiv:2404.06654; github.com/NVIDIA/RULER, `scripts/synthetic.yaml`)
//! under its names: `niah_single_1` to `3`, `niah_multikey_1` to `3`, `niah_multivalue`, `niah_multiquery`, and variable
//! tracking, `vt`. Wordings (`prompt = "full"`) and score are RULER's; what differs is listed in
//! `docs/environments/recall.md`. Sizes are configurable, so that a policy with a small context can be asked too.
//!
//! ```text
//! Config ─> draw (keys and values, haystack up to the length, the asked needle at the depth) ─> Task
//! Task ─> policy: an answer per question ─> judge (share of the references that occur in it) ─> Verdict
//! ```

mod config;
mod draw;
mod generate;
mod haystack;
mod judge;
mod kind;
mod needles;
mod wording;
mod words;

use crate::Kind;

pub use config::{Config, Needles, Numbers, Uuids, Variables, Words};
pub use generate::{Haystacks, Recall};
pub use judge::{Later, Truth};
pub use kind::RecallTask;
pub use wording::PromptStyle;

/// Id of the environment.
const ID: &str = "recall";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Recall::KIND;
