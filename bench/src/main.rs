//! `burnish-bench`: one unit of burnish's work at a time, so that it can be measured beside a peer's.
//!
//! `bench/README.md` says what is measured and how; `bench/compare.py` alternates this program and the peer.

mod count;
mod episodes;
mod floors;
mod flops;
mod gpu;
mod grpo;
mod logprobs;
mod memory;
mod policy;
mod sample;
mod sevens;
mod start;
mod statistics;
mod step;
mod worker;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

// As in `burnish` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a command gives back.
type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Units of burnish's work, to be measured beside a peer's.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Loads a model, says so, and then does one unit of work for every line that it reads.
    Worker(worker::Arguments),
    /// Next-token log-probs of given sequences.
    Logprobs(logprobs::Arguments),
    /// What this machine can do at most: products a second, bytes a second, and what work needs at that rate.
    Floors(floors::Arguments),
    /// From the start of the `burnish` binary to its end after one sampled token.
    Start(start::Arguments),
    /// A GPU beside the CPU: logits, log-probs, a training step and greedy tokens.
    Gpu(gpu::Arguments),
    /// Episodes with slow tools: side by side, in lock-step, and sampling alone; and the memory of one that waits.
    Episodes(episodes::Arguments),
    /// Does N steps on a model made from a seed, for counting instructions.
    Count(count::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Logprobs(arguments) => logprobs::run(&arguments),
        Command::Floors(arguments) => floors::run(&arguments),
        Command::Start(arguments) => start::run(&arguments),
        Command::Gpu(arguments) => gpu::run(&arguments),
        Command::Episodes(arguments) => episodes::run(&arguments),
        Command::Count(arguments) => count::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
