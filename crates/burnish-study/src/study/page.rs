//! A study's page in Markdown.

use burnish_eval::Estimate;

use super::findings::{ClaimFindings, ContrastFindings, Effect, Verdict};
use super::{ArmFindings, Budget, Findings, Measure, Registration, Study, Tuning, metric};

/// How the page was made, for its first lines.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// The command.
    pub command: String,
    /// What it ran on.
    pub machine: String,
    /// The program's version, with the commit where it is known.
    pub version: String,
    /// The plan that was written down before the first run. None of a draft.
    pub registration: Option<Registration>,
}

/// The page.
pub(super) fn markdown(findings: &Findings, study: &Study, made: &Made) -> String {
    let kind = if findings.claim.is_some() { "Claim" } else { "Question" };
    let mut parts = vec![format!("# {}", findings.title), format!("{kind}: {}", findings.text)];
    if findings.is_draft {
        parts.push(DRAFT.to_owned());
    }
    if findings.claim.is_none() {
        parts.push(SURVEY.to_owned());
    }
    parts.push(head(findings, study, made));
    if let Some(claim) = &findings.claim {
        parts.push(format!("## The claim\n\n{}\n\n{}", in_words(claim), contrasts(claim)));
        parts.push(format!("## The disease\n\n{}", gauges(claim)));
    }
    if !findings.warnings.is_empty() {
        let warnings: Vec<String> =
            findings.warnings.iter().map(|warning| format!("- **{warning}**")).collect();
        parts.push(warnings.join("\n"));
    }
    let leading = findings.headline;
    if leading == Measure::Reward {
        parts.push("The environment reports no success: results are told by the reward.".to_owned());
    }
    if let Some(of_disease) = only_of_disease(findings) {
        parts.push(of_disease);
    }
    let plot = study.page(findings.is_draft).with_extension("svg");
    let plot = plot.file_name().unwrap_or_default().to_string_lossy();
    parts.push(format!("![held-out {} over training steps]({plot})", leading.name()));
    parts.push("Lines are means over seeds, bands reach from the least to the greatest seed.".to_owned());
    for metric in &findings.metrics {
        parts.push(format!("## {}\n\n{}", heading(metric), table(findings, metric)));
    }
    if let Some(test) = &study.test {
        let tuned = findings.claim.as_ref().map_or(&[][..], |claim| &claim.tuned);
        parts.push(format!("## Tuning\n\n{}", tuning(&test.tuning, tuned, &test.claim.metric)));
    }
    parts.push(format!("## Budget of a run\n\n{}\n\n{BUDGET}", budget_table(findings)));
    parts.push(format!("## Arms\n\n{}", arms_table(findings)));
    parts.push(format!("## How to read this\n\n{HOW}"));
    parts.join("\n\n") + "\n"
}

const DRAFT: &str = "\
**A draft: its plan was in no commit before the first run, so it gives no verdict.**";

const SURVEY: &str = "\
A survey: nothing is claimed, so nothing is judged. Of 20 differences that are not there, one interval is expected to leave \
out 0.";

const BUDGET: &str = "\
Means over the runs of an arm; in brackets what that is of the baseline's, over the seeds that both have. *Generated*: tokens \
sampled in training. *Forward and backward*: rows that went through the model in updates, after sharing prefixes. \
*Environment steps*: answers given to the environment. *Seconds*: wall time of the training steps. Evaluations, which are \
the same for all runs, are left out.";

const HOW: &str = "\
A seed is a replication from the first stage on: its own starting policy, training tasks, random numbers and held-out tasks, \
which all arms share. Differences are `arm - baseline`, paired by seed. Intervals are 95 % t-intervals over seeds. The \
*smallest detectable effect* is found in 80 % of such studies, at the spread between seeds that was found. *Supported* and \
*contradicted*: the difference is on the side that was claimed, or on the other, with a p-value below 5 % after Holm's \
correction for the number of comparisons of the claim. *Not seen* is not *not there*: smaller effects were likely to be \
missed. *Not testable here*: what the method is said to mend was not wrong, so nothing could be mended. Only the comparisons \
of the claim are judged; of 20 other differences that are not there, one interval is expected to leave out 0.";

