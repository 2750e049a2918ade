//! The results of a study: the numbers of every arm, the differences between arms, and what they say of the claim.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_eval::{Estimate, Measure, holm};
use serde::{Deserialize, Serialize};

use super::budget::BudgetRelative;
use super::claim::{Claim, Contrast, Direction, Role};
use super::measure::{always, unknown_in};
use super::{Arm, Budget, Gauged, Made, Measured, Standing, State, Study, Tuned};
use burnish_run::RunError;
use burnish_rundir::files::{FileError, write_atomic};

/// The version of the data that is written. Findings of older versions are not read any more.
pub(super) const FORMAT: u32 = 2;
/// Fewer seeds give no verdict.
pub(super) const SEEDS_LEAST: usize = 5;
/// A verdict is given if a difference of this size or more has at most this probability where there is none.
const SIGNIFICANT: f64 = 0.05;

/// The results of a study.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// The version of the data.
    pub format: u32,
    /// The stem of the study's file names.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What was claimed or asked.
    pub text: String,
    /// Why it is no evidence: it was not planned in a commit before its first run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_draft: bool,
    /// Of a study with a claim: what was found of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimFindings>,
    /// The measure of the results: success, or reward if the environment reports no success.
    pub headline: Measure,
    /// Name of the arm that the others are compared with.
    pub baseline: String,
    /// Number of finished runs.
    pub runs_finished: usize,
    /// Number of runs in the study.
    pub runs_planned: usize,
    /// Whether all arms weigh the reward components alike. If not, their rewards are not compared.
    pub rewards_comparable: bool,
    /// The numbers that every arm is compared by.
    pub metrics: Vec<String>,
    /// The arms, in the order of the study file.
    pub arms: Vec<ArmFindings>,
    /// What a reader must know before believing the tables, one sentence each.
    pub warnings: Vec<String>,
}

/// What was found of a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimFindings {
    /// The number that it is about.
    pub metric: String,
    /// Where the method is claimed to be.
    pub direction: Direction,
    /// Whether the disease was there.
    pub gauges: Vec<Gauged>,
    /// How the arms got their settings; empty without a grid.
    pub tuned: Vec<Tuned>,
    /// The comparisons that are the claim.
    pub contrasts: Vec<ContrastFindings>,
}

/// What was found of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContrastFindings {
    /// What was compared.
    #[serde(flatten)]
    pub contrast: Contrast,
    /// The difference `arm - against`, paired by seed.
    pub difference: Option<Estimate>,
    /// Its p-value, corrected for the number of comparisons.
    pub p_value: Option<f64>,
    /// The effect that would have been found with a probability of 80 %.
    pub smallest_detectable: Option<f64>,
    /// The budget of the arm, relative to that of what it is compared with.
    pub budget: Option<BudgetRelative>,
    /// What it says.
    pub verdict: Verdict,
    /// Why there is none, if so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// What a comparison says of the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The difference is as claimed.
    Supported,
    /// No difference was seen. There may be one below the smallest detectable effect.
    NotSeen,
    /// The difference is the opposite of what is claimed.
    Contradicted,
    /// What the method is said to mend was not there.
    NotTestable,
    /// There is none (yet).
    Open,
}

/// The results of one arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArmFindings {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its overrides of the recipe, with those of its point of the grid.
    pub set: Vec<String>,
    /// What the study file says about it.
    pub note: String,
    /// Its finished runs.
    pub runs: Vec<Measured>,
    /// The headline before training.
    pub before: Option<Estimate>,
    /// How many of its runs lost over half of the success that they once had.
    pub collapsed: usize,
    /// Mean budget of its runs.
    pub budget: Budget,
    /// Its mean budget relative to the baseline's, over the seeds that both have. `None` for the baseline itself, or
    /// if they share no seed.
    pub budget_relative: Option<BudgetRelative>,
    /// Its numbers, by their names.
    pub effects: BTreeMap<String, Effect>,
}

