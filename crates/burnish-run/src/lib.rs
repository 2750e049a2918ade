//! The loop itself: recipes, the run directory, stages, evaluation, resume.
//!
//! [`recipe`] says everything that decides a run; [`train::Run`] is the run; [`inspect`] looks at one without
//! training; [`benchmark`] evaluates a policy on a benchmark that has a name; [`study`] compares runs. What a run leaves is in
//! its directory ([`run_dir`]): the resolved recipe, [`metrics`], the [`journal`], checkpoints and the [`report`].

pub mod benchmark;
mod corpus;
mod decontaminate;
mod error;
mod eval_set;
mod evaluate;
pub mod inspect;
pub mod items;
mod judge_client;
pub mod merge;
pub mod methods;
mod model_files;
mod model_path;
mod online;
mod partners;
mod policy;
mod preference;
pub mod recipe;
mod records;
mod reference;
pub mod replay;
mod report_of_run;
mod seeds;
mod sft;
pub mod split;
pub mod stages;
pub mod stored;
pub mod study;
mod summary;
mod tasks;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../burnish-engine/src/endpoint/test_server.rs"]
mod test_server;
pub mod train;
mod unread;
mod unscored;
pub mod watch;
pub mod words;

pub use error::RunError;
pub use evaluate::Evaluation;
pub use policy::LoadedPolicy;
pub use unscored::UnscoredSteps;
