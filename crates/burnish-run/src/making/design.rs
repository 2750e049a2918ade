//! What functions learn of the environment's configuration and of what came of the run: rates over tasks, and never a task.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::knob::Knob;
use burnish_core::{Episode, Task, TaskId};
use burnish_env::Generator;
use burnish_env::redesign::knobs;
use burnish_eval::Summary;
use burnish_reason::design::{Breakdown, Design, Labels, Part, Rates, Round, Training};
use burnish_recipe::Recipe;
use burnish_rundir::journal::EpisodeKind;
use burnish_rundir::metrics::{self, Row};
use burnish_rundir::run_dir;
use serde_json::Value;

use super::Over;
use crate::RunError;
use crate::artefact::read_config;
use crate::seeds::of_round;
use crate::tasks::Tasks;

/// Most values of a label that are told apart. One with more of them could name single tasks.
const VALUES_MAX: usize = 12;

/// The numbers of training that are told.
const NUMBERS: [&str; 6] =
    ["reward", "reward_std", "frac_reward_zero_std", "success", "entropy", "completions/mean_length"];

/// The configuration of a run's environment, with what came of the run. Keys of `only` may change.
///
/// # Errors
/// If the environment has no such keys, or the run was not evaluated after its last step.
pub(super) fn of(run: &Over<'_>, generator: &dyn Generator, only: &[String]) -> Result<Design, RunError> {
    let recipe = run.recipe;
    let knobs = knobs(generator, only).map_err(|error| RunError::Refused(error.to_string()))?;
    // Its own copy of the configuration that it was given has the rounds before.
    let given = match recipe.env.config_from {
        Some(_) => Some(read_config(&run.dir.join(run_dir::START_CONFIG), &recipe.env.id)?),
        None => None,
    };
    let (reason, history) = given.map(|given| (given.reason, given.history)).unwrap_or_default();
    let stored = run.journal.episodes(run.steps, EpisodeKind::Eval)?;
    let held_out = run.tasks.main().map(|set| set.tasks.as_slice()).unwrap_or_default();
    let episodes: Vec<Episode> = stored.into_iter().map(|stored| stored.episode).collect();
    if episodes.is_empty() {
        return Err(RunError::Refused("the run was not evaluated after its last step".to_owned()));
    }
    let rows = metrics::read(&run_dir::metrics_in(run.dir))?;
    let rows: Vec<&Row> = rows.iter().filter(|row| row.event == metrics::TRAIN).collect();
    let played: f64 = rows.iter().filter_map(|row| row.values.get("tasks")).sum();
    let config = generator.config();
    let value = |knob: &Knob| Some((knob.key.clone(), knob.value(&config)?));
    let round = Round {
        values: knobs.iter().filter_map(value).collect(),
        reason,
        played: played as usize,
        evaluation: breakdown(held_out, &episodes, &recipe.reward.weights, &knobs),
        training: training(&rows),
    };
    let guideline = generator.redesign().map(|able| able.guideline().to_owned());
    Ok(Design { environment: recipe.env.id.clone(), config, knobs, guideline, round, history })
}

/// `config` with all of its keys, if the round after that of `recipe` can play in it.
///
/// # Errors
/// If the environment can't make such tasks.
pub(super) fn checked(recipe: &Recipe, config: &Value) -> Result<Value, RunError> {
    let mut next = recipe.clone();
    // It is evaluated as this one is.
    next.eval.config.get_or_insert_with(|| recipe.env.config.clone());
    next.env.config = burnish_env::build(&recipe.env.id, config)?.config();
    next.run.seed = of_round(recipe.run.seed, 2);
    Tasks::make(&next, true)?;
    Ok(next.env.config)
}

