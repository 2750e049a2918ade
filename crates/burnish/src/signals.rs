//! Ctrl-C: the first one finishes the work in progress and saves, the second one stops at once.

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
}

impl Work {
    fn finishing(self) -> &'static str {
        match self {
            Work::Training => "finishing this step, then saving",
            Work::Evaluation => "finishing the items that are under way",
        }
    }

    fn left(self) -> &'static str {
        match self {
            Work::Training => "the run can be resumed from its last checkpoint",
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
