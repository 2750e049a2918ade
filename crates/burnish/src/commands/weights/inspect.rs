//! `burnish weights inspect`

use std::collections::BTreeMap;
use std::path::PathBuf;

use burnish_weights::{TensorInfo, inspect};
use clap::Args;

use super::{bytes, located};
use crate::commands::{Done, path};
use crate::out;
use crate::program::as_called;

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A model directory, an adapter's directory (PEFT), a run directory, or a safetensors file.
    #[arg(value_parser = path())]
    checkpoint: PathBuf,
    /// Show every tensor; without it, tensors that differ only in the number of their layer are one line.
    #[arg(long)]
    all: bool,
    /// Read all numbers of types F32, BF16 and F16, and report those that are not finite.
    #[arg(long)]
    check: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Done {
    let checkpoint = located(&arguments.checkpoint)?;
    let found = inspect(&checkpoint, arguments.check)?;
    let problems: Vec<&str> = found.tensors.iter().filter_map(|tensor| tensor.problem.as_deref()).collect();
    if arguments.json {
        out::json(&serde_json::to_string(&found)?);
    } else {
        let architecture = match (&found.adapter, &found.architecture) {
            (Some(adapter), _) => format!(
                "an adapter (LoRA) of rank {}, alpha {} (scale {}), over {}",
                adapter.rank, adapter.alpha, adapter.scale, adapter.base
            ),
            (None, Some(name)) => name.clone(),
            (None, None) => "no config.json".to_owned(),
        };
        let tied = if found.is_tied { ", head tied to the embedding" } else { "" };
        println!("{}: {architecture}{tied}", found.path.display());
        for (name, length) in &found.files {
            println!("  {name}: {}", bytes(*length as u64));
        }
        for (name, shape, dtype, count) in lines(&found.tensors, arguments.all) {
            let times = if count > 1 { format!(" × {count}") } else { String::new() };
            println!("  {name} {shape:?} {dtype}{times}");
        }
        for (dtype, total) in &found.types {
            println!(
                "{dtype}: {} parameters in {} tensors, {}",
                total.parameters,
                total.tensors,
                bytes(total.bytes)
            );
        }
        if found.adapter.is_some() {
            let merge = as_called(&format!("burnish merge {} OUT", found.path.display()));
            println!(
                "it is taken wherever a model directory is; `{merge}` writes base and adapter as one model"
            );
        }
    }
    match problems.first() {
        None => Ok(()),
        Some(first) => {
            Err(format!("{} tensors have values that are not finite: {first}", problems.len()).into())
        }
    }
}

type Line<'a> = (String, &'a [usize], &'a str, usize);

/// Tensors in their order; those that differ only in numbers inside their names are one line, unless `all` is asked for.
fn lines(tensors: &[TensorInfo], all: bool) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut places = BTreeMap::new();
    for tensor in tensors {
        let name = if all { tensor.name.clone() } else { pattern(&tensor.name) };
        let key = (name.clone(), &tensor.shape, &tensor.dtype);
        let at = *places.entry(key).or_insert_with(|| {
            lines.push((name, &tensor.shape, &tensor.dtype, 0));
            lines.len() - 1
        });
        lines[at].3 += 1;
    }
    lines
}

fn pattern(name: &str) -> String {
    let part = |part: &str| if part.parse::<u64>().is_ok() { "*".to_owned() } else { part.to_owned() };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_one_line_unless_they_differ() {
        let tensor = |name: &str, rows| TensorInfo {
            name: name.into(),
            shape: vec![rows],
            dtype: "BF16".into(),
            file: "x".into(),
            problem: None,
        };
        let tensors =
            [tensor("layers.0.w", 4), tensor("norm", 4), tensor("layers.1.w", 4), tensor("layers.2.w", 8)];
        let names = |all| lines(&tensors, all).into_iter().map(|line| (line.0, line.3)).collect::<Vec<_>>();
        let grouped = [("layers.*.w", 2), ("norm", 1), ("layers.*.w", 1)];
        assert_eq!(names(false), grouped.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(names(true).len(), 4);
    }
}
