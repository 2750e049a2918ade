//! The study file. It is read strictly, and every arm's recipe is checked before anything starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::columns;
use burnish_recipe::{Recipe, RecipeError, Source, expand};
use burnish_run::RunError;
use burnish_run::stages;
use burnish_rundir::text::{shell_path, shell_word};

/// Recipe keys that a study sets itself.
const SET_BY_STUDY: [&str; 2] = ["run.dir", "run.seed"];

/// Upper bound on the seeds of a study.
const SEEDS_MAX: u64 = 10_000;
/// Upper bound on the runs side by side.
pub const JOBS_MAX: usize = 256;

/// A study, with every arm's recipe resolved.
#[derive(Debug, Clone)]
pub struct Study {
    /// The file that it was read from.
    pub file: PathBuf,
    /// Overrides of that file.
    pub overrides: Vec<String>,
    /// The stem of its files' names.
    pub id: String,
    /// The heading of its page.
    pub title: String,
    /// What it tests, in one sentence.
    pub claim: String,
    /// The recipe that all arms change.
    pub recipe: PathBuf,
    /// Overrides of the recipe that all arms share.
    pub set: Vec<String>,
    /// Index of the arm that the others are compared with.
    pub baseline: usize,
    /// Where the runs are stored: `DIR/ARM/seed-K`.
    pub dir: PathBuf,
    /// The folder for the page and the plot.
    pub results: PathBuf,
    /// Runs side by side.
    pub jobs: usize,
    /// A held-out success rate. The page says how much each run generated until it reached this rate.
    pub reach: Option<f64>,
    /// Additional numbers for the page: from the last evaluation, such as `flags_by_label.answerable.no.abstained`,
    /// or from the run's metrics, such as `std(grad_norm)`.
    pub metrics: Vec<String>,
    /// The arms that are compared.
    pub arms: Vec<Arm>,
}

/// One way to train.
#[derive(Debug, Clone)]
pub struct Arm {
    /// The name of its directory.
    pub name: String,
    /// Its overrides of the recipe, `key.sub=value`.
    pub set: Vec<String>,
    /// What a reader should know about it.
    pub note: String,
    /// The seeds of its runs.
    pub seeds: Vec<u64>,
    /// Its recipe; `run.dir` and `run.seed` differ between runs.
    pub recipe: Recipe,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    study: Section,
    arms: Vec<ArmSection>,
}

/// `[study]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    id: String,
    title: String,
    claim: String,
    recipe: PathBuf,
    #[serde(default)]
    set: Vec<String>,
    baseline: String,
    dir: Option<PathBuf>,
    #[serde(default = "results")]
    results: PathBuf,
    seeds: Seeds,
    #[serde(default = "one")]
    jobs: usize,
    reach: Option<f64>,
    #[serde(default)]
    metrics: Vec<String>,
}

/// `[[arms]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmSection {
    name: String,
    #[serde(default)]
    set: Vec<String>,
    seeds: Option<usize>,
    #[serde(default)]
    note: String,
}

fn results() -> PathBuf {
    "docs/results".into()
}

fn one() -> usize {
    1
}

/// A list of seeds, or their number: then the seeds are 1, 2 ...
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct Seeds(Vec<u64>);

impl TryFrom<Value> for Seeds {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let wrong =
            || format!("must be how many seeds, or a list of different seeds such as [1, 2] (it is {value})");
        let seeds: Vec<u64> = match &value {
            Value::Array(items) => {
                items.iter().map(Value::as_u64).collect::<Option<_>>().ok_or_else(wrong)?
            }
            count => {
                let count = count.as_u64().ok_or_else(wrong)?;
                if count > SEEDS_MAX {
                    return Err(format!("must be {SEEDS_MAX} seeds or less (it is {count})"));
                }
                (1..=count).collect()
            }
        };
        let different: BTreeSet<u64> = seeds.iter().copied().collect();
        if seeds.is_empty() || different.len() < seeds.len() {
            return Err(wrong());
        }
        Ok(Seeds(seeds))
    }
}

