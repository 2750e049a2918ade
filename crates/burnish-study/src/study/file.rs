//! The study file. It is read strictly, and every recipe of every arm is checked before anything starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::claim::{ClaimSection, DiseaseSection, Role, Test, TuningSection};
use super::metric;
use burnish_recipe::{Recipe, RecipeError, Source, expand};
use burnish_run::RunError;
use burnish_run::stages;
use burnish_rundir::text::{shell_path, shell_word};

/// Recipe keys that a study sets itself.
const SET_BY_STUDY: [&str; 2] = ["run.dir", "run.seed"];

/// Upper bound on the seeds of a study.
const SEEDS_MAX: u64 = 10_000;
/// Upper bound on a seed: stages and held-out tasks get theirs from it.
const SEED_MAX: u64 = u32::MAX as u64;
/// Upper bound on the runs side by side.
pub const JOBS_MAX: usize = 256;
/// Folders of a study beside those of its arms.
pub(super) const FOLDERS: [&str; 2] = ["disease", "tuning"];

/// A study, with every arm's recipe resolved.
#[derive(Debug, Clone)]
pub struct Study {
    /// The file that it was read from.
    pub file: PathBuf,
    /// Overrides of that file.
    pub overrides: Vec<String>,
    /// The name of its runs' folder and, unless `results` is a page, of its page.
    pub id: String,
    /// The heading of its page.
    pub title: String,
    /// What it claims, or what it asks, in one sentence.
    pub text: String,
    /// What is tested, and how. Without it, the study is a survey: it shows intervals and judges nothing.
    pub test: Option<Test>,
    /// The recipe that all arms change.
    pub recipe: PathBuf,
    /// Overrides of the recipe that all arms share.
    pub set: Vec<String>,
    /// The seeds of the reported runs.
    pub seeds: Vec<u64>,
    /// Index of the arm that the others are compared with: the first baseline.
    pub baseline: usize,
    /// Where the runs are stored: `DIR/ARM/seed-K`.
    pub dir: PathBuf,
    /// The folder for the page and the plot, or the page itself (`….md`). See [`Study::page`].
    pub results: PathBuf,
    /// Runs side by side.
    pub jobs: usize,
    /// How long one run takes, in minutes, as its author expects.
    pub minutes: Option<f64>,
    /// Additional numbers for the page, such as `flags_by_label.answerable.no.abstained` or `std(grad_norm)`.
    pub metrics: Vec<String>,
    /// Keys of the environment's configuration that say how a task is played, not which task it is: arms may differ in
    /// them.
    pub ways: Vec<String>,
    /// The arms that are compared.
    pub arms: Vec<Arm>,
}

/// One way to train.
#[derive(Debug, Clone)]
pub struct Arm {
    /// The name of its directory.
    pub name: String,
    /// What it is for.
    pub role: Option<Role>,
    /// Its overrides of the recipe, `key.sub=value`.
    pub set: Vec<String>,
    /// What a reader should know about it.
    pub note: String,
    /// The seeds of its reported runs.
    pub seeds: Vec<u64>,
    /// Its recipe as it is written. Seeds, stages and `run.dir` differ between runs.
    pub recipe: Recipe,
    /// Its recipe at each point of the grid.
    pub tuned: Vec<Recipe>,
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
    question: Option<String>,
    claim: Option<ClaimSection>,
    disease: Option<DiseaseSection>,
    tuning: Option<TuningSection>,
    recipe: PathBuf,
    #[serde(default)]
    set: Vec<String>,
    dir: Option<PathBuf>,
    #[serde(default = "results")]
    results: PathBuf,
    seeds: Seeds,
    #[serde(default = "one")]
    jobs: usize,
    minutes: Option<f64>,
    #[serde(default)]
    metrics: Vec<String>,
    #[serde(default)]
    ways: Vec<String>,
}

/// `[[arms]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArmSection {
    pub(super) name: String,
    pub(super) role: Option<Role>,
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
pub(super) struct Seeds(pub(super) Vec<u64>);

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
        match seeds.iter().find(|seed| **seed > SEED_MAX) {
            Some(seed) => Err(format!("must be seeds of at most {SEED_MAX} (one is {seed})")),
            None => Ok(Seeds(seeds)),
        }
    }
}