fn head(findings: &Findings, study: &Study, made: &Made) -> String {
    let tasks = findings.arms.iter().flat_map(|arm| &arm.runs).map(|run| run.tasks).max().unwrap_or(0);
    let set = if study.set.is_empty() { String::new() } else { format!(" with {}", quoted(&study.set)) };
    let mut lines = vec![format!(
        "Made by `{}` with {} on {}: {} of {} runs, {tasks} held-out tasks for each seed, base recipe `{}`{set}.",
        made.command,
        made.version,
        made.machine,
        findings.runs_finished,
        findings.runs_planned,
        study.recipe.display(),
    )];
    if let Some(registration) = &made.registration {
        lines.push(format!(
            "Planned in commit {}, before the first run, which {} began.",
            registration.commit, registration.program
        ));
    }
    lines.join("\n")
}

/// What a contrast says, with what a reader needs to weigh it.
pub(super) fn in_full(found: &ContrastFindings, claim: &ClaimFindings) -> String {
    match found.verdict {
        Verdict::Supported => "**supported**".to_owned(),
        Verdict::Contradicted => "**contradicted**".to_owned(),
        Verdict::NotSeen => match found.smallest_detectable.filter(|least| *least > 0.0) {
            Some(least) => {
                format!("not seen (smallest detectable effect {})", with_unit(least, &claim.metric))
            }
            None => "not seen (all seeds came out alike)".to_owned(),
        },
        Verdict::NotTestable => {
            let failed: Vec<String> = claim
                .gauges
                .iter()
                .filter(|gauged| !gauged.holds)
                .map(|gauged| format!("{}: {}", gauged.gauge.name, level(gauged.value, &gauged.gauge.metric)))
                .collect();
            format!("not testable here ({})", in_cell(&failed.join("; ")))
        }
        Verdict::Open => format!("none: {}", in_cell(&found.because)),
    }
}

fn in_words(claim: &ClaimFindings) -> String {
    format!("`{}` is claimed to be {}.", claim.metric, claim.direction.name())
}

/// The comparisons of a claim.
pub(super) fn contrasts(claim: &ClaimFindings) -> String {
    let mut lines = vec![
        format!("| comparison | seeds | difference{} | p, corrected | verdict |", unit_of(&claim.metric)),
        "| --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(claim.contrasts.iter().map(|found| {
        let seeds = found.difference.map_or(0, |found| found.seeds);
        let p = found
            .p_value
            .map_or_else(none, |p| if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") });
        format!(
            "| `{}` against `{}` | {seeds} | {} | {p} | {} |",
            found.contrast.arm,
            found.contrast.against,
            found.difference.map_or_else(none, |found| difference(found, &claim.metric)),
            in_full(found, claim)
        )
    }));
    lines.join("\n")
}

fn gauges(claim: &ClaimFindings) -> String {
    if claim.gauges.is_empty() {
        return "Not measured yet.".to_owned();
    }
    let mut lines = vec![
        "Measured before anything else, on seeds of its own, with the settings as they are written.\n"
            .to_owned(),
        "| gauge | number | bounds | value | |".to_owned(),
        "| --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(claim.gauges.iter().map(|gauged| {
        let gauge = &gauged.gauge;
        let less =
            gauge.against.iter().map(|against| format!(", less that of `{against}`")).collect::<String>();
        let bound = |word: &str, bound: Option<f64>| Some(format!("{word} {}", level(bound?, &gauge.metric)));
        let bounds = [bound("at least", gauge.at_least), bound("at most", gauge.at_most)];
        format!(
            "| {} | `{}` of `{}`{less} | {} | {} | {} |",
            in_cell(&gauge.name),
            in_cell(&gauge.metric),
            gauge.arm,
            bounds.into_iter().flatten().collect::<Vec<_>>().join(", "),
            level(gauged.value, &gauge.metric),
            if gauged.holds { "there" } else { "**not there**" }
        )
    }));
    lines.join("\n")
}

fn only_of_disease(findings: &Findings) -> Option<String> {
    let claim = findings.claim.as_ref()?;
    let is_testable = claim.gauges.iter().all(|gauged| gauged.holds);
    (!is_testable)
        .then(|| "What follows is of the runs that measured the disease; the method was not run.".to_owned())
}

