//! A study's page in Markdown.

use burnish_eval::{Estimate, Verdict};

use super::findings::Difference;
use super::{ArmFindings, Budget, Findings, Measure, Study};

/// How the page was made, for its first lines.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// The command.
    pub command: String,
    /// What it ran on.
    pub machine: String,
    /// The program's version, with the commit where it is known.
    pub version: String,
}

/// The page.
pub(super) fn markdown(findings: &Findings, study: &Study, made: &Made) -> String {
    let mut parts = vec![
        format!("# {}", findings.title),
        format!("Claim: {}", findings.claim),
        head(findings, study, made),
    ];
    if !findings.warnings.is_empty() {
        parts.push(
            findings.warnings.iter().map(|warning| format!("- **{warning}**")).collect::<Vec<_>>().join("\n"),
        );
    }
    let leading = findings.headline;
    if leading == Measure::Reward {
        parts.push("The environment reports no success: results are told by the reward.".to_owned());
    }
    let heading = |measure| match measure {
        Measure::Success => "## Success on held-out tasks",
        Measure::Reward => "## Reward on held-out tasks",
    };
    if findings.is_compared() {
        parts.push(format!("{}\n\n{}", heading(leading), table(findings, leading)));
    }
    parts.push(format!("![held-out {} over training steps]({}.svg)", leading.name(), findings.id));
    parts.push("Lines are means over seeds, bands reach from the least to the greatest seed.".to_owned());
    if findings.rewards_comparable && leading == Measure::Success {
        parts.push(format!("{}\n\n{}", heading(Measure::Reward), table(findings, Measure::Reward)));
    }
    if !findings.rewards_comparable {
        parts.push(NOT_COMPARED.to_owned());
    }
    if let Some(score) = findings.reach.filter(|_| leading == Measure::Success) {
        parts.push(super::reach::section(findings, score));
    }
    if !findings.metrics.is_empty() {
        parts.push(format!("## Further numbers\n\n{}\n\n{METRICS}", metrics_table(findings)));
    }
    parts.push(format!("## Budget of a run\n\n{}\n\n{BUDGET}", budget_table(findings)));
    parts.push(format!("## Arms\n\n{}", arms_table(findings)));
    parts.push(format!("## How to read this\n\n{HOW}"));
    parts.join("\n\n") + "\n"
}

pub(super) const NOT_COMPARED: &str =
    "Arms weigh the components of reward differently, so their rewards are not compared.";

const METRICS: &str = "\
Means over the seeds of an arm, in brackets from the least to the greatest. They are not compared, and there are no intervals. \
Names with dots are of the last evaluation's summary, others of the runs' metrics: the last number, or with `mean(...)`, `std(...)`, \
`min(...)`, `max(...)` what that is over all steps.";

const BUDGET: &str = "\
Means over the runs of an arm; in brackets what that is of the baseline's, over the seeds that both have. *Generated*: tokens \
sampled in training. *Forward and backward*: rows that went through the model in updates, after sharing prefixes. \
*Environment steps*: answers given to the environment. *Seconds*: wall time of the training steps. Evaluations, which are \
the same for all runs, are left out.";

const HOW: &str = "\
Every run of a seed has the same training tasks, the same random numbers and the same held-out tasks as the baseline's run \
of that seed. Differences are `arm - baseline`, paired by seed and task. Intervals are 95 % percentile intervals of a \
bootstrap that resamples seeds and tasks independently of each other, every drawn seed with the same drawn tasks; of S \
seeds S - 1 are drawn, which keeps the variance right at few seeds. The *smallest detectable effect* is (1.96 + 0.84) \
bootstrap standard errors of the difference: a true effect of that size leaves an interval without 0 in 80 % of such studies \
(two-sided 5 %). *No difference seen* is not *no effect*: smaller effects were likely to be missed. Intervals are not \
corrected for the number of arms: of 20 arms without an effect, one is expected to look better or worse.";

fn head(findings: &Findings, study: &Study, made: &Made) -> String {
    let measure = findings.headline;
    let tasks =
        findings.arms.iter().filter_map(|arm| arm.compared(measure).level).map(|level| level.tasks).max();
    let before: Vec<f64> = findings
        .arms
        .iter()
        .flat_map(|arm| &arm.runs)
        .filter_map(|run| run.curve.first().filter(|(step, _)| *step == 0))
        .map(|(_, level)| *level)
        .collect();
    let mut lines = vec![format!(
        "Made by `{}` with {} on {}: {} of {} runs, {} held-out tasks, base recipe `{}`{}.",
        made.command,
        made.version,
        made.machine,
        findings.runs_finished,
        findings.runs_planned,
        tasks.unwrap_or(0),
        study.recipe.display(),
        if study.set.is_empty() { String::new() } else { format!(" with {}", quoted(&study.set)) }
    )];
    if !before.is_empty() {
        let mean = before.iter().sum::<f64>() / before.len() as f64;
        lines.push(format!("Before training: {}.", measure.level(mean)));
    }
    lines.join("\n")
}

