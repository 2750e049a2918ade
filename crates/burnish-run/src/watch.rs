//! What a run tells the person who watches it, and how that person stops it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burnish_eval::Summary;

use burnish_rundir::metrics::Values;

/// Something that happened in a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that takes long begins.
    Doing(&'a str),
    /// A line worth reading.
    Note(String),
    /// A training step is complete.
    Step {
        /// Steps done.
        step: u64,
        /// Number of all steps.
        steps_max: u64,
        /// The step's metrics.
        metrics: &'a Values,
    },
    /// An evaluation is complete.
    Evaluated {
        /// Steps done when it was made.
        step: u64,
        /// The name of an evaluation of `[[eval.extra]]`; `None` for the main one.
        name: Option<&'a str>,
        /// Its results.
        summary: &'a Summary,
    },
    /// Held-out rows were evaluated.
    Measured {
        /// Steps done when it was made.
        step: u64,
        /// What was found, as it is logged.
        values: &'a Values,
    },
    /// Items of a benchmark are complete.
    Items {
        /// Items done, including those of an earlier process.
        done: usize,
        /// Number of all items.
        items: usize,
        /// Share of right samples so far.
        success: Option<f64>,
        /// Tokens that this process samples per second.
        tokens_per_second: f64,
    },
    /// A checkpoint is complete.
    Saved(PathBuf),
}

/// Receives the events of a run.
pub trait Watch {
    /// Called in order, on the thread of the run.
    fn event(&mut self, event: Event<'_>);
}

/// Ignores all events.
#[derive(Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn event(&mut self, _: Event<'_>) {}
}

/// A request to stop after the step in progress. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the run to finish its step, save and stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked to stop.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
