//! The results of a study: the level of every arm, its difference from the baseline, and the budgets of both.

use std::path::PathBuf;

use burnish_eval::{Estimate, Measure, Scores, Verdict};
use serde::{Deserialize, Serialize};

use super::measure::unknown_in;
use super::{Arm, ArmRun, Budget, Made, Measured, State, Study};
use burnish_run::RunError;
use burnish_run::evaluate::bootstrap_seed;
use burnish_rundir::files::{FileError, write_atomic};

/// There is a warning if an arm's budget differs from the baseline's by more than this share.
const BUDGET_SLACK: f64 = 0.05;

/// The results of a study.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// The stem of the study's file names.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What was tested.
    pub claim: String,
    /// The measure of the results: success, or reward if the environment reports no success.
    #[serde(default, skip_serializing_if = "is_success")]
    pub headline: Measure,
    /// Name of the arm that the others are compared with.
    pub baseline: String,
    /// Number of finished runs.
    pub runs_finished: usize,
    /// Number of runs in the study.
    pub runs_planned: usize,
    /// Whether all arms weigh the reward components alike. If not, their rewards are not compared.
    pub rewards_comparable: bool,
    /// The success rate to reach, if the study names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<f64>,
    /// The additional numbers that the study names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The arms, in the order of the study file.
    pub arms: Vec<ArmFindings>,
    /// What a reader must know before believing the table, one sentence each.
    pub warnings: Vec<String>,
}

/// Pages from before rewards could be the headline have success.
fn is_success(headline: &Measure) -> bool {
    *headline == Measure::Success
}

/// The results of one arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArmFindings {
    /// Its name.
    pub name: String,
    /// Its overrides of the recipe.
    pub set: Vec<String>,
    /// What the study file says about it.
    pub note: String,
    /// Its finished runs.
    pub runs: Vec<Measured>,
    /// Mean budget of its runs.
    pub budget: Budget,
    /// Its mean budget relative to the baseline's, over the seeds that both have. `None` for the baseline itself, or
    /// if they share no seed.
    pub budget_relative: Option<BudgetRelative>,
    /// Held-out success.
    pub success: Effect,
    /// Held-out reward.
    pub reward: Effect,
}

/// A budget relative to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetRelative {
    /// Tokens sampled. `None`, here and below, if the baseline has none.
    pub generated: Option<f64>,
    /// Rows that went forward and backward.
    pub forward_backward: Option<f64>,
    /// Answers given to the environment.
    pub environment_steps: Option<f64>,
}

/// One measure of an arm.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Effect {
    /// Its mean.
    pub level: Option<Estimate>,
    /// Its difference from the baseline.
    pub difference: Option<Difference>,
}

/// A difference from the baseline, `arm - baseline`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Difference {
    /// The difference with its interval.
    pub estimate: Estimate,
    /// See [`Estimate::smallest_detectable`].
    pub smallest_detectable: f64,
    /// What the interval tells.
    pub verdict: Verdict,
}