/// The rates of `episodes` of `tasks`. `weights` are those of the reward's components.
fn breakdown(
    tasks: &[Task],
    episodes: &[Episode],
    weights: &BTreeMap<String, f64>,
    knobs: &[Knob],
) -> Breakdown {
    let part = |labels: Labels| {
        let has_them = |task: &&Task| labels.iter().all(|(name, value)| task.labels.get(name) == Some(value));
        let tasks: Vec<Task> = tasks.iter().filter(has_them).cloned().collect();
        let ids: BTreeSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
        let episodes: Vec<Episode> =
            episodes.iter().filter(|episode| ids.contains(&episode.task)).cloned().collect();
        let rates = rates(&tasks, &episodes, weights);
        (rates.tasks > 0).then_some(Part { labels, rates })
    };
    Breakdown {
        all: rates(tasks, episodes, weights),
        parts: labels(tasks, knobs).into_iter().filter_map(part).collect(),
    }
}

fn rates(tasks: &[Task], episodes: &[Episode], weights: &BTreeMap<String, f64>) -> Rates {
    // Only means are read, so nothing depends on the seed of the intervals.
    let summary = Summary::of(tasks, episodes, weights, 0);
    Rates {
        tasks: summary.tasks,
        success: summary.success.map(|success| success.mean),
        reward: summary.reward.map(|reward| reward.mean),
        flags: summary.flags,
    }
}

/// The labels by which tasks are told apart.
fn labels(tasks: &[Task], knobs: &[Knob]) -> BTreeSet<Labels> {
    let mut all = BTreeSet::new();
    for name in tasks.iter().flat_map(|task| task.labels.keys()).collect::<BTreeSet<_>>() {
        let values: BTreeSet<&String> = tasks.iter().filter_map(|task| task.labels.get(name)).collect();
        if values.len() <= VALUES_MAX && 2 * values.len() <= tasks.len() {
            all.extend(values.into_iter().map(|value| Labels::from([(name.clone(), value.clone())])));
        }
    }
    all.extend(knobs.iter().map(|knob| &knob.tasks).filter(|labels| labels.len() > 1).cloned());
    all
}

