//! What is known about a part: the source of lists, documentation and contract tests.

use serde::Serialize;

/// What kind of thing a part is, and where a recipe names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Rewards to credit: `advantage.estimator`.
    Advantage,
    /// The loss of the tokens of a rollout: `loss.objective`.
    Objective,
    /// The loss of pairs or labelled answers.
    Preference,
    /// The distance from a teacher's distribution.
    Distillation,
    /// Which tasks are played: `selection.selector`.
    Selector,
    /// Whether an update is made: `gate.gate`.
    Gate,
    /// How rollouts are sampled: `plan.plan`.
    Plan,
    /// What is trained on again: `replay.replay`.
    Replay,
}

/// What its numbers were compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "what")]
pub enum Check {
    /// Golden vectors made by a framework's own function; its name and version.
    Golden(&'static str),
    /// Golden vectors of an independent implementation of the published formula.
    Oracle(&'static str),
}

/// One part: an equation with a name.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Card {
    /// Name in recipes: snake case, that of its file.
    pub id: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What kind of thing it is.
    pub family: Family,
    /// Authors, year, title or name, arXiv id.
    pub paper: &'static str,
    /// The formula in one or a few lines of plain text; the symbols are those of the file's head.
    pub equation: &'static str,
    /// What one value depends on: `token`, `sequence`, `group`, `pair` or `batch`.
    pub scope: &'static str,
    /// What its numbers were compared with.
    pub check: Check,
    /// Is the formula our guess where the source is silent? Says which part.
    pub reconstructed: Option<&'static str>,
    /// Under which setting it equals what: each is a test.
    pub reduces_to: &'static [&'static str],
    /// Its source, relative to the repository.
    pub file: &'static str,
}