/// One number of an arm.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Effect {
    /// Its mean over seeds.
    pub level: Option<Estimate>,
    /// Its difference from the baseline's, paired by seed.
    pub difference: Option<Estimate>,
    /// How many of the runs have only a lower bound of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bounds: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Findings {
    /// Reads the finished runs, and compares them: the reported ones, or those of the disease if it was not there.
    /// `is_draft`: no plan was written down before the first run.
    ///
    /// # Errors
    /// If a run's files can't be read, no run is finished, or the study names a number that no run can have.
    pub fn of(study: &Study, standing: &Standing, is_draft: bool) -> Result<Self, RunError> {
        let runs = if standing.is_testable() { &standing.reported } else { &standing.disease };
        let names = study.named_metrics();
        let mut measured: Vec<Vec<Measured>> = study.arms.iter().map(|_| Vec::new()).collect();
        for run in runs.iter().filter(|run| run.state == State::Finished) {
            let found = Measured::read(run, &names)?;
            if !found.unknown.is_empty() {
                return Err(unknown_in(run.dir(), &found.unknown));
            }
            measured[run.arm].push(found);
        }
        let runs_finished = measured.iter().map(Vec::len).sum();
        if runs_finished == 0 {
            return Err(nothing_finished(study, standing));
        }
        // If any run has success, success is the measure.
        let mut judged = measured.iter().flatten().filter(|run| run.is_judged).peekable();
        let is_success = judged.peek().is_none() || judged.any(|run| run.headline == Measure::Success);
        let headline = if is_success { Measure::Success } else { Measure::Reward };
        let weights = |arm: &Arm| arm.recipe.reward.weights.clone();
        let rewards_comparable = study.arms.iter().all(|arm| weights(arm) == weights(&study.arms[0]));
        let claim = study.test.as_ref().map(|test| &test.claim);
        let metrics = compared_metrics(study, claim, headline, rewards_comparable);
        let baseline = measured[study.baseline].clone();
        let arms: Vec<ArmFindings> = study
            .arms
            .iter()
            .zip(measured)
            .enumerate()
            .map(|(at, (arm, runs))| {
                let baseline = (at != study.baseline).then_some(&baseline[..]);
                let mut found = ArmFindings::of(arm, runs, baseline, &metrics);
                if let (Some(tuned), Some(test)) = (standing.tuned.get(at), &study.test) {
                    found.set.extend_from_slice(&test.tuning.points()[tuned.best]);
                }
                found
            })
            .collect();
        let mut findings = Findings {
            format: FORMAT,
            id: study.id.clone(),
            title: study.title.clone(),
            text: study.text.clone(),
            is_draft,
            claim: None,
            headline,
            baseline: study.arms[study.baseline].name.clone(),
            runs_finished,
            runs_planned: runs.len(),
            rewards_comparable,
            metrics,
            arms,
            warnings: Vec::new(),
        };
        findings.claim = claim.map(|claim| ClaimFindings {
            metric: claim.metric.clone(),
            direction: claim.direction,
            gauges: standing.gauges.clone(),
            tuned: standing.tuned.clone(),
            contrasts: findings.contrasts(claim, standing.is_testable()),
        });
        findings.warnings = super::warnings::of(&findings, study);
        Ok(findings)
    }

    /// The comparisons of a claim, with Holm's correction over all of them.
    fn contrasts(&self, claim: &Claim, is_testable: bool) -> Vec<ContrastFindings> {
        let pairs: Vec<_> = claim
            .contrasts
            .iter()
            .map(|contrast| {
                let [arm, against] = [&contrast.arm, &contrast.against].map(|name| self.arm(name));
                let runs = |arm: Option<&ArmFindings>| arm.map_or_else(Vec::new, |arm| arm.runs.clone());
                (contrast, arm, against, runs(arm), runs(against))
            })
            .collect();
        let differences: Vec<Option<Estimate>> =
            pairs.iter().map(|(.., arm, against)| difference(arm, against, &claim.metric)).collect();
        // One that can't be tested counts all the same: it was planned.
        let p: Vec<f64> =
            differences.iter().map(|found| found.and_then(|found| found.p_value()).unwrap_or(1.0)).collect();
        let corrected = holm(&p);
        let tests = claim.contrasts.len();
        pairs
            .into_iter()
            .zip(differences)
            .zip(corrected)
            .map(|(((contrast, arm, against, of_arm, of_against), difference), p_value)| {
                let both: Vec<&ArmFindings> = arm.into_iter().chain(against).collect();
                let because = self.why_open(&both, difference, &claim.metric);
                let verdict = match (is_testable, because.is_empty(), difference) {
                    (false, ..) => Verdict::NotTestable,
                    (true, true, Some(found)) if p_value > SIGNIFICANT || found.mean == 0.0 => {
                        Verdict::NotSeen
                    }
                    (true, true, Some(found)) if found.mean * claim.direction.sign() > 0.0 => {
                        Verdict::Supported
                    }
                    (true, true, Some(_)) => Verdict::Contradicted,
                    _ => Verdict::Open,
                };
                ContrastFindings {
                    contrast: contrast.clone(),
                    difference,
                    p_value: difference.and_then(|found| found.p_value()).map(|_| p_value),
                    smallest_detectable: difference.and_then(|found| found.smallest_detectable(tests)),
                    budget: BudgetRelative::of(&of_arm, &of_against),
                    verdict,
                    because: if verdict == Verdict::Open { because } else { String::new() },
                }
            })
            .collect()
    }

    /// Why the difference between two arms gives no verdict; empty if it gives one.
    fn why_open(&self, arms: &[&ArmFindings], difference: Option<Estimate>, metric: &str) -> String {
        let seeds = difference.map_or(0, |found| found.seeds);
        if self.is_draft {
            return "a draft".into();
        }
        if self.runs_finished < self.runs_planned {
            return format!("{} of {} runs are finished", self.runs_finished, self.runs_planned);
        }
        if seeds < SEEDS_LEAST {
            return format!("{seeds} seeds, of {SEEDS_LEAST} that are needed");
        }
        let some = |arm: &&&ArmFindings| arm.collapsed > 0 && arm.collapsed < arm.runs.len();
        if arms.iter().any(|arm| some(&arm)) {
            let counts: Vec<String> = arms
                .iter()
                .map(|arm| format!("`{}` {} of {}", arm.name, arm.collapsed, arm.runs.len()))
                .collect();
            return format!("some runs collapsed, and a mean over them says little: {}", counts.join(", "));
        }
        let bounds: Vec<String> = arms
            .iter()
            .filter_map(|arm| {
                let bounds = arm.effects.get(metric)?.bounds;
                (bounds > 0).then(|| format!("`{}` {bounds} of {}", arm.name, arm.runs.len()))
            })
            .collect();
        if !bounds.is_empty() {
            return format!("some runs never came that far: {}", bounds.join(", "));
        }
        String::new()
    }

    /// The arm called `name`.
    pub fn arm(&self, name: &str) -> Option<&ArmFindings> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// The contrasts of a claim, or the headline of every arm, as a Markdown table.
    pub fn headline_table(&self) -> String {
        match &self.claim {
            Some(claim) => super::page::contrasts(claim),
            None => self.metrics.first().map_or_else(String::new, |metric| super::page::table(self, metric)),
        }
    }

    /// Writes the page ([`Study::page`]), and its plot and the findings as data beside it. Returns the three
    /// paths.
    ///
    /// # Errors
    /// If a file can't be written, or the plot can't be drawn.
    pub fn write(&self, study: &Study, made: &Made) -> Result<[PathBuf; 3], RunError> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| RunError::Refused(format!("the findings can't be written as JSON: {error}")))?;
        let svg = super::plot::svg(self)
            .map_err(|error| RunError::Refused(format!("the plot can't be drawn: {error}")))?;
        let page = study.page(self.is_draft);
        let dir = page.parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(dir).map_err(FileError::on("create directory", dir))?;
        let [plot, data] = ["svg", "json"].map(|end| page.with_extension(end));
        write_atomic(&data, format!("{json}\n").as_bytes())?;
        write_atomic(&plot, svg.as_bytes())?;
        write_atomic(&page, super::page::markdown(self, study, made).as_bytes())?;
        Ok([page, plot, data])
    }
}

