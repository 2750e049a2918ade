//! The protocol: ready, then one unit of work and one JSON line for each line that is read. Both sides speak it, so
//! that ours and the peer's units alternate in one run.

use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use burnish_tensor::Device;
use burnish_train::Checkpointing;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::{Done, grpo, memory, sample, step};

/// What to work on.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which work.
    pub(crate) kind: Kind,
    /// A model directory.
    pub(crate) model: PathBuf,
    /// Sequences in a batch (step: 16, sample: 64).
    #[arg(long, value_parser = at_least(1))]
    pub(crate) batch: Option<usize>,
    /// step: tokens of a sequence.
    #[arg(long, default_value_t = 256, value_parser = at_least(2))]
    pub(crate) length: usize,
    /// sample, grpo: tokens of a prompt.
    #[arg(long, default_value_t = 64, value_parser = at_least(1))]
    pub(crate) prompt: usize,
    /// sample, grpo: tokens of an answer.
    #[arg(long, default_value_t = 128, value_parser = at_least(1))]
    pub(crate) new: usize,
    /// sample: a file with `[tokens of a prompt, tokens of its answer]` for each request, as JSON, instead of --batch, --prompt
    /// and --new.
    #[arg(long)]
    pub(crate) requests: Option<PathBuf>,
    /// grpo: prompts in a step.
    #[arg(long, default_value_t = 8, value_parser = at_least(1))]
    pub(crate) prompts: usize,
    /// grpo: answers to a prompt.
    #[arg(long, default_value_t = 8, value_parser = at_least(1))]
    pub(crate) group: usize,
    /// grpo: answers may end by themselves, instead of all having --new tokens.
    #[arg(long)]
    pub(crate) ragged: bool,
    /// sample: with top-k 20, top-p 0.95 and a repetition penalty of 1.05.
    #[arg(long)]
    pub(crate) filtered: bool,
    /// Operands of products in bf16, masters in f32.
    #[arg(long)]
    pub(crate) bf16: bool,
    /// step: what the backward pass computes again.
    #[arg(long, default_value = "off", num_args = 0..=1, default_missing_value = "full", value_parser = step::checkpointing)]
    pub(crate) checkpointing: Checkpointing,
    /// step: moments of AdamW in 8 bits.
    #[arg(long)]
    pub(crate) eight_bit: bool,
    /// step: random weights in place of the directory's, of which only config.json is read.
    #[arg(long)]
    pub(crate) random: bool,
    /// step: rows of a micro-batch.
    #[arg(long, default_value_t = step::MICRO_BATCH_TOKENS, value_parser = at_least(1))]
    pub(crate) micro_batch: usize,
    /// step, sample: what computes, as the recipe's `device`.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// Threads.
    #[arg(long, default_value_t = 2, value_parser = at_least(1))]
    pub(crate) threads: usize,
}

/// Numbers from `least` on.
fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// Kinds of work.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// One training step on random sequences.
    Step,
    /// One batch of answers to random prompts.
    Sample,
    /// One GRPO step: sample, reward, advantages, update.
    Grpo,
}

/// Work that is done unit by unit.
pub(crate) trait Work {
    /// Does one unit: an object with `seconds`, `tokens` and `flops`.
    fn unit(&mut self) -> Done<Value>;

    /// What the last unit sampled, where it did.
    fn dump(&self) -> Option<Value> {
        None
    }
}

pub(crate) fn run(arguments: &Arguments) -> Done {
    burnish_tensor::set_threads(arguments.threads);
    let device = Device::open(&arguments.device)?;
    let mut work: Box<dyn Work> = match arguments.kind {
        Kind::Step => Box::new(step::Steps::load(arguments, &device)?),
        Kind::Sample => Box::new(sample::Batches::load(arguments, &device)?),
        Kind::Grpo if arguments.device != "cpu" => return Err("grpo: works on the CPU only".into()),
        Kind::Grpo => Box::new(grpo::Steps::load(arguments)?),
    };
    memory::reset_peak()?;
    let loaded_bytes = memory::resident_bytes()?;
    say(
        &json!({ "ready": true, "worker": concat!("burnish ", env!("CARGO_PKG_VERSION")), "loaded_bytes": loaded_bytes }),
    )?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(path) = line.strip_prefix("dump ") {
            let dumped = work.dump().ok_or("nothing was sampled yet that could be written")?;
            fs::write(path, dumped.to_string()).map_err(|error| format!("{path}: {error}"))?;
            say(&json!({ "dumped": path }))?;
            continue;
        }
        let mut done = work.unit()?;
        done["memory_bytes"] = json!(memory::peak_bytes()?.saturating_sub(loaded_bytes));
        if let Some(peak) = device.memory_peak_bytes() {
            done["device_memory_bytes"] = json!(peak);
            done["device_taken_bytes"] = json!(device.memory_taken_bytes()?);
        }
        if let Some(notice) = device.take_notice() {
            done["notice"] = json!(notice);
        }
        say(&done)?;
    }
    Ok(())
}

fn say(line: &Value) -> Done {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
