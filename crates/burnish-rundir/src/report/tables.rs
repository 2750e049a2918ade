//! The tables of results.

use std::collections::{BTreeMap, BTreeSet};

use burnish_eval::{Change, Interval, Measure, Slice, Summary};

use super::html::escape;
use super::{Evaluated, EvaluatedStep};

/// The line under the heading with the main result of the run.
pub(super) fn headline(main: &Evaluated) -> String {
    let (first, last) = (main.steps.first(), main.steps.last());
    let measure = main.headline();
    let level = |at: Option<&EvaluatedStep>| level_of(&at?.summary, measure);
    let (Some(before), Some(after)) = (level(first), level(last)) else {
        let why = match last {
            Some(at) => format!("No held-out task could be judged: {}", at.summary.left_out().join("; ")),
            None => "No evaluation on held-out tasks or rows".to_owned(),
        };
        return format!("<p class=\"lead soft\">{}.</p>", escape(&why));
    };
    let tasks = last.map_or(0, |at| at.summary.tasks);
    let name = capital(measure);
    let left_out: String = last
        .map(|at| at.summary.left_out())
        .unwrap_or_default()
        .iter()
        .map(|line| format!("<p class=\"soft\">{}.</p>\n", escape(line)))
        .collect();
    if main.steps.len() < 2 {
        return format!(
            "<p class=\"lead\">{name} on {tasks} held-out tasks: <b>{}</b> ({}).</p>\n{left_out}",
            measure.level(before.mean),
            level_range(before, measure)
        );
    }
    let change = match main.change.and_then(|change| Some((change.tasks, change.leading()?))) {
        Some((tasks, change)) => format!(
            ", a change of <b class=\"{}\">{}{}</b> (95 % interval {}, paired over {tasks} tasks)",
            verdict_class(change),
            measure.signed(change.mean),
            if measure == Measure::Success { " points" } else { "" },
            change_range(change, measure),
        ),
        None => String::new(),
    };
    format!(
        "<p class=\"lead\">{name} on {tasks} held-out tasks: {} before, <b>{}</b> after{change}.</p>\n{left_out}",
        measure.level(before.mean),
        measure.level(after.mean)
    )
}

pub(super) fn capital(measure: Measure) -> &'static str {
    match measure {
        Measure::Success => "Success",
        Measure::Reward => "Reward",
    }
}

fn level_of(summary: &Summary, measure: Measure) -> Option<Interval> {
    match measure {
        Measure::Success => summary.success,
        Measure::Reward => summary.reward,
    }
}

/// Good or bad only if the interval excludes 0.
fn verdict_class(change: Interval) -> &'static str {
    if change.low > 0.0 {
        "good"
    } else if change.high < 0.0 {
        "bad"
    } else {
        "soft"
    }
}

/// The numbers before and after, one line each.
pub(super) fn results(evaluated: &Evaluated) -> String {
    let Some(columns) = Columns::of(evaluated) else { return String::new() };
    let change = evaluated.change;
    let mut lines = Vec::new();
    // An environment that does not report success has no such row.
    if evaluated.headline() == Measure::Success {
        lines.push(columns.interval(
            "Success",
            |summary| summary.success,
            percent_with_range,
            |change| {
                let points = change.success?;
                Some(format!(
                    "{} points <span class=\"soft\">({})</span>",
                    signed(100.0 * points.mean, 1),
                    change_range(points, Measure::Success)
                ))
            },
        ));
    }
    lines.push(columns.interval(
        "Reward",
        |summary| summary.reward,
        number_with_range,
        |change| {
            let reward = change.reward?;
            let range = change_range(reward, Measure::Reward);
            Some(format!("{} <span class=\"soft\">({range})</span>", signed(reward.mean, 3)))
        },
    ));
    let ks: BTreeSet<usize> = columns.all().flat_map(|summary| summary.pass_at.keys().copied()).collect();
    for k in ks {
        let of = |summary: &Summary| Some(summary.pass_at.get(&k)?.mean);
        lines.push(columns.rate(&format!("Success of one of {k} (pass@{k})"), of));
    }
    if columns.all().any(|summary| summary.distinct_rate.is_some()) {
        lines.push(columns.rate("Different answers to a task", |summary| summary.distinct_rate));
    }
    let names = |of: fn(&Summary) -> Vec<&String>| columns.all().flat_map(of).collect::<BTreeSet<_>>();
    let rewards = names(|summary| summary.rewards.keys().collect());
    // With one component and no weight, the total says everything.
    if rewards.len() > 1 {
        for name in rewards {
            let of = |summary: &Summary| summary.rewards.get(name).copied();
            lines.push(columns.number(&format!("Reward {}", code(name)), of, 3));
        }
    }
    for name in names(|summary| summary.flags.keys().collect()) {
        let of = |summary: &Summary| Some(summary.flags.get(name).copied().unwrap_or(0.0));
        lines.push(columns.rate(&format!("Episodes with {}", code(name)), of));
    }
    lines.push(columns.number("Tokens sampled per episode", |summary| summary.completion_tokens_mean, 1));
    lines.push(columns.rate("Episodes cut short", |summary| summary.truncated_rate));
    lines.push(columns.count("Tasks", |summary| summary.tasks));
    lines.push(columns.count("Episodes", |summary| summary.episodes));
    if columns.all().any(|summary| summary.prompt_too_long > 0) {
        let name = match evaluated.headline() {
            Measure::Success => "Episodes whose prompt does not fit, counted as failures",
            Measure::Reward => "Episodes whose prompt does not fit, without a reward",
        };
        lines.push(columns.count(name, |summary| summary.prompt_too_long));
    }
    lines.push(columns.count("Episodes left unscored", |summary| summary.unscored));
    let note = if change.is_some() {
        "<p class=\"soft\">Ranges are 95 % bootstrap intervals over tasks; that of the change pairs the same \
         tasks.</p>"
    } else {
        "<p class=\"soft\">Ranges are 95 % bootstrap intervals over tasks.</p>"
    };
    let heading = match &evaluated.name {
        None => "Results on held-out tasks".to_owned(),
        Some(name) => format!("Further evaluation: {}", code(name)),
    };
    format!("<h2>{heading}</h2>\n{}{note}\n", columns.table("", &lines))
}

