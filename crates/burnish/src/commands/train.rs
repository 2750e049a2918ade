//! `burnish train` and `burnish sft`

use std::error::Error;
use std::path::{Path, PathBuf};

use burnish_recipe::{Method, Recipe, Source};
use burnish_run::engine::arrangement;
use burnish_run::memory::{Memory, When, free_bytes, mib};
use burnish_run::stages::{self, Made};
use burnish_run::start;
use burnish_run::train::{Finish, Outcome, Run};
use burnish_run::watch::Stop;
use burnish_rundir::run_dir::{RECIPE, RunDir, Taken};
use burnish_rundir::text::shell_path;
use clap::Args;

use super::Done;
use crate::program::as_called;
use crate::progress::{Progress, change_line, evaluation_line, measured_line};
use crate::{out, quickstart, signals};

/// What to train.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The recipe, a TOML file; `quickstart` is one that the program brings along. With --resume, an override of the
    /// run's recipe.
    #[arg(required_unless_present = "resume")]
    recipe: Option<PathBuf>,
    /// Overrides of the recipe, `key.sub=value`.
    overrides: Vec<String>,
    /// Print the resolved recipe and stop. Servers that it samples on are asked whether they can be used.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: print how much memory the recipe needs on its device, by part, and stop. Only configurations are
    /// read, and the device is asked what it has free, if it is there.
    #[arg(long, requires = "dry_run")]
    memory: bool,
    /// Resume the run in this directory from its last checkpoint. Overrides may follow: `train.max_steps=80` makes it
    /// longer.
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "dry_run", value_parser = super::path())]
    resume: Option<PathBuf>,
    /// Remove the run in `run.dir`, and begin again. Anything that is not a run is never removed.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
}

pub(crate) fn run(arguments: Arguments, method: Option<Method>) -> Done {
    let stop = Stop::default();
    let mut progress = Progress::new();
    if !arguments.dry_run {
        signals::listen(stop.clone(), signals::Work::Training)?;
    }
    let mut run = match (&arguments.resume, &arguments.recipe) {
        (Some(dir), first) => {
            let changes = changes(first.as_deref(), &arguments.overrides)?;
            let run = Run::resume(dir, &changes, &mut progress)?;
            check_method(run.recipe(), method)?;
            run
        }
        (None, Some(path)) => {
            let path = burnish_recipe::expand(path).map_err(|problem| format!("the recipe {problem}"))?;
            let (path, _written) = brought_along(path, arguments.dry_run)?;
            let mut recipe = Recipe::resolve(&source(&path, &arguments.overrides)?)?;
            check_method(&recipe, method)?;
            if arguments.dry_run {
                stages::resolve(&mut recipe)?;
                start::check_policy(&recipe)?;
                start::check_rows(&recipe)?;
                if arguments.memory {
                    // The device may be in another machine.
                    let free = free_bytes(&recipe).ok().flatten();
                    say_memory(&Memory::of(&recipe, free)?);
                    return Ok(());
                }
                eprintln!("note: {}", arrangement(&recipe)?);
                out::file(&recipe.to_toml()?);
                return Ok(());
            }
            let taken = if arguments.overwrite { Taken::Removed } else { Taken::Refused };
            RunDir::refuse_taken(&recipe.run.dir, taken)?;
            if let Made::Stopped { dir } = stages::make(&mut recipe, &mut progress, &stop)? {
                println!("stopped while {} was made; the same command goes on from there", dir.display());
                signals::leave_unfinished();
                return Ok(());
            }
            Run::start_in(recipe, taken, &mut progress)?
        }
        (None, None) => return Err("give a recipe, or a run directory with --resume".into()),
    };
    run.introduction().iter().for_each(|line| println!("{line}"));
    match run.drive(&mut progress, &stop)? {
        Finish::Done(outcome) => say_outcome(&outcome),
        Finish::Interrupted { step } => {
            let again = as_called(&format!("burnish train --resume {}", shell_path(run.dir())));
            println!("stopped after step {step} and saved; go on with: {again}");
            signals::leave_unfinished();
        }
    }
    Ok(())
}

/// The recipe in `path`, which is written first if it is the program's own. A dry run leaves nothing of it.
fn brought_along(path: PathBuf, is_dry: bool) -> Result<(PathBuf, Option<Written>), String> {
    if path != Path::new(quickstart::NAME) || path.is_file() {
        return Ok((path, None));
    }
    let (recipe, is_new) = quickstart::recipe(Path::new(""))?;
    if is_new && is_dry {
        return Ok((recipe, Some(Written(PathBuf::from(quickstart::NAME)))));
    }
    if is_new {
        eprintln!(
            "note: wrote {NAME}/, a recipe and the policy that it starts from",
            NAME = quickstart::NAME
        );
    }
    Ok((recipe, None))
}

/// A folder that goes when this does.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The recipe in `path`, as it is written. Runs and studies have commands of their own.
fn source(path: &Path, overrides: &[String]) -> Result<Source, Box<dyn Error>> {
    let shown = shell_path(path);
    let other = |what: String| Err(format!("{}: {}", path.display(), as_called(&what)).into());
    if path.join(RECIPE).is_file() {
        return other(format!(
            "is a run: `burnish train --resume {shown}` goes on with it, and `burnish eval {shown}` evaluates it"
        ));
    }
    let source = Source::read(path, overrides)?;
    match source.get("study") {
        Some(_) => other(format!("is a study: `burnish study {shown}` runs it")),
        None => Ok(source),
    }
}

