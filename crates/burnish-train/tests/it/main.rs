//! The trainer as its users see it, on tiny models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may fail the test"
)]

mod adamw;
mod behavior;
mod checkpoint;
mod common;
mod frozen;
mod gate;
mod gradient;
mod head;
mod lags;
mod latents;
mod masked;
mod refusals;
mod schedule;
mod slope;
mod training;
mod values;