impl Findings {
    /// Reads the finished runs of `runs`, and compares them.
    ///
    /// # Errors
    /// If a run's files can't be read, no run is finished, or `study.metrics` names a number that no run can have.
    pub fn of(study: &Study, runs: &[ArmRun]) -> Result<Self, RunError> {
        let mut measured: Vec<Vec<Measured>> = study.arms.iter().map(|_| Vec::new()).collect();
        for run in runs.iter().filter(|run| run.state == State::Finished) {
            measured[run.arm].push(Measured::read(run, &study.metrics, study.reach)?);
        }
        let runs_finished = measured.iter().map(Vec::len).sum();
        if runs_finished == 0 {
            return Err(RunError::Refused(format!(
                "{} has no finished run yet: `{}` makes them",
                study.dir.display(),
                study.command()
            )));
        }
        for run in runs.iter().filter(|run| run.state == State::Finished) {
            let found = measured[run.arm].iter().find(|found| found.seed == run.seed);
            if let Some(found) = found.filter(|found| !found.unknown.is_empty()) {
                return Err(unknown_in(run.dir(), &found.unknown));
            }
        }
        // If any run has success, success is the measure.
        let mut judged = measured.iter().flatten().filter(|run| run.is_judged()).peekable();
        let is_success = judged.peek().is_none() || judged.any(|run| run.headline == Measure::Success);
        let headline = if is_success { Measure::Success } else { Measure::Reward };
        let seed = bootstrap_seed(&study.arms[study.baseline].recipe);
        let baseline = measured[study.baseline].clone();
        let arms: Vec<ArmFindings> = study
            .arms
            .iter()
            .zip(measured)
            .enumerate()
            .map(|(at, (arm, runs))| {
                ArmFindings::of(arm, runs, (at != study.baseline).then_some(&baseline[..]), seed)
            })
            .collect();
        let weights = |arm: &Arm| arm.recipe.reward.weights.clone();
        let findings = Findings {
            id: study.id.clone(),
            title: study.title.clone(),
            claim: study.claim.clone(),
            headline,
            baseline: study.arms[study.baseline].name.clone(),
            runs_finished,
            runs_planned: runs.len(),
            rewards_comparable: study.arms.iter().all(|arm| weights(arm) == weights(&study.arms[0])),
            reach: study.reach,
            metrics: study.metrics.clone(),
            arms,
            warnings: Vec::new(),
        };
        Ok(Findings { warnings: findings.warnings(), ..findings })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.runs_finished < self.runs_planned {
            warnings.push(format!(
                "Not complete: {} of {} runs are finished.",
                self.runs_finished, self.runs_planned
            ));
        }
        let runs = || self.arms.iter().flat_map(|arm| &arm.runs);
        for name in self.metrics.iter().filter(|name| runs().all(|run| !run.metrics.contains_key(*name))) {
            warnings.push(format!("`{name}` is in no run that is finished."));
        }
        if let Some(score) = self.reach.filter(|_| self.headline == Measure::Reward) {
            warnings.push(format!(
                "`study.reach = {score}` is a success rate, and the environment reports no success: nothing is said of it."
            ));
        }
        let kept = |run: &&Measured| run.prompt_too_long > 0;
        let too_long: usize = runs().filter(kept).map(|run| run.prompt_too_long).max().unwrap_or(0);
        if too_long > 0 {
            warnings.push(format!(
                "{} of {} runs were evaluated with prompts that do not fit the context window, up to {too_long} episodes in a \
                 run: {}.",
                runs().filter(kept).count(),
                runs().count(),
                match self.headline {
                    Measure::Success => "they count as failures",
                    Measure::Reward => "they have no reward and are in no mean",
                }
            ));
        }
        for run in runs().filter(|run| run.unscored > 0 && run.is_judged()) {
            let arm = self.arms.iter().find(|arm| arm.runs.iter().any(|other| std::ptr::eq(other, run)));
            warnings.push(format!(
                "`{}`, seed {}: {} held-out episodes of the last evaluation could not be judged and are in no mean.",
                arm.map_or("", |arm| &arm.name),
                run.seed,
                run.unscored
            ));
        }
        for arm in &self.arms {
            let Some(budget) = arm.budget_relative else { continue };
            let unequal = budget.unequal();
            if !unequal.is_empty() {
                warnings.push(format!(
                    "Unequal budget: `{}` used {} compared with `{}`.",
                    arm.name,
                    unequal.join(", "),
                    self.baseline
                ));
            }
            for run in arm.runs.iter().filter(|run| !run.is_judged()) {
                warnings.push(format!(
                    "`{}`, seed {}: no held-out task could be scored; the run is in no mean.",
                    arm.name, run.seed
                ));
            }
        }
        let once: Vec<String> = self
            .arms
            .iter()
            .filter(|arm| {
                let compared = arm.compared(self.headline);
                compared.difference.is_some_and(|difference| difference.estimate.seeds == 1)
            })
            .map(|arm| format!("`{}`", arm.name))
            .collect();
        if !once.is_empty() {
            warnings.push(format!(
                "One seed only ({}): seeds were not resampled, so these intervals know nothing of how runs differ.",
                once.join(", ")
            ));
        }
        warnings
    }

    /// Held-out success of every arm, or its reward if that is the headline, as a Markdown table.
    pub fn headline_table(&self) -> String {
        if self.is_compared() {
            return super::page::table(self, self.headline);
        }
        super::page::NOT_COMPARED.to_owned()
    }

    /// Whether the arms' results measure the same thing.
    pub(super) fn is_compared(&self) -> bool {
        self.headline == Measure::Success || self.rewards_comparable
    }

