//! What a run writes, and how it is read back: the run directory ([`run_dir`]), the [`journal`] of all episodes and
//! updates, [`metrics`] under the names of several frameworks, and the [`report`] for a browser.
//!
//! Nothing here knows a recipe, a policy or a method: rows, episodes and numbers come in, files come out.

pub mod files;
pub mod journal;
pub mod metrics;
pub mod report;
pub mod run_dir;
pub mod text;
