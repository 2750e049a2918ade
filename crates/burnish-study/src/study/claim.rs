//! What a study claims, and how that is tested: `[study.claim]`, `[study.disease]` and `[study.tuning]`.

use std::collections::BTreeMap;

use burnish_recipe::{RecipeError, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::{ArmSection, Seeds};
use super::metric;

/// Seeds on which the disease is measured, if the file names none.
const DISEASE_SEEDS: [u64; 2] = [1001, 1002];
/// Seeds on which arms are tuned, if the file names none.
const TUNING_SEEDS: [u64; 2] = [2001, 2002];
/// The gain of the baseline, in success, below which nothing is learnt that a method could improve.
const LEAST_GAIN: f64 = 0.08;
/// Upper bound on the points of a grid.
const GRID_MAX: usize = 64;

/// What an arm is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the claim is about.
    Method,
    /// What it is compared with.
    Baseline,
    /// The method with a part changed or left out.
    Ablation,
    /// What rules out another explanation.
    Control,
}

/// Whether more or less of a metric is what is claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More.
    #[default]
    Higher,
    /// Less.
    Lower,
}

impl Direction {
    /// 1 or -1: a difference times this is positive where it is as claimed.
    pub(super) fn sign(self) -> f64 {
        match self {
            Direction::Higher => 1.0,
            Direction::Lower => -1.0,
        }
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Direction::Higher => "higher",
            Direction::Lower => "lower",
        }
    }
}

/// A claim that can be tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The number that it is about.
    pub metric: String,
    /// Where the method is claimed to be.
    pub direction: Direction,
    /// What is compared. Only these comparisons get a verdict.
    pub contrasts: Vec<Contrast>,
    /// The standard deviation of the differences between seeds that is expected, for the size of the study.
    pub spread: Option<f64>,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contrast {
    /// The arm that is claimed to be better.
    pub arm: String,
    /// The arm that it is compared with.
    pub against: String,
}

/// What must be wrong without the method, so that something can be mended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disease {
    /// The seeds on which it is measured.
    pub seeds: Vec<u64>,
    /// What is measured.
    pub gauges: Vec<Gauge>,
}

/// A number of an arm with bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gauge {
    /// What it shows, in words.
    pub name: String,
    /// The arm.
    pub arm: String,
    /// The arm whose number is subtracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// The number.
    pub metric: String,
    /// Its lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Its upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl Gauge {
    /// Whether the disease is there, as far as this gauge goes.
    pub fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }

    /// The arms that have to be run for it.
    pub(super) fn arms(&self) -> impl Iterator<Item = &str> {
        [Some(&*self.arm), self.against.as_deref()].into_iter().flatten()
    }
}

/// How settings such as the learning rate are chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tuning {
    /// Each arm gets the best of the same grid.
    Grid {
        /// The seeds on which it is found: their held-out tasks are not the reported ones.
        seeds: Vec<u64>,
        /// The overrides of each point.
        points: Vec<Vec<String>>,
    },
    /// All arms have the same settings, and this is why.
    None(String),
}

/// `[study.claim]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimSection {
    pub(super) text: String,
    metric: String,
    #[serde(default)]
    direction: Direction,
    contrasts: Option<Vec<Contrast>>,
    spread: Option<f64>,
}

/// `[study.disease]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiseaseSection {
    seeds: Option<Seeds>,
    #[serde(default = "least_gain")]
    least_gain: f64,
    #[serde(default)]
    gauges: Vec<Gauge>,
}

fn least_gain() -> f64 {
    LEAST_GAIN
}

/// `[study.tuning]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TuningSection {
    seeds: Option<Seeds>,
    grid: Option<BTreeMap<String, Vec<Value>>>,
    none: Option<String>,
}

impl Tuning {
    /// The overrides of each point of the grid; none without one.
    pub fn points(&self) -> &[Vec<String>] {
        match self {
            Tuning::Grid { points, .. } => points,
            Tuning::None(_) => &[],
        }
    }

    /// The seeds of its runs; none without a grid.
    pub fn seeds(&self) -> &[u64] {
        match self {
            Tuning::Grid { seeds, .. } => seeds,
            Tuning::None(_) => &[],
        }
    }
}

/// How a claim is tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// The claim.
    pub claim: Claim,
    /// What must be wrong without the method.
    pub disease: Disease,
    /// How each arm gets its settings.
    pub tuning: Tuning,
}

impl Test {
    /// Checks the three sections. `baseline` is the first arm of that role.
    ///
    /// # Errors
    /// Names the key.
    pub(super) fn of(
        source: &Source,
        claim: ClaimSection,
        disease: Option<DiseaseSection>,
        tuning: Option<TuningSection>,
        arms: &[ArmSection],
        baseline: &str,
    ) -> Result<Self, RecipeError> {
        let Some(disease) = disease else {
            let problem = "is missing: a claim says what must be wrong without the method (`gauges`), and how much the \
                           baseline must gain (`least_gain`)";
            return Err(source.error("study.disease", problem.into()));
        };
        let Some(tuning) = tuning else {
            let problem = "is missing: a claim says how each arm gets its learning rate: `grid = { \
                           \"optimizer.learning_rate\" = [1e-4, 3e-4, 1e-3] }`, or `none = \"why not\"`";
            return Err(source.error("study.tuning", problem.into()));
        };
        Ok(Test {
            claim: checked_claim(source, claim, arms, baseline)?,
            disease: checked_disease(source, disease, arms, baseline)?,
            tuning: checked_tuning(source, tuning)?,
        })
    }
}

