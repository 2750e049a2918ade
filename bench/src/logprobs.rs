//! Next-token log-probs of given sequences, by the trainer's own forward pass, for comparison with a peer's.

use std::fs;
use std::path::PathBuf;

use burnish_model::Trains;
use burnish_train::{Sample, score};
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::step::{MICRO_BATCH_TOKENS, imitated};
use crate::{Done, policy};

/// What to score.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A model directory.
    model: PathBuf,
    /// A JSON file: `{"sequences": [[id, ...], ...]}`.
    ids: PathBuf,
    /// Operands of products in bf16, masters in f32.
    #[arg(long)]
    bf16: bool,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Deserialize)]
struct Ids {
    sequences: Vec<Vec<u32>>,
}

/// Prints `{"logprobs": [[...], ...]}`, one entry for each token but the first of a sequence.
pub(crate) fn run(arguments: &Arguments) -> Done {
    burnish_tensor::set_threads(arguments.threads);
    let path = arguments.ids.display();
    let text = fs::read_to_string(&arguments.ids).map_err(|error| format!("{path}: {error}"))?;
    let ids: Ids = serde_json::from_str(&text)
        .map_err(|error| format!("{path}: {error}; it should read {{\"sequences\": [[id, ...], ...]}}"))?;
    let model = policy::load(&arguments.model, arguments.bf16, Trains::All)?;
    let samples: Vec<Sample> = ids.sequences.into_iter().map(imitated).collect();
    let scores = score(&model, &samples, MICRO_BATCH_TOKENS)?;
    let logprobs: Vec<&[f32]> = scores.iter().map(|scores| scores.get(1..).unwrap_or_default()).collect();
    println!("{}", json!({ "logprobs": logprobs }));
    Ok(())
}
