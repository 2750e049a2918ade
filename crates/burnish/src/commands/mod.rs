//! One file per command.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

pub(crate) mod benchmark;
pub(crate) mod chat;
pub(crate) mod data;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod fit_thoughts;
pub(crate) mod generate;
pub(crate) mod merge;
pub(crate) mod methods;
pub(crate) mod metrics;
pub(crate) mod policy;
pub(crate) mod probe;
pub(crate) mod report;
mod retrieval;
pub(crate) mod rollout;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod strategy;
pub(crate) mod study;
pub(crate) mod train;
pub(crate) mod verify;
pub(crate) mod weights;
pub(crate) mod world;

/// Parses a number of things, of which at least one is needed.
pub(crate) fn at_least_one(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("must be a whole number, 1 or more")
}

/// The key that clients of a server have to send: that in the variable of `--key-env`, if it is given.
pub(crate) fn key_in(variable: Option<String>) -> Result<Option<String>, String> {
    let Some(variable) = variable else { return Ok(None) };
    match std::env::var(&variable) {
        Ok(key) if !key.is_empty() => Ok(Some(key)),
        _ => Err(format!("--key-env {variable}: the variable must hold the key, but it is not set")),
    }
}

/// What a command returns: an error is printed and ends the program with status 1.
pub(crate) type Done = Result<(), Box<dyn std::error::Error>>;

/// Parses a path in the same way as the paths in recipes, because a shell does not expand the `~` in `--out=~/x`.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| burnish_recipe::expand(&path))
}

/// Prints what a person should know besides the result, where it does not disturb output that a program reads.
pub(crate) fn say_notes(notes: &[String]) {
    notes.iter().for_each(|note| eprintln!("note: {note}"));
}
