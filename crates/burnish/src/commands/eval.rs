//! `burnish eval`

use std::path::{Path, PathBuf};

use burnish_eval::{Crossed, Measure, Slice, Summary};
use burnish_recipe::StrategySection;
use burnish_run::inspect;
use burnish_run::items::Evaluated;
use burnish_run::strategies::Compared;
use burnish_run::watch::{Stop, Unwatched, Watch};
use clap::Args;

use super::benchmark::say_interrupted;
use super::{Done, benchmark};
use crate::progress::{Progress, evaluation_line};
use crate::{out, signals};

/// What to evaluate.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A recipe, a run directory, or the name of a benchmark (--list). A path that exists is taken as a path.
    #[arg(required_unless_present = "list", value_parser = super::path())]
    target: Option<PathBuf>,
    /// With a recipe: overrides, `key.sub=value`.
    overrides: Vec<String>,
    /// With a run (that of --policy, if given): the checkpoint after this step instead of the newest.
    #[arg(long)]
    step: Option<u64>,
    /// Evaluate as the entry of `[[eval.extra]]` with this name says, instead of the main evaluation.
    #[arg(long, value_name = "NAME")]
    extra: Option<String>,
    /// Put a strategy on top of the policy, and set it beside the plain policy and beside the majority at the same number of
    /// tokens: NAME, NAME:key=value,key=value, or a TOML file.
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// List the named benchmarks.
    #[arg(long, exclusive = true)]
    list: bool,
    #[command(flatten)]
    benchmark: benchmark::Settings,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let path = match &arguments.target {
        Some(path) if !arguments.list => path,
        _ => return benchmark::list(),
    };
    let strategy = arguments.strategy.as_deref().map(StrategySection::parse).transpose()?;
    if !path.exists()
        && let Some(name) = benchmark_name(path)
    {
        if let Some(extra) = &arguments.extra {
            return Err(format!("--extra {extra}: {name} is a benchmark, which has one evaluation").into());
        }
        if name == RETRIEVAL {
            return retrieval(&arguments);
        }
        if let Some(played) = burnish_study::benchmark::played(name) {
            let target = arguments.benchmark.playing(played, arguments.step, &arguments.overrides)?;
            return evaluate(&target, &arguments, strategy.as_ref());
        }
        let benchmark = burnish_study::benchmark::find(name)?;
        if let Some(change) = arguments.overrides.first() {
            return Err(format!(
                "{change}: {name} is a benchmark, which has no keys; see burnish eval --help"
            )
            .into());
        }
        return benchmark::run(
            benchmark,
            arguments.benchmark,
            arguments.step,
            arguments.json,
            strategy.as_ref(),
        );
    }
    of_recipe(path, &arguments, strategy.as_ref())
}

/// The name of benchmarks of conversational retrieval.
const RETRIEVAL: &str = "retrieval";

/// Scores retrievers.
fn retrieval(arguments: &Arguments) -> Done {
    let settings = &arguments.benchmark;
    let is_given = [
        ("--step", arguments.step.is_some()),
        ("--strategy", arguments.strategy.is_some()),
        ("--out", settings.out.is_some()),
        ("an override", !arguments.overrides.is_empty()),
    ];
    if let Some((option, _)) = is_given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(format!("{option}: retrieval has none; see docs/retrieval.md").into());
    }
    super::retrieval::scored(&settings.retrieval(arguments.json))
}

/// Evaluates on the held-out tasks of a recipe or a run.
fn of_recipe(path: &Path, arguments: &Arguments, strategy: Option<&StrategySection>) -> Done {
    let settings = &arguments.benchmark;
    if let Some((option, instead)) = settings.first_of_benchmarks() {
        return Err(format!(
            "{option} is for benchmarks (`burnish eval --list`), and `{}` is a path; {instead}",
            path.display()
        )
        .into());
    }
    if let Some(step) = arguments.step.filter(|_| settings.policy.is_none() && path.is_file()) {
        return Err(format!(
            "--step {step}: `{}` is a file, which has no steps; give a run directory",
            path.display()
        )
        .into());
    }
    let overrides: Vec<String> = arguments.overrides.iter().cloned().chain(settings.as_overrides()).collect();
    let target = match (&settings.policy, settings.endpoint()?) {
        (_, Some(endpoint)) if arguments.step.is_some() => {
            return Err(format!("--step: {} is a server, which has no steps", endpoint.url).into());
        }
        (_, Some(endpoint)) => inspect::Target::asking(path, &overrides, endpoint)?,
        (Some(policy), None) => inspect::Target::with_policy(path, &overrides, policy, arguments.step)?,
        (None, None) => inspect::Target::open(path, &overrides, arguments.step)?,
    };
    evaluate(&target, arguments, strategy)
}

