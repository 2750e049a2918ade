//! The engine as its users see it, on small models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may fail the test"
)]

mod common;
mod control;
mod denoise;
mod generate;
mod greedy;
mod hybrid;
mod inside;
mod latent;
mod logprobs;
mod memory;
mod open;
mod policy;
mod stops;
mod streaming;
mod thoughts;
mod tools;
