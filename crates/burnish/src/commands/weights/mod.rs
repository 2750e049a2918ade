//! `burnish weights merge|methods|diff|inspect|extract`

mod diff;
mod extract;
mod inspect;
mod merge;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burnish_run::model_path::locate_weights;
use burnish_run::watch::Stop;
use burnish_weights::Progress as Done;
use clap::Subcommand;

use crate::progress::Progress;
use crate::signals;

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Merge checkpoints, as a configuration of mergekit or the options say.
    Merge(merge::Arguments),
    /// List the methods of merging with their parameters.
    Methods {
        /// Print one JSON object per method.
        #[arg(long)]
        json: bool,
    },
    /// Tell what changed between two checkpoints, tensor by tensor.
    Diff(diff::Arguments),
    /// List the tensors of a checkpoint.
    Inspect(inspect::Arguments),
    /// Extract an adapter (PEFT) from a base and a tuned model.
    Extract(extract::Arguments),
}

pub(crate) fn run(command: Command) -> super::Done {
    match command {
        Command::Merge(arguments) => merge::run(arguments),
        Command::Methods { json } => merge::methods(json),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Extract(arguments) => extract::run(arguments),
    }
}

/// Shows progress, and stops the work after the tensor in progress if Ctrl-C was pressed.
fn watch() -> std::io::Result<impl FnMut(Done) -> ControlFlow<()>> {
    let stop = Stop::default();
    signals::listen(stop.clone(), signals::Work::Surgery)?;
    let mut progress = Progress::aside("tensor");
    Ok(move |done: Done| {
        progress.count(done.tensors_done, done.tensors);
        if stop.is_asked() {
            signals::leave_unfinished();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
}

/// The checkpoint that a person names: of a run its newest, as for other commands; a note says which.
fn located(given: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let found = locate_weights(given)?;
    super::say_notes(found.note.as_slice());
    Ok(found.dir)
}

/// A number of bytes for a person.
fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} B"),
        1000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}