    /// Writes the page, its plot, and the findings as data (`ID.json`) into the folder for results. Returns the three
    /// paths.
    ///
    /// # Errors
    /// If a file can't be written, or the plot can't be drawn.
    pub fn write(&self, study: &Study, made: &Made) -> Result<[PathBuf; 3], RunError> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| RunError::Refused(format!("the findings can't be written as JSON: {error}")))?;
        let svg = super::plot::svg(self)
            .map_err(|error| RunError::Refused(format!("the plot can't be drawn: {error}")))?;
        let dir = &study.results;
        std::fs::create_dir_all(dir).map_err(FileError::on("create directory", dir))?;
        let page = study.results.join(format!("{}.md", study.id));
        let plot = study.results.join(format!("{}.svg", study.id));
        let data = study.results.join(format!("{}.json", study.id));
        write_atomic(&data, format!("{json}\n").as_bytes())?;
        write_atomic(&plot, svg.as_bytes())?;
        write_atomic(&page, super::page::markdown(self, study, made).as_bytes())?;
        Ok([page, plot, data])
    }
}

impl ArmFindings {
    /// `baseline` has the runs of the baseline, if this is another arm.
    fn of(arm: &Arm, runs: Vec<Measured>, baseline: Option<&[Measured]>, seed: u64) -> Self {
        let compared = |measure| Effect::of(&runs, baseline, measure, seed);
        ArmFindings {
            name: arm.name.clone(),
            set: arm.set.clone(),
            note: arm.note.clone(),
            budget: Budget::mean(runs.iter().map(|run| &run.budget)),
            budget_relative: baseline.and_then(|baseline| BudgetRelative::of(&runs, baseline)),
            success: compared(Measure::Success),
            reward: compared(Measure::Reward),
            runs,
        }
    }

    /// The effect in one measure.
    pub fn compared(&self, measure: Measure) -> &Effect {
        match measure {
            Measure::Success => &self.success,
            Measure::Reward => &self.reward,
        }
    }
}

impl BudgetRelative {
    /// The budgets that differ by more than a few percent, for people: `+20.0 % tokens generated`.
    pub fn unequal(&self) -> Vec<String> {
        let shares = [
            ("tokens generated", self.generated),
            ("tokens forward and backward", self.forward_backward),
            ("environment steps", self.environment_steps),
        ];
        shares
            .into_iter()
            .filter_map(|(what, share)| Some((what, share?)))
            .filter(|(_, share)| (share - 1.0).abs() > BUDGET_SLACK)
            .map(|(what, share)| format!("{:+.1} % {what}", 100.0 * (share - 1.0)))
            .collect()
    }

    fn of(runs: &[Measured], baseline: &[Measured]) -> Option<Self> {
        let pairs: Vec<(&Measured, &Measured)> = runs
            .iter()
            .filter_map(|run| Some((run, baseline.iter().find(|other| other.seed == run.seed)?)))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let own = Budget::mean(pairs.iter().map(|(run, _)| &run.budget));
        let other = Budget::mean(pairs.iter().map(|(_, other)| &other.budget));
        let share = |of: fn(&Budget) -> f64| (of(&other) > 0.0).then(|| of(&own) / of(&other));
        Some(BudgetRelative {
            generated: share(|budget| budget.generated),
            forward_backward: share(|budget| budget.forward_backward),
            environment_steps: share(|budget| budget.environment_steps),
        })
    }
}

impl Effect {
    fn of(runs: &[Measured], baseline: Option<&[Measured]>, measure: Measure, seed: u64) -> Self {
        let own = scores(runs, measure);
        let difference = baseline
            .and_then(|baseline| Estimate::of_difference(&scores(baseline, measure), &own, seed))
            .map(|estimate| Difference {
                estimate,
                smallest_detectable: estimate.smallest_detectable(),
                verdict: estimate.verdict(),
            });
        Effect { level: Estimate::of(&own, seed), difference }
    }
}

