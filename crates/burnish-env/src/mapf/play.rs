//! The policy gives the plans of all agents in a single turn, and the plan is judged.

use super::board::{Board, Plan};
use super::config::RewardConfig;
use super::format;
use super::simulate::{Trial, simulate};
use crate::EnvError;
use burnish_core::{Task, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part of a task that is never shown to the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The board.
    pub board: Board,
    /// Least sum over the agents of the step of last arrival.
    pub cost: usize,
    /// One optimal plan.
    pub plan: Plan,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub fn of(task: &Task) -> Result<Truth, EnvError> {
        serde_json::from_value(task.truth.clone())
            .map_err(|error| EnvError::Foreign(format!("{}: the truth of the task: {error}", task.id)))
    }
}

/// Judges an answer. If it can be read, the trial of the plan comes with the verdict.
pub(super) fn judge(truth: &Truth, reward: &RewardConfig, answer: &str) -> (Verdict, Option<Trial>) {
    let parsed = format::parse(answer, truth.board.agents());
    let trial = parsed.as_ref().ok().map(|plan| simulate(&truth.board, plan));
    let cost = trial.as_ref().and_then(|trial| trial.cost);
    let is_valid = cost.is_some();
    let is_optimal = cost.is_some_and(|cost| cost <= truth.cost);
    let worth = match (is_valid, is_optimal) {
        (_, true) => reward.optimal,
        (true, false) => reward.valid,
        (false, false) => reward.invalid,
    };
    let mut verdict = Verdict::scored("plan", worth, is_valid);
    let found = |finding: fn(&Trial) -> bool| trial.as_ref().is_some_and(finding);
    verdict.flags = [
        ("parse_error", parsed.is_err()),
        ("has_illegal_moves", found(|trial| trial.has_illegal_moves)),
        ("hole_collision", found(|trial| trial.hole_collision)),
        ("vertex_conflict", found(|trial| trial.vertex_conflict)),
        ("edge_conflict", found(|trial| trial.edge_conflict)),
        ("all_goals_reached", found(|trial| trial.all_goals_reached)),
        ("valid", is_valid),
        ("optimal", is_optimal),
    ]
    .map(|(flag, value)| (flag.to_owned(), value))
    .into();
    verdict.feedback = match (parsed, &trial) {
        (Err(problem), _) => Some(problem),
        (Ok(_), Some(trial)) => trial.first_problem.clone(),
        (Ok(_), None) => None,
    };
    if let Some(cost) = cost.filter(|_| !is_optimal) {
        verdict.feedback =
            Some(format!("The plan is valid; it costs {cost}, and {} is possible.", truth.cost));
    }
    verdict.error_turn = (!is_valid).then_some(0);
    (verdict, trial)
}

/// Boards, numbers and words always have a JSON form.
pub(super) fn json<T: Serialize>(it: &T) -> Value {
    serde_json::to_value(it).unwrap_or_default()
}
