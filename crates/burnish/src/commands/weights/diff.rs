//! `burnish weights diff`

use std::path::PathBuf;

use burnish_weights::{DiffOptions, Kind, TensorDiff, diff};
use clap::Args;

use crate::commands::{Done, path};
use crate::out;
use crate::progress::Progress;

/// Tensors that are shown unless --all is given.
const SHOWN: usize = 20;

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The first checkpoint: a model directory (also an adapter's), a run directory, or a safetensors file.
    #[arg(value_parser = path())]
    from: PathBuf,
    /// The second checkpoint.
    #[arg(value_parser = path())]
    to: PathBuf,
    /// Also the rank of what changed in each matrix: its singular values above this share of the largest (0.01 if no
    /// share is given), at most 256.
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "0.01", value_parser = share)]
    rank: Option<f64>,
    /// Show every tensor, not only those that changed most.
    #[arg(long)]
    all: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|share| (0.0..1.0).contains(share)).ok_or("must be 0 or more, and below 1")
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let mut progress = Progress::aside("tensor");
    let options = DiffOptions { rank_tolerance: arguments.rank };
    let (from, to) = (super::located(&arguments.from)?, super::located(&arguments.to)?);
    let found = diff(&from, &to, options, &mut |done, all| progress.count(done, all))?;
    if arguments.json {
        out::json(&serde_json::to_string(&found)?);
        return Ok(());
    }
    let mut shown: Vec<&TensorDiff> = found.tensors.iter().collect();
    let same = shown.iter().filter(|tensor| tensor.kind == Kind::Same).count();
    if !arguments.all {
        shown.retain(|tensor| tensor.kind != Kind::Same);
        // What can't be compared comes first, then what changed most.
        let size = |tensor: &TensorDiff| tensor.relative.unwrap_or(f64::INFINITY);
        shown.sort_by(|one, other| size(other).total_cmp(&size(one)));
    }
    let changed = shown.len();
    if !arguments.all {
        shown.truncate(SHOWN);
    }
    if !shown.is_empty() {
        let rank = if arguments.rank.is_some() { "  rank  stable rank" } else { "" };
        println!("relative change      norm   largest  changed{rank}  tensor");
        shown.iter().for_each(|tensor| println!("{}", line(tensor, arguments.rank.is_some())));
    }
    if changed > shown.len() {
        println!("... and {} more; --all shows them", changed - shown.len());
    }
    for (names, path) in [(&found.only_from, &found.from), (&found.only_to, &found.to)] {
        if let Some(first) = names.first() {
            println!("{} tensors are only in {}, the first {first}", names.len(), path.display());
        }
    }
    println!(
        "{same} of {} tensors are the same; the whole changed by {:.3e} ({:.3} % of its norm)",
        found.tensors.len(),
        found.norm,
        100.0 * found.relative
    );
    Ok(())
}

fn line(tensor: &TensorDiff, has_rank: bool) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3e}"));
    let percent =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.3} %", 100.0 * value));
    let rank = match (has_rank, tensor.rank) {
        (false, _) => String::new(),
        (true, None) => format!("{:>6}  {:>11}", "-", "-"),
        (true, Some(rank)) => {
            let least = if rank.is_at_least { "≥ " } else { "" };
            format!("{:>6}  {:>11.2}", format!("{least}{}", rank.rank), rank.stable)
        }
    };
    let note = tensor.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    let changed = tensor.changed.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    format!(
        "{:>15} {:>9} {:>9} {changed:>8}{rank}  {} {:?}{note}",
        percent(tensor.relative),
        number(tensor.norm),
        number(tensor.largest),
        tensor.name,
        tensor.shape
    )
}
