//! Countdown: reach a target from given numbers with + - * /, each number used at most once.
//!
//! A puzzle is made from a hidden random expression ([`Config`] says how long), so it is solvable. A puzzle is dropped
//! if its target is one of the given numbers, or if one operation solves it although several were required. The
//! verifier ([`Puzzle::judge`]) is exact: it computes with fractions of 128-bit integers, and a result beyond them is
//! wrong. The game is that of the television programme; as a task for language models see "Stream of Search" (Gandhi et
//! al. 2024).
//!
//! Not claimed: the hidden solution need not be the shortest.

mod config;
mod draw;
mod expression;
mod generate;
mod puzzle;
mod rational;
mod solve;
mod tries;

use serde::{Deserialize, Serialize};

use crate::Kind;

pub use config::{Config, PromptStyle, Range, Reward, Thoughts};
pub use expression::{Expression, Operation, Operator, ParseError, Place, parse};
pub use generate::Countdown;
pub use puzzle::{Finding, Puzzle};
pub use rational::{Fault, Rational};
pub use solve::{SOLVE_NUMBERS_MAX, solve};
pub use tries::{Reflection, Tries};

/// The environment's entry in the catalogue.
pub const KIND: Kind = Countdown::KIND;

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The puzzle.
    puzzle: Puzzle,
    /// A solution, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    solution: Option<String>,
}

impl Truth {
    /// The known solution, or one found by search.
    fn solve(&self) -> Option<Expression> {
        match &self.solution {
            Some(text) => parse(text, i128::from(self.puzzle.target)).ok(),
            None => solve(&self.puzzle),
        }
    }
}
