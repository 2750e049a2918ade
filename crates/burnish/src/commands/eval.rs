//! `burnish eval`

use std::path::PathBuf;

use burnish_eval::Summary;
use burnish_run::inspect;
use clap::Args;

use super::Done;
use crate::progress::evaluation_line;

/// What to evaluate.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A recipe, or a run directory.
    target: PathBuf,
    /// Changes of the recipe, `key.sub=value`.
    overrides: Vec<String>,
    /// Of a run: the checkpoint after this step instead of the newest.
    #[arg(long)]
    step: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let target = inspect::Target::open(&arguments.target, &arguments.overrides, arguments.step)?;
    let summary = target.evaluate()?.summary;
    if arguments.json {
        println!("{}", serde_json::to_string(&summary)?);
        return Ok(());
    }
    println!("policy   {}", target.policy_dir().display());
    println!("tasks    {} ({} episodes)", summary.tasks, summary.episodes);
    println!("result   {}", evaluation_line(&summary));
    say_details(&summary);
    Ok(())
}

fn say_details(summary: &Summary) {
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
    if let Some(tokens) = summary.completion_tokens_mean {
        println!("tokens   {tokens:.1} an episode");
    }
}
