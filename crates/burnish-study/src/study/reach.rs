//! How much a run generated until its evaluations reached a score: sample efficiency.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Findings;
use super::measure::of_event;
use super::page::{count, none};
use burnish_rundir::metrics::Row;

/// What a run generated up to the first evaluation that reached a score. If none did, all that it generated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// Whether it did. If not, the numbers are lower bounds.
    pub is_reached: bool,
    /// Steps of training.
    pub step: u64,
    /// Episodes of training.
    pub episodes: f64,
    /// Tokens that the policy sampled in training.
    pub tokens: f64,
}

impl Reached {
    /// `curve` is held-out success by steps done, in order.
    pub(super) fn of(score: f64, curve: &[(u64, f64)], rows: &[Row]) -> Self {
        let first = curve.iter().find(|(_, success)| *success >= score).map(|(step, _)| *step);
        let last = rows.iter().filter(|row| row.event == "train").map(|row| row.step).max().unwrap_or(0);
        let until = first.unwrap_or(last);
        let sum = |name: &str| -> f64 {
            of_event(rows, "train", name).filter(|(step, _)| *step <= until).map(|(_, value)| value).sum()
        };
        Reached {
            is_reached: first.is_some(),
            step: until,
            episodes: sum("episodes"),
            tokens: sum("tokens/sampled"),
        }
    }
}

/// The section of a study's page.
pub(super) fn section(findings: &Findings, score: f64) -> String {
    let mut text = format!(
        "## Rollouts to reach {:.1} % held-out success\n\n\
         | arm | runs that reached it | episodes, mean | tokens generated, mean | episodes, each seed |\n\
         | --- | --- | --- | --- | --- |\n",
        100.0 * score
    );
    for arm in &findings.arms {
        let runs: Vec<Reached> = arm.runs.iter().filter_map(|run| run.reached).collect();
        let reached = runs.iter().filter(|run| run.is_reached).count();
        let each: Vec<String> = runs.iter().map(|run| bounded(run.episodes, run.is_reached)).collect();
        let mean = |of: fn(&Reached) -> f64| {
            if runs.is_empty() {
                return none();
            }
            bounded(runs.iter().map(of).sum::<f64>() / runs.len() as f64, reached == runs.len())
        };
        let _ = writeln!(
            text,
            "| {} | {reached} of {} | {} | {} | {} |",
            arm.name,
            runs.len(),
            mean(|run| run.episodes),
            mean(|run| run.tokens),
            each.join(", ")
        );
    }
    text + "\n" + HOW
}

const HOW: &str = "\
Up to the first evaluation that reached it, so that nothing finer than the distance between two evaluations is seen; the score \
of one evaluation is noisy, and the first of several is a lucky one. `>`: a run that never reached it counts with all that it \
generated, so that the number, and every mean with it, is a lower bound.";

fn bounded(value: f64, is_reached: bool) -> String {
    format!("{}{}", if is_reached { "" } else { "> " }, count(value))
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{arm, findings, measured};
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |step: u64, event: &str, values: &[(&str, f64)]| Row {
            step,
            event: event.into(),
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        };
        let train = |step| row(step, "train", &[("episodes", 8.0), ("tokens/sampled", 100.0)]);
        let mut rows = vec![row(0, "eval", &[("eval/success", 0.1)])];
        rows.extend((1..=6).map(train));
        rows
    }

    #[test]
    fn what_was_generated_up_to_the_first_evaluation_that_reached_the_score() {
        let curve = [(0, 0.1), (2, 0.5), (4, 0.3), (6, 0.6)];
        let at = |score| {
            let reached = Reached::of(score, &curve, &rows());
            (reached.is_reached, reached.step, reached.episodes, reached.tokens)
        };
        assert_eq!(at(0.1), (true, 0, 0.0, 0.0));
        assert_eq!(at(0.5), (true, 2, 16.0, 200.0));
        assert_eq!(at(0.55), (true, 6, 48.0, 600.0));
        assert_eq!(at(0.7), (false, 6, 48.0, 600.0));
    }

    #[test]
    fn a_run_that_never_reached_it_makes_the_mean_a_lower_bound() {
        let run = |seed, score| {
            let mut run = measured(seed, 10, 1.0);
            run.reached = Some(Reached::of(score, &[(2, 0.5)], &rows()));
            run
        };
        let found = findings(vec![
            arm("base", vec![run(1, 0.5), run(2, 0.7)], None),
            arm("up", vec![run(1, 0.5), run(2, 0.4)], None),
            arm("waits", Vec::new(), None),
        ]);
        let text = section(&found, 0.5);
        assert!(text.contains("| base | 1 of 2 | > 32 | > 400 | 16, > 48 |"), "{text}");
        assert!(text.contains("| up | 2 of 2 | 16 | 200 | 16, 16 |"), "{text}");
        assert!(text.contains("| waits | 0 of 0 | – | – |  |"), "{text}");
    }
}
