//! The mathematics of learning: pure functions on plain numbers, in f64.
//!
//! No tensors, no files, no clocks. [`advantage`] turns the rewards of a group into credit; an [`Objective`]
//! turns per-token streams into a loss and its derivative with respect to every policy log-probability and
//! entropy. The trainer runs the forward pass, hands over the streams, and feeds the derivative into the
//! backward pass; it is blind to which objective runs.

pub mod advantage;
pub mod aggregation;
mod config;
pub mod grpo;
pub mod kl;
pub mod nll;
mod objective;
pub mod overlong;

pub use config::ConfigError;
pub use objective::{Evaluation, Metric, Needs, Objective, Streams, Totals};
