//! Tasks from failures: further tasks of the kinds that the policy fails at.
//!
//! **What it does.** A task at which too few of the policy's answers succeed gives `per_failure` fresh tasks of its environment
//! that carry the same values of the labels in `label`. A later run trains on them, so it meets more of what failed, and never
//! the failed task itself.
//!
//! **Reconstructed.** All of it: no paper gives this rule.
//!
//! **Formula.**
//!
//! ```text
//! x fails if (1/G) Σ_k success(y_k) ≤ max      D(x) = {x' fresh : l(x') = l(x) for each label l}      made(x) = n of D(x)
//! ```
//!
//! **Reduces to.** As many tasks drawn without regard to labels, for `from = "all"`: the control.
//!
//! **Differs from the papers.** There is none to differ from. No model writes a task here: the environment draws them, so each
//! can be judged, and none is of a kind that the environment lacks.
//!
//! **References.** None for the rule.

use burnish_core::Task;
use burnish_reason::{Bench, Made, MakeKind, Maker, MakerError, Making};
use burnish_rl::{Card, Check, Family, Part, SettingError, require};
use serde::{Deserialize, Serialize};

/// Tasks from failures. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FromFailures {
    /// Fresh tasks for each that fails, n. Default: 2.
    pub per_failure: usize,
    /// Greatest share of successes of a task that fails. Default: 0.25.
    pub success_rate_max: f64,
    /// Labels whose values a fresh task must share. Default: all that the failed task has.
    pub label: Vec<String>,
    /// What fresh tasks are like. Default: those that fail.
    pub from: Like,
    /// Fresh tasks that are looked at for each that fails; where fewer of them share its labels, fewer are made. Default: 256.
    pub draws: usize,
}

/// What fresh tasks are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Like {
    /// The task that fails.
    Failures,
    /// Any task.
    All,
}

impl Default for FromFailures {
    fn default() -> Self {
        let (label, from) = (Vec::new(), Like::Failures);
        FromFailures { per_failure: 2, success_rate_max: 0.25, label, from, draws: 256 }
    }
}

impl Part for FromFailures {
    const CARD: Card = Card {
        id: "from_failures",
        title: "tasks from failures: more of the kinds that fail",
        family: Family::Maker,
        paper: "none",
        equation: "made(x) = n fresh tasks with the labels of x, if the success rate of x is at most max",
        scope: "task",
        check: Check::Oracle("none: it only draws"),
        reconstructed: Some("all of it: no paper gives a rule that draws tasks by the labels of failures"),
        reduces_to: &["tasks drawn without regard to labels, for from = \"all\""],
        file: "systems/from_failures/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("per_failure", self.per_failure as f64, |count| count >= 1.0, "must be 1 or more")?;
        require("draws", self.draws as f64, |count| count >= 1.0, "must be 1 or more")?;
        require(
            "success_rate_max",
            self.success_rate_max,
            |rate| (0.0..=1.0).contains(&rate),
            "must be 0 to 1",
        )
    }
}

impl Maker for FromFailures {
    fn kinds(&self) -> &'static [MakeKind] {
        &[MakeKind::Tasks]
    }

    fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a> {
        Box::pin(async move {
            if bench.success_rate() > self.success_rate_max {
                return Ok(());
            }
            let failed = bench.task();
            let labels = self.labels_of(failed)?;
            let is_like = |fresh: &Task| {
                labels.iter().all(|label| fresh.labels.get(*label) == failed.labels.get(*label))
            };
            let like =
                bench.fresh(self.draws)?.into_iter().filter(|fresh| fresh.id != failed.id && is_like(fresh));
            like.take(self.per_failure).try_for_each(|fresh| bench.emit(Made::Task(fresh)))
        })
    }
}

impl FromFailures {
    /// The labels that decide what a fresh task is like.
    fn labels_of<'t>(&'t self, failed: &'t Task) -> Result<Vec<&'t String>, MakerError> {
        if let Some(label) = self.label.iter().find(|label| !failed.labels.contains_key(*label)) {
            let known: Vec<&str> = failed.labels.keys().map(String::as_str).collect();
            let problem = format!("task {} has no label `{label}`; it has: {}", failed.id, known.join(", "));
            return Err(SettingError::new("label", problem).into());
        }
        Ok(match (self.from, self.label.is_empty()) {
            (Like::All, _) => Vec::new(),
            (Like::Failures, true) => failed.labels.keys().collect(),
            (Like::Failures, false) => self.label.iter().collect(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
