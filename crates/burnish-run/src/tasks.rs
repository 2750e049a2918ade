//! Which tasks a run trains on and which it is evaluated on.

use std::collections::BTreeSet;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Task, TaskId};
use burnish_env::{EnvError, Generator};

use crate::RunError;
use crate::recipe::Recipe;

/// The tasks of a run. No training task is an evaluation task.
pub(crate) struct Tasks {
    /// Plays and draws the training tasks.
    pub(crate) train_generator: Box<dyn Generator>,
    /// Plays and draws the held-out tasks.
    pub(crate) eval_generator: Box<dyn Generator>,
    /// Training tasks, in a fixed order.
    pub(crate) train: Vec<Task>,
    /// Held-out tasks.
    pub(crate) eval: Vec<Task>,
    /// Training tasks left out because they are held out.
    pub(crate) held_out: usize,
}

impl Tasks {
    /// Makes the tasks of a recipe. With `needs_training` off only the held-out ones are made.
    ///
    /// # Errors
    /// If a configuration cannot yield its tasks, or every training task is held out.
    pub(crate) fn make(recipe: &Recipe, needs_training: bool) -> Result<Self, RunError> {
        let train_generator = burnish_env::build(&recipe.env.id, &recipe.env.config)?;
        let eval_config = recipe.eval.config.as_ref().unwrap_or(&recipe.env.config);
        let eval_generator = burnish_env::build(&recipe.env.id, eval_config)?;
        let table = if recipe.eval.config.is_some() { "eval.config" } else { "env.config" };
        let mut eval = match recipe.eval.tasks {
            0 => Vec::new(),
            count => tasks_of(&*eval_generator, recipe.eval.seed, count, table)?,
        };
        // A finite set repeats its tasks to reach the count; a task is evaluated once.
        let mut known = BTreeSet::new();
        eval.retain(|task| known.insert(task.id.clone()));
        let mut train = Vec::new();
        let mut held_out = 0;
        if needs_training {
            let seed = Address::new(recipe.run.seed, Purpose::Task).seed();
            let reserved: BTreeSet<&TaskId> = eval.iter().map(|task| &task.id).collect();
            let made = tasks_of(&*train_generator, seed, recipe.env.tasks, "env.config")?;
            let count = made.len();
            train = made.into_iter().filter(|task| !reserved.contains(&task.id)).collect();
            held_out = count - train.len();
            if train.is_empty() {
                return Err(RunError::Refused(format!(
                    "eval.tasks: the {} different tasks of the environment are all held out, and none is left to \
                     train on: set eval.tasks below that number, or give evaluation its own data in eval.config",
                    eval.len()
                )));
            }
        }
        Ok(Tasks { train_generator, eval_generator, train, eval, held_out })
    }

    /// The training tasks of a step: each pass over the set is a new order, which depends on the run's seed only.
    pub(crate) fn of_step(&self, run_seed: u64, step: u64, count: usize) -> Vec<Task> {
        let indices = of_step(self.train.len(), run_seed, step, count);
        indices.into_iter().map(|at| self.train[at].clone()).collect()
    }
}

/// `count` tasks of a generator whose configuration stands in `table` of the recipe.
///
/// # Errors
/// If the configuration can't yield them: names the key with its table.
pub(crate) fn tasks_of(
    generator: &dyn Generator,
    seed: u64,
    count: usize,
    table: &str,
) -> Result<Vec<Task>, RunError> {
    match generator.tasks(seed, count) {
        Ok(set) => Ok(set.tasks),
        Err(EnvError::Config { key, problem }) => {
            Err(EnvError::Config { key: format!("{table}.{key}"), problem }.into())
        }
        Err(other) => Err(other.into()),
    }
}

/// Which `count` of `len` items step number `step` uses, when every pass over them has its own order.
pub(crate) fn of_step(len: usize, run_seed: u64, step: u64, count: usize) -> Vec<usize> {
    let first = step * count as u64;
    let mut pass = None;
    (first..first + count as u64)
        .map(|at| {
            let number = at / len as u64;
            if pass.as_ref().is_none_or(|(known, _)| *known != number) {
                pass = Some((number, burnish_data::order(len, run_seed, number)));
            }
            pass.as_ref().map_or(0, |(_, order)| order[(at % len as u64) as usize])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_used_once_in_each_pass_and_passes_differ() {
        let drawn: Vec<usize> = (0..14).flat_map(|step| of_step(7, 3, step, 3)).collect();
        for pass in drawn.chunks_exact(7) {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert_ne!(drawn[0..7], drawn[7..14]);
    }
}
