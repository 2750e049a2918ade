//! Which curves a report shows, and what to look for in each.

use std::collections::{BTreeMap, BTreeSet};

use burnish_eval::Measure;

use crate::metrics::Row;

use super::chart::Curve;
use super::{Evaluated, Report};

/// The event of evaluation rows. Curves of evaluations are drawn from the evaluations themselves instead.
const EVAL: &str = "eval";

/// The title of the loss.
const LOSS: &str = "Loss";

/// A curve with its title and hint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    /// What is drawn.
    pub(super) title: String,
    /// What to look for.
    pub(super) hint: &'static str,
    /// The curve, with at least one point, of training or of what is held out.
    pub(super) curve: Curve,
}

struct Known {
    metric: &'static str,
    title: &'static str,
    hint: &'static str,
    from_zero: bool,
}

const fn known(metric: &'static str, title: &'static str, hint: &'static str, from_zero: bool) -> Known {
    Known { metric, title, hint, from_zero }
}

/// Numbers that a run sets or counts, and does not measure: they have no noise to smooth.
const EXACT: [&str; 9] = [
    "learning_rate",
    "critic/lr",
    "kl_coef",
    "entropy_coef",
    "tasks",
    "episodes",
    "num_tokens",
    "sampling/updates_behind",
    "selection/pool",
];

fn is_exact(metric: &str) -> bool {
    // Thresholds decide which groups a plan still helps, as in a schedule.
    EXACT.contains(&metric) || metric.starts_with("plan/off/")
}

/// The curves worth showing in every run that has them, most important first. Where `eval/` and the name was measured
/// on held-out rows, it is drawn beside.
const KNOWN: [Known; 18] = [
    known("reward", "Reward", "Mean over the episodes of a step. Should rise, with noise.", false),
    known(
        "rewards/accuracies",
        "Pairs told right",
        "Share of pairs whose better answer has the greater implicit reward. 0.5 is chance.",
        false,
    ),
    known(
        "rewards/margins",
        "Margin of the better answer",
        "Its implicit reward minus that of the worse. Should rise; if only training's does, it is learnt by heart.",
        false,
    ),
    known("accuracy", "Told right", "Share of pairs, or labels, that the reward model tells right.", false),
    known(
        "margin",
        "Margin of the better answer",
        "Its reward minus that of the worse. Should rise, and be above 0.",
        false,
    ),
    known("success", "Success in training", "On the tasks and at the temperature of training.", true),
    known(
        "entropy",
        "Entropy",
        "Nats per token. Near 0 the policy no longer explores, and reward stops rising.",
        true,
    ),
    known(
        "completions/mean_length",
        "Completion length",
        "Tokens per episode. Growth without reward is padding.",
        true,
    ),
    known(
        "completions/clipped_ratio",
        "Answers cut off",
        "Share that met a token limit. If it rises, raise the limit or make answers shorter.",
        true,
    ),
    known(
        "grad_norm",
        "Gradient norm",
        "Before clipping. Spikes come before collapse: lower the rate.",
        true,
    ),
    known("kl", "KL to the reference", "Nats per token. How far the policy has moved.", false),
    known(
        "clip_ratio/region_mean",
        "Tokens clipped",
        "Share of tokens whose ratio left the clip range. 0 with one update per step.",
        true,
    ),
    known(
        "frac_reward_zero_std",
        "Groups without signal",
        "Share of groups with equal rewards: too easy or too hard to learn from.",
        true,
    ),
    known(
        "loss",
        LOSS,
        "For reinforcement learning its level means little. Learning from rows, it should fall, on held-out rows too.",
        false,
    ),
    known("mean_token_accuracy", "Token accuracy", "Share of tokens predicted first.", false),
    known(
        "episodes/unscored",
        "Episodes left unscored",
        "They could not be judged, and are not learnt from. Look at why: `burnish rollout --from`.",
        true,
    ),
    known("learning_rate", "Learning rate", "As scheduled.", true),
    known("step_time", "Seconds a step", "Longer steps come from longer texts.", true),
];

