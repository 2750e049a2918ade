//! What episodes say about a policy: rates and means, with intervals that reflect how few tasks there were.
//!
//! ```text
//! Task*, Episode* -> Summary { success, reward: Interval, pass_at, flags, by_label ... }
//! Episode* before, Episode* after -> Change { success, reward: Interval of the paired difference }
//! one number per seed and arm -> Estimate of the difference, smallest detectable effect, Holm's p-values
//! Item*: samples, correct -> PassAtK { k -> Interval }
//! attention to the cells of a table, mask -> overlap, AUROC, a verifier ([`cells`])
//! questions, and whether reflection paid -> a model that tells this by the question ([`reflection`])
//! ```
//!
//! The unit of evidence is the task, not the episode: the rollouts of one task tend to succeed and fail together, so
//! counting them as independent would make every interval too narrow (Miller 2024, "Adding Error Bars to Evals",
//! arXiv:2411.00640). Every number here is therefore a mean over tasks of the mean over a task's episodes, and
//! [`bootstrap`] resamples tasks.
//!
//! An episode whose prompt does not fit the policy's context window counts as a failure, as in benchmarks: the policy
//! did not solve the task. An episode that could not be judged (because a verifier was down, say) says nothing and is
//! in no mean. Both kinds are counted beside every result ([`Summary::prompt_too_long`], [`Summary::unscored`]).
//!
//! This crate sees only episodes: no policy, no tensors, no files.

pub mod bootstrap;
pub mod cells;
mod change;
mod crossed;
mod effect;
pub mod logistic;
mod measure;
mod pass_at_k;
pub mod reflection;
mod spread;
mod student;
mod summary;

pub use bootstrap::Interval;
pub use change::Change;
pub use crossed::Crossed;
pub use effect::{Estimate, holm, smallest_detectable};
pub use measure::Measure;
pub use pass_at_k::{Counted, PassAtK, pass_at_k};
pub use summary::{Slice, Summary, is_cut_short, is_success};
