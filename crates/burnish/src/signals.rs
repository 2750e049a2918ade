//! Ctrl-C: the first one finishes the work in progress and saves, the second one stops at once. SIGTERM and SIGHUP (a terminal
//! that is closed, a lost connection) do the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use burnish_run::watch::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::out;

/// The signal that came first; 0 if none did.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Did a command stop early because of it?
static IS_UNFINISHED: AtomicBool = AtomicBool::new(false);

/// Exit status of a process that `signal` ended, as shells report it: 130 for SIGINT, 143 for SIGTERM.
fn status_of(signal: i32) -> i32 {
    128 + signal
}

/// Records that the command stopped before its work was done. The exit status tells scripts (`train && eval`), if a signal
/// was the reason.
pub(crate) fn leave_unfinished() {
    IS_UNFINISHED.store(true, Ordering::SeqCst);
}

/// The exit status of a command that a signal stopped early.
pub(crate) fn status() -> Option<u8> {
    let signal = FIRST.load(Ordering::SeqCst);
    let is_stopped = signal != 0 && IS_UNFINISHED.load(Ordering::SeqCst);
    is_stopped.then(|| u8::try_from(status_of(signal)).unwrap_or(1))
}

/// `nohup` starts programs with SIGHUP ignored, which has to stay so.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (SIGHUP - 1) & 1 == 1
}

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
    if !is_hangup_ignored() {
        signals.add_signal(SIGHUP)?;
    }
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if FIRST.swap(signal, Ordering::SeqCst) != 0 {
                out::keep_below(None);
                eprintln!("stopped at once; {}", work.left());
                std::process::exit(status_of(signal));
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
        for signal in signals.forever() {
            if is_stopped.swap(true, Ordering::SeqCst) {
                eprint!("\n");
                std::process::exit(status_of(signal));
            }
        }
    });
    Ok(())
}
