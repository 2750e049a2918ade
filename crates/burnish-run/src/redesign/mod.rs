//! What happens between two rounds of `[redesign]`: an engineer is told what came of the round, and says how the
//! environment of the next one is configured (`docs/redesign.md`). The rounds themselves are runs: `stages/rounds.rs`.
//!
//! ```text
//! a round's evaluation ─> Breakdown ─> Context (statistics, never tasks)
//!     ─> Engineer: text ─> burnish_env::redesign (read, clamped, scaled) ─> tried: are there such tasks?
//!     ─> Design: the next configuration, with all that was said, in the Record
//! ```

mod breakdown;
mod context;
mod design;
mod engineers;
mod record;
#[cfg(test)]
mod tests;

pub use breakdown::{Breakdown, Part, Rates};
pub use context::Training;
pub(crate) use context::{Context, Past, short, summary};
pub(crate) use design::design;
pub(crate) use engineers::engineer;
pub use record::{Attempt, Design, Record, Round};
pub(crate) use record::{read, write};

use std::path::Path;

use crate::RunError;

/// Who says how the next round's environment is configured.
///
/// An engineer answers with a text in which [`burnish_env::redesign::Proposal::read`] finds a proposal; whatever else it
/// says is kept. The same context and the same attempt get the same answer, unless somebody else is asked.
pub(crate) trait Engineer {
    /// How often it may try, if there are no tasks of what it proposes. Then the environment stays as it is.
    fn attempts(&self) -> usize {
        1
    }

    /// What it says.
    ///
    /// # Errors
    /// If it can't be asked; an answer that makes no sense is no error.
    fn propose(&mut self, brief: &Brief<'_>, attempt: usize) -> Result<String, RunError>;
}

/// What an engineer has.
pub(crate) struct Brief<'a> {
    /// What it is told.
    pub(crate) context: &'a Context,
    /// The same as a text.
    pub(crate) text: &'a str,
    /// The policy that the round made.
    pub(crate) checkpoint: &'a Path,
    /// Decides what chance decides.
    pub(crate) seed: u64,
}