fn tuning(tuning: &Tuning, tuned: &[super::Tuned], metric: &str) -> String {
    let points = match tuning {
        Tuning::None(why) => return format!("None: {why}"),
        Tuning::Grid { points, seeds } => {
            if tuned.is_empty() {
                return format!("Not finished: {} points, {} seeds each.", points.len(), seeds.len());
            }
            points
        }
    };
    let cells = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let first = [String::from("arm")];
    let named = points.iter().map(|point| quoted(point));
    let mut lines = vec![
        format!(
            "`{metric}` on tasks that are not the reported ones: the mean over seeds, in brackets seed by seed. The \
             best point of each arm, in bold, ran on the seeds that are reported.\n"
        ),
        cells(first.into_iter().chain(named).collect()),
        format!("| --- |{}", " --- |".repeat(points.len())),
    ];
    lines.extend(tuned.iter().map(|tuned| {
        let of_point = |(at, values): (usize, &Vec<f64>)| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let each: Vec<String> = values.iter().map(|value| number(*value, metric)).collect();
            let mean = level(mean, metric);
            let mean = if at == tuned.best { format!("**{mean}**") } else { mean };
            format!("{mean} ({})", each.join(", "))
        };
        let of_points = tuned.values.iter().enumerate().map(of_point);
        cells([tuned.arm.clone()].into_iter().chain(of_points).collect())
    }));
    lines.join("\n")
}

fn heading(metric: &str) -> String {
    match metric {
        "success" => "Success on held-out tasks".to_owned(),
        "reward" => "Reward on held-out tasks".to_owned(),
        "area(eval/success)" => "Mean success over training: the area under the curve".to_owned(),
        "area(eval/reward)" => "Mean reward over training: the area under the curve".to_owned(),
        other => format!("`{other}`"),
    }
}

/// The levels of all arms, and their differences from the baseline.
pub(super) fn table(findings: &Findings, metric: &str) -> String {
    let mut lines = vec![
        format!("| arm | seeds | level | difference{} | smallest detectable effect |", unit_of(metric)),
        "| --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(findings.arms.iter().map(|arm| {
        let nothing = Effect::default();
        let effect = arm.effects.get(metric).unwrap_or(&nothing);
        let seeds = effect.level.map_or(0, |level| level.seeds);
        let bound = if effect.bounds > 0 { "> " } else { "" };
        let level = effect.level.map_or_else(none, |level| format!("{bound}{}", level_of(level, metric)));
        let found = effect.difference.filter(|_| effect.bounds == 0);
        let least = found.and_then(|found| found.smallest_detectable(1)).filter(|least| *least > 0.0);
        let found = match (found, effect.bounds) {
            (_, bounds) if bounds > 0 => format!("{bounds} of {seeds} never came that far"),
            (Some(found), _) => difference(found, metric),
            (None, _) if arm.name == findings.baseline => "baseline".to_owned(),
            (None, _) => none(),
        };
        let least = least.map_or_else(none, |least| number(least, metric));
        format!("| {} | {seeds} | {level} | {found} | {least} |", arm.name)
    }));
    lines.join("\n")
}

pub(super) fn none() -> String {
    "–".to_owned()
}

/// A number; of a share in percentage points.
fn number(value: f64, metric: &str) -> String {
    if metric::is_share(metric) {
        return format!("{:.1}", 100.0 * value);
    }
    match value.abs() {
        size if size >= 1e4 => count(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 0.1 || value == 0.0 => format!("{value:.3}"),
        // Three digits, as above; a smaller number would be mostly zeros.
        size if size >= 0.01 => format!("{value:.4}"),
        size if size >= 0.001 => format!("{value:.5}"),
        _ => format!("{value:.2e}"),
    }
}

/// A number with its sign; one that is shown as 0 is not shown as a loss.
fn signed(value: f64, metric: &str) -> String {
    let text = number(value.abs(), metric);
    let is_nothing = text.parse() == Ok(0.0);
    format!("{}{text}", if value < 0.0 && !is_nothing { "-" } else { "+" })
}

fn level(value: f64, metric: &str) -> String {
    let unit = if metric::is_share(metric) { " %" } else { "" };
    format!("{}{unit}", number(value, metric))
}

fn with_unit(value: f64, metric: &str) -> String {
    format!("{}{}", number(value, metric), if metric::is_share(metric) { " points" } else { "" })
}

fn unit_of(metric: &str) -> &'static str {
    if metric::is_share(metric) { " (points)" } else { "" }
}

fn level_of(found: Estimate, metric: &str) -> String {
    let range = found.interval().map(|bounds| {
        let [low, high] = bounds.map(|bound| number(bound, metric));
        format!(" [{low}, {high}]")
    });
    format!("{}{}", level(found.mean, metric), range.unwrap_or_default())
}

/// A difference with its interval; of one seed without.
pub(super) fn difference(found: Estimate, metric: &str) -> String {
    let range = found.interval().map(|bounds| {
        let [low, high] = bounds.map(|bound| signed(bound, metric));
        format!(" [{low}, {high}]")
    });
    format!("{}{}", signed(found.mean, metric), range.unwrap_or_default())
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

/// A count, to about three digits.
fn count(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2} M", value / 1e6),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        // A sum of nothing is -0.
        _ => format!("{:.0}", value + 0.0),
    }
}