impl Study {
    /// Reads a study file, applies `key.sub=value` overrides to it, and resolves the recipes of every arm.
    ///
    /// # Errors
    /// Names the key and its line. Errors in recipes are collected from all arms and reported together.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, RunError> {
        let source = Source::read(path, overrides)?.of_no_recipe();
        refuse_old_keys(&source)?;
        let File { study: mut section, arms } = source.decode()?;
        let paths = [("recipe", Some(&mut section.recipe)), ("results", Some(&mut section.results))];
        for (key, path) in paths.into_iter().chain([("dir", section.dir.as_mut())]) {
            let Some(path) = path else { continue };
            *path = expand(path).map_err(|problem| source.error(&format!("study.{key}"), problem))?;
        }
        check_section(&source, &section, &arms)?;
        let baseline = arms.iter().position(|arm| arm.role == Some(Role::Baseline)).ok_or_else(|| {
            let problem = "must have one with `role = \"baseline\"`: the others are compared with it";
            source.error("arms", problem.into())
        })?;
        let (text, test) = text_and_test(&source, &mut section, &arms, &arms[baseline].name)?;
        let points = test.as_ref().map_or(&[][..], |test| test.tuning.points());
        let mut problems = Vec::new();
        let mut resolved = Vec::new();
        for (at, arm) in arms.into_iter().enumerate() {
            let name = arm.name.clone();
            let place = source.error(&format!("arms[{at}]"), String::new()).place;
            match resolve(&section, points, arm, &place) {
                Ok(arm) => resolved.push(arm),
                Err(problem) => problems.push(format!("arm `{name}`: {problem}")),
            }
        }
        let has = |way: &String| resolved.iter().any(|arm| arm.recipe.env.config.get(way).is_some());
        problems.extend(
            section
                .ways
                .iter()
                .filter(|way| !has(way))
                .map(|way| format!("`study.ways` has `{way}`, which is no key of `env.config` in any arm")),
        );
        if problems.is_empty() {
            let (name, recipe) = (&resolved[baseline].name, &resolved[baseline].recipe);
            let all = resolved.iter().flat_map(|arm| {
                [&arm.recipe].into_iter().chain(&arm.tuned).map(move |recipe| (&arm.name, recipe))
            });
            problems.extend(all.filter_map(|(arm, other)| {
                let key = other_tasks(recipe, other, &section.ways)?;
                Some(format!(
                    "arm `{arm}`: is evaluated on other tasks than the baseline `{name}` (`{key}` differs), so that \
                     nothing could be paired: set `{key}` for all arms, or, where the keys that differ say how a task \
                     is played and not which task it is, name them in `study.ways`"
                ))
            }));
        }
        if !problems.is_empty() {
            return Err(RunError::Refused(format!("{}: {}", path.display(), problems.join("\n"))));
        }
        let Section { id, title, recipe, set, dir, results, seeds, jobs, minutes, metrics, ways, .. } =
            section;
        let dir = dir.unwrap_or_else(|| Path::new("runs").join(&id));
        let (file, overrides, arms, seeds) = (path.to_owned(), overrides.to_vec(), resolved, seeds.0);
        Ok(Study {
            file,
            overrides,
            id,
            title,
            text,
            test,
            recipe,
            set,
            seeds,
            baseline,
            dir,
            results,
            jobs,
            minutes,
            metrics,
            ways,
            arms,
        })
    }

    /// The command that makes the study, quoted for a shell.
    pub fn command(&self) -> String {
        let changes = self.overrides.iter().map(|change| format!(" {}", shell_word(change)));
        format!("burnish study {}{}", shell_path(&self.file), changes.collect::<String>())
    }

    /// The path of the page. The plot and the findings as data are beside it, by the same name. A draft's page
    /// stays with its runs.
    pub fn page(&self, is_draft: bool) -> PathBuf {
        let own = format!("{}.md", self.id);
        let is_page = self.results.extension().is_some_and(|end| end == "md");
        match (is_draft, is_page) {
            (true, _) => self.dir.join(own),
            (false, true) => self.results.clone(),
            (false, false) => self.results.join(own),
        }
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

    /// Every number that its file names: that of the claim, those of the gauges, and the additional ones.
    pub fn named_metrics(&self) -> Vec<&str> {
        let of_test = self.test.iter().flat_map(|test| {
            [&*test.claim.metric].into_iter().chain(test.disease.gauges.iter().map(|gauge| &*gauge.metric))
        });
        let mut names = Vec::new();
        for name in of_test.chain(self.metrics.iter().map(|name| &**name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Keys of study files from before claims were tested, with what says the same now.
fn refuse_old_keys(source: &Source) -> Result<(), RecipeError> {
    let error = |key: &str, problem: &str| Err(source.error(key, problem.to_owned()));
    if source.get("study.claim").is_some_and(Value::is_string) {
        return error(
            "study.claim",
            "is a table now, with `text`, `metric`, `direction` and `contrasts`; a study that tests no claim has a \
             `question`",
        );
    }
    if source.get("study.baseline").is_some() {
        return error("study.baseline", "is no key any more: that arm has `role = \"baseline\"`");
    }
    if source.get("study.reach").is_some() {
        return error(
            "study.reach",
            "is no key any more: `metrics = [\"rollouts_to(eval/success, 0.5)\"]` says it",
        );
    }
    Ok(())
}

/// What is claimed or asked, and how a claim is tested.
fn text_and_test(
    source: &Source,
    section: &mut Section,
    arms: &[ArmSection],
    baseline: &str,
) -> Result<(String, Option<Test>), RecipeError> {
    let parts = (section.claim.take(), section.disease.take(), section.tuning.take());
    match (section.question.take(), parts) {
        (None, (Some(claim), disease, tuning)) => {
            let text = claim.text.clone();
            let test = Test::of(source, claim, disease, tuning, arms, baseline)?;
            let others = test.disease.seeds.iter().chain(test.tuning.seeds());
            if let Some(seed) = others.into_iter().find(|seed| section.seeds.0.contains(seed)) {
                let problem = format!(
                    "has {seed}, which `study.disease` or `study.tuning` has too: what is reported runs on fresh seeds"
                );
                return Err(source.error("study.seeds", problem));
            }
            Ok((text, Some(test)))
        }
        (Some(question), (None, None, None)) => Ok((question, None)),
        (Some(_), _) => {
            let problem = "is for studies that test no claim, which have no `claim`, `disease` or `tuning`";
            Err(source.error("study.question", problem.into()))
        }
        (None, (None, ..)) => {
            let problem = "is missing: a table with `text`, `metric`, `direction` and `contrasts`; or give the study a \
                           `question`, and it shows intervals without a verdict";
            Err(source.error("study.claim", problem.into()))
        }
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
    if section.minutes.is_some_and(|minutes| !(minutes.is_finite() && minutes > 0.0)) {
        return Err(source.error("study.minutes", "must be above 0".into()));
    }
    for name in &section.metrics {
        metric::check(name).map_err(|problem| source.error("study.metrics", problem))?;
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
        if FOLDERS.contains(&&*arm.name) {
            let problem = format!("is `{}`, which is a folder of every study", arm.name);
            return Err(source.error(&key("name"), problem));
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
fn resolve(section: &Section, points: &[Vec<String>], arm: ArmSection, place: &str) -> Result<Arm, String> {
    let overrides: Vec<String> = section.set.iter().chain(&arm.set).cloned().collect();
    for change in overrides.iter().chain(points.iter().flatten()) {
        let key = change.split('=').next().unwrap_or_default().trim();
        if let Some(own) = SET_BY_STUDY.iter().find(|own| **own == key) {
            return Err(format!("{place}: override `{change}`: the study sets `{own}` for each run itself"));
        }
    }
    let read = |more: &[String]| {
        let recipe = Recipe::read(&section.recipe, &[&overrides[..], more].concat());
        let recipe = recipe.map_err(|error| error.to_string())?;
        // Hashes of stages depend on the seed; what is wrong with a stage does not.
        stages::resolve(&mut recipe.clone()).map_err(|error| error.to_string())?;
        Ok::<_, String>(recipe)
    };
    let recipe = read(&[])?;
    if recipe.eval.tasks < 2 {
        return Err("`eval.tasks` must be 2 or more: arms are compared over held-out tasks".into());
    }
    let tuned = points.iter().map(|point| read(point)).collect::<Result<_, _>>()?;
    let count = arm.seeds.unwrap_or(section.seeds.0.len());
    let seeds: Vec<u64> = section.seeds.0.iter().copied().take(count).collect();
    Ok(Arm { name: arm.name, role: arm.role, set: arm.set, note: arm.note, seeds, recipe, tuned })
}

/// The first key that makes two recipes evaluate on different tasks, whatever they have under the keys `ways` of the
/// environment's configuration. Runs of one seed share their held-out tasks.
fn other_tasks(one: &Recipe, other: &Recipe, ways: &[String]) -> Option<&'static str> {
    let config = |recipe: &Recipe| {
        let mut config = recipe.eval.config.clone().unwrap_or_else(|| recipe.env.config.clone());
        if let Value::Object(keys) = &mut config {
            keys.retain(|key, _| !ways.contains(key));
        }
        config
    };
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
