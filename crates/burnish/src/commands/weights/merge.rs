//! `burnish weights merge` and `methods`

use std::path::PathBuf;

use burnish_weights::method::{Base, METHODS};
use burnish_weights::settings::{Default as Unset, Key, Kind};
use burnish_weights::{Float, Merge, Options, SHARD_BYTES_MAX};
use clap::Args;
use serde_json::json;

use super::bytes;
use crate::commands::{Done, path, say_notes};
use crate::out;
use crate::program::as_called;

/// What to merge, how, and into what.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A configuration (mergekit's YAML) and the model directory to create, or with --method the directory alone. It
    /// must not exist yet.
    #[arg(required = true, num_args = 1..=2, value_names = ["CONFIG", "OUT"], value_parser = path())]
    paths: Vec<PathBuf>,
    /// The method, in place of a configuration (`burnish weights methods` lists them).
    #[arg(long, value_name = "ID", requires = "models")]
    method: Option<String>,
    /// A model directory (also an adapter's, or BASE+ADAPTER) or a run directory; give it once per model, in their order.
    #[arg(long = "model", value_name = "DIR", requires = "method", value_parser = path())]
    models: Vec<PathBuf>,
    /// The base, for methods that need one.
    #[arg(long, value_name = "DIR", requires = "method", value_parser = path())]
    base: Option<PathBuf>,
    /// A parameter: `t=0.5`; of each model, `weight=0.3,0.7`.
    #[arg(long, value_name = "KEY=VALUE", requires = "method", allow_hyphen_values = true)]
    set: Vec<String>,
    /// Type of the result's numbers: float32, bfloat16 or float16. Those of the base if it is left out.
    #[arg(long, value_name = "TYPE", requires = "method", value_parser = float)]
    dtype: Option<Float>,
    /// What random choices depend on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Largest file of the result: 5GB, 500MB, or a number of bytes.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_shard_size: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A type of numbers by its name.
pub(super) fn float(name: &str) -> Result<Float, &'static str> {
    Float::named(name).ok_or("there are float32, bfloat16 and float16")
}

fn size(text: &str) -> Result<u64, &'static str> {
    let upper = text.to_uppercase();
    let (number, factor) =
        [("GIB", 1 << 30), ("MIB", 1 << 20), ("GB", 1_000_000_000), ("MB", 1_000_000), ("", 1)]
            .into_iter()
            .find_map(|(unit, factor)| Some((upper.strip_suffix(unit)?, factor)))
            .unwrap_or((&upper, 1));
    let size = number.trim().parse().ok().and_then(|number: u64| number.checked_mul(factor));
    size.filter(|size| *size > 0).ok_or("must be a size such as 5GB, 500MB or a number of bytes")
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let Arguments { paths, method, models, base, set, dtype, seed, max_shard_size, json } = arguments;
    let shard_bytes_max = max_shard_size.unwrap_or(SHARD_BYTES_MAX);
    let mut options = Options { seed, shard_bytes_max, ..Options::default() };
    let (mut merge, output) = match (method, &paths[..]) {
        (Some(method), [output]) => (Merge::of_words(&method, base, models, &set, dtype)?, output),
        (Some(_), _) => return Err("with --method there is no configuration: name the output alone".into()),
        (None, [config, output]) => {
            // Read once: it may be a pipe.
            let text = std::fs::read_to_string(config);
            let text = text.map_err(|error| format!("cannot read {}: {error}", config.display()))?;
            let merge = burnish_weights::parse(config, &text)?;
            options.recipe = Some(text);
            (merge, output)
        }
        (None, _) => {
            let hint = as_called("burnish weights merge --help");
            return Err(format!("name a configuration and the output, or a --method\n  help: {hint}").into());
        }
    };
    for path in
        merge.inputs.iter_mut().flat_map(|input| [&mut input.path].into_iter().chain(&mut input.adapter))
    {
        *path = super::located(&burnish_recipe::expand(path)?)?;
    }
    let report = merge.run(output, &options, &mut super::watch()?)?;
    if json {
        out::json(&serde_json::to_string(&report)?);
        return Ok(());
    }
    say_notes(&report.notes);
    let copies = match report.tensors - report.computed {
        0 => String::new(),
        count => format!(", {count} of them copies"),
    };
    println!(
        "merged {} checkpoints by {}: {} ({} tensors{copies}, {})",
        merge.inputs.len(),
        merge.method.card().id,
        output.display(),
        report.tensors,
        bytes(report.bytes)
    );
    println!("configuration and tokenizer are those of {}", report.donor.display());
    Ok(())
}

/// Lists the methods.
pub(crate) fn methods(json: bool) -> Done {
    for method in METHODS {
        let card = method.card();
        if json {
            let keys = card.keys.iter().map(|key| {
                json!({
                    "name": key.name, "about": key.about, "values": values(key), "default": default(key),
                    "per_model": key.is_per_input,
                })
            });
            let line = json!({
                "id": card.id, "title": card.title, "equation": card.equation, "source": card.source,
                "reconstructed": card.reconstructed, "needs_base": card.base == Base::Needed,
                "parameters": keys.collect::<Vec<_>>(),
            });
            out::json(&line.to_string());
            continue;
        }
        println!("{}: {}", card.id, card.title);
        println!("  {}", card.equation);
        println!("  {}", card.source);
        for guess in card.reconstructed {
            println!("  guessed: {guess}");
        }
        for key in card.keys {
            let default = default(key).map(|value| format!(", {value}")).unwrap_or_default();
            let each = if key.is_per_input { ", per model" } else { "" };
            println!("    {:20} {} ({}{each}{default})", key.name, key.about, values(key));
        }
        println!();
    }
    Ok(())
}

fn values(key: &Key) -> String {
    match key.kind {
        Kind::Number(min, max) if min.is_finite() && max.is_finite() => format!("{min} to {max}"),
        Kind::Number(min, _) if min.is_finite() => format!("{min} or more"),
        Kind::Number(..) => "number".to_owned(),
        Kind::Count(min) => format!("whole number, {min} or more"),
        Kind::Flag => "true or false".to_owned(),
        Kind::Word(words) => words.join(", "),
        Kind::Text => "text".to_owned(),
    }
}

/// The value of a key that is not set.
fn default(key: &Key) -> Option<String> {
    match key.default? {
        Unset::Number(number) => Some(format!("{number} by default")),
        Unset::Flag(flag) => Some(format!("{flag} by default")),
        Unset::Text("") => None,
        Unset::Text(text) => Some(format!("{text} by default")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("5GB", 5_000_000_000), ("3 gib", 3 << 30), ("12", 12), ("7MB", 7_000_000)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["0", "GB", "5TB", "-1", "1.5GB", "99999999999999GB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