fn arms_table(findings: &Findings) -> String {
    let measure = findings.headline;
    let mut lines = vec![
        "| arm | role | changes of the recipe | seeds | before training | note |".to_owned(),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(findings.arms.iter().map(|arm| {
        let role = arm.role.map_or_else(none, |role| format!("{role:?}").to_lowercase());
        let set = if arm.set.is_empty() { "none".to_owned() } else { quoted(&arm.set) };
        let seeds: Vec<String> = arm.runs.iter().map(|run| run.seed.to_string()).collect();
        let before = arm.before.map_or_else(none, |before| measure.level(before.mean));
        format!(
            "| {} | {role} | {set} | {} | {before} | {} |",
            arm.name,
            seeds.join(", "),
            in_cell(&arm.note)
        )
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
    use super::super::findings::tests::{claimed, measured, survey};
    use super::*;

    #[test]
    fn every_arm_has_its_level_and_its_difference_beside_the_smallest_that_would_have_been_seen() {
        let baseline = vec![measured(1, 10, 1000.0), measured(2, 12, 1000.0)];
        let mut never = vec![measured(1, 9, 1000.0), measured(2, 12, 1000.0)];
        never[0].bounds.insert("success".into());
        let found = survey(&[
            ("base", baseline.clone()),
            ("up", vec![measured(1, 38, 1000.0), measured(2, 39, 1000.0)]),
            ("once", vec![measured(1, 11, 1300.0)]),
            ("copy", baseline),
            ("never", never),
            ("waits", Vec::new()),
        ]);
        let page = table(&found, "success");
        let row = |name: &str| page.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        assert!(
            row("base").starts_with("| base | 2 | 27.5 % [") && row("base").ends_with("| baseline | – |"),
            "{page}"
        );
        let up = found.arms[1].effects["success"].difference.unwrap();
        let least = format!("| {:.1} |", 100.0 * up.smallest_detectable(1).unwrap());
        assert!(row("up").contains("| +68.8 [") && row("up").ends_with(&least), "{page}");
        assert_eq!(row("once"), "| once | 1 | 27.5 % | +2.5 | – |", "{page}");
        assert!(row("copy").ends_with("| +0.0 [+0.0, +0.0] | – |"), "{page}");
        assert!(
            row("never").starts_with("| never | 2 | > 26.2 % [") && row("never").contains("| 1 of 2 never"),
            "{page}"
        );
        assert_eq!(row("waits"), "| waits | 0 | – | – | – |", "{page}");
        let budget = budget_table(&found);
        assert!(budget.contains("| once | 1300 (130 %) | 2 (100 %) | 0 | 0 | 3.0 |"), "{budget}");
    }

    #[test]
    fn a_comparison_says_what_it_found() {
        let of = |solved: [usize; 5]| -> Vec<_> {
            solved.iter().zip(1..).map(|(solved, seed)| measured(seed, *solved, 1.0)).collect()
        };
        let arms = [("base", of([10, 14, 12, 11, 13])), ("same", of([13, 11, 12, 14, 11]))];
        let found = claimed(&arms, &[("same", "base")]);
        let least = found.claim.as_ref().unwrap().contrasts[0].smallest_detectable.unwrap();
        let said = format!("not seen (smallest detectable effect {:.1} points)", 100.0 * least);
        assert!(found.headline_table().contains(&said), "{}", found.headline_table());
    }

    #[test]
    fn numbers_are_short_and_cells_stay_cells() {
        assert_eq!([999.0, 12_345.0, 2_500_000.0, -0.0].map(count), ["999", "12.3 k", "2.50 M", "0"]);
        let shown = [0.5, 0.0, 123.4, 12_345.0, -3.25].map(|value| number(value, "x"));
        assert_eq!(shown, ["0.500", "0.000", "123", "12.3 k", "-3.250"]);
        let small = [0.0725, -0.05, 0.004_44, 0.001, 0.000_12].map(|value| number(value, "x"));
        assert_eq!(small, ["0.0725", "-0.0500", "0.00444", "0.00100", "1.20e-4"]);
        assert_eq!([0.031, -0.0001, -0.02].map(|value| signed(value, "success")), ["+3.1", "+0.0", "-2.0"]);
        assert_eq!(in_cell("a | b\nc"), "a \\| b c");
    }
}
