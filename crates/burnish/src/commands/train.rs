//! `burnish train` and `burnish sft`

use std::path::PathBuf;

use burnish_run::recipe::{Method, Recipe};
use burnish_run::run_dir::RunDir;
use burnish_run::stages::{self, Made};
use burnish_run::text::shell_path;
use burnish_run::train::{Finish, Outcome, Run};
use burnish_run::watch::Stop;
use clap::Args;

use super::Done;
use crate::program::as_called;
use crate::progress::{Progress, evaluation_line};
use crate::{out, signals};

/// What to train.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The recipe: a TOML file.
    #[arg(required_unless_present = "resume")]
    recipe: Option<PathBuf>,
    /// Changes of the recipe, `key.sub=value`.
    overrides: Vec<String>,
    /// Print the resolved recipe and stop.
    #[arg(long)]
    dry_run: bool,
    /// Go on with the run in this directory, from its last checkpoint.
    #[arg(long, value_name = "RUN_DIR", conflicts_with_all = ["recipe", "dry_run"])]
    resume: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, method: Option<Method>) -> Done {
    let stop = Stop::default();
    let mut progress = Progress::new();
    if !arguments.dry_run {
        signals::listen(stop.clone(), signals::Work::Training)?;
    }
    let mut run = match (&arguments.resume, &arguments.recipe) {
        (Some(dir), _) => {
            let run = Run::resume(dir, &mut progress)?;
            check_method(run.recipe(), method)?;
            run
        }
        (None, Some(path)) => {
            let mut recipe = Recipe::read(path, &arguments.overrides)?;
            check_method(&recipe, method)?;
            if arguments.dry_run {
                stages::resolve(&mut recipe)?;
                out::file(&recipe.to_toml()?);
                return Ok(());
            }
            RunDir::refuse_taken(&recipe.run.dir)?;
            if let Made::Stopped { dir } = stages::make(&mut recipe, &mut progress, &stop)? {
                println!("stopped while {} was made; the same command goes on from there", dir.display());
                return Ok(());
            }
            Run::start(recipe, &mut progress)?
        }
        (None, None) => return Err("give a recipe, or a run directory with --resume".into()),
    };
    match run.drive(&mut progress, &stop)? {
        Finish::Done(outcome) => say_outcome(&outcome),
        Finish::Interrupted { step } => {
            let again = as_called(&format!("burnish train --resume {}", shell_path(run.dir())));
            println!("stopped after step {step} and saved; go on with: {again}");
        }
    }
    Ok(())
}

/// `burnish sft` runs imitation only.
fn check_method(recipe: &Recipe, method: Option<Method>) -> Done {
    match method {
        Some(method) if recipe.train.method != method => {
            Err("the recipe's `train.method` is not \"sft\"; run it with `burnish train`".into())
        }
        _ => Ok(()),
    }
}

fn say_outcome(outcome: &Outcome) {
    let dir = outcome.dir.display();
    println!();
    if let (Some(before), Some(after)) = (&outcome.before, &outcome.after) {
        println!("held-out tasks before: {}", evaluation_line(before));
        println!("held-out tasks after:  {}", evaluation_line(after));
    }
    if let Some(change) = &outcome.change {
        println!(
            "change:                {:+.1} points [{:+.1}, {:+.1}] (95 %, paired bootstrap over tasks)",
            100.0 * change.success.mean,
            100.0 * change.success.low,
            100.0 * change.success.high
        );
    }
    println!();
    println!("{dir}/report.html                 curves and drawn episodes");
    println!("{}   the trained policy, a Hugging Face directory", outcome.checkpoint.display());
    let kind = if outcome.method == Method::Grpo { "" } else { " --eval" };
    let show = format!("burnish rollout --from {} --step {}{kind}", shell_path(&outcome.dir), outcome.steps);
    println!("{}   shows what it did last", as_called(&show));
    if outcome.method == Method::Grpo {
        println!(
            "next: another seed (run.seed=2 run.dir=...), harder boards (env.config...), or your own verifier"
        );
    }
}
