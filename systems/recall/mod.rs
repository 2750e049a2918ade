//! Recall: a policy keeps its right answers as notes, and learns to answer with the nearest of them in sight.
//!
//! **What it does.** A maker (`cases`) writes the shortest right answer to each task down as a note, after those that
//! the run's own memory has. A plan (`recall`) shows each task with the notes that are nearest to it, none of them made
//! of that task. Evaluation shows them by `eval.draft`, or by the strategy `recall` ([`burnish_reason::Recall`]), which
//! is the same function.
//!
//! **Formula.**
//!
//! ```text
//! M = { (x, y) : y the shortest right answer to x }        y_k ~ π(·|show(x, n_1 .. n_K)),  n_i ∈ M \ x by BM25
//! ```
//!
//! **Reduces to.** No plan, to the bit, where no note has anything in common with the task.
//!
//! **Differs.** The cited systems find notes by learned vectors, or learn which case helps; here words are compared,
//! and nothing is learned about the notes.
//!
//! **References.** Memento 2025 (arXiv:2508.16153), whose agent keeps its own cases; Liu et al. 2022 (arXiv:2101.06804).

use burnish_core::{Note, Role, Task};
use burnish_reason::{Bench, Made, MakeKind, Maker, Making, Outcome, Part as _, text_of};
use burnish_rl::plan::{Group, Program, Request, RolloutPlan, Start};
use burnish_rl::{Card, Check, Family, Part, SettingError};
use serde::{Deserialize, Serialize};

/// Answers with notes in sight. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recall(burnish_reason::Recall);

impl Part for Recall {
    const CARD: Card = Card {
        id: "recall",
        title: "recall: answers with notes in sight",
        family: Family::Plan,
        paper: "Memento 2025, arXiv:2508.16153",
        equation: "y_k ~ π(·|show(x, the K notes of M nearest to x))",
        scope: "group",
        check: Check::Oracle("none: what is shown is checked by notes whose words are known"),
        reconstructed: None,
        reduces_to: &["no plan, where no note has anything in common with the task, to the bit"],
        file: "systems/recall/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        self.0.check()
    }
}

impl RolloutPlan for Recall {
    fn recalls(&self) -> bool {
        true
    }

    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let shown = self.0.show(&group.opening()?, |about, count| group.recall(about, count))?;
            let start = shown.map_or(Start::Prompt, Start::Messages);
            group.play([Request { start, ..Request::rollouts(group.rollouts) }]).await?;
            Ok(())
        })
    }

    fn plays_evaluations(&self) -> bool {
        true
    }
}

/// Right answers as notes. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cases {
    /// Most notes; the oldest are forgotten. Default: 2000.
    pub capacity: usize,
}

impl Default for Cases {
    fn default() -> Self {
        Cases { capacity: 2000 }
    }
}

impl Part for Cases {
    const CARD: Card = Card {
        id: "cases",
        title: "cases: right answers as notes",
        family: Family::Maker,
        paper: "Memento 2025, arXiv:2508.16153",
        equation: "M = { (x, y) : y the shortest right answer to x }",
        scope: "all tasks",
        check: Check::Oracle("none: what is kept is checked by answers whose verdicts are known"),
        reconstructed: None,
        reduces_to: &[],
        file: "systems/recall/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        if self.capacity == 0 {
            return Err(SettingError::new("capacity", "must be 1 or more"));
        }
        Ok(())
    }
}

impl Maker for Cases {
    fn kinds(&self) -> &'static [MakeKind] {
        &[MakeKind::Memory]
    }

    fn is_over_all(&self) -> bool {
        true
    }

    fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a> {
        Box::pin(async move {
            let new = bench.all().iter().filter_map(|played| case(&played.task, &played.episodes));
            let notes: Vec<Note> = bench.notes().iter().cloned().chain(new).collect();
            let forgotten = notes.len().saturating_sub(self.capacity);
            notes.into_iter().skip(forgotten).try_for_each(|note| bench.emit(Made::Note(note)))
        })
    }
}

/// The shortest right answer to a task; `None` where there is none, it holds bytes that are no text, or the task asks nothing.
fn case(task: &Task, episodes: &[Outcome]) -> Option<Note> {
    let about = task.prompt.iter().find(|message| message.role == Role::User)?.content.clone();
    let best = episodes.iter().filter(|own| own.success).min_by_key(|own| own.tokens)?;
    let text = best.answers.iter().map(text_of).collect::<Vec<_>>().join("\n");
    let is_readable = !text.trim().is_empty() && !text.contains(char::REPLACEMENT_CHARACTER);
    (is_readable && !about.trim().is_empty()).then(|| Note { about, text, task: Some(task.id.clone()) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
