//! `report.html`: the results of a run, on one page that opens without a network.
//!
//! ```text
//! Report { main, further, rows, episodes ... } -> html (the page) <- tables, panels -> chart (SVG)
//! ```

mod chart;
mod html;
mod panels;
mod tables;

pub use chart::tick;

use std::path::Path;

use burnish_eval::{Change, Measure, Summary};

use crate::files::{FileError, write_atomic};
use crate::metrics::Row;

/// The content of a report. Texts are shown literally, never interpreted as HTML.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// The resolved recipe.
    pub recipe: String,
    /// All metrics, for the curves.
    pub rows: Vec<Row>,
    /// What the main evaluation found.
    pub main: Evaluated,
    /// The results of the evaluations of `[[eval.extra]]`.
    pub further: Vec<Evaluated>,
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
#[derive(Debug, Clone)]
pub struct DrawnEpisode {
    /// Which episode it is, and how it ended.
    pub title: String,
    /// The rendered task, and what was said.
    pub text: String,
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