/// Held-out success of every evaluation, then the known curves that have data.
pub(super) fn main_panels(report: &Report) -> Vec<Panel> {
    let (trained, on_rows) = (series(&report.rows), series_held_out(&report.rows));
    let known = KNOWN.iter().filter_map(|known| {
        let points = trained.get(known.metric).cloned().unwrap_or_default();
        let held_out = on_rows.get(known.metric).cloned().unwrap_or_default();
        if points.is_empty() && held_out.is_empty() {
            return None;
        }
        // If every episode was judged, this curve says nothing.
        if known.metric == "episodes/unscored" && points.iter().all(|(_, count)| *count == 0.0) {
            return None;
        }
        let is_exact = is_exact(known.metric);
        let curve = Curve { points, held_out, bars: Vec::new(), from_zero: known.from_zero, is_exact };
        Some(Panel { title: known.title.to_owned(), hint: known.hint, curve })
    });
    let mut known: Vec<Panel> = known.collect();
    if !trained.contains_key("reward") {
        // What is learned from rows is judged by its loss.
        known.sort_by_key(|panel| panel.title != LOSS);
    }
    let evaluated = std::iter::once(&report.main).chain(&report.further);
    evaluated.filter_map(held_out).chain(known).collect()
}

/// All other numbers that change during the run, by name.
pub(super) fn other_panels(rows: &[Row]) -> Vec<Panel> {
    let known: BTreeSet<&str> = KNOWN.iter().map(|known| known.metric).collect();
    series(rows)
        .into_iter()
        .filter(|(name, points)| !known.contains(name) && points.iter().any(|point| point.1 != points[0].1))
        .map(|(name, points)| Panel {
            title: name.to_owned(),
            hint: "",
            curve: Curve { points, is_exact: is_exact(name), ..Curve::default() },
        })
        .collect()
}

fn held_out(evaluated: &Evaluated) -> Option<Panel> {
    let measure = evaluated.headline();
    let levels: Vec<_> = evaluated
        .steps
        .iter()
        .filter(|at| at.summary.headline == measure)
        .filter_map(|at| Some((at.step, at.summary.leading()?)))
        .filter(|(_, level)| [level.mean, level.low, level.high].iter().all(|end| end.is_finite()))
        .collect();
    let curve = Curve {
        points: levels.iter().map(|(step, level)| (*step, level.mean)).collect(),
        bars: levels.iter().map(|(step, level)| (*step, level.low, level.high)).collect(),
        held_out: Vec::new(),
        from_zero: measure == Measure::Success,
        is_exact: false,
    };
    let title = match measure {
        Measure::Success => "Success",
        Measure::Reward => "Reward",
    };
    (!curve.points.is_empty()).then(|| Panel {
        title: match &evaluated.name {
            None => format!("{title} on held-out tasks"),
            Some(name) => format!("{title}: {name}"),
        },
        hint: match evaluated.name {
            None => "With the 95 % interval over tasks. The curve that counts.",
            Some(_) => "With the 95 % interval over tasks.",
        },
        curve,
    })
}

/// The finite numbers of each metric of training by step.
fn series(rows: &[Row]) -> BTreeMap<&str, Vec<(u64, f64)>> {
    let trained = rows.iter().filter(|row| row.event != EVAL);
    by_step(
        trained.flat_map(|row| row.values.iter().map(|(name, number)| (row.step, name.as_str(), *number))),
    )
}

/// The finite numbers of each metric on held-out rows by step, under the names that they have in training.
fn series_held_out(rows: &[Row]) -> BTreeMap<&str, Vec<(u64, f64)>> {
    let numbers = held_out_rows(rows).flat_map(|row| row.values.iter().map(|number| (row.step, number)));
    by_step(numbers.filter_map(|(step, (name, number))| Some((step, name.strip_prefix("eval/")?, *number))))
}

/// The evaluations on rows that are held out.
pub(super) fn held_out_rows(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.event == EVAL && row.values.contains_key("eval/held_out_rows"))
}

