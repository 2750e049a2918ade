//! Ctrl-C: the first one finishes the work in progress and saves, the second one stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burnish_run::watch::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::out;

/// Exit status of a run that was ended by a second signal.
const STOPPED_AT_ONCE: i32 = 130;

/// The work that a signal interrupts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// Steps, saved in checkpoints.
    Training,
    /// Items of a benchmark, stored in records.
    Evaluation,
    /// Answers to prompts.
    Generation,
    /// A checkpoint made from others.
    Surgery,
    /// Requests of clients.
    Serving,
}

impl Work {
    fn finishing(self) -> &'static str {
        match self {
            Work::Training => "finishing this step, then saving",
            Work::Evaluation => "finishing the items that are under way",
            Work::Generation => "stopping; answers that are finished are kept",
            Work::Surgery => "stopping after this tensor; nothing is kept",
            Work::Serving => "stopping; requests that are under way are refused",
        }
    }

    fn left(self) -> &'static str {
        match self {
            Work::Training => "the run can be resumed from its last checkpoint",
            Work::Generation => "nothing was written to --out",
            Work::Surgery => "remove the hidden folder (.NAME.*.partial) beside the output",
            Work::Serving => "nothing is left behind",
            Work::Evaluation => "what was recorded with --out stays, and the same command goes on from there",
        }
    }
}

/// Starts listening. Journal entries from before a second signal stay, and the run can be resumed.
pub(crate) fn listen(stop: Stop, work: Work) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if stop.is_asked() {
                out::keep_below(None);
                eprintln!("stopped at once; {}", work.left());
                std::process::exit(STOPPED_AT_ONCE);
            }
            eprintln!("{}; once more to stop at once", work.finishing());
            stop.ask();
        }
    });
    Ok(())
}

/// From now on Ctrl-C sets `is_stopped` and ends nothing, unless it was set already: then nobody has heeded the last
/// one.
pub(crate) fn heed(is_stopped: Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if is_stopped.swap(true, Ordering::SeqCst) {
                eprint!("\n");
                std::process::exit(STOPPED_AT_ONCE);
            }
        }
    });
    Ok(())
}
