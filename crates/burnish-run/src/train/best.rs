//! Which evaluation was the best one, and when a run ends because none is better any more.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RunError;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// The best evaluation so far.
#[derive(Debug)]
pub(super) struct Best {
    /// Its number, without `eval/`; none where the recipe names none.
    metric: Option<String>,
    patience: Option<usize>,
    found: Option<Found>,
}

/// What a checkpoint keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    /// Steps done when it was made.
    pub(super) step: u64,
    pub(super) value: f64,
    /// Evaluations since, none of which was better.
    since: usize,
}

impl Best {
    /// `state` is what [`Best::state`] said when the run was saved; null for a new one.
    pub(super) fn new(recipe: &Recipe, state: &Value) -> Self {
        Best {
            metric: recipe.checkpoint.best.clone(),
            patience: recipe.train.patience,
            found: serde_json::from_value(state.clone()).ok(),
        }
    }

    pub(super) fn state(&self) -> Value {
        self.found.and_then(|found| serde_json::to_value(found).ok()).unwrap_or(Value::Null)
    }

    pub(super) fn found(&self) -> Option<(&str, Found)> {
        Some((self.metric.as_deref()?, self.found?))
    }

    /// Looks at an evaluation after `step` steps: is it the best one?
    ///
    /// # Errors
    /// If it has no number of that name.
    pub(super) fn see(&mut self, values: &Values, step: u64) -> Result<bool, RunError> {
        let Some(metric) = &self.metric else { return Ok(false) };
        let Some(value) = values.get(&format!("eval/{metric}")).copied() else {
            let names: Vec<&str> = values.keys().filter_map(|name| name.strip_prefix("eval/")).collect();
            let problem =
                format!("checkpoint.best: no number of an evaluation is called `{metric}`; there are: ");
            return Err(RunError::Refused(problem + &names.join(", ")));
        };
        let is_better =
            |found: Found| if is_loss(metric) { value < found.value } else { value > found.value };
        match &mut self.found {
            // An evaluation that is made again after a resume.
            Some(found) if found.step >= step => return Ok(false),
            Some(found) if !is_better(*found) => {
                found.since += 1;
                return Ok(false);
            }
            _ => {}
        }
        // Nothing is better than what is no number.
        if value.is_finite() {
            self.found = Some(Found { step, value, since: 0 });
        }
        Ok(value.is_finite())
    }

    /// Were there so many evaluations without a better one that the run ends?
    pub(super) fn is_out_of_patience(&self) -> bool {
        self.patience.zip(self.found).is_some_and(|(patience, found)| found.since >= patience)
    }
}

/// Is less of it better?
fn is_loss(metric: &str) -> bool {
    metric.rsplit('/').next().is_some_and(|name| name == "loss" || name.ends_with("_loss"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(metric: &str, patience: usize) -> Best {
        Best { metric: Some(metric.to_owned()), patience: Some(patience), found: None }
    }

    fn values(name: &str, value: f64) -> Values {
        Values::from([(name.to_owned(), value)])
    }

    #[test]
    fn the_least_loss_and_the_greatest_of_anything_else_is_best() {
        for (metric, seen, expected) in [
            ("loss", [3.0, 2.0, 2.5, 1.0], [true, true, false, true]),
            ("success", [0.1, 0.1, 0.4, 0.3], [true, false, true, false]),
        ] {
            let mut best = best(metric, 9);
            let name = format!("eval/{metric}");
            let found: Vec<bool> =
                (0..).zip(seen).map(|(step, value)| best.see(&values(&name, value), step).unwrap()).collect();
            assert_eq!(found, expected);
        }
        let error = best("sucess", 1).see(&values("eval/success", 0.5), 0).unwrap_err().to_string();
        assert!(error.contains("sucess") && error.contains("there are: success"), "{error}");
    }

    #[test]
    fn patience_is_counted_from_the_best_one_and_survives_a_resume() {
        let mut first = best("loss", 2);
        for (step, value) in [(0, 2.0), (10, 1.0), (20, 1.5)] {
            first.see(&values("eval/loss", value), step).unwrap();
        }
        assert!(!first.is_out_of_patience());
        let found = serde_json::from_value(first.state()).unwrap();
        let mut resumed = Best { found: Some(found), ..best("loss", 2) };
        assert!(!resumed.see(&values("eval/loss", f64::NAN), 30).unwrap());
        assert!(resumed.is_out_of_patience());
        assert_eq!(resumed.found().map(|(_, found)| found.step), Some(10));
    }
}
