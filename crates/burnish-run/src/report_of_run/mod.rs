//! The content of a run's report. All of it is read from the run directory, so that a report that is written while the
//! run goes on, at its end, or anew by `burnish report` is made in one way.

mod conversation;
mod facts;
mod rounds;
mod title;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use burnish_core::{Episode, Task};
use burnish_data::overlap::OverlapReport;
use burnish_env::Generator;
use burnish_eval::{Change, Measure, is_success};
use burnish_model::Tokenizer;

use crate::RunError;
use crate::decontaminate;
use crate::evaluate::{bootstrap_seed, summarise};
use crate::inspect::{environment_of, makes_its_tasks, rendering};
use crate::stored;
use crate::unscored::UnscoredSteps;
use burnish_recipe::Recipe;
use burnish_rundir::files::FileError;
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};
use burnish_rundir::metrics::{self, Row};
use burnish_rundir::report::{DrawnEpisode, Evaluated, EvaluatedStep, Report, Standing};
use burnish_rundir::run_dir;
use burnish_rundir::text::shell_path;

/// Number of episodes that the report shows.
const EPISODES_DRAWN: usize = 4;

/// A run to report on, and what its directory does not say.
pub(crate) struct Reported<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) recipe: &'a Recipe,
    pub(crate) journal: &'a Journal,
    /// Tells apart what was said and what the chat template wrote around it.
    pub(crate) tokenizer: Option<&'a Tokenizer>,
    /// Training rows that overlap with evaluation rows.
    pub(crate) overlap: Option<&'a OverlapReport>,
}

impl Reported<'_> {
    /// Writes `report.html`. `told` says how far the run is.
    ///
    /// # Errors
    /// If a file of the run can't be read, or the report can't be written.
    pub(crate) fn write(&self, standing: Standing, told: String) -> Result<(), RunError> {
        let Reported { dir, recipe, journal, .. } = *self;
        let rows = metrics::read(&run_dir::metrics_in(dir))?;
        let mut sets = Vec::new();
        for name in std::iter::once(None).chain(recipe.further_evaluations().iter().map(|plan| plan.name)) {
            sets.push(evaluated(recipe, journal, name)?);
        }
        let further = sets.split_off(1);
        let main = sets.pop().unwrap_or_default();
        let episodes = match main.steps.last() {
            Some(last) => self.drawn(last.step)?,
            None => Vec::new(),
        };
        let file = dir.join(run_dir::RECIPE);
        let report = Report {
            title: title::of(recipe),
            dir: dir.display().to_string(),
            standing,
            told,
            written: now(),
            facts: facts::of(dir, recipe, journal, &rows)?,
            recipe: std::fs::read_to_string(&file).map_err(FileError::on("read", &file))?,
            notes: self.notes(&rows),
            rounds: rounds::of(dir, recipe, &rows, &main)?,
            rows,
            main,
            further: further.into_iter().filter(|further| !further.steps.is_empty()).collect(),
            episodes,
        };
        Ok(report.write(&run_dir::report_in(dir))?)
    }

    fn notes(&self, rows: &[Row]) -> Vec<String> {
        let Reported { dir, recipe, .. } = *self;
        let quoted = shell_path(dir);
        let overlap = match self.overlap {
            Some(report) => decontaminate::notes(recipe, report),
            None => decontaminate::notes_of_metrics(rows),
        };
        let mut notes =
            [UnscoredSteps::of(rows).told().into_iter().collect(), recipe.warnings(), overlap].concat();
        let kind = if recipe.plays() { "" } else { " --eval" };
        if !recipe.env.is_absent() {
            notes.push(format!(
                "`burnish rollout --from {quoted} --step N{kind}` shows the episodes of a step, token by token."
            ));
            notes.push(format!(
                "`burnish eval {quoted}` evaluates its newest checkpoint, as it stands in the file, again."
            ));
        }
        if let Some(checkpoint) = run_dir::newest_checkpoint_in(dir) {
            notes.push(format!("{} is a model directory that transformers loads.", checkpoint.display()));
        }
        notes
    }

    /// Held-out episodes of an evaluation: half successes and half failures, if there are both. Without successes,
    /// those with the greatest and the least reward.
    fn drawn(&self, step: u64) -> Result<Vec<DrawnEpisode>, RunError> {
        let recipe = self.recipe;
        let stored = self.journal.episodes(step, EpisodeKind::Eval)?;
        let (tasks, mut episodes) = played(stored);
        let weights = &recipe.reward.weights;
        let total = |episode: &Episode| episode.verdict.total(weights);
        let measure = Measure::of(&episodes);
        let (successes, failures): (Vec<Episode>, Vec<Episode>) = match measure {
            Measure::Success => episodes.into_iter().partition(is_success),
            Measure::Reward => {
                episodes.retain(|episode| episode.verdict.is_scored());
                episodes
                    .sort_by(|one, other| total(other).unwrap_or(0.0).total_cmp(&total(one).unwrap_or(0.0)));
                let worse = episodes.split_off(episodes.len().div_ceil(2));
                (episodes, worse.into_iter().rev().collect())
            }
        };
        let half = EPISODES_DRAWN / 2;
        let chosen = successes.into_iter().take(half).chain(failures.into_iter().take(half));
        let (env, config) = environment_of(recipe, &EpisodeKind::Eval);
        let generator = makes_its_tasks(config).then(|| burnish_env::build(env, config)).transpose()?;
        let outcome = |episode: &Episode| match (measure, total(episode)) {
            (_, None) if episode.is_prompt_too_long() => "failure: the prompt does not fit".to_owned(),
            (_, None) => "unscored".to_owned(),
            (Measure::Success, _) if is_success(episode) => "success".to_owned(),
            (Measure::Success, _) => "failure".to_owned(),
            (Measure::Reward, Some(reward)) => format!("reward {reward:.3}"),
        };
        Ok(chosen
            .filter_map(|episode| {
                let task = tasks.iter().find(|task| task.id == episode.task)?;
                Some(DrawnEpisode {
                    title: format!("{}: {}", task.id, outcome(&episode)),
                    turns: conversation::of(task, &episode, self.tokenizer),
                    drawing: drawing(recipe, generator.as_deref(), task, &episode),
                    feedback: episode.verdict.feedback.clone().unwrap_or_default(),
                })
            })
            .collect())
    }
}

