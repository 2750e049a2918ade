//! `[redesign]`: the rounds before the last one. Each is an ordinary run of the recipe in `run.cache`, under the hash of
//! everything that decides it, as a stage is; the last one is the run of the recipe itself. What an engineer said after a
//! round lies beside the rounds, under the hash of what it was told, so that nobody is asked twice.
//!
//! ```text
//! round 1 (run) ─> its evaluation ─> design of round 2 ─> round 2 (run, from the policy of round 1) ─> ... ─> the run
//! ```

use std::path::{Path, PathBuf};

use burnish_env::redesign::{Knob, knobs};
use burnish_env::{Generator, digest};
use burnish_recipe::{Given, Recipe, RedesignSection, StageUse};
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::{metrics, run_dir};
use burnish_train::checkpoint::Checkpoint;
use serde_json::{Value, json};

use super::{Before, Made, Stage, hash, within};
use crate::RunError;
use crate::redesign::{
    self, Breakdown, Context, Design, Engineer, Past, Record, Round, Training, design, engineer, summary,
};
use crate::seeds::of_round;
use crate::tasks::Tasks;
use crate::watch::{Event, Stop, Watch};

/// Increased when the same engineer, told the same, says something else than before.
const FORMAT: u32 = 1;

/// Makes the rounds before the last one, unless they are there, and turns `recipe` into that of the last. Rounds that
/// were interrupted are resumed, and those that another process makes are waited for.
///
/// # Errors
/// If a round fails, or an engineer can't be asked.
pub(super) fn make(recipe: &mut Recipe, watch: &mut dyn Watch, stop: &Stop) -> Result<Made, RunError> {
    let Some(redesign) = recipe.redesign.clone().filter(|redesign| redesign.rounds > 1) else {
        return Ok(Made::Ready);
    };
    let rounds = Rounds { given: recipe.clone(), redesign: redesign.clone() };
    let mut engineer = engineer(recipe, &redesign, &rounds.knobs(&recipe.env.config)?)?;
    let mut record = Record {
        rounds_planned: redesign.rounds,
        engineer: redesign.engineer,
        validation: validation_of(&Tasks::make(recipe, false)?)?,
        rounds: Vec::new(),
        designs: Vec::new(),
    };
    let (mut config, mut start) = (recipe.env.config.clone(), None);
    for number in 1..redesign.rounds {
        let stage = rounds.stage(number, &config, start.as_deref())?;
        let place = format!("round {number} of {} ({})", redesign.rounds, stage.dir().display());
        if stage.result()?.is_none() {
            watch.event(Event::Note(format!("{place}: training")));
            if let Some(stopped) = within(&stage.file, stage.run(watch, stop))? {
                return Ok(stopped);
            }
        }
        let missing = || {
            RunError::Refused(format!("{place}: has no checkpoint; remove the folder, and it is made again"))
        };
        let checkpoint = stage.result()?.ok_or_else(missing)?;
        watch.event(Event::Note(format!("{place}: there")));
        record.rounds.push(rounds.look(number, &stage, &checkpoint, &record.validation)?);
        if stop.is_asked() {
            return Ok(Made::Stopped { dir: stage.dir().to_owned() });
        }
        let design = rounds.design(&record, &stage, &checkpoint, &mut *engineer)?;
        watch.event(Event::Note(design.told()));
        config.clone_from(&design.config);
        record.designs.push(design);
        start = Some(checkpoint);
    }
    let name = digest(serde_json::to_string(&record).unwrap_or_default().as_bytes());
    let place = recipe.run.cache.join(format!("redesign-{name}.json"));
    redesign::write(&record, &place)?;
    let given = Given {
        config: recipe.env.config.clone(),
        seed: recipe.run.seed,
        path: recipe.policy.path.clone().filter(|_| recipe.policy.from.is_none()),
        hash: hash::of(recipe)?,
    };
    let mut last = rounds.recipe(redesign.rounds, &config, start.as_deref());
    last.policy.from.clone_from(&recipe.policy.from);
    last.redesign = Some(RedesignSection { given: Some(given), record: Some(place), ..redesign });
    *recipe = last;
    Ok(Made::Ready)
}

