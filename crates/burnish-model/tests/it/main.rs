//! The policy as its users see it: directories of models, chat templates, calls of tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod adapters;
mod bad_chat;
mod bad_input;
mod calls;
mod chat;
mod common;
mod fidelity;
mod literal;
mod masks;
mod models;
mod outline;
mod qwen;
mod rules;
mod shards;
mod taps;
mod templates;
