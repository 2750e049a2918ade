//! From samples to better weights.
//!
//! ```text
//! Branch -> Sample -> pack -> forward -> Objective (burnish-rl) -> backward -> clip -> AdamW -> checkpoint
//! ```
//!
//! The trainer does not know which objective runs: it hands over per-token streams and feeds the derivative back. It
//! knows no method, no environment and no engine; the sample says whether a token counts.

mod checkpointing;
mod columns;
mod error;
mod gradient;
mod head_rows;
mod lags;
mod latents;
mod measure;
mod minibatch;
mod need;
mod pack;
mod sample;
mod score;
mod slope;
mod target;
mod trainer;

pub mod adamw;
pub mod checkpoint;
pub mod schedule;

pub use checkpointing::{Checkpointing, CheckpointingBySize};
pub use error::TrainError;
pub use gradient::{Drift, Pass, PassConfig, accumulate};
pub use lags::{LogitGradients, LogitProbe};
pub use latents::{LatentInputs, LatentRows, Latents};
pub use measure::measure;
pub use minibatch::{minibatches, minibatches_of_groups, totals};
pub use need::{Place, UpdateNeed, scoring_need};
pub use pack::{MicroBatch, SHARED_TOKENS_MIN, pack, pack_groups};
pub use sample::{Proximal, Sample, SampleError};
pub use score::{score, score_base, score_hidden, score_squares, score_top, score_whole_head};
pub use slope::{Slope, Surrogate, differentiate, surrogate};
pub use target::{Target, TeacherHead};
pub use trainer::{Trainer, TrainerConfig, Update};