fn checked_claim(
    source: &Source,
    claim: ClaimSection,
    arms: &[ArmSection],
    baseline: &str,
) -> Result<Claim, RecipeError> {
    let ClaimSection { text, metric, direction, contrasts, spread } = claim;
    if text.trim().is_empty() {
        return Err(source.error("study.claim.text", "is empty".into()));
    }
    metric::check(&metric).map_err(|problem| source.error("study.claim.metric", problem))?;
    if spread.is_some_and(|spread| !(spread.is_finite() && spread > 0.0)) {
        return Err(source.error("study.claim.spread", "must be above 0".into()));
    }
    if let Some(at) = arms.iter().position(|arm| arm.role.is_none()) {
        let rule = "is missing: \"method\", \"baseline\", \"ablation\" or \"control\"";
        return Err(source.error(&format!("arms[{at}].role"), rule.into()));
    }
    let contrasts = contrasts.unwrap_or_else(|| {
        let methods = arms.iter().filter(|arm| arm.role == Some(Role::Method));
        methods.map(|arm| Contrast { arm: arm.name.clone(), against: baseline.to_owned() }).collect()
    });
    if contrasts.is_empty() {
        let problem = "has nothing to compare: no arm has the role \"method\"";
        return Err(source.error("study.claim.contrasts", problem.into()));
    }
    for (at, contrast) in contrasts.iter().enumerate() {
        let key = format!("study.claim.contrasts[{at}]");
        for name in [&contrast.arm, &contrast.against] {
            known(source, &key, name, arms)?;
        }
        if contrast.arm == contrast.against {
            return Err(source.error(&key, format!("compares `{}` with itself", contrast.arm)));
        }
        if contrasts[..at].contains(contrast) {
            return Err(source.error(&key, "is there twice".into()));
        }
    }
    Ok(Claim { metric, direction, contrasts, spread })
}

fn checked_disease(
    source: &Source,
    disease: DiseaseSection,
    arms: &[ArmSection],
    baseline: &str,
) -> Result<Disease, RecipeError> {
    let DiseaseSection { seeds, least_gain, gauges: own } = disease;
    if !(least_gain.is_finite() && least_gain >= 0.0) {
        let rule = "must be the least gain of the baseline in success, such as 0.08, or 0 for none";
        return Err(source.error("study.disease.least_gain", rule.into()));
    }
    let learns = Gauge {
        name: "the baseline learns".into(),
        arm: baseline.to_owned(),
        against: None,
        metric: "gain(eval/success)".into(),
        at_least: Some(least_gain),
        at_most: None,
    };
    for (at, gauge) in own.iter().enumerate() {
        let key = format!("study.disease.gauges[{at}]");
        for name in gauge.arms() {
            known(source, &key, name, arms)?;
        }
        metric::check(&gauge.metric).map_err(|problem| source.error(&format!("{key}.metric"), problem))?;
        let bounds = [gauge.at_least, gauge.at_most];
        if bounds == [None, None] || bounds.iter().flatten().any(|bound| !bound.is_finite()) {
            return Err(source.error(&key, "needs a bound: `at_least`, `at_most` or both".into()));
        }
    }
    let gauges: Vec<Gauge> = (least_gain > 0.0).then_some(learns).into_iter().chain(own).collect();
    if gauges.is_empty() {
        let rule = "must not be empty where `least_gain` is 0: something must be shown to be wrong before it is mended";
        return Err(source.error("study.disease.gauges", rule.into()));
    }
    Ok(Disease { seeds: seeds.map_or_else(|| DISEASE_SEEDS.to_vec(), |seeds| seeds.0), gauges })
}

fn checked_tuning(source: &Source, tuning: TuningSection) -> Result<Tuning, RecipeError> {
    let error = |problem: &str| source.error("study.tuning", problem.to_owned());
    let grid = match tuning {
        TuningSection { grid: None, none: Some(why), seeds: None } if !why.trim().is_empty() => {
            return Ok(Tuning::None(why));
        }
        TuningSection { grid: Some(grid), none: None, .. } if !grid.is_empty() => grid,
        _ => return Err(error("must have either `grid` (and `seeds`), or `none = \"why not\"`")),
    };
    let mut points = vec![Vec::new()];
    for (key, values) in &grid {
        let is_plain = |value: &Value| !(value.is_array() || value.is_object() || value.is_null());
        if values.len() < 2 || !values.iter().all(is_plain) {
            return Err(error(&format!("`grid` must have two or more numbers or words for `{key}`")));
        }
        points = points
            .iter()
            .flat_map(|point: &Vec<String>| {
                values.iter().map(move |value| [&point[..], &[format!("{key}={value}")]].concat())
            })
            .collect();
        if points.len() > GRID_MAX {
            return Err(error(&format!("`grid` has over {GRID_MAX} points")));
        }
    }
    let seeds = tuning.seeds.map_or_else(|| TUNING_SEEDS.to_vec(), |seeds| seeds.0);
    Ok(Tuning::Grid { seeds, points })
}

fn known(source: &Source, key: &str, name: &str, arms: &[ArmSection]) -> Result<(), RecipeError> {
    if arms.iter().any(|arm| arm.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = arms.iter().map(|arm| &*arm.name).collect();
    Err(source.error(key, format!("names `{name}`, which no arm is called; arms: {}", names.join(", "))))
}
