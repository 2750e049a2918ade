//! `burnish weights extract`

use std::path::PathBuf;

use burnish_weights::{Extract, Float};
use clap::Args;

use crate::commands::{Done, at_least_one, path, say_notes};
use crate::out;

/// What to extract, and into what.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The model directory before tuning.
    #[arg(value_parser = path())]
    base: PathBuf,
    /// The model directory after it.
    #[arg(value_parser = path())]
    tuned: PathBuf,
    /// The adapter's directory to create (PEFT); it must not exist yet.
    #[arg(value_parser = path())]
    output: PathBuf,
    /// Rank of the adapter.
    #[arg(long, value_name = "N", default_value = "16", value_parser = at_least_one)]
    rank: usize,
    /// Maps to adapt, by the last part of their names: `q_proj,v_proj`. All that changed if it is left out.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    target: Vec<String>,
    /// Type of the adapter's numbers: float32, bfloat16 or float16.
    #[arg(long, value_name = "TYPE", default_value = "float32", value_parser = super::merge::float)]
    dtype: Float,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let Arguments { base, tuned, output, rank, target, dtype, json } = arguments;
    let (base, tuned) = (super::located(&base)?, super::located(&tuned)?);
    let found = Extract { base, tuned, rank, targets: target, dtype }.run(&output, &mut super::watch()?)?;
    if json {
        out::json(&serde_json::to_string(&found)?);
        return Ok(());
    }
    if let Some(first) = found.left_out.first() {
        say_notes(&[format!(
            "{} other tensors changed, the first {first}; the adapter does not change them",
            found.left_out.len()
        )]);
    }
    println!(
        "extracted an adapter of rank {} for {} maps ({}): {}",
        found.rank,
        found.maps,
        found.targets.join(", "),
        output.display()
    );
    println!("it lacks {:.2} % of the norm of what changed in them", 100.0 * found.error);
    Ok(())
}