/// The finite ones of some numbers by name and step. If a step has a name twice, the later number counts.
fn by_step<'a>(numbers: impl Iterator<Item = (u64, &'a str, f64)>) -> BTreeMap<&'a str, Vec<(u64, f64)>> {
    let mut by_name: BTreeMap<&str, BTreeMap<u64, f64>> = BTreeMap::new();
    for (step, name, number) in numbers.filter(|(.., number)| number.is_finite()) {
        by_name.entry(name).or_default().insert(step, number);
    }
    by_name.into_iter().map(|(name, points)| (name, points.into_iter().collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u64, event: &str, values: &[(&str, f64)]) -> Row {
        let values = values.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        Row { step, event: event.into(), values }
    }

    fn of(rows: impl Into<Vec<Row>>) -> Report {
        Report { rows: rows.into(), ..Report::default() }
    }

    fn titles(panels: &[Panel]) -> Vec<&str> {
        panels.iter().map(|panel| panel.title.as_str()).collect()
    }

    #[test]
    fn known_curves_come_in_their_order_and_only_where_there_are_numbers() {
        let rows = [row(1, "train", &[("entropy", 1.0), ("reward", 0.5), ("kl", f64::NAN)])];
        assert_eq!(titles(&main_panels(&of(rows))), ["Reward", "Entropy"]);
        assert!(main_panels(&Report::default()).is_empty());
    }

    #[test]
    fn numbers_of_evaluations_do_not_mix_into_the_curves_of_training() {
        let rows = [row(0, "eval", &[("reward", 9.0)]), row(1, "train", &[("reward", 0.5)])];
        assert_eq!(main_panels(&of(rows))[0].curve.points, [(1, 0.5)]);
    }

    #[test]
    fn numbers_on_held_out_rows_stand_beside_those_of_training() {
        let measured = |step, loss| row(step, "eval", &[("eval/loss", loss), ("eval/held_out_rows", 9.0)]);
        let trained = |step, loss| row(step, "train", &[("loss", loss), ("rewards/margins", loss)]);
        let rows = [measured(0, 3.0), trained(1, 2.5), trained(2, 2.0), measured(2, 2.2)];
        let panels = main_panels(&of(rows));
        assert_eq!(titles(&panels), ["Loss", "Margin of the better answer"]);
        assert_eq!(panels[0].curve.points, [(1, 2.5), (2, 2.0)]);
        assert_eq!(panels[0].curve.held_out, [(0, 3.0), (2, 2.2)]);
        assert!(panels[1].curve.held_out.is_empty());
        assert_eq!(titles(&main_panels(&of([measured(0, 3.0)]))), ["Loss"], "before the first step");
        assert!(main_panels(&of([row(0, "eval", &[("eval/loss", 1.0)])])).is_empty(), "of no rows");
    }

    #[test]
    fn what_is_set_and_not_measured_is_drawn_as_it_is() {
        let names = ["reward", "learning_rate", "kl_coef", "num_tokens", "plan/off/easy", "grad_norm"];
        let rows =
            [0.5, 0.25].map(|value| row((4.0 * value) as u64, "train", &names.map(|name| (name, value))));
        let report = of(rows);
        let panels: Vec<Panel> = [main_panels(&report), other_panels(&report.rows)].concat();
        let exact: Vec<&str> =
            panels.iter().filter(|panel| panel.curve.is_exact).map(|panel| &*panel.title).collect();
        assert_eq!(exact, ["Learning rate", "kl_coef", "num_tokens", "plan/off/easy"]);
        assert_eq!(panels.len(), names.len());
    }

    #[test]
    fn unscored_episodes_are_a_curve_where_there_are_any() {
        let with = |count| of([row(1, "train", &[("episodes/unscored", count)])]);
        assert_eq!(titles(&main_panels(&with(3.0))), ["Episodes left unscored"]);
        assert!(main_panels(&with(0.0)).is_empty());
    }

    #[test]
    fn gaps_are_left_out_and_steps_are_in_order() {
        let rows = [
            row(3, "train", &[("reward", 0.3)]),
            row(1, "train", &[("reward", 0.1)]),
            row(2, "train", &[("reward", f64::NAN)]),
        ];
        assert_eq!(main_panels(&of(rows))[0].curve.points, [(1, 0.1), (3, 0.3)]);
    }

    #[test]
    fn other_numbers_are_shown_where_they_change() {
        let rows = [
            row(1, "train", &[("flags/hole", 0.1), ("episodes", 8.0), ("reward", 0.0)]),
            row(2, "train", &[("flags/hole", 0.2), ("episodes", 8.0), ("reward", 1.0)]),
        ];
        assert_eq!(titles(&other_panels(&rows)), ["flags/hole"]);
    }
}
