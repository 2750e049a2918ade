//! The headline's measure by two labels at once, as a table.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Episode, Task, TaskId};
use serde::{Deserialize, Serialize};

use crate::Measure;
use crate::summary::{Slice, counted_by_task, reward_of, scored_by_task, success_of, task_means};

/// The headline's measure for each combination of the values of two labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crossed {
    /// The labels: that of the rows, and that of the columns.
    pub labels: [String; 2],
    /// The tasks of each combination, by row and column; combinations without tasks are missing.
    pub cells: BTreeMap<String, BTreeMap<String, Slice>>,
}

impl Crossed {
    /// The table of `labels` over the tasks that have both, and whose episodes count. `None` if there are none.
    /// Arguments are those of [`crate::Summary::of`].
    pub fn of(
        labels: [&str; 2],
        tasks: &[Task],
        episodes: &[Episode],
        weights: &BTreeMap<String, f64>,
        seed: u64,
    ) -> Option<Self> {
        let headline = Measure::of(episodes);
        let (groups, numbers) = match headline {
            Measure::Success => {
                let groups = counted_by_task(episodes);
                let numbers = task_means(&groups, &success_of);
                (groups, numbers)
            }
            Measure::Reward => {
                let groups = scored_by_task(episodes);
                let numbers = task_means(&groups, &|episode| reward_of(episode, weights));
                (groups, numbers)
            }
        };
        let numbers: BTreeMap<&TaskId, f64> = groups.keys().copied().zip(numbers).collect();
        // By id, so that a task that is listed twice counts once.
        let tasks: BTreeMap<&TaskId, &Task> = tasks.iter().map(|task| (&task.id, task)).collect();
        let mut values: BTreeMap<&String, BTreeMap<&String, Vec<f64>>> = BTreeMap::new();
        for (id, task) in tasks {
            let [row, column] = labels.map(|label| task.labels.get(label));
            if let (Some(row), Some(column), Some(&number)) = (row, column, numbers.get(id)) {
                values.entry(row).or_default().entry(column).or_default().push(number);
            }
        }
        let slices = |row: BTreeMap<&String, Vec<f64>>| {
            let slice =
                |(column, of): (&String, Vec<f64>)| Some((column.clone(), Slice::of(&of, headline, seed)?));
            row.into_iter().filter_map(slice).collect::<BTreeMap<_, _>>()
        };
        let cells: BTreeMap<_, _> = values.into_iter().map(|(row, of)| (row.clone(), slices(of))).collect();
        (!cells.is_empty()).then(|| Crossed { labels: labels.map(str::to_owned), cells })
    }

    /// The values of the rows, numbers first and in their order.
    pub fn rows(&self) -> Vec<&str> {
        in_order(self.cells.keys())
    }

    /// The values of the columns, numbers first and in their order.
    pub fn columns(&self) -> Vec<&str> {
        in_order(self.cells.values().flat_map(BTreeMap::keys))
    }

    /// The tasks of a combination.
    pub fn at(&self, row: &str, column: &str) -> Option<&Slice> {
        self.cells.get(row)?.get(column)
    }

    /// Whether it says more than the breakdowns by one label: a table of one row or column does not.
    pub fn is_table(&self) -> bool {
        self.cells.len() > 1 && self.columns().len() > 1
    }
}

fn in_order<'a>(values: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut values: Vec<&str> = values.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
    let number = |value: &str| value.parse().unwrap_or(f64::INFINITY);
    values.sort_by(|one, other| number(one).total_cmp(&number(other)));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{episode, task};

    #[test]
    fn each_combination_has_its_own_rate_and_numbers_are_in_order() {
        let labelled =
            |id: &str, length: &str, depth: &str| task(id, &[("length", length), ("depth", depth)]);
        let tasks = [
            labelled("a", "1024", "0"),
            labelled("b", "512", "0.5"),
            labelled("c", "512", "0.5"),
            labelled("d", "512", "spread"),
            task("e", &[("length", "512")]),
        ];
        let episodes = [("a", true), ("b", true), ("c", false), ("d", false), ("e", true), ("f", true)]
            .map(|(id, success)| episode(id, success, 0.0));
        let crossed = Crossed::of(["length", "depth"], &tasks, &episodes, &BTreeMap::new(), 1).unwrap();
        assert_eq!((crossed.rows(), crossed.columns()), (vec!["512", "1024"], vec!["0", "0.5", "spread"]));
        let rate =
            |row, column| Some((crossed.at(row, column)?.tasks, crossed.at(row, column)?.leading()?.mean));
        assert_eq!(rate("1024", "0"), Some((1, 1.0)));
        assert_eq!(rate("512", "0.5"), Some((2, 0.5)));
        assert_eq!(rate("512", "spread"), Some((1, 0.0)));
        assert_eq!(rate("1024", "0.5"), None);
        assert!(crossed.is_table());
        let text = serde_json::to_string(&crossed).unwrap();
        assert_eq!(serde_json::from_str::<Crossed>(&text).unwrap(), crossed);
        assert_eq!(Crossed::of(["length", "size"], &tasks, &episodes, &BTreeMap::new(), 1), None);
    }
}
