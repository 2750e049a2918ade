//! What training used.

use serde::{Deserialize, Serialize};

use super::Measured;

/// A budget is unequal if it differs by more than this share.
const SLACK: f64 = 0.05;

/// What training used. Evaluations are left out, because they are the same for all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens that the policy sampled.
    pub generated: f64,
    /// Rows that went through the model forward and backward, over all updates, after sharing prefixes.
    pub forward_backward: f64,
    /// Answers that the policy gave to the environment.
    pub environment_steps: f64,
    /// Episodes.
    pub episodes: f64,
    /// Updates of the optimiser.
    pub updates: f64,
    /// Wall time of the training steps, in seconds.
    pub seconds: f64,
}

impl Budget {
    /// The mean of several budgets; 0 of none.
    pub fn mean<'a>(budgets: impl IntoIterator<Item = &'a Budget>) -> Self {
        let budgets: Vec<&Budget> = budgets.into_iter().collect();
        let mean = |of: fn(&Budget) -> f64| {
            budgets.iter().map(|budget| of(budget)).sum::<f64>() / budgets.len().max(1) as f64
        };
        Budget {
            generated: mean(|budget| budget.generated),
            forward_backward: mean(|budget| budget.forward_backward),
            environment_steps: mean(|budget| budget.environment_steps),
            episodes: mean(|budget| budget.episodes),
            updates: mean(|budget| budget.updates),
            seconds: mean(|budget| budget.seconds),
        }
    }
}

/// A budget relative to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetRelative {
    /// Tokens sampled. `None`, here and below, if the baseline has none.
    pub generated: Option<f64>,
    /// Rows that went forward and backward.
    pub forward_backward: Option<f64>,
    /// Answers given to the environment.
    pub environment_steps: Option<f64>,
}

impl BudgetRelative {
    /// The budgets that differ by more than a few percent, for people: `+20.0 % tokens generated`.
    pub fn unequal(&self) -> Vec<String> {
        let shares = [
            ("tokens generated", self.generated),
            ("tokens forward and backward", self.forward_backward),
            ("environment steps", self.environment_steps),
        ];
        shares
            .into_iter()
            .filter_map(|(what, share)| Some((what, share?)))
            .filter(|(_, share)| (share - 1.0).abs() > SLACK)
            .map(|(what, share)| format!("{:+.1} % {what}", 100.0 * (share - 1.0)))
            .collect()
    }

    /// `None` if they share no seed.
    pub(super) fn of(runs: &[Measured], baseline: &[Measured]) -> Option<Self> {
        let pairs: Vec<(&Measured, &Measured)> = runs
            .iter()
            .filter_map(|run| Some((run, baseline.iter().find(|other| other.seed == run.seed)?)))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let own = Budget::mean(pairs.iter().map(|(run, _)| &run.budget));
        let other = Budget::mean(pairs.iter().map(|(_, other)| &other.budget));
        let share = |of: fn(&Budget) -> f64| (of(&other) > 0.0).then(|| of(&own) / of(&other));
        Some(BudgetRelative {
            generated: share(|budget| budget.generated),
            forward_backward: share(|budget| budget.forward_backward),
            environment_steps: share(|budget| budget.environment_steps),
        })
    }
}
