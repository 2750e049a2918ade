//! What is known about a part. Lists, documentation and contract tests are made from it.

use serde::Serialize;

/// What kind of thing a part is, and where a recipe names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Rewards to credit: `advantage.estimator`.
    Advantage,
    /// The loss of the tokens of a rollout: `loss.objective`.
    Objective,
    /// The loss of pairs or of labelled answers.
    Preference,
    /// The loss of a model that gives rewards.
    RewardModel,
    /// The distance from a teacher's distribution.
    Distillation,
    /// Which tasks are played: `selection.selector`.
    Selector,
    /// Whether an update is applied: `gate.gate`.
    Gate,
    /// How rollouts are sampled: `plan.plan`.
    Plan,
    /// What is trained on again: `replay.replay`.
    Replay,
    /// What a run makes of a task and its episodes: `make.program`.
    Maker,
}

/// What its numbers were compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "what")]
pub enum Check {
    /// Golden vectors made by a framework's own function: name and version of the framework.
    Golden(&'static str),
    /// Golden vectors of an independent implementation of the published formula.
    Oracle(&'static str),
}

/// One part: an equation with a name.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Card {
    /// Name in recipes, in snake case; also the name of its file.
    pub id: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What kind of thing it is.
    pub family: Family,
    /// Authors, year, title or name, arXiv id.
    pub paper: &'static str,
    /// The formula, in one or a few lines of plain text, with the symbols of the comment at the head of the file.
    pub equation: &'static str,
    /// What one value depends on: `token`, `sequence`, `group`, `pair` or `batch`.
    pub scope: &'static str,
    /// What its numbers were compared with.
    pub check: Check,
    /// Which part of the formula is our guess, because the source does not say.
    pub reconstructed: Option<&'static str>,
    /// What it equals under which setting; each has a test.
    pub reduces_to: &'static [&'static str],
    /// Its source file, relative to the repository.
    pub file: &'static str,
}
