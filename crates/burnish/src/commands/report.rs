//! `burnish report`

use std::path::PathBuf;

use burnish_run::report_of_run;
use clap::Args;

use super::Done;

/// Which run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A run directory; the run may be in progress.
    #[arg(value_parser = super::path())]
    run: PathBuf,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    println!("{}", report_of_run::rewrite(&arguments.run)?.display());
    Ok(())
}
