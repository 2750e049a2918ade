//! How right the credit of beginnings is, where it is known what they are worth.

use super::common::mean;

/// A beginning, its credit, and what it and its task are worth.
pub(super) struct Measured {
    /// By how much its answers were better than what its task earned before.
    pub(super) better: f64,
    /// Its advantage, unweighted.
    pub(super) credit: f64,
    /// By how much its task is better than what it earned before, whatever the beginning.
    pub(super) better_for_the_task: f64,
    /// Its chance of success, estimated.
    pub(super) worth: f64,
    /// That of its task.
    pub(super) worth_of_task: f64,
}

/// The metrics of the beginnings of a step, whose worth was estimated from so many `answers` each; those that there is
/// nothing to tell of are left out.
pub(super) fn metrics(measured: &[Measured], answers: usize) -> Vec<(String, f64)> {
    let is_told_apart = |own: &&Measured| {
        let variance = |chance: f64| chance * (1.0 - chance) / answers as f64;
        let error = (variance(own.worth) + variance(own.worth_of_task)).sqrt();
        (own.worth - own.worth_of_task).abs() > 2.0 * error
    };
    let told_apart: Vec<&Measured> = measured.iter().filter(is_told_apart).collect();
    let is_wrong = |own: &&&Measured| own.credit * (own.worth - own.worth_of_task) <= 0.0;
    let wrong = told_apart.iter().filter(is_wrong).count();
    let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
    [
        ("upstream/from_task", from_task(measured)),
        ("upstream/told_apart", share(told_apart.len(), measured.len())),
        ("upstream/sign_errors", share(wrong, told_apart.len())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// The share of the variance that the task explains. The answers that say what the task is worth are not those of the
/// beginning, so their noise is in no product; a squared estimate would count it as explained.
fn from_task(measured: &[Measured]) -> Option<f64> {
    let better = mean(&measured.iter().map(|own| own.better).collect::<Vec<f64>>())?;
    let of_task = mean(&measured.iter().map(|own| own.better_for_the_task).collect::<Vec<f64>>())?;
    let over = |term: &dyn Fn(&Measured) -> f64| measured.iter().map(term).sum::<f64>();
    let variance = over(&|own| (own.better - better).powi(2));
    let explained = over(&|own| (own.better - better) * (own.better_for_the_task - of_task));
    (variance > 0.0).then(|| explained / variance)
}
