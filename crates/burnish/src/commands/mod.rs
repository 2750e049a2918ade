//! One file a command.

pub(crate) mod benchmark;
pub(crate) mod data;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod merge;
pub(crate) mod methods;
pub(crate) mod metrics;
pub(crate) mod rollout;
pub(crate) mod study;
pub(crate) mod train;

/// Reads how many of something are wanted, where none makes no sense.
pub(crate) fn at_least_one(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("must be a whole number, 1 or more")
}

/// What a command returns: an error is printed and ends the program with status 1.
pub(crate) type Done = Result<(), Box<dyn std::error::Error>>;
