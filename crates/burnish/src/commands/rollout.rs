//! `burnish rollout`

use std::path::PathBuf;

use burnish_core::{Episode, Source, Validity};
use burnish_run::inspect::{self, Shown};
use burnish_run::replay::{self, Replayed};
use burnish_rundir::journal::EpisodeKind;
use clap::Args;

use super::Done;

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A recipe, whose policy plays its environment.
    #[arg(required_unless_present = "from", value_parser = super::path())]
    recipe: Option<PathBuf>,
    /// Overrides of the recipe, `key.sub=value`.
    overrides: Vec<String>,
    /// Show stored episodes of this run instead.
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "recipe", value_parser = super::path())]
    from: Option<PathBuf>,
    /// With a run: the step (default: the newest).
    #[arg(long, requires = "from", conflicts_with = "recipe")]
    step: Option<u64>,
    /// With a run: show held-out episodes instead of training episodes.
    #[arg(long, requires = "from", conflicts_with = "recipe")]
    eval: bool,
    /// With a run: show episodes of the evaluation in `[[eval.extra]]` with this name.
    #[arg(long, value_name = "NAME", requires = "from", conflicts_with_all = ["eval", "recipe"])]
    extra: Option<String>,
    /// With a run: replay all stored episodes of the step from their records, without sampling, and compare.
    #[arg(long, requires = "from", conflicts_with_all = ["recipe", "count"])]
    replay: bool,
    /// Number of episodes.
    #[arg(long, default_value_t = 4, value_parser = super::at_least_one)]
    count: usize,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let shown = match (&arguments.from, &arguments.recipe) {
        (Some(dir), _) => {
            let kind = match (arguments.extra, arguments.eval) {
                (Some(name), _) => EpisodeKind::Extra(name),
                (None, true) => EpisodeKind::Eval,
                (None, false) => EpisodeKind::Train,
            };
            if arguments.replay {
                let Replayed { step, episodes, without_record } = replay::replay(dir, arguments.step, &kind)?;
                println!("step {step}: {episodes} episodes played again on their records, all as they were");
                if without_record > 0 {
                    println!("{without_record} episodes have no record");
                }
                return Ok(());
            }
            inspect::stored(dir, arguments.step, &kind, arguments.count)?
        }
        (None, Some(recipe)) => {
            let target = inspect::Target::open(recipe, &arguments.overrides, None)?;
            super::say_notes(target.notes());
            if !target.holds_out() {
                eprintln!("the recipe holds no tasks out (`eval.tasks = 0`): these are tasks of training");
            }
            target.sample(arguments.count)?
        }
        (None, None) => return Err("give a recipe, or a run directory with --from".into()),
    };
    for item in &shown {
        show(item);
    }
    Ok(())
}

fn show(shown: &Shown) {
    let Shown { task, episode, drawing, advantage } = shown;
    println!("=== {} rollout {}", task.id, episode.rollout);
    println!("{}", conversation(episode));
    println!("--- drawn\n{}", drawing.trim_end());
    let verdict = &episode.verdict;
    match &verdict.validity {
        Validity::Unscored { reason } => println!("--- unscored: {reason}"),
        Validity::Scored => {
            let rewards: Vec<String> =
                verdict.rewards.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let flags: Vec<&str> =
                verdict.flags.iter().filter(|(_, on)| **on).map(|(name, _)| name.as_str()).collect();
            let outcome = match (verdict.has_success, verdict.success) {
                (true, true) => "success",
                (true, false) => "failure",
                (false, _) => "judged",
            };
            println!("--- {outcome}; rewards: {}; flags: {}", rewards.join(", "), flags.join(", "));
        }
    }
    if let Some(feedback) = &verdict.feedback {
        println!("    {feedback}");
    }
    if let Some(advantage) = advantage {
        println!("    advantage {advantage:+.3}");
    }
    println!();
}

/// The text of every trace; sampled text is between « and ».
fn conversation(episode: &Episode) -> String {
    let own = episode.traces.iter().enumerate().map(|(index, trace)| (format!("agent {index}"), trace));
    let partners = episode.record.agents.iter().zip(episode.record.are_own()).filter(|(_, is_own)| !is_own);
    let partners = partners.map(|(agent, _)| agent.policy.clone()).zip(&episode.partners);
    let traces: Vec<_> = own.chain(partners).collect();
    let mut text = String::new();
    for (who, trace) in &traces {
        if traces.len() > 1 {
            text.push_str(&format!("--- {who}\n"));
        }
        for node in trace.nodes() {
            let is_sampled = node.sources.first() == Some(&Source::Policy);
            if is_sampled {
                text.push_str(&format!("«{}»", node.text));
            } else {
                text.push_str(&node.text);
            }
        }
    }
    text
}
