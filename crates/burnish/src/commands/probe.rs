//! `burnish probe`

use std::iter;
use std::ops::Range;
use std::path::PathBuf;

use burnish_core::Span;
use burnish_run::cells::{Agreement, CellProbe};
use burnish_run::inspect::Target;
use burnish_run::probe::{Probe, Profile};
use clap::Args;

use super::Done;
use crate::out;

/// Look inside a model, layer by layer, on held-out tasks.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A recipe or a run directory.
    #[arg(value_parser = super::path())]
    target: PathBuf,
    /// With a recipe: overrides, `key.sub=value`.
    overrides: Vec<String>,
    /// Another policy: a model directory or a run.
    #[arg(long, value_name = "DIR", value_parser = super::path())]
    policy: Option<PathBuf>,
    /// With a run (that of --policy, if given): the checkpoint after this step instead of the newest.
    #[arg(long)]
    step: Option<u64>,
    /// Measure the attention to the part of the prompt after this text ...
    #[arg(long, value_name = "TEXT", requires = "before")]
    after: Option<String>,
    /// ... and before this one.
    #[arg(long, value_name = "TEXT", requires = "after")]
    before: Option<String>,
    /// Show how often a layer is right for each value of this label.
    #[arg(long, value_name = "LABEL")]
    by: Option<String>,
    /// Of the environment `tables`: does the policy look at the cells that its plans name?
    #[arg(long, conflicts_with_all = ["after", "before", "by", "lags"])]
    cells: bool,
    /// With --cells: plans that are drawn for each task, of which a verifier of attention picks one.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "cells")]
    samples: usize,
    /// With --samples: the temperature of these draws.
    #[arg(long, value_name = "T", default_value_t = 1.0, requires = "samples")]
    temperature: f32,
    /// Of a recipe with `[latent]`: what answers are worth with other hidden states in their latent steps, and when the policy
    /// opens and leaves spans.
    #[arg(long, conflicts_with_all = ["after", "before", "by", "lags", "cells"])]
    latent: bool,
    /// Differentiate the loss of right answers by the logits of attention: how far back its routing would learn to look.
    #[arg(long)]
    lags: bool,
    /// Most held-out tasks.
    #[arg(long, default_value_t = 200, value_parser = super::at_least_one)]
    tasks: usize,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Done {
    let Arguments { target, overrides, policy, step, .. } = arguments;
    let target = match policy {
        Some(policy) => Target::with_policy(target, overrides, policy, *step)?,
        None => Target::open(target, overrides, *step)?,
    };
    super::say_notes(target.notes());
    if arguments.cells {
        return cells(arguments, &target);
    }
    if arguments.latent {
        return latent(arguments, &target);
    }
    let marked = arguments.after.clone().zip(arguments.before.clone());
    let probe = Probe {
        marked: marked.map(|(after, before)| Span { after, before }),
        label: arguments.by.clone(),
        tasks: arguments.tasks,
        lags: arguments.lags,
    };
    let profile = target.probe(&probe)?;
    if arguments.json {
        out::json(&serde_json::to_string(&profile)?);
        return Ok(());
    }
    println!("policy   {}", target.policy_shown());
    println!("tasks    {}{}", profile.tasks, left_out(&profile));
    if probe.marked.is_some() {
        println!("marked   {} of them have marked tokens", profile.marked_tasks);
    }
    table(&profile);
    if arguments.lags {
        table_of_lags(&profile);
    }
    Ok(())
}

fn cells(arguments: &Arguments, target: &Target) -> Done {
    let Arguments { tasks, samples, temperature, .. } = *arguments;
    let profile = target.cells(CellProbe { tasks, samples, temperature })?;
    if arguments.json {
        out::json(&serde_json::to_string(&profile)?);
        return Ok(());
    }
    println!("policy   {}", target.policy_shown());
    println!("tasks    {}; {} answers are no plan", profile.tasks, profile.malformed);
    println!("steps    {} compared{}", profile.steps, if profile.is_proxy { " with proxies" } else { "" });
    println!();
    println!("{:>24}  {:>12}  {:>20}", "attention to cells", "AUROC", "over other orders ±");
    let line = |name: &str, agreement: &Agreement| {
        let spread = agreement.spread.map_or_else(|| "–".to_owned(), |spread| format!("{spread:.3}"));
        println!("{name:>24}  {:>12.3}  {spread:>20}", agreement.auroc);
    };
    for (layer, agreement) in profile.layers.iter().enumerate() {
        line(&format!("layer {layer}"), agreement);
    }
    let Some(verifier) = &profile.verifier else { return Ok(()) };
    line("best layer, other tasks", &verifier.best_layer);
    line("verifier, other tasks", &verifier.agreement);
    let shown = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), |number| format!("{number:.3}"));
    println!();
    println!("overlap of right steps   {}", shown(verifier.overlap_right));
    println!("overlap of wrong steps   {}", shown(verifier.overlap_wrong));
    println!("right told from wrong    {} (AUROC)", shown(verifier.told_apart));
    if let Some(choices) = &verifier.choices {
        println!();
        println!("{} plans each for {} tasks; the answer is right with", choices.samples, choices.tasks);
        for (name, share) in [
            ("the first", choices.first),
            ("the verifier's", choices.by_verifier),
            ("the likeliest", choices.by_logprob),
            ("the majority's", choices.by_majority),
            ("any", choices.any),
        ] {
            println!("{name:>24}  {:>5.1} %", 100.0 * share);
        }
    }
    Ok(())
}

