//! Steps in which episodes could not be judged: what to tell a person, and when a run stops.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::Path;

use burnish_core::{Episode, Validity};
use burnish_eval::Summary;

use crate::RunError;
use burnish_rundir::metrics::Row;
use burnish_rundir::text::shell_path;

/// At most this many different reasons are reported per process.
const REASONS_MAX: usize = 8;

/// What the steps of a run so far show about its reward.
#[derive(Debug, Default)]
pub(crate) struct Unscored {
    /// Number of the latest steps in a row in which no episode could be judged.
    streak: u64,
    /// The reason, in the newest of them.
    reason: String,
    /// Reasons that were already reported, without their numbers.
    told: BTreeSet<String>,
}

impl Unscored {
    /// As saved with a checkpoint after this many such steps in a row.
    pub(crate) fn after(streak: u64) -> Self {
        Unscored { streak, ..Unscored::default() }
    }

    /// Number of the latest steps in a row that taught nothing.
    pub(crate) fn streak(&self) -> u64 {
        self.streak
    }

    /// Takes note of the episodes of step number `step`, counted from 1. Returns what to tell a person.
    pub(crate) fn see(&mut self, step: u64, episodes: &[impl Borrow<Episode>]) -> Option<String> {
        let reasons: Vec<&String> = episodes
            .iter()
            .filter_map(|episode| match &episode.borrow().verdict.validity {
                Validity::Unscored { reason } => Some(reason),
                Validity::Scored => None,
            })
            .collect();
        let Some(last) = reasons.last().copied() else {
            self.streak = 0;
            return None;
        };
        if reasons.len() == episodes.len() {
            self.streak += 1;
            self.reason.clone_from(last);
            return Some(format!("step {step}: no episode could be scored, so nothing was learnt: {last}"));
        }
        self.streak = 0;
        let kind: String = last.chars().filter(|character| !character.is_ascii_digit()).collect();
        // A verifier that fails now and then fails in the same way in step after step.
        let is_new = self.told.len() < REASONS_MAX && self.told.insert(kind);
        is_new.then(|| {
            format!(
                "step {step}: {} of {} episodes could not be scored, and are not learnt from: {last}",
                reasons.len(),
                episodes.len()
            )
        })
    }

    /// Refuses to continue after step number `step` of `steps_max`, if `most` steps in a row, or all steps of the
    /// run, taught nothing. `saved` is the step of the newest checkpoint.
    ///
    /// # Errors
    /// Says which steps, why, and how to continue.
    pub(crate) fn check(
        &self,
        step: u64,
        steps_max: u64,
        most: u64,
        saved: Option<u64>,
        dir: &Path,
    ) -> Result<(), RunError> {
        if self.streak < most && self.streak < steps_max {
            return Ok(());
        }
        let which = match self.streak {
            1 => format!("step {step}"),
            streak => format!("steps {} to {step}", step - streak + 1),
        };
        let from = match saved {
            Some(saved) => format!("goes on after step {saved}, the newest checkpoint"),
            None => "begins again".to_owned(),
        };
        Err(RunError::Refused(format!(
            "{which}: no episode could be scored, so nothing was learnt; the last reason: {}\n  help: repair what judges; \
             then `burnish train --resume {}` {from}. A run stops after {most} such step{} in a row \
             (`train.unscored_steps_max`)",
            self.reason,
            shell_path(dir),
            if most == 1 { "" } else { "s" },
        )))
    }
}

/// So few episodes may be unscored by chance.
const FEW: usize = 4;

/// Refuses to train after a first evaluation of which nothing could be scored.
///
/// # Errors
/// Says why, and how to continue.
pub(crate) fn check_first(summary: &Summary, dir: &Path) -> Result<(), RunError> {
    if summary.episodes > 0 || summary.unscored <= FEW {
        return Ok(());
    }
    Err(RunError::Refused(format!(
        "evaluation before training: nothing could be scored; {}\n  help: repair what judges; then `burnish train --resume {}` \
         begins again",
        summary.left_out().join("; "),
        shell_path(dir)
    )))
}

/// What the steps of a whole run show about its reward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnscoredSteps {
    /// Steps that played episodes.
    pub steps: u64,
    /// Steps in which no episode could be judged.
    pub wholly: u64,
    /// Steps in which some episodes could not be judged.
    pub partly: u64,
    /// Training episodes.
    pub episodes: u64,
    /// Training episodes that could not be judged.
    pub unscored: u64,
}

