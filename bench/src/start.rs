//! From the start of the `burnish` binary to its end after one sampled token: an upper bound of the time to the first.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use crate::Done;
use crate::statistics::median;

/// What to start.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The `burnish` binary.
    burnish: PathBuf,
    /// A recipe whose policy answers.
    #[arg(long, default_value = "recipes/quickstart.toml")]
    recipe: PathBuf,
    /// How often.
    #[arg(long, default_value_t = 10)]
    count: usize,
}

/// What makes `burnish rollout` play one task with an answer of one token.
const ONE_TOKEN: [&str; 5] =
    ["rollout.tokens_max=1", "rollout.turns_max=1", "eval.tasks=1", "env.tasks=1", "--count=1"];

/// Prints one line: the median and all seconds. One more run before them warms the file cache.
pub(crate) fn run(arguments: &Arguments) -> Done {
    let mut seconds = (0..=arguments.count).map(|_| once(arguments)).collect::<Done<Vec<f64>>>()?;
    seconds.remove(0);
    let median = median(&seconds).ok_or("--count must be 1 or more")?;
    println!("{}", json!({ "seconds_median": median, "seconds": seconds }));
    Ok(())
}

fn once(arguments: &Arguments) -> Done<f64> {
    let name = arguments.burnish.display();
    let mut command = Command::new(&arguments.burnish);
    command.arg("rollout").arg(&arguments.recipe).args(ONE_TOKEN).stdin(Stdio::null());
    let start = Instant::now();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    // What the policy sampled stands between these marks.
    let text = String::from_utf8_lossy(&output.stdout);
    let sampled = text.split_once('«').and_then(|(_, rest)| rest.split_once('»'));
    match sampled {
        Some((said, _)) if !said.is_empty() => Ok(seconds),
        _ => Err(format!("{name} sampled nothing; it said: {text}").into()),
    }
}
