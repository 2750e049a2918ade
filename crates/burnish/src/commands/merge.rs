//! `burnish merge`

use std::path::PathBuf;

use burnish_run::merge;
use clap::Args;

use super::Done;

/// What to merge, and into what.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A run directory whose policy was trained with `policy.lora`, or an adapter's directory (PEFT).
    #[arg(value_parser = super::path())]
    source: PathBuf,
    /// The model directory to create; it must not exist yet.
    #[arg(value_parser = super::path())]
    output: PathBuf,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let (adapter, notes) = merge::merge(&arguments.source, &arguments.output)?;
    super::say_notes(&notes);
    println!("merged {} into its base: {}", adapter.display(), arguments.output.display());
    Ok(())
}
