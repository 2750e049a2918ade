//! The content of a complete run's report.

use burnish_core::Episode;
use burnish_eval::{Change, Measure, Summary, is_success};

use crate::RunError;
use crate::decontaminate;
use crate::eval_set::EvalSet;
use crate::evaluate::bootstrap_seed;
use crate::inspect::drawing;
use crate::tasks::Tasks;
use crate::train::Outcome;
use burnish_recipe::{Method, Recipe};
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::metrics;
use burnish_rundir::report::{DrawnEpisode, Evaluated, EvaluatedStep, Report};
use burnish_rundir::run_dir::RunDir;
use burnish_rundir::text::shell_path;

/// Number of episodes that the report shows.
const EPISODES_DRAWN: usize = 4;

/// Writes `report.html`.
pub(crate) fn write(
    recipe: &Recipe,
    dir: &RunDir,
    journal: &Journal,
    tasks: &Tasks,
    outcome: &Outcome,
) -> Result<(), RunError> {
    let mut sets = tasks.evaluations.iter().map(|set| evaluated(recipe, journal, set));
    let main = sets.next().transpose()?.unwrap_or_default();
    let further = sets.collect::<Result<Vec<_>, RunError>>()?;
    let (name, quoted) = (dir.path().display(), shell_path(dir.path()));
    let kind = if recipe.train.method == Method::Grpo { "" } else { " --eval" };
    let overlap =
        outcome.overlap.as_ref().map(|report| decontaminate::notes(recipe, report)).unwrap_or_default();
    let report = Report {
        title: format!("{name}: {:?} on {}", recipe.train.method, recipe.env.id),
        recipe: recipe.to_toml()?,
        rows: metrics::read(&dir.metrics())?,
        main,
        further: further.into_iter().filter(|further| !further.steps.is_empty()).collect(),
        episodes: drawn(recipe, journal, tasks, outcome.steps)?,
        notes: [
            outcome.unscored.told().into_iter().collect(),
            recipe.warnings(),
            overlap,
            vec![
            format!(
                "`burnish rollout --from {quoted} --step N{kind}` shows the episodes of a step, token by token."
            ),
            format!(
                "`burnish eval {quoted}` evaluates its newest checkpoint, as it stands in the file, again."
            ),
            format!("{} is a model directory that transformers loads.", outcome.checkpoint.display()),
        ]]
        .concat(),
    };
    Ok(report.write(&dir.report())?)
}

/// The results of one evaluation, step by step.
fn evaluated(recipe: &Recipe, journal: &Journal, set: &EvalSet) -> Result<Evaluated, RunError> {
    let (weights, seed) = (&recipe.reward.weights, bootstrap_seed(recipe));
    let kind = set.kind();
    let (mut steps, mut first, mut last) = (Vec::new(), None, None);
    for entry in journal.steps()?.into_iter().filter(|entry| entry.kind == kind) {
        let episodes = episodes_of(journal, entry.step, kind.clone())?;
        let summary = Summary::of(&set.tasks, &episodes, weights, seed);
        steps.push(EvaluatedStep { step: entry.step, summary });
        if first.is_none() { first = Some(episodes) } else { last = Some(episodes) }
    }
    let change = first.zip(last).and_then(|(first, last)| Change::between(&first, &last, weights, seed));
    Ok(Evaluated { name: set.name.clone(), steps, change })
}

/// Episodes of a step.
pub fn episodes_of(journal: &Journal, step: u64, kind: EpisodeKind) -> Result<Vec<Episode>, RunError> {
    Ok(journal.episodes(step, kind)?.into_iter().map(|stored| stored.episode).collect())
}

/// Held-out episodes of the last evaluation: half successes and half failures, if there are both. Without successes,
/// those with the greatest and the least reward.
fn drawn(
    recipe: &Recipe,
    journal: &Journal,
    tasks: &Tasks,
    step: u64,
) -> Result<Vec<DrawnEpisode>, RunError> {
    let mut episodes = episodes_of(journal, step, EpisodeKind::Eval)?;
    let weights = &recipe.reward.weights;
    let total = |episode: &Episode| episode.verdict.total(weights);
    let measure = Measure::of(&episodes);
    let (successes, failures): (Vec<Episode>, Vec<Episode>) = match measure {
        Measure::Success => episodes.into_iter().partition(is_success),
        Measure::Reward => {
            episodes.retain(|episode| episode.verdict.is_scored());
            episodes.sort_by(|one, other| total(other).unwrap_or(0.0).total_cmp(&total(one).unwrap_or(0.0)));
            let worse = episodes.split_off(episodes.len().div_ceil(2));
            (episodes, worse.into_iter().rev().collect())
        }
    };
    let half = EPISODES_DRAWN / 2;
    let chosen = successes.into_iter().take(half).chain(failures.into_iter().take(half));
    Ok(chosen
        .filter_map(|episode| {
            let main = tasks.main()?;
            let task = main.tasks.iter().find(|task| task.id == episode.task)?.clone();
            let outcome = match (measure, total(&episode)) {
                (_, None) if episode.is_prompt_too_long() => "failure: the prompt does not fit".to_owned(),
                (_, None) => "unscored".to_owned(),
                (Measure::Success, _) if is_success(&episode) => "success".to_owned(),
                (Measure::Success, _) => "failure".to_owned(),
                (Measure::Reward, Some(reward)) => format!("reward {reward:.3}"),
            };
            let feedback =
                episode.verdict.feedback.clone().map(|text| format!("\n{text}")).unwrap_or_default();
            let title = format!("{}: {outcome}", task.id);
            let drawing = drawing(&*main.generator, &task, &episode);
            Some(DrawnEpisode { title, text: format!("{}{feedback}", drawing.trim_end()) })
        })
        .collect())
}