impl Study {
    /// Reads a study file, applies `key.sub=value` overrides to it, and resolves the recipe of every arm.
    ///
    /// # Errors
    /// Names the key and its line. Errors in recipes are collected from all arms and reported together.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, RunError> {
        let source = Source::read(path, overrides)?.of_no_recipe();
        let File { study: mut section, arms } = source.decode()?;
        let paths = [("recipe", Some(&mut section.recipe)), ("results", Some(&mut section.results))];
        for (key, path) in paths.into_iter().chain([("dir", section.dir.as_mut())]) {
            let Some(path) = path else { continue };
            *path = expand(path).map_err(|problem| source.error(&format!("study.{key}"), problem))?;
        }
        check_section(&source, &section, &arms)?;
        let baseline = arms.iter().position(|arm| arm.name == section.baseline).ok_or_else(|| {
            let names: Vec<&str> = arms.iter().map(|arm| &*arm.name).collect();
            let problem =
                format!("is `{}`, which no arm is called; arms: {}", section.baseline, names.join(", "));
            source.error("study.baseline", problem)
        })?;
        let mut problems = Vec::new();
        let mut resolved = Vec::new();
        for (at, arm) in arms.into_iter().enumerate() {
            let name = arm.name.clone();
            match resolve(&section, arm, &source.error(&format!("arms[{at}]"), String::new()).place) {
                Ok(arm) => resolved.push(arm),
                Err(problem) => problems.push(format!("arm `{name}`: {problem}")),
            }
        }
        if problems.is_empty() {
            let (name, recipe) = (&resolved[baseline].name, &resolved[baseline].recipe);
            let differing = resolved.iter().filter_map(|arm| {
                let key = other_tasks(recipe, &arm.recipe)?;
                Some(format!(
                    "arm `{}`: is evaluated on other tasks than the baseline `{name}` (`{key}` differs), so that \
                     nothing could be paired: set `{key}` for all arms",
                    arm.name
                ))
            });
            problems.extend(differing);
        }
        if !problems.is_empty() {
            return Err(RunError::Refused(format!("{}: {}", path.display(), problems.join("\n"))));
        }
        let Section { id, title, claim, recipe, set, dir, results, jobs, reach, metrics, .. } = section;
        let dir = dir.unwrap_or_else(|| Path::new("runs").join(&id));
        let file = path.to_owned();
        Ok(Study {
            file,
            overrides: overrides.to_vec(),
            id,
            title,
            claim,
            recipe,
            set,
            baseline,
            dir,
            results,
            jobs,
            reach,
            metrics,
            arms: resolved,
        })
    }

    /// The command that makes the study, quoted for a shell.
    pub fn command(&self) -> String {
        let changes = self.overrides.iter().map(|change| format!(" {}", shell_word(change)));
        format!("burnish study {}{}", shell_path(&self.file), changes.collect::<String>())
    }

    /// The arm called `name`.
    ///
    /// # Errors
    /// If there is none: lists the names of the arms.
    pub fn arm(&self, name: &str) -> Result<&Arm, RunError> {
        self.arms.iter().find(|arm| arm.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.arms.iter().map(|arm| &*arm.name).collect();
            RunError::Refused(format!(
                "`{name}` is no arm of {}; arms: {}",
                self.file.display(),
                names.join(", ")
            ))
        })
    }
}

fn check_section(source: &Source, section: &Section, arms: &[ArmSection]) -> Result<(), RecipeError> {
    if !is_file_name(&section.id) {
        return Err(source.error("study.id", NAME_RULE.into()));
    }
    if !(1..=JOBS_MAX).contains(&section.jobs) {
        let rule = format!("must be 1 to {JOBS_MAX} (it is {})", section.jobs);
        return Err(source.error("study.jobs", rule));
    }
    if section.reach.is_some_and(|score| !(score > 0.0 && score <= 1.0)) {
        return Err(source.error("study.reach", "must be a success rate, above 0 and at most 1".into()));
    }
    for name in &section.metrics {
        columns::check(name).map_err(|problem| source.error("study.metrics", problem))?;
    }
    if arms.len() < 2 {
        return Err(source.error("arms", "must be two or more: a study compares".into()));
    }
    let mut names = BTreeSet::new();
    for (at, arm) in arms.iter().enumerate() {
        let key = |key: &str| format!("arms[{at}].{key}");
        if !is_file_name(&arm.name) {
            return Err(source.error(&key("name"), NAME_RULE.into()));
        }
        if !names.insert(&arm.name) {
            return Err(source.error(&key("name"), format!("is `{}`, as that of another arm", arm.name)));
        }
        if arm.seeds == Some(0) {
            let rule = "must be 1 or more: at most so many of `study.seeds` are taken, the first ones";
            return Err(source.error(&key("seeds"), rule.into()));
        }
    }
    Ok(())
}

const NAME_RULE: &str = "must be letters, digits, `-` and `_`: files are called by it";

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// `place` is where the arm stands in the file.
fn resolve(section: &Section, arm: ArmSection, place: &str) -> Result<Arm, String> {
    let overrides: Vec<String> = section.set.iter().chain(&arm.set).cloned().collect();
    for change in &overrides {
        let key = change.split('=').next().unwrap_or_default().trim();
        if let Some(own) = SET_BY_STUDY.iter().find(|own| **own == key) {
            return Err(format!("{place}: override `{change}`: the study sets `{own}` for each run itself"));
        }
    }
    let mut recipe = Recipe::read(&section.recipe, &overrides).map_err(|error| error.to_string())?;
    stages::resolve(&mut recipe).map_err(|error| error.to_string())?;
    if recipe.eval.tasks < 2 {
        return Err("`eval.tasks` must be 2 or more: arms are compared over held-out tasks".into());
    }
    let count = arm.seeds.unwrap_or(section.seeds.0.len());
    let seeds: Vec<u64> = section.seeds.0.iter().copied().take(count).collect();
    recipe.run.seed = seeds.first().copied().unwrap_or_default();
    Ok(Arm { name: arm.name, set: arm.set, note: arm.note, seeds, recipe })
}

/// The first key that makes two recipes evaluate on different tasks. Held-out tasks do not depend on `run.seed`.
fn other_tasks(one: &Recipe, other: &Recipe) -> Option<&'static str> {
    let config = |recipe: &Recipe| recipe.eval.config.clone().unwrap_or_else(|| recipe.env.config.clone());
    [
        ("env.id", one.env.id == other.env.id),
        ("eval.config", config(one) == config(other)),
        ("eval.seed", one.eval.seed == other.eval.seed),
        ("eval.tasks", one.eval.tasks == other.eval.tasks),
        ("eval.extra", one.eval.extra == other.eval.extra),
    ]
    .into_iter()
    .find_map(|(key, is_same)| (!is_same).then_some(key))
}
