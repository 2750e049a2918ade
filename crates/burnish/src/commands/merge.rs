//! `burnish merge`

use std::path::PathBuf;

use burnish_run::merge;
use clap::Args;

use super::Done;

/// What to merge, and where to.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A run directory whose policy was trained with `policy.lora`, or an adapter's directory (PEFT).
    source: PathBuf,
    /// The model directory to make; it must not exist yet.
    output: PathBuf,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let adapter = merge::merge(&arguments.source, &arguments.output)?;
    println!("merged {} into its base: {}", adapter.display(), arguments.output.display());
    Ok(())
}