fn nothing_finished(study: &Study, standing: &Standing) -> RunError {
    let before =
        if standing.reported.is_empty() { "; what comes before the results is not finished" } else { "" };
    RunError::Refused(format!(
        "{} has no finished run to report yet{before}: `{}` makes them",
        study.dir.display(),
        study.command()
    ))
}

/// What arms are compared by: the numbers of every study, that of the claim, and the additional ones.
fn compared_metrics(
    study: &Study,
    claim: Option<&Claim>,
    headline: Measure,
    rewards_comparable: bool,
) -> Vec<String> {
    let mut metrics = always(headline);
    metrics.retain(|name| rewards_comparable || !name.contains("reward"));
    let named = claim.map(|claim| &claim.metric).into_iter().chain(&study.metrics);
    for name in named {
        if !metrics.contains(name) {
            metrics.push(name.clone());
        }
    }
    metrics
}

impl ArmFindings {
    /// `baseline` has the runs of the baseline, if this is another arm.
    fn of(arm: &Arm, runs: Vec<Measured>, baseline: Option<&[Measured]>, metrics: &[String]) -> Self {
        let effect = |metric: &String| Effect {
            level: Estimate::of(&numbers(&runs, metric)),
            difference: baseline.and_then(|baseline| difference(&runs, baseline, metric)),
            bounds: runs.iter().filter(|run| run.bounds.contains(metric)).count(),
        };
        let first = runs.iter().filter_map(|run| run.curve.first().filter(|(step, _)| *step == 0));
        ArmFindings {
            name: arm.name.clone(),
            role: arm.role,
            set: arm.set.clone(),
            note: arm.note.clone(),
            before: Estimate::of(&first.map(|(_, level)| *level).collect::<Vec<_>>()),
            collapsed: runs.iter().filter(|run| run.has_collapsed()).count(),
            budget: Budget::mean(runs.iter().map(|run| &run.budget)),
            budget_relative: baseline.and_then(|baseline| BudgetRelative::of(&runs, baseline)),
            effects: metrics.iter().map(|metric| (metric.clone(), effect(metric))).collect(),
            runs,
        }
    }
}

