//! The training tasks and the held-out tasks of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use burnish_core::rng::{self, Address, Purpose, Stream};
use burnish_core::{Task, TaskId};
use burnish_env::{EnvError, Generator};
use burnish_rl::fact::COUNTERPART;

use crate::RunError;
use crate::artefact::read_tasks;
use crate::controllers;
use crate::eval_set::EvalSet;
use crate::online::plan_of;
use crate::others::Others;
use crate::split;
use burnish_recipe::split::Split;
use burnish_recipe::{EvalSpec, Recipe, TaskSource};

/// The tasks of a run. No training task is an evaluation task.
pub(crate) struct Tasks {
    /// Plays and draws the training tasks; without them, those of the main evaluation. None where nothing is played.
    train_generator: Option<Box<dyn Generator>>,
    /// Training tasks, in a fixed order.
    pub(crate) train: Vec<Task>,
    /// What evaluations play: the main one, then those of `[[eval.extra]]`. Empty where nothing is played.
    pub(crate) evaluations: Vec<EvalSet>,
    /// Number of different training tasks left out because they are held out.
    pub(crate) held_out: usize,
    /// Who has to do with episodes besides the trained policy.
    pub(crate) others: Rc<Others>,
    /// Training tasks that were left out because they overlap with what is evaluated.
    overlapping: BTreeSet<TaskId>,
    /// The step after which training tasks were last added; 0 before that.
    grown: u64,
}

