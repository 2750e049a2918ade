//! `burnish eval`

use std::path::{Path, PathBuf};

use burnish_eval::{Measure, Summary};
use burnish_run::inspect;
use burnish_run::items::Evaluated;
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
    if !path.exists()
        && let Some(name) = benchmark_name(path)
    {
        let benchmark = burnish_study::benchmark::find(name)?;
        if let Some(change) = arguments.overrides.first() {
            return Err(format!(
                "{change}: {name} is a benchmark, which has no keys; see burnish eval --help"
            )
            .into());
        }
        if let Some(extra) = &arguments.extra {
            return Err(format!("--extra {extra}: {name} is a benchmark, which has one evaluation").into());
        }
        return benchmark::run(benchmark, arguments.benchmark, arguments.step, arguments.json);
    }
    of_recipe(path, &arguments)
}

/// Evaluates on the held-out tasks of a recipe or a run.
fn of_recipe(path: &Path, arguments: &Arguments) -> Done {
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
    super::say_notes(target.notes());
    let stop = Stop::default();
    if settings.out.is_some() {
        signals::listen(stop.clone(), signals::Work::Evaluation)?;
    }
    // With --json, only the JSON object goes to stdout; a short evaluation needs no progress.
    let is_quiet = arguments.json || (settings.out.is_none() && settings.policy.is_none());
    let mut watch: Box<dyn Watch> = if is_quiet { Box::new(Unwatched) } else { Box::new(Progress::new()) };
    let extra = arguments.extra.as_deref();
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
        println!("result   {}", evaluation_line(&summary));
        say_details(&summary);
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
    let measure = summary.headline;
    for (label, values) in &summary.by_label {
        for (value, slice) in values {
            let Some(level) = slice.leading() else { continue };
            let (level, tasks) = (measure.level(level.mean), slice.tasks);
            let of = if measure == Measure::Success { "of" } else { "over" };
            println!("{:8} {label}={value}: {level} {of} {tasks} tasks", measure.name());
        }
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