/// Of the training steps of a run.
fn training(rows: &[&Row]) -> Training {
    let part = rows.len().div_ceil(5);
    let mean = |rows: &[&Row], name: &str| {
        let found: Vec<f64> = rows
            .iter()
            .filter_map(|row| row.values.get(name).copied())
            .filter(|number| number.is_finite())
            .collect();
        (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
    };
    let both = |name: &&str| {
        let (first, last) = (mean(&rows[..part], name)?, mean(&rows[rows.len() - part..], name)?);
        Some(((*name).to_owned(), [first, last]))
    };
    Training { steps: rows.len(), numbers: NUMBERS.iter().filter_map(both).collect() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use burnish_core::knob::{Harder, KnobKind};
    use burnish_core::{Ending, Message, Record, Verdict};
    use burnish_recipe::Source;
    use serde_json::json;

    use super::*;

    /// Held-out tasks of two sizes, with and without waits; those of size 3 are solved.
    fn played() -> (Vec<Task>, Vec<Episode>) {
        let (mut tasks, mut episodes) = (Vec::new(), Vec::new());
        for at in 0..40 {
            let (size, wait) = (if at % 2 == 0 { "3" } else { "4" }, if at % 4 < 2 { "yes" } else { "no" });
            let id = TaskId(format!("secret-{at}"));
            let labels = [("size", size), ("wait", wait), ("name", &*format!("secret-{at}"))];
            tasks.push(Task {
                id: id.clone(),
                environment: "boards".into(),
                prompt: vec![Message::user(format!("secret prompt {at}"))],
                truth: json!({"secret": at}),
                labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            });
            let is_solved = size == "3";
            let mut verdict = Verdict::scored("plan", f64::from(u8::from(is_solved)), is_solved);
            verdict.flags = BTreeMap::from([("collision".to_owned(), !is_solved)]);
            verdict.feedback = Some("secret feedback".into());
            episodes.push(Episode {
                task: id,
                rollout: 0,
                traces: Vec::new(),
                partners: Vec::new(),
                verdict,
                ending: Ending::Completed,
                answers: vec![Message::assistant("secret answer")],
                record: Record::default(),
            });
        }
        (tasks, episodes)
    }

    #[test]
    fn a_breakdown_has_rates_by_label_and_names_no_task() {
        let both = [("size", "3"), ("wait", "yes")];
        let holes = Knob {
            key: "holes".to_owned(),
            kind: KnobKind::Number,
            of: String::new(),
            min: 0.0,
            max: 0.3,
            menu: vec![0.0, 0.3],
            harder: Harder::Up,
            tasks: both.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            help: String::new(),
        };
        let (tasks, episodes) = played();
        let found = breakdown(&tasks, &episodes, &BTreeMap::new(), &[holes]);
        assert_eq!((found.all.tasks, found.all.success), (40, Some(0.5)));
        let at = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            found.at(&labels.collect()).map(|rates| (rates.tasks, rates.success, rates.flags["collision"]))
        };
        assert_eq!(at(&[("size", "3")]), Some((20, Some(1.0), 0.0)));
        assert_eq!(at(&[("size", "4")]), Some((20, Some(0.0), 1.0)));
        assert_eq!(at(&both), Some((10, Some(1.0), 0.0)), "the tasks on which a key acts");
        assert_eq!(found.parts.len(), 5);
        assert!(!format!("{found:?}").contains("secret"), "a label with a value for each task names tasks");
    }

    #[test]
    fn numbers_of_training_are_means_of_the_first_and_the_last_fifth() {
        let row = |reward: f64| Row {
            step: 0,
            event: metrics::TRAIN.to_owned(),
            values: [("reward".to_owned(), reward), ("loss".to_owned(), 1.0)].into(),
        };
        let rows: Vec<Row> = [1.0, 3.0, 9.0, 9.0, f64::NAN, 9.0, 9.0, 9.0, 5.0, 7.0].map(row).into();
        let rows: Vec<&Row> = rows.iter().collect();
        let expected = BTreeMap::from([("reward".to_owned(), [2.0, 6.0])]);
        assert_eq!(training(&rows), Training { steps: 10, numbers: expected });
    }

    #[test]
    fn a_configuration_is_completed_and_refused_where_it_has_no_tasks() {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[env]\nid = \"countdown\"\ntasks = 12\n[train]\n\
                    method = \"grpo\"\nmax_steps = 2\n[eval]\ntasks = 5\n";
        let recipe = Recipe::resolve(&Source::parse("r.toml", text, &[]).unwrap()).unwrap();
        let mut wanted = recipe.env.config.clone();
        wanted["numbers"]["max"] = 4.into();
        assert_eq!(checked(&recipe, &json!({ "numbers": { "min": 3, "max": 4 } })).unwrap(), wanted);
        let error = checked(&recipe, &json!({ "numbers": { "min": 5, "max": 4 } })).unwrap_err();
        assert!(error.to_string().contains("numbers"), "{error}");
    }

    #[test]
    fn a_configuration_is_tried_with_the_evaluation_of_this_run() {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[env]\nid = \"countdown\"\ntasks = 4\n\
                    [train]\nmethod = \"grpo\"\nmax_steps = 2\n[eval]\ntasks = 500\n";
        let recipe = Recipe::resolve(&Source::parse("r.toml", text, &[]).unwrap()).unwrap();
        assert_eq!(recipe.eval.config, None);
        // It has far fewer than 500 tasks, which would all be held out if it were evaluated on its own.
        let narrow = json!({ "numbers": { "min": 2, "max": 2 }, "values": { "min": 1, "max": 4 },
                             "operations": { "min": 1, "max": 1 } });
        checked(&recipe, &narrow).unwrap();
        let alone =
            Recipe { env: burnish_recipe::EnvSection { config: narrow, ..recipe.env.clone() }, ..recipe };
        assert!(Tasks::make(&alone, true).is_err());
    }
}
