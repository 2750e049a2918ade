//! `report.html`: the results of a run, on one page that opens without a network. It is written while the run goes on,
//! and says how far it is.
//!
//! ```text
//! Report { standing, facts, main, further, rows, episodes ... }
//!     -> html (the page) <- standing, tables, rows, episodes; panels -> chart (SVG)
//! ```

mod chart;
mod episodes;
mod heat;
mod html;
mod panels;
mod rounds;
mod rows;
mod standing;
mod tables;

pub use chart::tick;
pub use rounds::{DesignTold, RoundTold, Rounds};
pub use standing::{Standing, is_finished};

use std::path::Path;

use burnish_eval::{Change, Measure, Summary};

use crate::files::{FileError, write_atomic};
use crate::metrics::Row;

/// The content of a report. Texts are shown literally, never interpreted as HTML.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// The run directory, below it.
    pub dir: String,
    /// How far the run is.
    pub standing: Standing,
    /// The same in a sentence, with code between backticks.
    pub told: String,
    /// When the report is written, in seconds since 1970 (UTC).
    pub written: i64,
    /// What was used and done: a name and a value each.
    pub facts: Vec<(String, String)>,
    /// The resolved recipe.
    pub recipe: String,
    /// All metrics, for the curves.
    pub rows: Vec<Row>,
    /// What the main evaluation found.
    pub main: Evaluated,
    /// The results of the evaluations of `[[eval.extra]]`.
    pub further: Vec<Evaluated>,
    /// The rounds before it, if its environment was redesigned.
    pub rounds: Option<Rounds>,
    /// A few episodes to read.
    pub episodes: Vec<DrawnEpisode>,
    /// Where to look and what to try next, one sentence each.
    pub notes: Vec<String>,
}

/// The results of one evaluation of a recipe, over a run.
#[derive(Debug, Clone, Default)]
pub struct Evaluated {
    /// Its name; `None` for the main one.
    pub name: Option<String>,
    /// Results on held-out tasks by step: the first are shown as *before*, the last as *after*.
    pub steps: Vec<EvaluatedStep>,
    /// The change between the first and the last step, paired by task.
    pub change: Option<Change>,
}

impl Evaluated {
    /// The measure of its results: success, if any of its evaluations reports it.
    pub fn headline(&self) -> Measure {
        let mut judged = self.steps.iter().filter(|at| at.summary.leading().is_some()).peekable();
        let is_success = judged.peek().is_none() || judged.any(|at| at.summary.headline == Measure::Success);
        if is_success { Measure::Success } else { Measure::Reward }
    }
}

/// The results of an evaluation and when it was made.
#[derive(Debug, Clone)]
pub struct EvaluatedStep {
    /// Number of steps done before it.
    pub step: u64,
    /// What was found.
    pub summary: Summary,
}

/// An episode to read.
#[derive(Debug, Clone, Default)]
pub struct DrawnEpisode {
    /// Which episode it is, and how it ended.
    pub title: String,
    /// What was said, in order.
    pub turns: Vec<Said>,
    /// The task as its environment draws it, with the effect of the answers; empty if there is no drawing.
    pub drawing: String,
    /// What the judge said; may be empty.
    pub feedback: String,
}

/// What one of an episode's speakers said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Who: "system", "user", "policy" ...
    pub who: String,
    /// The text.
    pub text: String,
    /// Whether the policy sampled it.
    pub is_sampled: bool,
}

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Writes the page to `path`, which keeps its old content until the new page is complete.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_atomic(path, self.html().as_bytes())
    }
}

#[cfg(test)]
mod tests;