/// A digest of the tasks of the main evaluation.
fn validation_of(tasks: &Tasks) -> Result<String, RunError> {
    let tasks = tasks.main().map(|set| &set.tasks);
    let failed = |error: serde_json::Error| RunError::Refused(format!("the held-out tasks: {error}"));
    Ok(digest(&serde_json::to_vec(&tasks).map_err(failed)?))
}

/// The rounds of a recipe.
struct Rounds {
    /// The recipe, with its policy made.
    given: Recipe,
    redesign: RedesignSection,
}

impl Rounds {
    fn generator(&self, config: &Value) -> Result<Box<dyn Generator>, RunError> {
        Ok(burnish_env::build(&self.given.env.id, config)?)
    }

    /// The keys that may change; on which tasks they act may follow from the configuration.
    fn knobs(&self, config: &Value) -> Result<Vec<Knob>, RunError> {
        let found = knobs(&*self.generator(config)?, &self.redesign.keys);
        found.map_err(|error| RunError::Refused(format!("redesign.keys: {error}")))
    }

    /// The recipe of a round, as an ordinary run; `start` is the policy of the round before.
    fn recipe(&self, number: usize, config: &Value, start: Option<&Path>) -> Recipe {
        let mut recipe = self.given.clone();
        recipe.redesign = None;
        recipe.env.config = config.clone();
        recipe.run.seed = of_round(self.given.run.seed, number);
        if let Some(start) = start {
            recipe.policy.path = Some(start.to_owned());
            recipe.policy.from = None;
        }
        recipe
    }

    fn stage(&self, number: usize, config: &Value, start: Option<&Path>) -> Result<Stage, RunError> {
        let mut recipe = self.recipe(number, config, start);
        let hash = hash::of(&recipe)?;
        recipe.run.dir = recipe.run.cache.join(format!("round{number}-{hash}"));
        let file = PathBuf::from(format!("round {number}"));
        Ok(Stage { of: StageUse::Policy, file, recipe, hash, before: Before::default() })
    }

    /// What came of a round that is made.
    ///
    /// # Errors
    /// If it was evaluated on other tasks than the others, or its records can't be read.
    fn look(
        &self,
        number: usize,
        stage: &Stage,
        checkpoint: &Path,
        validation: &str,
    ) -> Result<Round, RunError> {
        let recipe = &stage.recipe;
        let tasks = Tasks::make(recipe, true)?;
        if validation_of(&tasks)? != validation {
            return Err(RunError::Refused(format!(
                "round {number}: it is evaluated on other tasks than the rounds before; does the environment {} make the \
                 same tasks from the same seed?",
                recipe.env.id
            )));
        }
        let dir = stage.dir();
        let journal = Journal::open_to_read(&run_dir::journal_in(dir))?;
        let step = Checkpoint::open(checkpoint)?.step();
        let stored = journal.episodes(step, EpisodeKind::Eval)?;
        let held_out = tasks.main().map(|set| set.tasks.as_slice()).unwrap_or_default();
        let episodes: Vec<_> = stored.into_iter().map(|stored| stored.episode).collect();
        let rows = metrics::read(&run_dir::metrics_in(dir))?;
        let played: f64 = rows
            .iter()
            .filter(|row| row.event == metrics::TRAIN)
            .filter_map(|row| row.values.get("tasks"))
            .sum();
        let knobs = self.knobs(&recipe.env.config)?;
        let value = |knob: &Knob| Some((knob.key.clone(), knob.value(&recipe.env.config)?));
        Ok(Round {
            round: number,
            dir: dir.to_owned(),
            hash: stage.hash.clone(),
            config: recipe.env.config.clone(),
            values: knobs.iter().filter_map(value).collect(),
            tasks: tasks.train.len(),
            played: played as usize,
            evaluation: Breakdown::of(held_out, &episodes, &recipe.reward.weights, &knobs),
            training: Training::of(&rows),
        })
    }

