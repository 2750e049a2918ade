//! What a run leaves, and how it is read again: the run directory ([`run_dir`]), the [`journal`] of everything that was
//! played and updated, [`metrics`] under the names of several frameworks, and the [`report`] for a browser.
//!
//! Nothing here knows a recipe, a policy or a method: rows, episodes and numbers come in, files come out.

pub mod files;
pub mod journal;
pub mod metrics;
pub mod report;
pub mod run_dir;
pub mod text;
