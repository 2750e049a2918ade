//! `burnish world check|build`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::{Message, Policy, Trace, Turn};
use burnish_run::generate::Answerer;
use burnish_rundir::files::write_atomic;
use burnish_worlds::{World, builder};
use clap::{Args, Subcommand};

use super::Done;
use super::policy::{SamplingArguments, Who};

/// Most complaints that are shown of one proposal.
const SHOWN: usize = 6;

/// What to do with worlds of tools.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say whether files are worlds of tools that the environment `worlds` takes, and what is wrong with them.
    Check {
        /// Files of worlds.
        #[arg(required = true, value_parser = super::path())]
        files: Vec<PathBuf>,
    },
    /// Let a model write a world: it is told what is wrong with a proposal, until one passes the acceptance tests.
    Build(Box<BuildArguments>),
}

/// Who writes a world about what, and where it goes.
#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    #[command(flatten)]
    who: Who,
    /// What the world is about, in a sentence.
    #[arg(long, value_name = "TEXT")]
    about: String,
    /// Where the accepted file goes.
    #[arg(long, value_name = "FILE", value_parser = super::path())]
    out: PathBuf,
    /// Most proposals.
    #[arg(long, value_name = "N", default_value = "4", value_parser = super::at_least_one)]
    attempts: usize,
    #[command(flatten)]
    sampling: SamplingArguments,
}

pub(crate) fn run(command: Command) -> Done {
    match command {
        Command::Check { files } => check(&files),
        Command::Build(arguments) => build(&arguments),
    }
}

fn check(files: &[PathBuf]) -> Done {
    let mut wrong = 0;
    for file in files {
        let shown = file.display();
        let problems = match read(file) {
            Ok(world) => {
                let problems = builder::problems(&world);
                if problems.is_empty() {
                    let changing = world.tools.iter().filter(|tool| tool.changes()).count();
                    println!(
                        "{shown}: `{}`, {} tables, {} tools, of which {changing} change the state, {} tests passed",
                        world.name,
                        world.tables.len(),
                        world.tools.len(),
                        world.tests.len()
                    );
                }
                problems
            }
            Err(problem) => vec![problem],
        };
        wrong += usize::from(!problems.is_empty());
        for problem in problems {
            println!("{shown}: {problem}");
        }
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} files are not accepted", files.len()).into()),
    }
}

fn read(file: &Path) -> Result<World, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    World::parse(&text).map_err(|error| error.to_string())
}

fn build(arguments: &BuildArguments) -> Done {
    let BuildArguments { who, about, out, attempts, sampling } = arguments;
    if out.exists() {
        return Err(format!("--out {}: exists already", out.display()).into());
    }
    let mut answerer = Answerer::open(&who.asked(1, false, false)?)?;
    super::say_notes(answerer.notes());
    let seed = sampling.seed.unwrap_or(0);
    let chosen = Arc::new(answerer.sampling(&sampling.options(None))?);
    let mut asked = 0;
    let ask = |conversation: &[Message]| -> Result<String, Box<dyn std::error::Error>> {
        let turn = Turn {
            trace: Trace::new(),
            messages: Arc::new(conversation.to_vec()),
            tools: Arc::default(),
            prefix: Vec::new(),
            sampling: Arc::clone(&chosen),
            seed: seed.wrapping_add(asked),
        };
        asked += 1;
        let policy: &mut dyn Policy = answerer.policy();
        let answers = burnish_core::answer_all(policy, [turn]);
        let (_, answer) = answers.into_iter().next().ok_or("it gave no answer")?;
        Ok(answer?.message.content)
    };
    let mut proposals = 0;
    let built = builder::build(about, *attempts, ask, |rejected| {
        proposals += 1;
        println!("proposal {proposals} is not accepted:");
        for problem in rejected.problems.iter().take(SHOWN) {
            println!("  {problem}");
        }
        if rejected.problems.len() > SHOWN {
            println!("  and {} more", rejected.problems.len() - SHOWN);
        }
    })?;
    let Some(built) = built else {
        return Err(format!("none of {attempts} proposals is accepted; nothing was written").into());
    };
    write_atomic(out, built.text.as_bytes())?;
    println!(
        "proposal {} is accepted: `{}`, {} tools; written to {}",
        proposals + 1,
        built.world.name,
        built.world.tools.len(),
        out.display()
    );
    Ok(())
}