fn numbers(runs: &[Measured], metric: &str) -> Vec<f64> {
    runs.iter().filter_map(|run| run.numbers.get(metric).copied()).collect()
}

/// The mean of `arm - against` over the seeds that have the number in both.
fn difference(arm: &[Measured], against: &[Measured], metric: &str) -> Option<Estimate> {
    let pairs = arm.iter().filter_map(|run| {
        let other = against.iter().find(|other| other.seed == run.seed)?;
        Some(run.numbers.get(metric)? - other.numbers.get(metric)?)
    });
    Estimate::of(&pairs.collect::<Vec<_>>())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A run that solved this many of 40 tasks, and generated this many tokens.
    pub(crate) fn measured(seed: u64, solved: usize, generated: f64) -> Measured {
        let success = solved as f64 / 40.0;
        let numbers =
            [("success", success), ("reward", success / 2.0), ("area(eval/success)", (0.1 + success) / 2.0)];
        Measured {
            seed,
            headline: Measure::Success,
            prompt_too_long: 0,
            unscored: 0,
            is_judged: true,
            tasks: 40,
            curve: vec![(0, 0.1), (4, success)],
            budget: Budget { generated, forward_backward: 2.0, seconds: 3.0, ..Budget::default() },
            numbers: numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            bounds: BTreeSet::new(),
            unknown: Vec::new(),
        }
    }

    fn arm(name: &str, runs: &[Measured], baseline: Option<&[Measured]>) -> ArmFindings {
        let recipe = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 9\n[env]\n\
                      id = \"countdown\"\n";
        let source = burnish_recipe::Source::parse("r.toml", recipe, &[]).unwrap();
        let arm = Arm {
            name: name.into(),
            role: Some(if baseline.is_some() { Role::Method } else { Role::Baseline }),
            set: vec!["loss.beta=0.1".into()],
            note: String::new(),
            seeds: vec![1],
            recipe: burnish_recipe::Recipe::resolve(&source).unwrap(),
            tuned: Vec::new(),
        };
        ArmFindings::of(&arm, runs.to_vec(), baseline, &always(Measure::Success))
    }

    /// A survey of arms, of which the first is the baseline.
    pub(crate) fn survey(arms: &[(&str, Vec<Measured>)]) -> Findings {
        let baseline = &arms[0].1;
        let of = |(at, (name, runs)): (usize, &(&str, Vec<Measured>))| {
            arm(name, runs, (at > 0).then_some(&baseline[..]))
        };
        let runs = arms.iter().map(|(_, runs)| runs.len()).sum();
        Findings {
            format: FORMAT,
            id: "x".into(),
            title: "X".into(),
            text: "Y helps.".into(),
            is_draft: false,
            claim: None,
            headline: Measure::Success,
            baseline: arms[0].0.into(),
            runs_finished: runs,
            runs_planned: runs,
            rewards_comparable: true,
            metrics: always(Measure::Success),
            arms: arms.iter().enumerate().map(of).collect(),
            warnings: Vec::new(),
        }
    }

    fn higher(contrasts: &[(&str, &str)]) -> Claim {
        let contrast =
            |(arm, against): &(&str, &str)| Contrast { arm: (*arm).into(), against: (*against).into() };
        Claim {
            metric: "success".into(),
            direction: Direction::Higher,
            contrasts: contrasts.iter().map(contrast).collect(),
            spread: None,
        }
    }

    fn with_claim(found: Findings, claim: &Claim, gauges: Vec<Gauged>) -> Findings {
        let is_testable = gauges.iter().all(|gauged| gauged.holds);
        let contrasts = found.contrasts(claim, is_testable);
        let (metric, direction) = (claim.metric.clone(), claim.direction);
        Findings {
            claim: Some(ClaimFindings { metric, direction, gauges, tuned: Vec::new(), contrasts }),
            ..found
        }
    }

    /// The same with a claim of more success for the contrasts `(arm, against)`.
    pub(crate) fn claimed(arms: &[(&str, Vec<Measured>)], contrasts: &[(&str, &str)]) -> Findings {
        with_claim(survey(arms), &higher(contrasts), Vec::new())
    }

    /// Runs of seeds 1, 2 ..., which solved so many tasks.
    fn runs(solved: &[usize]) -> Vec<Measured> {
        solved.iter().zip(1..).map(|(solved, seed)| measured(seed, *solved, 100.0)).collect()
    }

    fn verdicts(found: &Findings) -> Vec<Verdict> {
        found.claim.as_ref().unwrap().contrasts.iter().map(|found| found.verdict).collect()
    }

    #[test]
    fn a_claim_is_supported_contradicted_or_not_seen() {
        let arms = [
            ("base", runs(&[10, 14, 12, 11, 13])),
            ("up", runs(&[19, 24, 21, 22, 23])),
            ("down", runs(&[5, 9, 6, 7, 8])),
            ("noise", runs(&[13, 11, 12, 14, 11])),
        ];
        let all = [("up", "base"), ("down", "base"), ("noise", "base"), ("up", "down")];
        let expected = [Verdict::Supported, Verdict::Contradicted, Verdict::NotSeen, Verdict::Supported];
        let found = claimed(&arms, &all);
        assert_eq!(verdicts(&found), expected);
        let up = &found.claim.as_ref().unwrap().contrasts[0];
        assert!((up.difference.unwrap().mean - 9.8 / 40.0).abs() < 1e-12, "{up:?}");
        // Fewer tasks solved is what a claim of less wants.
        let lower = Claim { direction: Direction::Lower, ..higher(&all[..2]) };
        let found = with_claim(survey(&arms), &lower, Vec::new());
        assert_eq!(verdicts(&found), [Verdict::Contradicted, Verdict::Supported]);
    }

    #[test]
    fn one_of_many_comparisons_needs_a_smaller_p_value() {
        let arms = [("base", runs(&[10, 14, 12, 11, 13])), ("up", runs(&[12, 15, 16, 12, 16]))];
        let [alone] = verdicts(&claimed(&arms, &[("up", "base")]))[..] else { panic!() };
        let arms = [&arms[..], &["a", "b", "c"].map(|name| (name, runs(&[13, 11, 12, 14, 11])))].concat();
        let among = claimed(&arms, &[("up", "base"), ("a", "base"), ("b", "base"), ("c", "base")]);
        assert_eq!((alone, verdicts(&among)[0]), (Verdict::Supported, Verdict::NotSeen));
        let p = |found: &Findings| found.claim.as_ref().unwrap().contrasts[0].p_value.unwrap();
        assert!((p(&among) / 4.0 - p(&claimed(&arms[..2], &[("up", "base")]))).abs() < 1e-12);
    }

    fn because(found: &Findings) -> String {
        let contrast = &found.claim.as_ref().unwrap().contrasts[0];
        assert_eq!(contrast.verdict, Verdict::Open);
        contrast.because.clone()
    }

    #[test]
    fn few_seeds_drafts_collapses_and_bounds_give_no_verdict() {
        let (base, up) = (runs(&[10, 14, 12, 11, 13]), runs(&[29, 34, 31, 32, 33]));
        let arms = [("base", base.clone()), ("up", up.clone())];
        let few = claimed(&[("base", base.clone()), ("up", runs(&[29, 34, 31, 32]))], &[("up", "base")]);
        assert_eq!(because(&few), "4 seeds, of 5 that are needed");
        let of = |found| with_claim(found, &higher(&[("up", "base")]), Vec::new());
        assert_eq!(because(&of(Findings { is_draft: true, ..survey(&arms) })), "a draft");
        assert_eq!(
            because(&of(Findings { runs_planned: 12, ..survey(&arms) })),
            "10 of 12 runs are finished"
        );
        let mut fallen = up.clone();
        fallen[2].curve.insert(1, (2, 1.0));
        fallen[2].curve[2].1 = 0.4;
        let found = claimed(&[("base", base.clone()), ("up", fallen.clone())], &[("up", "base")]);
        assert!(because(&found).ends_with("`up` 1 of 5, `base` 0 of 5"), "{}", because(&found));
        // All of them have collapsed, so their mean is the mean of one kind of run.
        for run in &mut fallen {
            run.curve = vec![(0, 0.1), (2, 1.0), (4, 0.4)];
        }
        assert_eq!(
            verdicts(&claimed(&[("base", base.clone()), ("up", fallen)], &[("up", "base")])),
            [Verdict::Supported]
        );
        let mut bound = up;
        bound[0].bounds.insert("success".into());
        assert!(
            because(&claimed(&[("base", base), ("up", bound)], &[("up", "base")])).contains("`up` 1 of 5")
        );
    }

    #[test]
    fn where_the_disease_was_not_there_nothing_is_testable() {
        let gauge = super::super::Gauge {
            name: "it falls".into(),
            arm: "base".into(),
            against: None,
            metric: "drop(eval/success)".into(),
            at_least: Some(0.1),
            at_most: None,
        };
        let gauged = Gauged { holds: gauge.holds(0.02), value: 0.02, gauge };
        let arms = [("base", runs(&[10, 14, 12, 11, 13])), ("up", runs(&[29, 34, 31, 32, 33]))];
        let found = with_claim(survey(&arms), &higher(&[("up", "base")]), vec![gauged]);
        assert_eq!(verdicts(&found), [Verdict::NotTestable]);
        let table = found.headline_table();
        assert!(table.contains("not testable here (it falls: 2.0 %)"), "{table}");
    }

    #[test]
    fn arms_are_compared_by_seed() {
        let base = [measured(1, 10, 100.0), measured(2, 12, 100.0), measured(3, 40, 900.0)];
        let found = survey(&[
            ("base", base.to_vec()),
            ("worse", vec![measured(2, 2, 104.0), measured(1, 1, 104.0)]),
            ("longer", vec![measured(1, 10, 120.0)]),
        ]);
        let worse = found.arms[1].effects["success"].difference.unwrap();
        assert_eq!((worse.seeds, worse.interval().is_some()), (2, true));
        assert!((worse.mean - -9.5 / 40.0).abs() < 1e-12);
        let longer = &found.arms[2];
        assert_eq!(longer.budget_relative.unwrap().generated, Some(1.2));
        assert_eq!(longer.budget_relative.unwrap().environment_steps, None, "the baseline has none");
        assert_eq!(longer.effects["success"].difference.unwrap().interval(), None, "one seed");
    }

    #[test]
    fn a_collapse_is_more_than_chance() {
        let fell = |curve: &[f64]| {
            let mut run = measured(1, 10, 1.0);
            run.curve = curve.iter().zip(0..).map(|(level, step)| (step, *level)).collect();
            run.has_collapsed()
        };
        assert!(fell(&[0.1, 0.6, 0.2]) && fell(&[0.4, 0.1]));
        assert!(!fell(&[0.1, 0.6, 0.4]) && !fell(&[0.04, 0.01]) && !fell(&[]) && !fell(&[0.2, 0.9]));
    }
}