    /// The design of the round after the last one of `record`. One that was made before is read.
    fn design(
        &self,
        record: &Record,
        stage: &Stage,
        checkpoint: &Path,
        engineer: &mut dyn Engineer,
    ) -> Result<Design, RunError> {
        let config = &stage.recipe.env.config;
        let context = self.context(record, config)?;
        let (number, seed) = (context.round, self.given.run.seed);
        let told = json!({
            "format": FORMAT,
            "redesign": self.redesign,
            "environment": context.environment,
            "keys": context.knobs,
            "values": context.values,
            "told": context.text(),
            "config": config,
            "policy": stage.hash,
            "seed": seed,
        });
        let name = digest(told.to_string().as_bytes());
        let place = self.given.run.cache.join(format!("design{}-{name}.json", number + 1));
        if place.is_file() {
            return redesign::read(&place);
        }
        let mut has_tasks = |config: &Value| -> Result<(), RunError> {
            let mut recipe = self.recipe(number + 1, config, None);
            // Complete, as an environment's configuration in a recipe is.
            recipe.env.config = self.generator(config)?.config();
            Tasks::make(&recipe, true).map(drop)
        };
        let mut design = design(engineer, &context, config, (checkpoint, seed), &mut has_tasks)?;
        design.config = self.generator(&design.config)?.config();
        redesign::write(&design, &place)?;
        Ok(design)
    }

    /// What is told after the last round of `record`, whose environment has `config`.
    fn context(&self, record: &Record, config: &Value) -> Result<Context, RunError> {
        let (before, last) = match record.rounds.split_last() {
            Some((last, before)) => (before, Some(last)),
            None => (&[][..], None),
        };
        let past = |round: &Round| Past {
            round: round.round,
            values: round.values.clone(),
            rates: round.evaluation.all.clone(),
        };
        let guideline = self.generator(config)?.redesign().map(|able| able.guideline().to_owned());
        let context = Context {
            round: last.map_or(0, |last| last.round),
            rounds: self.redesign.rounds,
            environment: self.given.env.id.clone(),
            knobs: self.knobs(config)?,
            values: last.map(|last| last.values.clone()).unwrap_or_default(),
            breakdown: last.map(|last| last.evaluation.clone()),
            guideline,
            history: Some(before.iter().map(past).collect()),
            summary: last.map(|last| summary(&last.evaluation)),
            training: last.map(|last| last.training.clone()),
        };
        Ok(context.restricted(&self.redesign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_recipe::Source;

    const RECIPE: &str = "[run]\ndir = \"x\"\nseed = 4\n[policy]\npath = \"p\"\n[env]\nid = \"countdown\"\ntasks = 12\n\
                          [train]\nmethod = \"grpo\"\nmax_steps = 2\n[eval]\ntasks = 5\n\
                          [redesign]\nengineer = \"identity\"\nrounds = 3\n";

    #[test]
    fn a_round_that_is_evaluated_on_other_tasks_than_the_first_is_refused() {
        let given = Recipe::resolve(&Source::parse("r.toml", RECIPE, &[]).unwrap()).unwrap();
        let redesign = given.redesign.clone().unwrap();
        let validation = validation_of(&Tasks::make(&given, false).unwrap()).unwrap();
        let mut config = given.env.config.clone();
        config["numbers"]["max"] = Value::from(5);
        let rounds = Rounds { given, redesign };
        let dir = tempfile::tempdir().unwrap();
        // Why the second round, which has another environment to train in and another seed, is not looked at.
        let problem = |change: fn(&mut Recipe)| {
            let mut recipe = rounds.recipe(2, &config, None);
            recipe.run.dir = dir.path().join("round2");
            change(&mut recipe);
            let (file, hash) = (PathBuf::from("round 2"), "aa".to_owned());
            let stage = Stage { of: StageUse::Policy, file, recipe, hash, before: Before::default() };
            rounds.look(2, &stage, Path::new("nowhere"), &validation).unwrap_err().to_string()
        };
        // Its tasks are those of the first. What is missing is what its run would have left.
        let missing = problem(|_| ());
        assert!(missing.contains("round2") && missing.contains("no such file"), "{missing}");

        let others: [fn(&mut Recipe); 4] = [
            |recipe| recipe.eval.seed += 1,
            |recipe| recipe.eval.tasks -= 1,
            // Those of the environment that it trains in.
            |recipe| recipe.eval.config = None,
            // The same puzzles, in other words.
            |recipe| {
                if let Some(config) = &mut recipe.eval.config {
                    config["prompt"] = Value::from("short");
                }
            },
        ];
        for (at, change) in others.into_iter().enumerate() {
            let problem = problem(change);
            let refusal = "round 2: it is evaluated on other tasks than the rounds before";
            assert!(problem.contains(refusal), "{at}: {problem}");
        }
    }
}