pub(super) fn table(findings: &Findings, measure: Measure) -> String {
    let (name, unit) = match measure {
        Measure::Success => ("success", " (points)"),
        Measure::Reward => ("reward", ""),
    };
    let mut lines = vec![
        format!("| arm | seeds | {name} | difference{unit} | smallest detectable effect | verdict |"),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    for arm in &findings.arms {
        let compared = arm.compared(measure);
        let level = compared.level.map_or_else(none, |level| shown_level(level, measure));
        let cells = match &compared.difference {
            Some(found) => [
                shown_difference(found.estimate, measure),
                shown_detectable(found, measure),
                shown_verdict(found, measure),
            ],
            None if arm.name == findings.baseline => [none(), none(), "baseline".to_owned()],
            None => [none(), none(), "not compared yet".to_owned()],
        };
        let seeds = compared.level.map_or(0, |level| level.seeds);
        lines.push(format!("| {} | {seeds} | {level} | {} |", arm.name, cells.join(" | ")));
    }
    lines.join("\n")
}

pub(super) fn none() -> String {
    "–".to_owned()
}

/// A value, in percentage points for success.
fn shown(value: f64, measure: Measure) -> String {
    match measure {
        Measure::Success => format!("{:.1}", 100.0 * value),
        Measure::Reward => format!("{value:.3}"),
    }
}

fn shown_level(level: Estimate, measure: Measure) -> String {
    let [mean, low, high] =
        [level.interval.mean, level.interval.low, level.interval.high].map(|value| shown(value, measure));
    match measure {
        Measure::Success => format!("{mean} % [{low}, {high}]"),
        Measure::Reward => format!("{mean} [{low}, {high}]"),
    }
}

pub(super) fn shown_difference(found: Estimate, measure: Measure) -> String {
    let [mean, low, high] =
        [found.interval.mean, found.interval.low, found.interval.high].map(|value| measure.signed(value));
    format!("{mean} [{low}, {high}]")
}

pub(super) fn shown_detectable(found: &Difference, measure: Measure) -> String {
    // If all differences are equal, resampling them does not show what difference could have been detected.
    if found.smallest_detectable == 0.0 { none() } else { shown(found.smallest_detectable, measure) }
}

fn shown_verdict(found: &Difference, measure: Measure) -> String {
    let unit = if measure == Measure::Success { " points" } else { "" };
    match found.verdict {
        Verdict::Better => "**better**".to_owned(),
        Verdict::Worse => "**worse**".to_owned(),
        Verdict::NoDifferenceSeen if found.smallest_detectable == 0.0 => {
            "no difference seen: every task came out alike".to_owned()
        }
        Verdict::NoDifferenceSeen => format!(
            "no difference seen (one below {}{unit} would likely have been missed)",
            shown(found.smallest_detectable, measure)
        ),
    }
}

fn budget_table(findings: &Findings) -> String {
    let mut lines = vec![
        "| arm | generated | forward and backward | environment steps | updates | seconds |".to_owned(),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(findings.arms.iter().map(budget_line));
    lines.join("\n")
}

fn budget_line(arm: &ArmFindings) -> String {
    let Budget { generated, forward_backward, environment_steps, updates, seconds, .. } = arm.budget;
    let with_share = |value: f64, share: Option<f64>| {
        let share = share.map(|share| format!(" ({:.0} %)", 100.0 * share)).unwrap_or_default();
        format!("{}{share}", count(value))
    };
    let relative = arm.budget_relative;
    format!(
        "| {} | {} | {} | {} | {updates:.0} | {seconds:.1} |",
        arm.name,
        with_share(generated, relative.and_then(|of| of.generated)),
        with_share(forward_backward, relative.and_then(|of| of.forward_backward)),
        with_share(environment_steps, relative.and_then(|of| of.environment_steps)),
    )
}

fn metrics_table(findings: &Findings) -> String {
    let names: Vec<String> = findings.metrics.iter().map(|name| format!("`{}`", in_cell(name))).collect();
    let mut lines =
        vec![format!("| arm | {} |", names.join(" | ")), format!("| --- |{}", " --- |".repeat(names.len()))];
    lines.extend(findings.arms.iter().map(|arm| {
        let cells: Vec<String> = findings
            .metrics
            .iter()
            .map(|name| {
                over_seeds(arm.runs.iter().filter_map(|run| run.metrics.get(name).copied()).collect())
            })
            .collect();
        format!("| {} | {} |", arm.name, cells.join(" | "))
    }));
    lines.join("\n")
}

fn over_seeds(values: Vec<f64>) -> String {
    if values.is_empty() {
        return none();
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{mean:.3} [{least:.3}, {greatest:.3}]")
}

/// A count, to about three digits.
pub(super) fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e4 => format!("{:.1} k", value / 1e3),
        // A sum of nothing is -0.
        value => format!("{:.0}", value + 0.0),
    }
}

fn arms_table(findings: &Findings) -> String {
    let mut lines = vec![
        "| arm | changes of the recipe | seeds | note |".to_owned(),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(findings.arms.iter().map(|arm| {
        let set = if arm.set.is_empty() { "none".to_owned() } else { quoted(&arm.set) };
        let seeds: Vec<String> = arm.runs.iter().map(|run| run.seed.to_string()).collect();
        format!("| {} | {set} | {} | {} |", arm.name, seeds.join(", "), in_cell(&arm.note))
    }));
    lines.join("\n")
}

fn quoted(changes: &[String]) -> String {
    changes.iter().map(|change| format!("`{}`", in_cell(change))).collect::<Vec<_>>().join(", ")
}

/// Escapes text so that it ends no cell and no line of a table.
pub(super) fn in_cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{arm, findings, measured, rewarded};
    use super::*;

    #[test]
    fn every_effect_stands_beside_the_smallest_that_would_have_been_seen() {
        let baseline = [measured(1, 10, 1000.0), measured(2, 12, 1000.0)];
        let found = findings(vec![
            arm("base", baseline.to_vec(), None),
            arm("up", vec![measured(1, 38, 1000.0), measured(2, 40, 1000.0)], Some(&baseline)),
            arm("same", vec![measured(1, 11, 1300.0), measured(2, 11, 1000.0)], Some(&baseline)),
            arm("copy", baseline.to_vec(), Some(&baseline)),
            arm("waits", Vec::new(), Some(&baseline)),
        ]);
        let page = table(&found, Measure::Success);
        let row = |name: &str| page.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        assert!(row("base").ends_with("| – | – | baseline |"), "{page}");
        assert!(row("up").contains("| +70.0 [") && row("up").ends_with("**better** |"), "{page}");
        let detectable = 100.0 * found.arms[2].success.difference.unwrap().smallest_detectable;
        assert!(detectable > 0.0);
        let said = format!("| {detectable:.1} | no difference seen (one below {detectable:.1} points would");
        assert!(row("same").contains(&said) && row("same").contains("+0.0 ["), "{page}");
        assert!(row("copy").contains("| – | no difference seen: every task came out alike"), "{page}");
        assert!(row("waits").contains("| 0 | – | – | – | not compared yet |"), "{page}");
        let budget = budget_table(&found);
        assert!(budget.contains("| same | 1150 (115 %) | 2 (100 %) | 0 | 0 | 3.0 |"), "{budget}");
    }

    #[test]
    fn rewards_lead_where_the_environment_reports_no_success() {
        let baseline = [rewarded(1, 10), rewarded(2, 12)];
        let up = arm("up", vec![rewarded(1, 38), rewarded(2, 40)], Some(&baseline));
        let found = findings(vec![arm("base", baseline.to_vec(), None), up]);
        let page = found.headline_table();
        assert!(page.starts_with("| arm | seeds | reward | difference |"), "{page}");
        assert!(page.contains("| up | 2 | 0.487 [") && page.contains("| +0.350 ["), "{page}");
        assert!(page.contains("**better**") && !page.contains('%'), "{page}");
        let apart = Findings { rewards_comparable: false, ..found };
        assert_eq!(apart.headline_table(), NOT_COMPARED);
    }

    #[test]
    fn further_numbers_are_means_over_the_seeds_that_have_them() {
        let mut runs = [measured(1, 10, 1.0), measured(2, 12, 1.0)];
        for (run, value) in runs.iter_mut().zip([0.25, 0.75]) {
            run.metrics.insert("flags.a".into(), value);
        }
        let mut found =
            findings(vec![arm("base", runs.to_vec(), None), arm("other", vec![measured(1, 9, 1.0)], None)]);
        found.metrics = vec!["flags.a".into()];
        let table = metrics_table(&found);
        assert!(
            table.contains("| base | 0.500 [0.250, 0.750] |") && table.contains("| other | – |"),
            "{table}"
        );
    }

    #[test]
    fn counts_are_short_and_cells_stay_cells() {
        assert_eq!([999.0, 12_345.0, 2_500_000.0, -0.0].map(count), ["999", "12.3 k", "2.50 M", "0"]);
        assert_eq!(in_cell("a | b\nc"), "a \\| b c");
    }
}
