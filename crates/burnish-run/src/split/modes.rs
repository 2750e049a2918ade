//! The split under test, and its controls.

use std::collections::BTreeMap;

use burnish_core::Task;

use burnish_recipe::split::{Mode, Split};

/// For each of `tasks`, whether it is kept.
///
/// # Errors
/// If a task lacks the label of domains.
pub(super) fn stays(split: &Split, tasks: &[Task], scores: &[f64]) -> Result<Vec<bool>, String> {
    let scores = match split.mode {
        Mode::Score | Mode::Reversed => scores.to_vec(),
        Mode::Random => dealt(split, scores, &(0..tasks.len()).collect::<Vec<_>>(), scores.to_vec()),
        Mode::Domain => {
            let mut domains: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
            let name = split.label.as_deref().unwrap_or_default();
            for (at, task) in tasks.iter().enumerate() {
                let domain = task.labels.get(name);
                let domain =
                    domain.ok_or_else(|| format!("label: task {} has no label `{name}`", task.id))?;
                domains.entry(domain).or_default().push(at);
            }
            let deal = |so_far, domain: &Vec<usize>| dealt(split, scores, domain, so_far);
            domains.values().fold(scores.to_vec(), deal)
        }
    };
    let is_reversed = split.mode == Mode::Reversed;
    Ok(scores.into_iter().map(|score| split.keep.holds(score) != is_reversed).collect())
}

/// `into`, with the scores of the tasks at `places` shuffled among those places.
fn dealt(split: &Split, scores: &[f64], places: &[usize], mut into: Vec<f64>) -> Vec<f64> {
    let order = burnish_data::order(places.len(), split.seed_of_tasks(), 0);
    for (place, from) in places.iter().zip(order) {
        into[*place] = scores[places[from]];
    }
    into
}