/// Writes the report of the run in `dir` anew, and returns its path. Nothing else of the run is changed, and the files
/// that its recipe names need not exist.
///
/// # Errors
/// If there is no run, a file of it can't be read, or the report can't be written.
pub fn rewrite(dir: &Path) -> Result<PathBuf, RunError> {
    let recipe = stored::read(dir)?;
    let rows = metrics::read(&run_dir::metrics_in(dir))?;
    let step = rows.iter().filter(|row| row.event == metrics::TRAIN).map(|row| row.step).max().unwrap_or(0);
    let newest = run_dir::newest_checkpoint_in(dir);
    let is_whole = step == recipe.train.max_steps
        && newest.as_ref().is_some_and(|newest| newest.ends_with(format!("step_{step}")));
    let standing = if run_dir::is_in_use(dir) {
        Standing::Running
    } else if run_dir::is_finished(dir) || is_whole {
        Standing::Finished
    } else {
        Standing::Stopped
    };
    let told = match standing {
        Standing::Finished => told_of_end(step, &recipe),
        Standing::Running => told_of_step(step, &recipe),
        Standing::Stopped => format!("{} {}", told_of_step(step, &recipe), told_how_to_go_on(dir)),
    };
    let journal = Journal::open_to_read(&run_dir::journal_in(dir))?;
    // Without a checkpoint, what was said is shown with the marks of the chat template.
    let tokenizer = newest.and_then(|newest| Tokenizer::load(&newest.join("tokenizer.json")).ok());
    let reported =
        Reported { dir, recipe: &recipe, journal: &journal, tokenizer: tokenizer.as_ref(), overlap: None };
    reported.write(standing, told)?;
    Ok(run_dir::report_in(dir))
}

/// How far a run is that has ended.
pub(crate) fn told_of_end(step: u64, recipe: &Recipe) -> String {
    match recipe.train.max_steps {
        all if all == step => format!("All {all} steps are done."),
        all => format!("Ended after step {step} of {all} by `train.patience`."),
    }
}

/// How far a run is that has not ended.
pub(crate) fn told_of_step(step: u64, recipe: &Recipe) -> String {
    format!("{step} of {} steps are done.", recipe.train.max_steps)
}

/// How to go on with a run.
pub(crate) fn told_how_to_go_on(dir: &Path) -> String {
    format!("Go on with `burnish train --resume {}`.", shell_path(dir))
}

/// Seconds since 1970 (UTC).
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64)
}

/// The results of one evaluation, step by step.
fn evaluated(recipe: &Recipe, journal: &Journal, name: Option<&str>) -> Result<Evaluated, RunError> {
    let (weights, seed) = (&recipe.reward.weights, bootstrap_seed(recipe));
    let kind = name.map_or(EpisodeKind::Eval, |name| EpisodeKind::Extra(name.to_owned()));
    let (mut steps, mut first, mut last) = (Vec::new(), None, None);
    for entry in journal.steps()?.into_iter().filter(|entry| entry.kind == kind) {
        let (tasks, episodes) = played(journal.episodes(entry.step, kind.clone())?);
        let summary = summarise(recipe, &tasks, &episodes);
        steps.push(EvaluatedStep { step: entry.step, summary });
        if first.is_none() { first = Some(episodes) } else { last = Some(episodes) }
    }
    let change = first.zip(last).and_then(|(first, last)| Change::between(&first, &last, weights, seed));
    Ok(Evaluated { name: name.map(str::to_owned), steps, change })
}

/// The tasks of some episodes, each once and in their order, and the episodes.
fn played(stored: Vec<StoredEpisode>) -> (Vec<Task>, Vec<Episode>) {
    let (mut tasks, mut episodes): (Vec<Task>, _) = (Vec::new(), Vec::with_capacity(stored.len()));
    let mut known = std::collections::BTreeSet::new();
    for StoredEpisode { task, episode, .. } in stored {
        if known.insert(task.id.clone()) {
            tasks.push(task);
        }
        episodes.push(episode);
    }
    (tasks, episodes)
}

/// Episodes of a step.
pub fn episodes_of(journal: &Journal, step: u64, kind: EpisodeKind) -> Result<Vec<Episode>, RunError> {
    Ok(journal.episodes(step, kind)?.into_iter().map(|stored| stored.episode).collect())
}

/// What there is to see of a task beside what was said. Where tasks are read from files, or judged by another program,
/// neither has to exist any more, and nothing is judged again for a picture.
fn drawing(recipe: &Recipe, generator: Option<&dyn Generator>, task: &Task, episode: &Episode) -> String {
    if let Some(generator) = generator {
        return rendering(generator, task, episode);
    }
    let column = recipe.evaluation().config.pointer("/columns/answer").and_then(|name| name.as_str());
    match task.truth.get(column.unwrap_or("answer")).and_then(|answer| answer.as_str()) {
        Some(answer) => format!("ground truth: {answer}"),
        None => String::new(),
    }
}
