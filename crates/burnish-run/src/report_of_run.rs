//! What the report of a complete run shows.

use burnish_core::Episode;
use burnish_eval::Summary;

use crate::RunError;
use crate::decontaminate;
use crate::evaluate::bootstrap_seed;
use crate::inspect::shown;
use crate::journal::{EpisodeKind, Journal};
use crate::metrics;
use crate::recipe::{Method, Recipe};
use crate::report::{DrawnEpisode, EvaluatedStep, Report};
use crate::run_dir::RunDir;
use crate::tasks::Tasks;
use crate::train::Outcome;

/// Episodes that the report draws.
const EPISODES_DRAWN: usize = 4;

/// Writes `report.html`.
pub(crate) fn write(
    recipe: &Recipe,
    dir: &RunDir,
    journal: &Journal,
    tasks: &Tasks,
    outcome: &Outcome,
) -> Result<(), RunError> {
    let mut evaluations = Vec::new();
    for entry in journal.steps()?.iter().filter(|entry| entry.kind == EpisodeKind::Eval) {
        let episodes = eval_episodes(journal, entry.step)?;
        let summary = Summary::of(&tasks.eval, &episodes, &recipe.reward.weights, bootstrap_seed(recipe));
        evaluations.push(EvaluatedStep { step: entry.step, summary });
    }
    let name = dir.path().display();
    let kind = if recipe.train.method == Method::Grpo { "" } else { " --eval" };
    let overlap =
        outcome.overlap.as_ref().map(|report| decontaminate::notes(recipe, report)).unwrap_or_default();
    let report = Report {
        title: format!("{name}: {:?} on {}", recipe.train.method, recipe.env.id),
        recipe: recipe.to_toml()?,
        rows: metrics::read(&dir.metrics())?,
        evaluations,
        change: outcome.change,
        episodes: drawn(journal, tasks, outcome.steps)?,
        notes: [
            recipe.warnings(),
            overlap,
            vec![
            format!(
                "`burnish rollout --from {name} --step N{kind}` shows the episodes of a step, token by token."
            ),
            format!(
                "`burnish eval {name}` evaluates its newest checkpoint, as it stands in the file, again."
            ),
            format!("{} is a model directory that transformers loads.", outcome.checkpoint.display()),
        ]]
        .concat(),
    };
    Ok(report.write(&dir.report())?)
}

pub(crate) fn eval_episodes(journal: &Journal, step: u64) -> Result<Vec<Episode>, RunError> {
    Ok(journal.episodes(step, EpisodeKind::Eval)?.into_iter().map(|stored| stored.episode).collect())
}

/// Held-out episodes of the last evaluation: half of them successes and half failures, where there are both.
fn drawn(journal: &Journal, tasks: &Tasks, step: u64) -> Result<Vec<DrawnEpisode>, RunError> {
    let (successes, failures): (Vec<Episode>, Vec<Episode>) =
        eval_episodes(journal, step)?.into_iter().partition(|episode| episode.verdict.success);
    let half = EPISODES_DRAWN / 2;
    let chosen = successes.into_iter().take(half).chain(failures.into_iter().take(half));
    Ok(chosen
        .filter_map(|episode| {
            let task = tasks.eval.iter().find(|task| task.id == episode.task)?.clone();
            let outcome = if episode.verdict.success { "success" } else { "failure" };
            let feedback =
                episode.verdict.feedback.clone().map(|text| format!("\n{text}")).unwrap_or_default();
            let title = format!("{}: {outcome}", task.id);
            let shown = shown(&*tasks.eval_generator, task, episode, None);
            Some(DrawnEpisode { title, text: format!("{}{feedback}", shown.drawing.trim_end()) })
        })
        .collect())
}