fn scores(runs: &[Measured], measure: Measure) -> Scores {
    let of = |run: &Measured| match measure {
        Measure::Success => run.scores.success.clone(),
        Measure::Reward => run.scores.reward.clone(),
    };
    // A run without any scored task would leave no task that all runs have.
    runs.iter().map(|run| (run.seed, of(run))).filter(|(_, scores)| !scores.is_empty()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use burnish_core::TaskId;
    use burnish_eval::TaskScores;

    /// A run that solved tasks 0 up to `solved` of 40, and generated this many tokens.
    pub(crate) fn measured(seed: u64, solved: usize, generated: f64) -> Measured {
        let value = |task: usize| f64::from(u8::from(task < solved));
        let by_task = |scale: f64| (0..40).map(|t| (TaskId(format!("t{t}")), scale * value(t))).collect();
        Measured {
            seed,
            headline: Measure::Success,
            prompt_too_long: 0,
            unscored: 0,
            scores: TaskScores { success: by_task(1.0), reward: by_task(0.5) },
            curve: vec![(0, 0.1), (4, solved as f64 / 40.0)],
            budget: Budget { generated, forward_backward: 2.0, seconds: 3.0, ..Budget::default() },
            reached: None,
            metrics: BTreeMap::new(),
            unknown: Vec::new(),
        }
    }

    pub(crate) fn arm(name: &str, runs: Vec<Measured>, baseline: Option<&[Measured]>) -> ArmFindings {
        let recipe = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 9\n[env]\n\
                      id = \"countdown\"\n";
        let source = burnish_recipe::Source::parse("r.toml", recipe, &[]).unwrap();
        let arm = Arm {
            name: name.into(),
            set: vec!["loss.beta=0.1".into()],
            note: String::new(),
            seeds: vec![1],
            recipe: burnish_recipe::Recipe::resolve(&source).unwrap(),
        };
        ArmFindings::of(&arm, runs, baseline, 3)
    }

    pub(crate) fn findings(arms: Vec<ArmFindings>) -> Findings {
        let headline = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.headline).next();
        let findings = Findings {
            id: "x".into(),
            title: "X".into(),
            claim: "Y helps.".into(),
            headline: headline.unwrap_or_default(),
            baseline: arms[0].name.clone(),
            runs_finished: 4,
            runs_planned: 4,
            rewards_comparable: true,
            reach: None,
            metrics: Vec::new(),
            arms,
            warnings: Vec::new(),
        };
        Findings { warnings: findings.warnings(), ..findings }
    }

    #[test]
    fn arms_are_compared_by_seed_and_unequal_budgets_are_warned_of() {
        let baseline = [measured(1, 10, 100.0), measured(2, 12, 100.0), measured(3, 40, 900.0)];
        let worse = arm("worse", vec![measured(2, 2, 104.0), measured(1, 1, 104.0)], Some(&baseline));
        let difference = worse.success.difference.unwrap();
        assert_eq!((difference.estimate.seeds, difference.verdict), (2, Verdict::Worse));
        assert!((difference.estimate.interval.mean - -9.5 / 40.0).abs() < 1e-12);
        assert!((worse.reward.difference.unwrap().estimate.interval.mean - -9.5 / 80.0).abs() < 1e-12);
        let longer = arm("longer", vec![measured(1, 10, 120.0)], Some(&baseline));
        assert_eq!(longer.budget_relative.unwrap().generated, Some(1.2));
        assert_eq!(longer.budget_relative.unwrap().environment_steps, None, "the baseline has none");
        assert_eq!(longer.success.difference.unwrap().verdict, Verdict::NoDifferenceSeen);
        let found = findings(vec![arm("base", baseline.to_vec(), None), worse, longer]);
        let [unequal, once] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
        assert!(unequal.contains("`longer` used +20.0 % tokens generated"), "{unequal}");
        assert!(once.contains("One seed only (`longer`)"), "{once}");
    }

    /// As [`measured`], for an environment that gives only rewards.
    pub(crate) fn rewarded(seed: u64, solved: usize) -> Measured {
        let mut run = measured(seed, solved, 1.0);
        run.headline = Measure::Reward;
        run.scores.success.clear();
        run
    }

    #[test]
    fn what_is_counted_otherwise_is_said() {
        let mut base = measured(1, 10, 100.0);
        (base.prompt_too_long, base.unscored) = (9, 4);
        let found = findings(vec![arm("base", vec![base, measured(2, 9, 100.0)], None)]);
        let said = found.warnings.join("\n");
        assert!(
            said.contains("1 of 2 runs") && said.contains("up to 9 episodes") && said.contains("as failures"),
            "{said}"
        );
        assert!(said.contains("`base`, seed 1: 4 held-out episodes"), "{said}");
        let found = Findings { reach: Some(0.5), ..findings(vec![arm("base", vec![rewarded(1, 10)], None)]) };
        assert!(found.warnings().join("\n").contains("`study.reach = 0.5` is a success rate"));
    }

    #[test]
    fn a_run_in_which_nothing_was_scored_is_said_and_left_out() {
        let baseline = [measured(1, 10, 100.0), measured(2, 12, 100.0)];
        let mut hung = measured(2, 0, 100.0);
        hung.scores = TaskScores::default();
        let found = arm("hung", vec![measured(1, 20, 100.0), hung], Some(&baseline));
        assert_eq!(found.success.difference.unwrap().estimate.seeds, 1);
        let found = findings(vec![arm("base", baseline.to_vec(), None), found]);
        assert!(
            found.warnings.iter().any(|warning| warning.contains("`hung`, seed 2")),
            "{:?}",
            found.warnings
        );
    }
}