/// Evaluates a policy on the tasks of its recipe.
fn evaluate(target: &inspect::Target, arguments: &Arguments, strategy: Option<&StrategySection>) -> Done {
    let settings = &arguments.benchmark;
    super::say_notes(target.notes());
    let stop = Stop::default();
    if settings.out.is_some() {
        signals::listen(stop.clone(), signals::Work::Evaluation)?;
    }
    // With --json, only the JSON object goes to stdout; a short evaluation needs no progress.
    let is_quiet = arguments.json || (settings.out.is_none() && settings.policy.is_none());
    let mut watch: Box<dyn Watch> = if is_quiet { Box::new(Unwatched) } else { Box::new(Progress::new()) };
    let extra = arguments.extra.as_deref();
    if let Some(own) = strategy {
        let compared = target.compare(own, extra, settings.out.as_deref(), &mut *watch, &stop)?;
        let comparison = match compared {
            Compared::Done(comparison) => comparison,
            Compared::Interrupted { done, items } => {
                say_interrupted(done, items, settings.out.is_some());
                return Ok(());
            }
        };
        return super::strategy::say(
            &comparison,
            &target.policy_shown(),
            settings.out.as_deref(),
            arguments.json,
        );
    }
    let summary = match target.evaluate_items(extra, settings.out.as_deref(), &mut *watch, &stop)? {
        Evaluated::Done(summary) => summary,
        Evaluated::Interrupted { done, items } => {
            say_interrupted(done, items, settings.out.is_some());
            return Ok(());
        }
    };
    if arguments.json {
        out::json(&serde_json::to_string(&summary)?);
    } else {
        println!("policy   {}", target.policy_shown());
        println!("tasks    {} ({} episodes)", summary.tasks, summary.episodes);
        say_details(&summary);
        println!("result   {}", evaluation_line(&summary));
        if let Some(out) = &settings.out {
            println!("records  {}", out.join("items.jsonl").display());
        }
    }
    match summary.leading() {
        Some(_) => Ok(()),
        None => Err(format!("nothing could be scored: {}", summary.left_out().join("; ")).into()),
    }
}

/// A target that looks like a name rather than a path: one part without an extension.
fn benchmark_name(target: &Path) -> Option<&str> {
    let name = target.to_str()?;
    (!name.contains(['/', '\\', '.'])).then_some(name)
}

fn say_details(summary: &Summary) {
    for (k, interval) in &summary.pass_at {
        println!("pass@{k:<3} {:.1} %", 100.0 * interval.mean);
    }
    if let Some(rate) = summary.distinct_rate {
        println!("distinct {:.1} % of the answers to a task", 100.0 * rate);
    }
    for (name, reward) in &summary.rewards {
        println!("reward   {name}: {reward:.3}");
    }
    for (name, rate) in &summary.flags {
        println!("flag     {name}: {:.1} %", 100.0 * rate);
    }
    for (name, value) in &summary.metrics {
        println!("metric   {name}: {value:.3}");
    }
    let measure = summary.headline;
    for (label, values) in &summary.by_label {
        for (value, slice) in values {
            let Some(level) = slice.leading() else { continue };
            let (level, tasks) = (measure.level(level.mean), slice.tasks);
            let of = if measure == Measure::Success { "of" } else { "over" };
            println!("{:8} {label}={value}: {level} {of} {tasks} tasks", measure.name());
        }
    }
    if let Some(crossed) = summary.crossed.as_ref().filter(|crossed| crossed.is_table()) {
        print!("{}", table(crossed, measure));
    }
    for (label, values) in &summary.flags_by_label {
        for (value, rates) in values {
            let raised = rates.iter().filter(|(_, rate)| **rate > 0.0);
            let raised: Vec<String> =
                raised.map(|(flag, rate)| format!("{flag} {:.1} %", 100.0 * rate)).collect();
            if !raised.is_empty() {
                println!("flags    {label}={value}: {}", raised.join(", "));
            }
        }
    }
    if let Some(tokens) = summary.completion_tokens_mean {
        println!("tokens   {tokens:.1} an episode");
    }
}

/// Marks for a cell's rate: four quarters, and 0.
const SHADES: [char; 5] = [' ', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

/// The measure by two labels, a line for each value of the first; rates are shaded.
fn table(crossed: &Crossed, measure: Measure) -> String {
    let [rows, columns] = &crossed.labels;
    let cell = |row: &str, column: &str| match crossed.at(row, column).and_then(Slice::leading) {
        Some(level) if measure == Measure::Success => {
            let shade = SHADES[((level.mean * 4.0).ceil() as usize).min(4)];
            format!("{:.0} %{shade}", 100.0 * level.mean)
        }
        Some(level) => measure.level(level.mean),
        None => "-".to_owned(),
    };
    let mut lines =
        vec![[vec![String::new()], crossed.columns().into_iter().map(str::to_owned).collect()].concat()];
    for row in crossed.rows() {
        let cells = crossed.columns().into_iter().map(|column| cell(row, column));
        lines.push([row.to_owned()].into_iter().chain(cells).collect());
    }
    let width = lines.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(0) + 1;
    let mut text = format!("{:8} by {rows} (down) and {columns} (across)\n", measure.name());
    for line in lines {
        let cells: String = line.iter().map(|cell| format!("{cell:>width$}")).collect();
        text += &format!("        {}\n", cells.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_table_of_two_labels_has_a_line_for_each_value_of_the_first() {
        let slice = |mean: f64| {
            let interval = burnish_eval::Interval { mean, low: mean, high: mean };
            Slice { tasks: 4, success: Some(interval), reward: None }
        };
        let row = |cells: &[(&str, f64)]| -> BTreeMap<String, Slice> {
            cells.iter().map(|(name, mean)| ((*name).to_owned(), slice(*mean))).collect()
        };
        let crossed = Crossed {
            labels: ["length".to_owned(), "depth".to_owned()],
            cells: [
                ("1024".to_owned(), row(&[("0", 0.0), ("0.5", 0.25)])),
                ("512".to_owned(), row(&[("0", 1.0)])),
            ]
            .into(),
        };
        assert_eq!(
            table(&crossed, Measure::Success),
            "success  by length (down) and depth (across)\n                     0    0.5\n            512 100 %\u{2588}      -\n           \
             1024   0 %   25 %\u{2591}\n"
        );
    }
}
