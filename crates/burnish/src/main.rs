//! The command line: `burnish train|sft|study|eval|rollout|generate|chat|serve|metrics|report|merge|methods|env|data|probe|weights ...`.
//!
//! Only this crate deals with arguments, colours and signals; the other crates do the work.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod out;

mod answer;
mod commands;
mod program;
mod progress;
mod quickstart;
mod signals;

use std::process::ExitCode;

use burnish_recipe::plain_words::plain;
use clap::{CommandFactory, Parser, Subcommand};

// Reuses the large temporaries of a step instead of handing them back to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status for wrong arguments, before anything is done.
const WRONG_ARGUMENTS: u8 = 2;

/// Post-training of reasoning models and agents with reinforcement learning, in one binary.
#[derive(Debug, Parser)]
#[command(version = env!("BURNISH_VERSION"), about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a policy as a recipe says, or resume a run that was stopped.
    Train(commands::train::Arguments),
    /// Train a policy by imitation: like `train`, but only for recipes whose method is "sft".
    Sft(commands::train::Arguments),
    /// Test a claim: arms × seeds of one recipe at equal budget, with a table and a plot.
    Study(commands::study::Arguments),
    /// Evaluate the policy of a recipe or a run on held-out tasks, or a policy on a benchmark.
    Eval(Box<commands::eval::Arguments>),
    /// Fit the model by which thoughts end after a first try or go on, from an evaluation.
    FitThoughts(commands::fit_thoughts::Arguments),
    /// Sample and show a few episodes, or show stored ones.
    Rollout(commands::rollout::Arguments),
    /// Answer prompts: one, or those of a file.
    Generate(Box<commands::generate::Arguments>),
    /// Talk with a policy in the terminal.
    Chat(Box<commands::chat::Arguments>),
    /// Serve a policy to programs that speak OpenAI's chat completions.
    Serve(Box<commands::serve::Arguments>),
    /// Print the metrics of a run, under the names of the framework that your scripts know.
    Metrics(commands::metrics::Arguments),
    /// Write the report of a run anew, as it is now, and print its path.
    Report(commands::report::Arguments),
    /// Merge a trained adapter and its base into one model directory.
    Merge(commands::merge::Arguments),
    /// List the objectives, advantages and other parts that a recipe can name.
    Methods(commands::methods::Arguments),
    /// List and show the environments.
    #[command(subcommand)]
    Env(commands::env::Command),
    /// Check worlds of tools, or let a model write one.
    #[command(subcommand)]
    World(commands::world::Command),
    /// Inspect data files, and compare training data with evaluation data.
    #[command(subcommand)]
    Data(commands::data::Command),
    /// Look inside a model, layer by layer, on held-out tasks.
    Probe(commands::probe::Arguments),
    /// Judge responses with a verifier, and show how response and reference were read.
    Verify(commands::verify::Arguments),
    /// Merge, compare, inspect checkpoints, and extract adapters from them.
    #[command(subcommand)]
    Weights(commands::weights::Command),
    /// Print completions for a shell.
    Completions(commands::shell::Arguments),
    /// Print the manual page.
    Man,
}

fn main() -> ExitCode {
    // First of all: this program may have been started as the guard of a sandbox.
    burnish_sandbox::enter();
    burnish_run::stored::say_version(env!("BURNISH_VERSION"));
    let done = match Arguments::try_parse() {
        Ok(arguments) => run(arguments.command),
        Err(asked) if asked.use_stderr() => {
            eprint!("{}", plain(&asked.to_string()));
            return ExitCode::from(WRONG_ARGUMENTS);
        }
        // Help or the version was asked for.
        Err(asked) => {
            print!("{asked}");
            Ok(())
        }
    };
    if burnish_core::json::has_replaced_surrogates() {
        eprintln!(
            "note: JSON that was read holds halves of characters alone (such as \\ud83d); each was read as U+FFFD"
        );
    }
    match done.and_then(|()| out::finish()) {
        Ok(()) => signals::status().map_or(ExitCode::SUCCESS, ExitCode::from),
        Err(error) => {
            eprintln!("error: {}", program::as_called(&plain(&error.to_string())));
            signals::status().map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn run(command: Command) -> commands::Done {
    match command {
        Command::Train(arguments) => commands::train::run(arguments, None),
        Command::Sft(arguments) => commands::train::run(arguments, Some(burnish_recipe::Method::Sft)),
        Command::Study(arguments) => commands::study::run(arguments),
        Command::Eval(arguments) => commands::eval::run(*arguments),
        Command::FitThoughts(arguments) => commands::fit_thoughts::run(&arguments),
        Command::Rollout(arguments) => commands::rollout::run(arguments),
        Command::Generate(arguments) => commands::generate::run(*arguments),
        Command::Chat(arguments) => commands::chat::run(*arguments),
        Command::Serve(arguments) => commands::serve::run(*arguments),
        Command::Metrics(arguments) => commands::metrics::run(arguments),
        Command::Report(arguments) => commands::report::run(arguments),
        Command::Merge(arguments) => commands::merge::run(arguments),
        Command::Methods(arguments) => commands::methods::run(arguments),
        Command::Env(command) => commands::env::run(command),
        Command::World(command) => commands::world::run(command),
        Command::Data(command) => commands::data::run(command),
        Command::Probe(arguments) => commands::probe::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(arguments),
        Command::Weights(command) => commands::weights::run(command),
        Command::Completions(arguments) => commands::shell::completions(&arguments, Arguments::command()),
        Command::Man => commands::shell::man(Arguments::command()),
    }
}