impl UnscoredSteps {
    /// Reads them from a run's metrics.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let mut found = UnscoredSteps::default();
        for row in rows {
            let number = |name: &str| row.values.get(name).map(|count| *count as u64);
            let (Some(episodes), Some(unscored)) = (number("episodes"), number("episodes/unscored")) else {
                continue;
            };
            found.steps += 1;
            found.wholly += u64::from(unscored == episodes);
            found.partly += u64::from(0 < unscored && unscored < episodes);
            found.episodes += episodes;
            found.unscored += unscored;
        }
        found
    }

    /// In words; `None` if everything was judged.
    pub fn told(&self) -> Option<String> {
        let UnscoredSteps { steps, wholly, partly, episodes, unscored } = self;
        (*unscored > 0).then(|| {
            format!(
                "{unscored} of {episodes} episodes of training could not be scored and taught nothing: all of those of {wholly} \
                 and some of {partly} of the {steps} steps."
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::{Ending, Record, TaskId, Verdict};

    fn episodes(reasons: &[Option<&str>]) -> Vec<Episode> {
        let verdict = |reason: &Option<&str>| {
            reason.map_or_else(|| Verdict::scored("reward", 1.0, true), Verdict::unscored)
        };
        let episode = |reason| Episode {
            task: TaskId("a".into()),
            rollout: 0,
            traces: Vec::new(),
            verdict: verdict(reason),
            ending: Ending::Completed,
            answers: Vec::new(),
            partners: Vec::new(),
            record: Record::default(),
        };
        reasons.iter().map(episode).collect()
    }

    #[test]
    fn a_run_stops_after_so_many_steps_in_a_row_and_says_why() {
        let mut unscored = Unscored::default();
        let dead = episodes(&[Some("first"), Some("no such file\nreward.py")]);
        let check = |unscored: &Unscored, step, saved| {
            unscored.check(step, 40, 3, saved, Path::new("my runs/a")).map_err(|error| error.to_string())
        };
        for step in [7, 8] {
            assert!(unscored.see(step, &dead).unwrap().contains("nothing was learnt: no such file"));
            assert_eq!(check(&unscored, step, Some(6)), Ok(()));
        }
        unscored.see(9, &dead);
        let error = check(&unscored, 9, Some(6)).unwrap_err();
        for part in [
            "steps 7 to 9: no episode could be scored",
            "the last reason: no such file\nreward.py",
            "burnish train --resume 'my runs/a'` goes on after step 6",
            "train.unscored_steps_max",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(check(&unscored, 9, None).unwrap_err().contains("begins again"));
        // One judged episode ends the streak.
        unscored.see(10, &episodes(&[Some("x"), None]));
        assert_eq!((unscored.streak(), check(&unscored, 10, None)), (0, Ok(())));
    }

    #[test]
    fn a_run_of_fewer_steps_than_that_can_fail_too() {
        let mut unscored = Unscored::default();
        unscored.see(1, &episodes(&[Some("x")]));
        let error = unscored.check(1, 1, 3, None, Path::new("d")).unwrap_err().to_string();
        assert!(error.starts_with("step 1: no episode"), "{error}");
    }

    #[test]
    fn what_fails_now_and_then_is_said_once_for_each_reason() {
        let mut unscored = Unscored::default();
        let told = |unscored: &mut Unscored, step, reason| {
            unscored.see(step, &episodes(&[None, Some(reason), None]))
        };
        let said = told(&mut unscored, 1, "no answer within 10 s").unwrap();
        assert_eq!(
            said,
            "step 1: 1 of 3 episodes could not be scored, and are not learnt from: no answer within 10 s"
        );
        assert_eq!(told(&mut unscored, 2, "no answer within 12 s"), None);
        assert!(told(&mut unscored, 3, "crashed").is_some());
        assert_eq!(unscored.see(4, &episodes(&[None])), None);
    }

    #[test]
    fn a_whole_run_is_summed_up_from_its_metrics() {
        let row = |episodes: f64, unscored: f64| Row {
            step: 1,
            event: "train".into(),
            values: [("episodes".to_owned(), episodes), ("episodes/unscored".to_owned(), unscored)].into(),
        };
        let found = UnscoredSteps::of(&[row(8.0, 0.0), row(8.0, 8.0), row(8.0, 3.0)]);
        let expected = UnscoredSteps { steps: 3, wholly: 1, partly: 1, episodes: 24, unscored: 11 };
        assert_eq!(found, expected);
        let said = found.told().unwrap();
        assert!(
            said.starts_with("11 of 24 episodes") && said.contains("all of those of 1 and some of 1"),
            "{said}"
        );
        assert_eq!(UnscoredSteps::of(&[row(8.0, 0.0)]).told(), None);
    }
}
