//! What a reader must know before believing a page's tables.

use super::claim::Tuning;
use super::findings::{ArmFindings, Findings};
use super::{Measure, Measured, Study};

/// One sentence each.
pub(super) fn of(findings: &Findings, study: &Study) -> Vec<String> {
    let mut warnings = Vec::new();
    if findings.runs_finished < findings.runs_planned {
        warnings.push(format!(
            "Not complete: {} of {} runs are finished.",
            findings.runs_finished, findings.runs_planned
        ));
    }
    let runs = || findings.arms.iter().flat_map(|arm| arm.runs.iter().map(move |run| (arm, run)));
    let names = study.metrics.iter().filter(|name| runs().all(|(_, run)| !run.numbers.contains_key(*name)));
    warnings.extend(names.map(|name| format!("`{name}` is in no run that is finished.")));
    warnings.extend(too_long(findings));
    for (arm, run) in runs() {
        warnings.extend(unjudged(arm, run));
    }
    warnings.extend(unequal_budgets(findings));
    let collapsed: Vec<String> = findings
        .arms
        .iter()
        .filter(|arm| arm.collapsed > 0)
        .map(|arm| format!("`{}` {} of {}", arm.name, arm.collapsed, arm.runs.len()))
        .collect();
    if !collapsed.is_empty() {
        warnings.push(format!(
            "Runs that lost over half of the success that they once had: {}.",
            collapsed.join(", ")
        ));
    }
    if !findings.rewards_comparable {
        warnings.push(
            "Arms weigh the components of reward differently, so their rewards are not compared.".into(),
        );
    }
    warnings.extend(at_the_edge(findings, study));
    let is_path = |arm: &super::Arm| arm.recipe.policy.from.is_none() && arm.recipe.policy.path.is_some();
    if study.test.is_some() && study.arms.iter().any(is_path) {
        warnings.push(
            "All seeds start from the policy of one path (`policy.path`), so what is said holds for that policy; with \
             `policy.from` each seed makes its own."
                .into(),
        );
    }
    warnings
}

fn too_long(findings: &Findings) -> Option<String> {
    let runs = || findings.arms.iter().flat_map(|arm| &arm.runs);
    let kept = |run: &&Measured| run.prompt_too_long > 0;
    let most = runs().filter(kept).map(|run| run.prompt_too_long).max()?;
    Some(format!(
        "{} of {} runs were evaluated with prompts that do not fit the context window, up to {most} episodes in a run: \
         {}.",
        runs().filter(kept).count(),
        runs().count(),
        match findings.headline {
            Measure::Success => "they count as failures",
            Measure::Reward => "they have no reward and are in no mean",
        }
    ))
}

fn unjudged(arm: &ArmFindings, run: &Measured) -> Option<String> {
    let (arm, seed) = (&arm.name, run.seed);
    if !run.is_judged {
        return Some(format!(
            "`{arm}`, seed {seed}: no held-out task could be scored; the run is in no mean."
        ));
    }
    (run.unscored > 0).then(|| {
        format!(
            "`{arm}`, seed {seed}: {} held-out episodes of the last evaluation could not be judged and are in no mean.",
            run.unscored
        )
    })
}

fn unequal_budgets(findings: &Findings) -> Option<String> {
    let of_arm = |arm: &ArmFindings| {
        let unequal = arm.budget_relative?.unequal();
        (!unequal.is_empty()).then(|| format!("`{}` {}", arm.name, unequal.join(", ")))
    };
    let arms: Vec<String> = findings.arms.iter().filter_map(of_arm).collect();
    (!arms.is_empty())
        .then(|| format!("Unequal budgets, compared with `{}`: {}.", findings.baseline, arms.join("; ")))
}

/// Arms whose best point of the grid is its first or last value of a key: the best may lie beyond.
fn at_the_edge(findings: &Findings, study: &Study) -> Option<String> {
    let (claim, test) = (findings.claim.as_ref()?, study.test.as_ref()?);
    let Tuning::Grid { points, .. } = &test.tuning else { return None };
    let edges = |at: usize| points.iter().map(|point| &point[at]).collect::<Vec<_>>();
    let is_edge = |change: &String, at: usize| {
        let values = edges(at);
        Some(&change) == values.first() || Some(&change) == values.last()
    };
    let arms: Vec<String> = claim
        .tuned
        .iter()
        .filter_map(|tuned| {
            let at_edge: Vec<String> = points[tuned.best]
                .iter()
                .enumerate()
                .filter(|(at, change)| is_edge(change, *at))
                .map(|(_, change)| format!("`{change}`"))
                .collect();
            (!at_edge.is_empty()).then(|| format!("`{}` {}", tuned.arm, at_edge.join(", ")))
        })
        .collect();
    (!arms.is_empty()).then(|| {
        format!(
            "The best point is at the edge of the grid, so a better one may lie beyond it: {}.",
            arms.join("; ")
        )
    })
}
