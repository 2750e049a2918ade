//! Strategies on scripted policies: turn by turn, and in worlds of several turns.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
mod player;
mod strategies;