impl Tasks {
    /// Makes the tasks of a recipe. Without `needs_training`, only the held-out ones.
    ///
    /// # Errors
    /// If a configuration can't provide its tasks, or every training task is held out.
    pub(crate) fn make(recipe: &Recipe, needs_training: bool) -> Result<Self, RunError> {
        if recipe.env.is_absent() {
            let (train, evaluations) = (Vec::new(), Vec::new());
            return Ok(Tasks {
                train_generator: None,
                train,
                evaluations,
                held_out: 0,
                others: Rc::default(),
                overlapping: BTreeSet::new(),
                grown: 0,
            });
        }
        controllers::check(recipe, needs_training)?;
        // Where nothing is trained, training data need not be there.
        let config = if needs_training { &recipe.env.config } else { recipe.evaluation().config };
        let train_generator = burnish_env::build(&recipe.env.id, config)?;
        if let Some(reason) = train_generator.evaluation_only().filter(|_| needs_training) {
            return Err(RunError::Refused(format!("env.id: {reason}")));
        }
        let make_set = |spec: &EvalSpec<'_>| -> Result<EvalSet, RunError> {
            let mut set = EvalSet::make(spec, recipe.eval.seed)?;
            as_known(recipe, &mut set.tasks);
            Ok(set)
        };
        let mut evaluations = vec![make_set(&recipe.evaluation())?];
        let main = &evaluations[0];
        if recipe.eval.cycle && !main.tasks.is_empty() && !main.can_be_turned() {
            return Err(RunError::Refused(format!(
                "eval.cycle: needs tasks that can be turned round, which the environment {} does not have; take one that has, \
                 as `chains`",
                main.generator.id()
            )));
        }
        for spec in recipe.further_evaluations() {
            let set = make_set(&spec)?;
            refuse_others_of_the_same_name(&evaluations, &set, &spec)?;
            evaluations.push(set);
        }
        let mut train = Vec::new();
        let mut held_out = 0;
        if needs_training {
            let split = recipe.env.split.as_ref();
            let own = || Address::new(recipe.run.seed, Purpose::Task).seed();
            let seed = split.map_or_else(own, Split::seed_of_tasks);
            let reserved = ids(&evaluations);
            let mut made = match &recipe.env.tasks {
                TaskSource::Count(count) => tasks_of(&*train_generator, seed, *count, "env.config")?,
                TaskSource::File(tasks) => {
                    let missing = || RunError::Refused("env.tasks.from: the tasks are not made yet".into());
                    read_tasks(tasks.place().ok_or_else(missing)?, &recipe.env.id)?
                }
            };
            as_known(recipe, &mut made);
            let all = different(&made).len();
            train = made.into_iter().filter(|task| !reserved.contains(&task.id)).collect();
            if plays_both_directions(recipe)? {
                let mut free = Vec::with_capacity(train.len());
                for task in train {
                    let turned = counterpart(&*train_generator, &task)?;
                    free.extend((!reserved.contains(&turned.id)).then_some(task));
                }
                train = free;
            }
            // A file's rows are repeated.
            held_out = all - different(&train).len();
            if train.is_empty() {
                return Err(RunError::Refused(format!(
                    "eval.tasks: the {} different tasks of the environment are all held out, and none is left to \
                     train on: set eval.tasks below that number, or give evaluation its own data in eval.config",
                    reserved.len()
                )));
            }
            if let Some(split) = split {
                train = split::part(split, &*train_generator, train, &recipe.run.cache, "env")?;
            }
        }
        let train_generator = Some(train_generator);
        let (others, overlapping) = (Rc::default(), BTreeSet::new());
        Ok(Tasks { train_generator, train, evaluations, held_out, others, overlapping, grown: 0 })
    }

    /// Leaves out the training tasks that `leave_out` removes, for good: no function gives them back.
    ///
    /// # Errors
    /// As `leave_out`.
    pub(crate) fn leave_out<T>(
        &mut self,
        leave_out: impl FnOnce(&dyn Generator, &mut Vec<Task>) -> Result<Option<T>, RunError>,
    ) -> Result<Option<T>, RunError> {
        let Some(generator) = self.train_generator.as_deref() else { return Ok(None) };
        let before: BTreeSet<TaskId> = self.train.iter().map(|task| task.id.clone()).collect();
        let done = leave_out(generator, &mut self.train)?;
        let left = different(&self.train);
        self.overlapping = before.into_iter().filter(|id| !left.contains(id)).collect();
        Ok(done)
    }

    /// The tasks that are never trained on: those of all evaluations, and those that overlap with them.
    pub(crate) fn never_trained(&self) -> BTreeSet<&TaskId> {
        self.held_out_ids().into_iter().chain(&self.overlapping).collect()
    }

    /// Adds training tasks after `step`. From then on, passes over all of them begin anew.
    pub(crate) fn grow(&mut self, step: u64, tasks: Vec<Task>) {
        if !tasks.is_empty() {
            self.train.extend(tasks);
            self.grown = step;
        }
    }

    /// Number of different training tasks: the rows of a file are repeated.
    pub(crate) fn different(&self) -> usize {
        different(&self.train).len()
    }

    /// The same tasks, ready to be played: with the models loaded that take part in episodes or judge them.
    ///
    /// # Errors
    /// If one can't be loaded.
    pub(crate) fn with_others(mut self, recipe: &Recipe) -> Result<Self, RunError> {
        self.others = Rc::new(Others::of_recipe(recipe)?);
        for set in &mut self.evaluations {
            set.others.clone_from(&self.others);
        }
        Ok(self)
    }

    /// Makes sure that verdicts can be had on this machine, before anything is played.
    ///
    /// # Errors
    /// If they can't: why.
    pub(crate) fn check_ready(&self) -> Result<(), RunError> {
        let evaluated =
            self.evaluations.iter().filter(|set| !set.tasks.is_empty()).map(|set| &*set.generator);
        let trained = self.train_generator.as_deref().filter(|_| !self.train.is_empty());
        trained
            .into_iter()
            .chain(evaluated)
            .try_for_each(|generator| generator.ready().map_err(|error| RunError::Refused(error.to_string())))
    }

    /// What plays and draws the training tasks.
    ///
    /// # Errors
    /// If the recipe has no environment.
    pub(crate) fn generator(&self) -> Result<&dyn Generator, RunError> {
        let missing =
            || RunError::Refused("env.id: the recipe has no environment, so nothing can be played".into());
        self.train_generator.as_deref().ok_or_else(missing)
    }

    /// What the main evaluation plays; none where nothing is played.
    pub(crate) fn main(&self) -> Option<&EvalSet> {
        self.evaluations.first()
    }

    /// The evaluation called `name`; without a name, the main one.
    ///
    /// # Errors
    /// If there is none: lists the names.
    pub(crate) fn evaluation(&self, name: Option<&str>) -> Result<&EvalSet, RunError> {
        let found = self.evaluations.iter().find(|set| set.name.as_deref() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.evaluations.iter().filter_map(|set| set.name.as_deref()).collect();
            RunError::Refused(format!(
                "`{}` is no evaluation of `[[eval.extra]]`; there are: {}",
                name.unwrap_or_default(),
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            ))
        })
    }

    /// The tasks of all evaluations. They are not trained on.
    pub(crate) fn held_out_ids(&self) -> BTreeSet<&TaskId> {
        ids(&self.evaluations)
    }

    /// The training tasks of step number `step`, counted from 0. Each pass over the set has a new order, which depends only on the
    /// run's seed and on the step after which the set has last grown.
    pub(crate) fn of_step(&self, run_seed: u64, step: u64, count: usize) -> Vec<Task> {
        let seed = if self.grown > 0 { rng::bits(run_seed, self.grown) } else { run_seed };
        let indices = of_step(self.train.len(), seed, step - self.grown, count);
        indices.into_iter().map(|at| self.train[at].clone()).collect()
    }

    /// The training tasks of one round of a step. Round 0 has the tasks of the step. Every further round draws
    /// `count` others by (seed, step, round), independently of the passes over the set, so that other steps keep
    /// their tasks. `used` holds the tasks of earlier rounds: none of them comes again, and the tasks of this round
    /// are added. May return fewer than `count` if no more are left.
    pub(crate) fn of_round(
        &self,
        run_seed: u64,
        step: u64,
        round: u64,
        count: usize,
        used: &mut BTreeSet<TaskId>,
    ) -> Vec<Task> {
        if round == 0 {
            let tasks = self.of_step(run_seed, step, count);
            used.extend(tasks.iter().map(|task| task.id.clone()));
            return tasks;
        }
        let address = Address { step, turn: round, ..Address::new(run_seed, Purpose::Task) };
        let unused = self.shuffled(address).filter(|task| used.insert(task.id.clone()));
        unused.take(count).cloned().collect()
    }

    /// Training tasks for a selector to choose from in one round of a step: `count` of them, drawn by (seed, step,
    /// round) without repetition, none of `used`. Fewer if there are no more.
    pub(crate) fn candidates(
        &self,
        run_seed: u64,
        step: u64,
        round: u64,
        count: usize,
        used: &BTreeSet<TaskId>,
    ) -> Vec<&Task> {
        // A run either uses a selector or does not. So this can use the numbers that others draw in the next round,
        // and round 0 draws none of theirs.
        let address = Address { step, turn: round + 1, ..Address::new(run_seed, Purpose::Task) };
        let mut drawn = BTreeSet::new();
        // A finite set repeats its tasks.
        let is_new = |task: &&Task| !used.contains(&task.id) && drawn.insert(task.id.clone());
        self.shuffled(address).filter(is_new).take(count).collect()
    }

    fn shuffled(&self, address: Address) -> impl Iterator<Item = &Task> {
        let mut order: Vec<usize> = (0..self.train.len()).collect();
        Stream::new(address.seed()).shuffle(&mut order);
        order.into_iter().map(|at| &self.train[at])
    }
}

