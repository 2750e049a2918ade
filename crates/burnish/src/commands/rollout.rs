//! `burnish rollout`

use std::collections::BTreeMap;
use std::path::PathBuf;

use burnish_core::{Ending, Episode, Message, Source, Validity};
use burnish_run::inspect::{self, Shown};
use burnish_run::replay::{self, Replayed};
use burnish_rundir::journal::EpisodeKind;
use clap::Args;
use serde::Serialize;

use super::Done;
use crate::out;

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
    /// Number of episodes (default: 4; with --json, all that are stored).
    #[arg(long, value_parser = super::at_least_one)]
    count: Option<usize>,
    /// One JSON object per episode and line.
    #[arg(long, conflicts_with = "replay")]
    json: bool,
}

/// Episodes that are shown, unless a person says how many.
const COUNT: usize = 4;

/// An episode as `--json` prints it.
#[derive(Serialize)]
struct Line<'a> {
    /// Absent if it was sampled just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    /// `train`, `eval`, or `eval/NAME` of an evaluation in `[[eval.extra]]`.
    kind: &'a str,
    task: &'a str,
    /// Index of the task in its step: a task may come twice.
    task_index: usize,
    rollout: usize,
    ending: Ending,
    /// Null if the environment reports no success.
    success: Option<bool>,
    /// The weighted sum of `rewards`; null if it could not be judged.
    reward: Option<f64>,
    rewards: &'a BTreeMap<String, f64>,
    flags: &'a BTreeMap<String, bool>,
    feedback: Option<&'a str>,
    /// Why it could not be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    unscored: Option<&'a str>,
    advantage: Option<f64>,
    prompt: &'a [Message],
    answers: &'a [Message],
    /// Everything that was read and said; what the policy sampled is between « and ».
    text: String,
    /// Number of tokens that the policy sampled.
    tokens: usize,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let count = arguments.count.unwrap_or(if arguments.json { usize::MAX } else { COUNT });
    let (name, shown) = match (&arguments.from, &arguments.recipe) {
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
            let shown = inspect::stored(dir, arguments.step, &kind, count)?;
            (kind.to_string(), shown)
        }
        (None, Some(recipe)) => {
            let target = inspect::Target::open(recipe, &arguments.overrides, None)?;
            super::say_notes(target.notes());
            if !target.holds_out() {
                eprintln!("the recipe holds no tasks out (`eval.tasks = 0`): these are tasks of training");
            }
            (EpisodeKind::Eval.to_string(), target.sample(arguments.count.unwrap_or(COUNT))?)
        }
        (None, None) => return Err("give a recipe, or a run directory with --from".into()),
    };
    for item in &shown {
        if !out::is_read() {
            break;
        }
        if arguments.json {
            out::json(&serde_json::to_string(&line(item, &name))?);
        } else {
            show(item);
        }
    }
    Ok(())
}

fn line<'a>(shown: &'a Shown, kind: &'a str) -> Line<'a> {
    let Shown { task, episode, reward, advantage, task_index, step, .. } = shown;
    let verdict = &episode.verdict;
    Line {
        step: *step,
        kind,
        task: &task.id.0,
        task_index: *task_index,
        rollout: episode.rollout,
        ending: episode.ending,
        success: (verdict.has_success && verdict.is_scored()).then_some(verdict.success),
        reward: *reward,
        rewards: &verdict.rewards,
        flags: &verdict.flags,
        feedback: verdict.feedback.as_deref(),
        unscored: match &verdict.validity {
            Validity::Unscored { reason } => Some(reason),
            Validity::Scored => None,
        },
        advantage: *advantage,
        prompt: &task.prompt,
        answers: &episode.answers,
        text: conversation(episode),
        tokens: episode.sampled_tokens(),
    }
}

fn show(shown: &Shown) {
    let Shown { task, episode, drawing, advantage, .. } = shown;
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
