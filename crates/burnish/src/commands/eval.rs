//! `burnish eval`

use std::path::{Path, PathBuf};

use burnish_eval::Summary;
use burnish_run::inspect;
use clap::Args;

use super::{Done, benchmark};
use crate::out;
use crate::progress::evaluation_line;

/// What to evaluate.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A recipe, a run directory, or the name of a benchmark (--list). What exists as a path is a path.
    #[arg(required_unless_present = "list")]
    target: Option<PathBuf>,
    /// Of a recipe: changes, `key.sub=value`.
    overrides: Vec<String>,
    /// Of a run: the checkpoint after this step instead of the newest.
    #[arg(long)]
    step: Option<u64>,
    /// The evaluation of `[[eval.also]]` that is called so, instead of the main one.
    #[arg(long, value_name = "NAME")]
    also: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print the benchmarks that have a name.
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
        let benchmark = burnish_run::benchmark::find(name)?;
        if let Some(change) = arguments.overrides.first() {
            return Err(format!(
                "{change}: {name} is a benchmark, which has no keys; see burnish eval --help"
            )
            .into());
        }
        if let Some(also) = &arguments.also {
            return Err(format!("--also {also}: {name} is a benchmark, which has one evaluation").into());
        }
        return benchmark::run(benchmark, arguments.benchmark, arguments.step, arguments.json);
    }
    if let Some(option) = arguments.benchmark.first_given() {
        return Err(format!(
            "{option} is for benchmarks (`burnish eval --list`), and `{}` is a path; how a recipe is evaluated stands in \
             its [eval]",
            path.display()
        )
        .into());
    }
    if let Some(step) = arguments.step.filter(|_| path.is_file()) {
        return Err(format!(
            "--step {step}: `{}` is a file, which has no steps; give a run directory",
            path.display()
        )
        .into());
    }
    let target = inspect::Target::open(path, &arguments.overrides, arguments.step)?;
    let summary = target.evaluate(arguments.also.as_deref())?.summary;
    if arguments.json {
        out::json(&serde_json::to_string(&summary)?);
        return Ok(());
    }
    println!("policy   {}", target.policy_dir().display());
    println!("tasks    {} ({} episodes)", summary.tasks, summary.episodes);
    println!("result   {}", evaluation_line(&summary));
    say_details(&summary);
    Ok(())
}

/// What looks like a name and not like a path: one part without an ending.
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
    for (label, values) in &summary.by_label {
        for (value, slice) in values {
            println!(
                "success  {label}={value}: {:.1} % of {} tasks",
                100.0 * slice.success.mean,
                slice.tasks
            );
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
