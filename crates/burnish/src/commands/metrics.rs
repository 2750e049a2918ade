//! `burnish metrics`

use std::path::PathBuf;

use burnish_rundir::metrics::aliases::Names;
use clap::Args;

use burnish_run::stored;

use super::Done;
use crate::out;

/// Which run, and under which names.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A run directory.
    #[arg(value_parser = super::path())]
    run: PathBuf,
    /// The framework whose names the metrics get: trl, verl or prime-rl.
    #[arg(long, default_value = "trl", value_parser = names)]
    names: Names,
}

fn names(text: &str) -> Result<Names, String> {
    serde_json::from_value(text.into()).map_err(|_| "is none of trl, verl, prime-rl".to_owned())
}

pub(crate) fn run(arguments: Arguments) -> Done {
    for row in stored::metrics(&arguments.run, arguments.names)? {
        out::json(row.to_line().trim_end());
        if !out::is_read() {
            break;
        }
    }
    Ok(())
}
