//! When a run writes its report: while it goes on, when it stops, and at its end.

use std::time::{Duration, Instant};

use super::Run;
use crate::RunError;
use crate::report_of_run::{Reported, told_how_to_go_on, told_of_end, told_of_step};
use crate::stored::{Session, note_session};
use crate::watch::{Event, Watch};
use burnish_rundir::report::Standing;

/// A report reads the whole run so far, which takes longer the longer the run is. It is left out where it would take
/// more than one part in this number of the time since the one before.
const SHARE_OF_TIME: u32 = 30;

/// The reports of one process.
pub(super) struct Reports {
    began: Instant,
    session: Session,
    /// When the last report was written, and how long that took.
    last: Option<(Instant, Duration)>,
    /// Whether the last report could not be written.
    has_failed: bool,
}

impl Reports {
    pub(super) fn new(session: Session) -> Self {
        Reports { began: Instant::now(), session, last: None, has_failed: false }
    }

    fn is_due(&self) -> bool {
        self.last.is_none_or(|(written, took)| written.elapsed() >= took * SHARE_OF_TIME)
    }
}

impl Run {
    /// Writes the report of a run that goes on, unless that would slow the run down. If it can't be written, the run
    /// says so and goes on: it depends on no report.
    pub(super) fn report_under_way(&mut self, watch: &mut dyn Watch) {
        if self.reports.is_due() {
            let told = told_of_step(self.step, &self.recipe);
            let written = self.report(Standing::Running, told);
            self.mind(written, watch);
        }
    }

    /// Writes the report of a run that stops before its end, because it was asked to or by an error.
    pub(super) fn report_stopped(&mut self, problem: Option<&RunError>, watch: &mut dyn Watch) {
        let done = told_of_step(self.step, &self.recipe);
        let saved = match self.saved {
            Some(saved) if saved < self.step => format!(" The last checkpoint is of step {saved}."),
            None => " There is no checkpoint yet.".to_owned(),
            Some(_) => String::new(),
        };
        let on = told_how_to_go_on(self.dir.path());
        let told = match problem {
            Some(problem) => {
                format!("{done}{saved} It stopped with an error: {problem}. Once that is mended: {on}")
            }
            None => format!("{done}{saved} {on}"),
        };
        let written = self.report(Standing::Stopped, told);
        self.mind(written, watch);
    }

    /// Writes the last report, by which other commands know that the run is finished.
    pub(super) fn report_finished(&mut self) -> Result<(), RunError> {
        self.report(Standing::Finished, told_of_end(self.step, &self.recipe))
    }

    fn report(&mut self, standing: Standing, told: String) -> Result<(), RunError> {
        let start = Instant::now();
        self.reports.session.seconds = self.reports.began.elapsed().as_secs_f64();
        let noted = note_session(self.dir.path(), &self.reports.session);
        let reported = Reported {
            dir: self.dir.path(),
            recipe: &self.recipe,
            journal: &self.journal,
            tokenizer: Some(&*self.learner.chat().tokenizer),
            overlap: self.overlap.as_ref(),
        };
        let written = noted.and_then(|()| reported.write(standing, told));
        self.reports.last = Some((Instant::now(), start.elapsed()));
        written
    }

    /// Says once that reports can't be written.
    fn mind(&mut self, written: Result<(), RunError>, watch: &mut dyn Watch) {
        let had_failed = std::mem::replace(&mut self.reports.has_failed, written.is_err());
        if let Err(error) = written
            && !had_failed
        {
            watch.event(Event::Note(format!(
                "the report could not be written; the run depends on none: {error}"
            )));
        }
    }
}
