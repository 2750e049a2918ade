//! Which tasks a step plays, and what the selector learns from them.

use std::collections::BTreeSet;
use std::time::Instant;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Task, TaskId};
use burnish_rl::SettingError;
use burnish_rl::advantage::Rollouts;
use burnish_rl::fact::Need;
use burnish_rl::selector::Selector;
use serde_json::Value;

use crate::tasks::Tasks;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// A selector in use.
pub(super) struct Selection {
    selector: Box<dyn Selector>,
}

impl Selection {
    /// The recipe's selector. `state` is the value of [`Selection::state`] when the run was saved; `None` for a new
    /// run.
    ///
    /// # Errors
    /// If a setting is wrong, or the state is that of another selector.
    pub(super) fn new(recipe: &Recipe, state: Option<&Value>) -> Result<Self, SettingError> {
        let mut selector = recipe.selection.build()?;
        if let Some(state) = state {
            selector.restore(state)?;
        }
        Ok(Selection { selector })
    }

    /// What it has learnt so far.
    pub(super) fn state(&self) -> Value {
        self.selector.state()
    }

    /// The tasks of a round of step number `step`: at most `count`, none of `used`, to which they are added. `chosen`
    /// counts the candidates.
    pub(super) fn choose(
        &self,
        recipe: &Recipe,
        tasks: &Tasks,
        (step, round): (u64, u64),
        count: usize,
        used: &mut BTreeSet<TaskId>,
        chosen: &mut Chosen,
    ) -> Vec<Task> {
        let seed = recipe.run.seed;
        let wanted = self.selector.pool(count);
        if wanted <= count {
            return tasks.of_round(seed, step, round, count, used);
        }
        let start = Instant::now();
        let pool = tasks.candidates(seed, step, round, wanted, used);
        let ids: Vec<&str> = pool.iter().map(|task| task.id.0.as_str()).collect();
        // The candidates are drawn with rollout 0, so this uses another.
        let place = Address { step, turn: round + 1, rollout: 1, ..Address::new(seed, Purpose::Task) };
        let indices = self.selector.choose(&ids, count, recipe.rollout.group_size, place.seed());
        chosen.pool += pool.len();
        chosen.expected.extend(indices.iter().filter_map(|at| self.selector.expected_success(ids[*at])));
        let found: Vec<Task> = indices.into_iter().map(|at| pool[at].clone()).collect();
        used.extend(found.iter().map(|task| task.id.clone()));
        chosen.seconds += start.elapsed().as_secs_f64();
        found
    }

    /// Learns that `successes` of `scored` episodes of a task succeeded. Episodes that could not be judged teach
    /// nothing.
    pub(super) fn observe(&mut self, task: &Task, scored: usize, successes: usize) {
        self.selector.observe(&task.id.0, scored, successes);
    }

    /// The facts of members that the selector learns from.
    pub(super) fn needs(&self) -> Vec<Need> {
        self.selector.needs()
    }

    /// Learns from the members that are trained on.
    pub(super) fn learn(&mut self, rollouts: &Rollouts<'_>) {
        self.selector.learn(rollouts);
    }
}

/// The candidates that the tasks of a step were chosen from.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Number of candidates, over all rounds; 0 if there was no choice.
    pool: usize,
    /// The success that the selector expected of each chosen task before it was played.
    expected: Vec<f64>,
    /// Time that the choice took.
    seconds: f64,
}

impl Chosen {
    /// Empty if there was no choice.
    pub(super) fn metrics(&self) -> Values {
        let mut values = Values::new();
        if self.pool == 0 {
            return values;
        }
        values.insert("selection/pool".into(), self.pool as f64);
        values.insert("selection/time".into(), self.seconds);
        if !self.expected.is_empty() {
            let mean = self.expected.iter().sum::<f64>() / self.expected.len() as f64;
            values.insert("selection/mean_success".into(), mean);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_recipe::Source;

    fn recipe(selection: &str) -> Recipe {
        let text = "[run]\ndir = \"x\"\nseed = 4\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 9\n\
                    [env]\nid = \"countdown\"\ntasks = 40\n[eval]\ntasks = 0\n";
        Recipe::resolve(&Source::parse("r.toml", text, &[selection.to_owned()]).unwrap()).unwrap()
    }

    #[test]
    fn without_a_choice_the_tasks_are_those_of_the_passes() {
        let recipe = recipe("selection={selector=\"uniform\"}");
        let tasks = Tasks::make(&recipe, true).unwrap();
        let selection = Selection::new(&recipe, None).unwrap();
        let (mut used, mut own, mut chosen) = (BTreeSet::new(), BTreeSet::new(), Chosen::default());
        for round in 0..3 {
            let found = selection.choose(&recipe, &tasks, (2, round), 5, &mut own, &mut chosen);
            assert_eq!(found, tasks.of_round(4, 2, round, 5, &mut used));
        }
        assert_eq!(own, used);
        assert!(chosen.metrics().is_empty());
        assert_eq!(selection.state(), Value::Null);
    }

    #[test]
    fn what_is_known_to_teach_nothing_is_left_behind_and_rounds_share_no_task() {
        let recipe = recipe("selection={selector=\"insight\"}");
        let tasks = Tasks::make(&recipe, true).unwrap();
        let mut selection = Selection::new(&recipe, None).unwrap();
        let (solved, other) = tasks.train.split_at(30);
        for task in solved {
            (0..50).for_each(|_| selection.observe(task, 1, 1));
        }
        let (mut used, mut chosen) = (BTreeSet::new(), Chosen::default());
        let first = selection.choose(&recipe, &tasks, (0, 0), 6, &mut used, &mut chosen);
        let second = selection.choose(&recipe, &tasks, (0, 1), 6, &mut used, &mut chosen);
        let is_other = |task: &&Task| other.iter().any(|known| known.id == task.id);
        assert_eq!((first.len(), first.iter().filter(is_other).count()), (6, 6));
        assert_eq!((second.len(), second.iter().filter(is_other).count()), (6, 4), "no more are left");
        assert_eq!(used.len(), 12, "no task comes twice");
        let metrics = chosen.metrics();
        assert_eq!(metrics["selection/pool"], 40.0 + 34.0);
        let expected = (10.0 * 0.5 + 2.0 * 51.0 / 52.0) / 12.0;
        assert!((metrics["selection/mean_success"] - expected).abs() < 1e-12);
        // A resumed run chooses as this one does; a state of another kind is refused.
        let again = Selection::new(&recipe, Some(&selection.state())).unwrap();
        let choose = |selection: &Selection| {
            selection.choose(&recipe, &tasks, (1, 0), 20, &mut BTreeSet::new(), &mut Chosen::default())
        };
        assert_eq!(choose(&again), choose(&selection));
        assert!(Selection::new(&recipe, Some(&Value::Null)).is_err());
    }
}