/// Gives tasks whose files have moved since the run began the labels that they had then, because the journal
/// identifies tasks by these.
pub(crate) fn as_known(recipe: &Recipe, tasks: &mut [Task]) {
    for label in tasks.iter_mut().flat_map(|task| task.labels.values_mut()) {
        if let Some(known_as) = recipe.moved.get(label) {
            label.clone_from(known_as);
        }
    }
}

fn ids(evaluations: &[EvalSet]) -> BTreeSet<&TaskId> {
    evaluations.iter().flat_map(|set| &set.tasks).map(|task| &task.id).collect()
}

/// Refuses tasks that have the name of an earlier task but differ from it: the journal identifies tasks by name.
fn refuse_others_of_the_same_name(
    before: &[EvalSet],
    set: &EvalSet,
    plan: &EvalSpec<'_>,
) -> Result<(), RunError> {
    let known: BTreeMap<&TaskId, &Task> =
        before.iter().flat_map(|set| &set.tasks).map(|task| (&task.id, task)).collect();
    let Some(task) = set.tasks.iter().find(|task| known.get(&task.id).is_some_and(|known| known != task))
    else {
        return Ok(());
    };
    Err(RunError::Refused(format!(
        "{}: task {} is held out by another evaluation too, with another prompt, solution or labels: make the configurations \
         equal in what decides these, or so different that they share no task",
        plan.config_key, task.id
    )))
}

