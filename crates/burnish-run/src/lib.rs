//! The loop itself: training, evaluation, stages, resume.
//!
//! A [`burnish_recipe::Recipe`] decides a run; [`train::Run`] is the run; [`inspect`] looks at one without training;
//! [`items`] evaluates one task by task. The output of a run is in its directory ([`burnish_rundir`]).

mod artefact;
mod asked;
pub mod cells;
mod controllers;
mod decontaminate;
pub mod engine;
mod error;
mod eval_set;
pub mod evaluate;
pub mod extractor;
pub mod fit_thoughts;
pub mod generate;
mod goal;
pub mod inspect;
pub mod items;
mod learner;
mod making;
pub mod memory;
pub mod merge;
mod model_files;
pub mod model_path;
mod notes;
mod offline;
mod online;
mod others;
pub mod policy;
pub mod probe;
pub mod records;
mod reference;
pub mod replay;
pub mod report_of_run;
mod reward_model;
pub mod seeds;
pub mod serve;
mod split;
pub mod stages;
pub mod start;
pub mod stored;
pub mod strategies;
mod summary;
mod tasks;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../burnish-remote/src/test_server.rs"]
mod test_server;
pub mod texts;
pub mod train;
mod trainer;
mod unread;
mod unscored;
pub mod watch;
mod weighed;

pub use error::RunError;
pub use policy::LoadedPolicy;
pub use unscored::UnscoredSteps;
