//! Held-out tasks, with their generator and their sampling.

use std::rc::Rc;

use burnish_core::rng::fold_bytes;
use burnish_core::{Sampling, Task};
use burnish_env::Generator;

use crate::RunError;
use crate::others::Others;
use crate::tasks::tasks_of;
use burnish_recipe::EvalSpec;
use burnish_rundir::journal::EpisodeKind;

/// One evaluation's tasks and settings.
pub(crate) struct EvalSet {
    /// The name of an evaluation of `[[eval.extra]]`; `None` for the main one.
    pub(crate) name: Option<String>,
    /// Plays and renders the tasks.
    pub(crate) generator: Box<dyn Generator>,
    /// The tasks, each once.
    pub(crate) tasks: Vec<Task>,
    /// Episodes per task.
    pub(crate) rollouts: usize,
    /// How answers are sampled.
    pub(crate) sampling: Sampling,
    /// Who has to do with its episodes besides the policy.
    pub(crate) others: Rc<Others>,
}

impl EvalSet {
    /// Makes the tasks of an evaluation.
    ///
    /// # Errors
    /// If its configuration can't provide them.
    pub(crate) fn make(spec: &EvalSpec<'_>, seed: u64) -> Result<Self, RunError> {
        let generator = burnish_env::build(spec.env, spec.config)?;
        let mut tasks = match spec.tasks {
            0 => Vec::new(),
            count => tasks_of(&*generator, seed, count, &spec.config_key)?,
        };
        // A finite set repeats its tasks to reach the count, but each task is evaluated once.
        let mut known = std::collections::BTreeSet::new();
        tasks.retain(|task| known.insert(task.id.clone()));
        Ok(EvalSet {
            name: spec.name.map(str::to_owned),
            generator,
            tasks,
            rollouts: spec.rollouts,
            sampling: spec.sampling.clone(),
            others: Rc::default(),
        })
    }

    /// Whether its tasks can be reversed.
    pub(crate) fn can_be_turned(&self) -> bool {
        self.generator.reversible().is_some()
    }

    /// The kind of its episodes in the journal.
    pub(crate) fn kind(&self) -> EpisodeKind {
        self.name.clone().map_or(EpisodeKind::Eval, EpisodeKind::Extra)
    }

    /// The prefix of its metrics.
    pub(crate) fn prefix(&self) -> String {
        self.name.as_ref().map_or_else(|| "eval/".to_owned(), |name| format!("eval/{name}/"))
    }

    /// Its place in addresses of random numbers. It depends only on the name, so that adding or removing evaluations
    /// does not change the others.
    pub(crate) fn place(&self) -> u64 {
        self.name.as_ref().map_or(0, |name| fold_bytes(name.len() as u64, name.as_bytes()))
    }
}