/// Whether the recipe's plan trains on reversed tasks.
fn plays_both_directions(recipe: &Recipe) -> Result<bool, RunError> {
    Ok(plan_of(recipe)?.needs().iter().any(|need| *need.fact == COUNTERPART))
}

/// The reversed task, with its right answer stated.
///
/// # Errors
/// If the environment can't reverse tasks.
pub(crate) fn counterpart(generator: &dyn Generator, task: &Task) -> Result<Task, RunError> {
    let turned = generator.reversible().and_then(|its| its.counterpart(task));
    turned.ok_or_else(|| {
        RunError::Refused(format!(
            "plan: needs tasks that can be turned round, and the environment {} can't turn task {} round; leave `[plan]` \
             out, or take an environment that can, as `chains`",
            generator.id(),
            task.id
        ))
    })
}

/// `count` tasks of a generator whose configuration is the key `table` of the recipe.
///
/// # Errors
/// If the configuration can't provide them: names the key with its table.
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

fn different(tasks: &[Task]) -> BTreeSet<&TaskId> {
    tasks.iter().map(|task| &task.id).collect()
}

/// Which `count` of `len` items are used in step number `step`, if every pass over them has its own order.
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
    use burnish_recipe::Source;

    fn recipe() -> Recipe {
        let text = "[run]\ndir = \"x\"\nseed = 4\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 9\n\
                    [env]\nid = \"countdown\"\ntasks = 12\n[eval]\ntasks = 0\n";
        Recipe::resolve(&Source::parse("r.toml", text, &[]).unwrap()).unwrap()
    }

    /// A recipe in an environment with few tasks, with extra evaluations.
    fn small(also: &str) -> Recipe {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 9\n[eval]\ntasks = 2\n\
                    [env]\nid = \"chains\"\ntasks = 40\nconfig = { steps = { min = 1, max = 1 }, values = { min = 1, max = 3 } }\n";
        Recipe::resolve(&Source::parse("r.toml", text, &[format!("eval.extra=[{also}]")]).unwrap()).unwrap()
    }

    #[test]
    fn tasks_of_every_evaluation_are_held_out() {
        let rest = "{name=\"rest\", tasks=9}, {name=\"elsewhere\", env=\"countdown\", tasks=3}";
        let (plain, also) = (small(""), small(rest));
        let [plain, also] = [plain, also].map(|recipe| Tasks::make(&recipe, true).unwrap());
        let set = also.evaluation(Some("rest")).unwrap();
        let overlaps = |train: &[Task]| {
            let shared: BTreeSet<&TaskId> =
                train.iter().filter(|task| set.tasks.contains(task)).map(|task| &task.id).collect();
            shared.len()
        };
        assert!(overlaps(&plain.train) > 0 && overlaps(&also.train) == 0);
        assert_eq!(also.held_out, plain.held_out + overlaps(&plain.train));
        assert_eq!(
            also.main().unwrap().tasks,
            plain.main().unwrap().tasks,
            "the main evaluation is as without others"
        );
        let sizes = also.evaluations.iter().map(|set| set.tasks.len()).collect::<Vec<_>>();
        assert_eq!(
            (sizes, also.held_out_ids().len()),
            (vec![2, 9, 3], 12),
            "the first two share their tasks"
        );
        let places: BTreeSet<u64> = also.evaluations.iter().map(EvalSet::place).collect();
        assert_eq!(places.len(), 3, "no two share random numbers");
    }

    #[test]
    fn tasks_of_the_same_name_must_be_the_same() {
        let other = "{name=\"low\", tasks=9, config={steps={min=1,max=1}, values={min=1,max=3}, \
                     languages=[{name=\"plain\", share=1.0, resource=\"low\"}]}}";
        let error = Tasks::make(&small(other), true).err().unwrap().to_string();
        assert!(error.contains("eval.extra[0].config: task chains/") && error.contains("labels"), "{error}");
    }

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

    #[test]
    fn candidates_are_drawn_anew_in_every_round_and_step_and_leave_out_what_was_used() {
        let tasks = Tasks::make(&recipe(), true).unwrap();
        let drawn = |step, round, count, used: &BTreeSet<TaskId>| -> Vec<TaskId> {
            let found = tasks.candidates(4, step, round, count, used);
            found.into_iter().map(|task| task.id.clone()).collect()
        };
        let none = BTreeSet::new();
        let all = drawn(1, 0, 99, &none);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 12, "no task twice");
        assert_eq!(all.len(), 12, "there are no more");
        assert_eq!(drawn(1, 0, 5, &none), all[..5], "nothing is stored");
        assert_ne!(drawn(1, 1, 12, &none), all);
        assert_ne!(drawn(2, 0, 12, &none), all);
        let used: BTreeSet<TaskId> = all[2..9].iter().cloned().collect();
        assert_eq!(drawn(1, 0, 99, &used), [&all[..2], &all[9..]].concat());
    }

    #[test]
    fn later_rounds_of_a_step_bring_other_tasks_and_change_no_first_round() {
        let tasks = Tasks::make(&recipe(), true).unwrap();
        let rounds = |step, counts: &[usize]| {
            let mut used = BTreeSet::new();
            let round = |(round, count): (usize, &usize)| {
                let drawn = tasks.of_round(4, step, round as u64, *count, &mut used);
                drawn.into_iter().map(|task| task.id).collect::<Vec<_>>()
            };
            counts.iter().enumerate().map(round).collect::<Vec<_>>()
        };
        let found = rounds(1, &[4, 3, 2, 9]);
        assert_eq!(
            found.iter().map(Vec::len).collect::<Vec<_>>(),
            [4, 3, 2, 3],
            "12 tasks, then none is left"
        );
        assert_eq!(found.concat().into_iter().collect::<BTreeSet<_>>().len(), 12, "no task comes twice");
        assert_eq!(found, rounds(1, &[4, 3, 2, 9]), "nothing is stored");
        let first: Vec<TaskId> = tasks.of_step(4, 1, 4).into_iter().map(|task| task.id).collect();
        assert_eq!(found[0], first);
        // Another step draws other tasks.
        assert_ne!(rounds(2, &[0, 12])[1], rounds(1, &[0, 12])[1]);
        assert_ne!(rounds(1, &[0, 0, 12])[2], rounds(1, &[0, 12])[1]);
    }

    #[test]
    fn timeqas_questions_are_never_trained_on() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data/timeqa/human_annotated_test.json.gz");
        if !file.is_file() {
            println!("skipped: there is no {}", file.display());
            return;
        }
        let text = format!(
            "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[env]\nid = \"timeqa\"\n\
             config.path = \"{}\"\n",
            file.display()
        );
        let source = Source::parse("r.toml", &text, &[]).unwrap();
        let recipe = Recipe::resolve(&source).unwrap();
        let error = Tasks::make(&recipe, true).err().unwrap().to_string();
        assert!(error.starts_with("env.id: TimeQA's human-written questions are a test set"), "{error}");
        assert!(Tasks::make(&recipe, false).is_ok());
    }
}