/// The headline's measure, and flags by label, before and after.
pub(super) fn breakdown(main: &Evaluated) -> String {
    let Some(columns) = Columns::of(main) else { return String::new() };
    let labels: BTreeSet<&String> = columns.all().flat_map(|summary| summary.by_label.keys()).collect();
    let (mut lines, mut flags) = (Vec::new(), Vec::new());
    for label in labels {
        let slices = |summary: &'_ Summary| summary.by_label.get(label).cloned().unwrap_or_default();
        let mut values: Vec<String> = columns
            .all()
            .flat_map(|summary| slices(summary).into_keys())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        // A label with a single value splits nothing.
        if values.len() < 2 {
            continue;
        }
        values.sort_by(|a, b| by_number(a).total_cmp(&by_number(b)).then_with(|| a.cmp(b)));
        for value in &values {
            let slice =
                |summary: &Summary| -> Option<Slice> { summary.by_label.get(label)?.get(value).copied() };
            let name = format!("{} = {}", code(label), code(value));
            lines.push(columns.slice(&name, slice));
            let named: BTreeSet<&String> = columns
                .all()
                .filter_map(|summary| flags_of(summary, label, value))
                .flat_map(BTreeMap::keys)
                .collect();
            for flag in named {
                let rate = |summary: &Summary| flags_of(summary, label, value)?.get(flag).copied();
                flags.push(columns.rate(&format!("{name}: {}", code(flag)), rate));
            }
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let flags = if flags.is_empty() {
        String::new()
    } else {
        let table = columns.table("", &flags);
        format!(
            "<details id=\"flags\"><summary>Flags by kind of task ({})</summary>\n{table}</details>\n",
            flags.len()
        )
    };
    let name = capital(main.headline());
    format!("<h2>{name} by kind of task</h2>\n{}{flags}", columns.table("tasks", &lines))
}

/// The rates of flags where a label has this value.
fn flags_of<'a>(summary: &'a Summary, label: &str, value: &str) -> Option<&'a BTreeMap<String, f64>> {
    summary.flags_by_label.get(label)?.get(value)
}

/// Sorts numbers first, in their order, and everything else after them.
fn by_number(value: &str) -> f64 {
    value.parse().unwrap_or(f64::INFINITY)
}

/// The evaluations that a table compares: the first and, if there are several, the last.
struct Columns<'a> {
    before: &'a EvaluatedStep,
    after: Option<&'a EvaluatedStep>,
    change: Option<Change>,
}

impl<'a> Columns<'a> {
    fn of(evaluated: &'a Evaluated) -> Option<Self> {
        let (before, rest) = evaluated.steps.split_first()?;
        Some(Columns { before, after: rest.last(), change: evaluated.change })
    }

