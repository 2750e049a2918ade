//! Answers that are read while they are under way.

use std::time::Duration;

use crate::{Answered, Policy, TurnId};

/// What a turn under way has said so far. Both texts only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Partial<'a> {
    /// Thoughts, if the policy keeps them apart from the text.
    pub thoughts: &'a str,
    /// The text after the turn's prefix. What may still turn out to be half a character or part of a stop string is
    /// left out.
    pub text: &'a str,
    /// Whether the text begins inside thoughts that the prompt has begun.
    pub in_thoughts: bool,
}

/// A policy whose answers can be read while they are under way.
pub trait Streaming: Policy {
    /// What a turn under way has said so far; `None` if it is not under way.
    fn partial(&mut self, id: TurnId) -> Option<Partial<'_>>;

    /// Like [`Policy::poll`], but waits until a turn has said more or is finished, at most for `longest`. A model in
    /// this process does one piece of work.
    fn progress(&mut self, longest: Duration) -> Vec<Answered>;

    /// Ends a turn where it is: it comes back with what it has said so far. A turn that has said nothing is cancelled.
    /// Returns whether it will come back.
    fn stop(&mut self, id: TurnId) -> bool;
}