/// With --resume, the argument in place of the recipe and the arguments after it are overrides.
fn changes(first: Option<&Path>, rest: &[String]) -> Result<Vec<String>, String> {
    let first = first.map(|first| first.to_string_lossy().into_owned());
    match first {
        Some(first) if !first.contains('=') => Err(format!(
            "{first}: a run that is resumed has its recipe; after --resume RUN_DIR come changes only, such as \
             train.max_steps=80"
        )),
        first => Ok(first.into_iter().chain(rest.iter().cloned()).collect()),
    }
}

/// `burnish sft` accepts only imitation.
fn check_method(recipe: &Recipe, method: Option<Method>) -> Done {
    match method {
        Some(method) if recipe.train.method != method => {
            Err("the recipe's `train.method` is not \"sft\"; run it with `burnish train`".into())
        }
        _ => Ok(()),
    }
}

fn say_memory(memory: &Memory) {
    let (most, when) = memory.most();
    println!("on {}, at most:", memory.device);
    let mut now = None;
    for part in &memory.parts {
        if now.replace(part.when) != Some(part.when) {
            println!("{}", head_of(part.when));
        }
        let line = format!("  {:>10}  {:<66}  {}", mib(part.bytes), part.what, part.by);
        println!("{}", line.trim_end());
    }
    println!(
        "{}  {}",
        mib(most),
        match when {
            When::Always => "in all",
            When::Sampling => "in all, when it samples",
            When::Scoring => "in all, when log-probs are computed",
            When::Training => "in all, when it trains",
        }
    );
    for note in memory.told.iter().chain(&memory.notes) {
        println!("note: {note}");
    }
    println!("note: the program itself, tasks, tokenizers and buffers of the system are not counted");
}

fn head_of(when: When) -> &'static str {
    match when {
        When::Always => "as long as the run",
        When::Sampling => "while it samples",
        When::Scoring => "while log-probs are computed",
        When::Training => "while it trains",
    }
}

fn say_outcome(outcome: &Outcome) {
    let dir = outcome.dir.display();
    println!();
    if let (None, Some(after)) = (&outcome.before, &outcome.after) {
        println!("held-out tasks:        {}", evaluation_line(after));
    }
    if let (Some(before), Some(after)) = (&outcome.before, &outcome.after) {
        println!("held-out tasks before: {}", evaluation_line(before));
        println!("held-out tasks after:  {}", evaluation_line(after));
    }
    if let Some((change, leading)) = outcome.change.and_then(|change| Some((change, change.leading()?))) {
        let said = change.headline.change_with_range(leading);
        println!("change:                {said} (95 %, paired bootstrap over {} tasks)", change.tasks);
    }
    if let Some([before, after]) = &outcome.held_out_rows {
        println!("held-out rows before:  {}", measured_line(before));
        println!("held-out rows after:   {}", measured_line(after));
        if let Some(change) = change_line(after) {
            println!("change:                {change}");
        }
    }
    if let Some(unscored) = outcome.unscored.told() {
        println!("{unscored}");
    }
    println!();
    let is_played = outcome.after.is_some() || outcome.method == Method::Grpo;
    println!("report    {dir}/report.html");
    println!("          curves{}", if is_played { " and drawn episodes" } else { "" });
    let policy = match (outcome.updates, outcome.method) {
        (0, Method::None) => "the policy",
        (0, _) => "the policy as it was before",
        _ => "the trained policy",
    };
    let nothing = if outcome.updates > 0 || outcome.method == Method::None {
        ""
    } else {
        ": no update was made, so nothing was learnt"
    };
    match &outcome.on_server {
        Some(name) => {
            println!("policy    {name}\n          {policy}, on the server that trained it{nothing}")
        }
        None => println!(
            "policy    {}\n          {policy}, a Hugging Face directory{nothing}",
            outcome.checkpoint.display()
        ),
    }
    let run = shell_path(&outcome.dir);
    let (next, what) = match outcome.method {
        Method::Grpo => {
            (format!("burnish rollout --from {run} --step {}", outcome.steps), "shows what it did last")
        }
        Method::Sft | Method::Preference if outcome.after.is_some() => (
            format!("burnish rollout --from {run} --step {} --eval", outcome.steps),
            "shows what it did last",
        ),
        Method::None if outcome.after.is_some() => {
            (format!("burnish rollout --from {run} --step {} --eval", outcome.steps), "shows what it did")
        }
        Method::Sft | Method::Preference | Method::None => (format!("burnish chat {run}"), "talks with it"),
        Method::Reward => {
            (format!("burnish metrics {run}"), "has all numbers; `[reward.model]` makes it a reward")
        }
    };
    println!("next      {}\n          {what}", as_called(&next));
    if outcome.method == Method::Grpo {
        println!("          or another seed (run.seed=2 run.dir=...), harder tasks (env.config...),");
        println!("          or your own verifier");
    }
}
