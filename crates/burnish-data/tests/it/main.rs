//! Rows from files, as a user of the crate meets them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bad_input;
mod common;
mod delimited;
mod dialects;
mod memory;
mod overlap;
mod parquet;
mod real;
mod tables;
mod templates;
