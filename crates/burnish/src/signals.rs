//! Ctrl-C: the first finishes the step and saves, the second stops at once.

use std::io::Write;

use burnish_run::watch::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Exit status of a run that a second signal ended.
const STOPPED_AT_ONCE: i32 = 130;

/// Starts listening. What was journaled before a second signal stays; the run can be resumed.
pub(crate) fn listen(stop: Stop) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            // Nothing is left to do when the terminal is gone.
            let _ = if stop.is_asked() {
                writeln!(
                    std::io::stderr(),
                    "\nstopped at once; the run can be resumed from its last checkpoint"
                )
            } else {
                writeln!(std::io::stderr(), "\nfinishing this step, then saving; once more to stop at once")
            };
            if stop.is_asked() {
                std::process::exit(STOPPED_AT_ONCE);
            }
            stop.ask();
        }
    });
    Ok(())
}