fn latent(arguments: &Arguments, target: &Target) -> Done {
    let profile = target.latent(arguments.tasks)?;
    if arguments.json {
        out::json(&serde_json::to_string(&profile)?);
        return Ok(());
    }
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    println!("policy   {}", target.policy_shown());
    println!(
        "answers  {}; {} with latent steps, {:.2} on average",
        profile.episodes,
        percent(profile.used),
        profile.steps
    );
    println!();
    let head = ["what latent steps read", "right", "of those right without"].map(str::to_owned).to_vec();
    let rows = profile.interventions.iter().map(|one| {
        let of_right = one.success_of_right.map_or_else(|| "–".to_owned(), percent);
        vec![one.name.to_owned(), percent(one.success), of_right]
    });
    aligned(&iter::once(head).chain(rows).collect::<Vec<_>>());
    if !profile.leaving.is_empty() {
        println!();
        let head = ["steps so far", "spans", "p(</swi>)", "likeliest"].map(str::to_owned).to_vec();
        let rows = profile.leaving.iter().map(|one| {
            let probability = format!("{:.3}", one.probability);
            vec![one.steps.to_string(), one.spans.to_string(), probability, percent(one.likeliest)]
        });
        aligned(&iter::once(head).chain(rows).collect::<Vec<_>>());
    }
    if let Some(opening) = &profile.opening {
        println!();
        println!(
            "a span opens next: a linear probe is right at {} of {} positions (AUROC {:.3}); with shuffled labels at {}, always \
             guessing the same at {}",
            percent(opening.accuracy),
            opening.measured_on,
            opening.auroc,
            percent(opening.accuracy_shuffled),
            percent(opening.accuracy_of_guess),
        );
    }
    Ok(())
}

/// Ranges of lags, each twice as wide as the one before.
fn ranges_of_lags(lags: usize) -> Vec<Range<usize>> {
    let doubled = (0..usize::BITS).map(|power| 1 << power).take_while(|start| *start < lags);
    iter::once(0..1).chain(doubled.map(|start| start..2 * start)).collect()
}

fn table_of_lags(profile: &Profile) {
    println!("\nmean |dL/de[t,t-lag]| of attention logits, and the window W of exp(-lag/W)\n");
    let ranges = ranges_of_lags(profile.lags.iter().map(|layer| layer.gradient.len()).max().unwrap_or(0));
    let named = |range: &Range<usize>| match range.len() {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    };
    let mut head = vec!["layer".to_owned(), "W".to_owned()];
    head.extend(ranges.iter().map(named));
    let rows = profile.lags.iter().map(|layer| {
        let window = layer.window.map_or_else(|| "does not fall".to_owned(), |window| format!("{window:.1}"));
        let mean = |range: &Range<usize>| {
            layer.mean(range.clone()).map_or_else(|| "–".to_owned(), |mean| format!("{mean:.1e}"))
        };
        [layer.layer.to_string(), window].into_iter().chain(ranges.iter().map(mean)).collect()
    });
    aligned(&iter::once(head).chain(rows).collect::<Vec<Vec<String>>>());
}

/// Lines whose cells stand under each other.
fn aligned(lines: &[Vec<String>]) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        println!("{}", cells.collect::<Vec<String>>().join("  "));
    }
}

fn left_out(profile: &Profile) -> String {
    match profile.left_out {
        0 => String::new(),
        count => format!("; {count} left out: no known answer, or too long"),
    }
}

fn table(profile: &Profile) {
    let labels: Vec<&String> =
        profile.layers.first().map_or_else(Vec::new, |layer| layer.right_by_label.keys().collect());
    let has_attention = profile.layers.iter().any(|layer| layer.attention.is_some());
    let mut head = vec!["layer".to_owned()];
    head.extend(has_attention.then(|| "attention to what is marked".to_owned()));
    head.push("right first token".to_owned());
    head.extend(labels.iter().map(|label| (*label).clone()));
    println!();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut lines = vec![head];
    for (index, layer) in profile.layers.iter().enumerate() {
        let mut cells = vec![index.to_string()];
        if has_attention {
            cells.push(layer.attention.map_or_else(|| "–".to_owned(), percent));
        }
        cells.push(percent(layer.right));
        let of_label = |label: &&String| layer.right_by_label.get(*label).copied().unwrap_or(0.0);
        cells.extend(labels.iter().map(of_label).map(percent));
        lines.push(cells);
    }
    aligned(&lines);
}