    fn all(&self) -> impl Iterator<Item = &'a Summary> {
        [Some(self.before), self.after].into_iter().flatten().map(|at| &at.summary)
    }

    /// `lines` holds the cells of each line; `extra` is the head of an additional first column.
    fn table(&self, extra: &str, lines: &[Vec<String>]) -> String {
        let step = |at: &EvaluatedStep| format!("step {}", at.step);
        let mut head = vec![String::new()];
        if !extra.is_empty() {
            head.push(extra.to_owned());
        }
        match self.after {
            Some(after) => {
                head.push(format!("before ({})", step(self.before)));
                head.push(format!("after ({})", step(after)));
                head.push("change".to_owned());
            }
            None => head.push(step(self.before)),
        }
        // A phone shows no head: there, each cell says what it is.
        let labels: Vec<&str> =
            head.iter().skip(1).map(|cell| cell.split(" (").next().unwrap_or(cell)).collect();
        let cells_of = |cells: &[String]| -> String {
            let cell = |(cell, label): (&String, &&str)| format!("<td data-label=\"{label}\">{cell}</td>");
            cells.iter().zip(&labels).map(cell).collect()
        };
        let head: String = head.iter().map(|cell| format!("<th scope=\"col\">{cell}</th>")).collect();
        let body: String = lines
            .iter()
            .map(|cells| {
                let (name, cells) = cells.split_first().map_or(("", &[][..]), |(name, rest)| (name, rest));
                format!("<tr><th scope=\"row\">{name}</th>{}</tr>\n", cells_of(cells))
            })
            .collect();
        format!(
            "<div class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
        )
    }

    /// A line whose change is computed from pairs.
    fn interval(
        &self,
        name: &str,
        of: impl Fn(&Summary) -> Option<Interval>,
        show: impl Fn(Interval) -> String,
        show_change: impl Fn(Change) -> Option<String>,
    ) -> Vec<String> {
        let change = self.change.and_then(show_change);
        self.line(name, |summary| of(summary).map(&show), change)
    }

    fn number(&self, name: &str, of: impl Fn(&Summary) -> Option<f64>, decimals: usize) -> Vec<String> {
        let change = self.difference(&of).map(|change| signed(change, decimals));
        self.line(name, |summary| of(summary).map(|number| format!("{number:.decimals$}")), change)
    }

    fn rate(&self, name: &str, of: impl Fn(&Summary) -> Option<f64>) -> Vec<String> {
        let change = self.difference(&of).map(|change| format!("{} points", signed(100.0 * change, 1)));
        self.line(name, |summary| of(summary).map(percent), change)
    }

    fn count(&self, name: &str, of: impl Fn(&Summary) -> usize) -> Vec<String> {
        self.line(name, |summary| Some(of(summary).to_string()), Some(String::new()))
    }

    fn slice(&self, name: &str, of: impl Fn(&Summary) -> Option<Slice>) -> Vec<String> {
        let mean = |summary: &Summary| Some(of(summary)?.leading()?.mean);
        let is_reward = self.all().filter_map(&of).any(|slice| slice.reward.is_some());
        let change = self.difference(&mean).map(|change| {
            if is_reward { signed(change, 3) } else { format!("{} points", signed(100.0 * change, 1)) }
        });
        let show = |slice: Slice| {
            let rate = slice.success.map(percent_with_range);
            rate.or_else(|| slice.reward.map(number_with_range))
        };
        let mut cells = self.line(name, |summary| show(of(summary)?), change);
        let tasks = self.all().filter_map(&of).map(|slice| slice.tasks).max().unwrap_or(0);
        cells.insert(1, tasks.to_string());
        cells
    }

    fn difference(&self, of: &impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        Some(of(&self.after?.summary)? - of(&self.before.summary)?)
    }

    fn line(
        &self,
        name: &str,
        show: impl Fn(&Summary) -> Option<String>,
        change: Option<String>,
    ) -> Vec<String> {
        let mut cells = vec![name.to_owned()];
        cells.extend(self.all().map(|summary| show(summary).unwrap_or_else(|| "–".to_owned())));
        if self.after.is_some() {
            cells.push(change.unwrap_or_else(|| "–".to_owned()));
        }
        cells
    }
}

pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

fn percent(rate: f64) -> String {
    format!("{:.1} %", 100.0 * rate)
}

fn level_range(interval: Interval, measure: Measure) -> String {
    match measure {
        Measure::Success => {
            format!("95 % interval {:.1} – {:.1} %", 100.0 * interval.low, 100.0 * interval.high)
        }
        Measure::Reward => format!("95 % interval {:.3} – {:.3}", interval.low, interval.high),
    }
}

fn percent_with_range(interval: Interval) -> String {
    format!(
        "{} <span class=\"soft\">({:.1} – {:.1})</span>",
        percent(interval.mean),
        100.0 * interval.low,
        100.0 * interval.high
    )
}

fn number_with_range(interval: Interval) -> String {
    format!("{:.3} <span class=\"soft\">({:.3} – {:.3})</span>", interval.mean, interval.low, interval.high)
}

fn change_range(interval: Interval, measure: Measure) -> String {
    format!("{} – {}", measure.signed(interval.low), measure.signed(interval.high))
}

/// A number with its sign, also if positive; `+0.0` if it rounds to 0.
fn signed(number: f64, decimals: usize) -> String {
    let text = format!("{number:+.decimals$}");
    // A small negative number that rounds to 0 would look like a loss.
    if text.trim_start_matches('-').parse() == Ok(0.0) { text.replacen('-', "+", 1) } else { text }
}
