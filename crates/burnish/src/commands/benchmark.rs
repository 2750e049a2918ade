//! `burnish eval NAME`: a benchmark that has a name, and `burnish eval --list`.

use std::path::PathBuf;

use burnish_eval::{Interval, PassAtK};
use burnish_run::benchmark::{self, BENCHMARKS, Benchmark, Consistency, Finish, Outcome, Report};
use burnish_run::recipe::ComputeType;
use burnish_run::watch::{Stop, Unwatched, Watch};
use clap::Args;

use super::Done;
use crate::progress::Progress;
use crate::{out, program, signals};

/// How a benchmark is played. All of it is for benchmarks only.
#[derive(Debug, Args)]
#[command(next_help_heading = "Benchmarks")]
pub(crate) struct Settings {
    /// The policy: a model directory, or a run directory.
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// The data: a file, or a folder with files of the usual names. By default $BURNISH_DATA/NAME.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Samples of each item. [default: 1]
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// The k of pass@k, with commas. [default: 1 and the number of samples]
    #[arg(long, value_name = "K", value_delimiter = ',')]
    k: Vec<usize>,
    /// Temperature; must be above 0 for more than one sample. [default: 0, greedy]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// `model`: sample as the model's generation_config.json says.
    #[arg(long, value_name = "model", value_parser = ["model"], conflicts_with = "temperature")]
    sampling: Option<String>,
    /// Most tokens of an answer. [default: 1024; math500: 2048]
    #[arg(long, value_name = "N")]
    tokens_max: Option<usize>,
    /// Only the first N items of each file.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Of a benchmark in several languages: these only, with commas.
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<String>,
    /// Keep a record of every item in this directory; the same command again goes on where it was stopped.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of everything random. [default: 0]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Sequences that are played together. [default: 64]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// What computes: cpu, cuda:0 and so on. [default: as the policy's run; cpu for a model directory]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// In which precision products are computed: f32 or bf16. [default: as the policy's run; f32 for a model directory]
    #[arg(long, value_name = "TYPE", value_parser = precision)]
    precision: Option<ComputeType>,
    /// Threads; 0 takes every core. Changes no result. [default: 0]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Settings {
    /// The first of these options that was given: a recipe has none of them.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        [
            ("--policy", self.policy.is_some()),
            ("--data", self.data.is_some()),
            ("--samples", self.samples.is_some()),
            ("--k", !self.k.is_empty()),
            ("--temperature", self.temperature.is_some()),
            ("--sampling", self.sampling.is_some()),
            ("--tokens-max", self.tokens_max.is_some()),
            ("--limit", self.limit.is_some()),
            ("--lang", !self.lang.is_empty()),
            ("--out", self.out.is_some()),
            ("--seed", self.seed.is_some()),
            ("--batch", self.batch.is_some()),
            ("--device", self.device.is_some()),
            ("--precision", self.precision.is_some()),
            ("--threads", self.threads.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// By the names of `policy.precision`.
fn precision(name: &str) -> serde_json::Result<ComputeType> {
    serde_json::from_value(name.into())
}

/// Prints the benchmarks.
pub(crate) fn list() -> Done {
    for benchmark in BENCHMARKS {
        println!("{:8} {}", benchmark.name, benchmark.title);
        println!("         data      {} ({})", benchmark.source, benchmark.licence);
        println!("         verifier  {}", benchmark.verifier.name());
        let languages = benchmark.languages();
        if !languages.is_empty() {
            println!("         languages {}", languages.join(", "));
        }
        let english = benchmark.parts.iter().find(|part| matches!(part.language, None | Some("en")));
        if let Some(part) = english {
            println!("         prompt    {}", part.prompt("{question}").replace('\n', "\\n"));
        }
    }
    Ok(())
}

/// Evaluates a policy on a benchmark.
pub(crate) fn run(benchmark: &'static Benchmark, settings: Settings, step: Option<u64>, json: bool) -> Done {
    let Some(policy) = settings.policy else {
        return Err(format!(
            "{}: which policy? Give a model or run directory with --policy DIR",
            benchmark.name
        )
        .into());
    };
    let is_kept = settings.out.is_some();
    let options = benchmark::Options {
        benchmark,
        data: settings.data,
        languages: settings.lang,
        policy,
        step,
        samples: settings.samples.unwrap_or(1),
        ks: settings.k,
        temperature: settings.temperature,
        is_model_sampling: settings.sampling.is_some(),
        tokens_max: settings.tokens_max,
        limit: settings.limit,
        out: settings.out,
        seed: settings.seed.unwrap_or(0),
        batch: settings.batch.unwrap_or(64),
        device: settings.device,
        precision: settings.precision,
        threads: settings.threads.unwrap_or(0),
    };
    let stop = Stop::default();
    signals::listen(stop.clone(), signals::Work::Evaluation)?;
    // With --json nothing but the object goes to stdout.
    let mut watch: Box<dyn Watch> = if json { Box::new(Unwatched) } else { Box::new(Progress::new()) };
    match benchmark::evaluate(&options, &mut *watch, &stop)? {
        Finish::Done(report) if json => out::json(&serde_json::to_string(&*report)?),
        Finish::Done(report) => say(&options, &report),
        Finish::Interrupted { done, items } => {
            let hint = if is_kept {
                format!("go on with the same command: {}", program::again())
            } else {
                "nothing was kept, as there is no --out DIR".to_owned()
            };
            eprintln!("stopped after {done} of {items} items; {hint}");
        }
    }
    Ok(())
}

fn say(options: &benchmark::Options, report: &Report) {
    println!("policy   {}", options.policy.display());
    println!("items    {} ({} samples each)", report.whole.items, report.samples);
    println!("sampling {}", report.sampling);
    say_pass("", &report.whole);
    for (label, values) in &report.by_label {
        for (value, slice) in values {
            say_pass(&format!("  {label}={value} ({} items)", slice.items), slice);
        }
    }
    for (language, consistency) in &report.languages {
        say_language(language, consistency);
    }
    let outcomes: Vec<String> =
        report.outcomes.iter().map(|(outcome, count)| format!("{count} {}", in_words(*outcome))).collect();
    println!("samples  {}", outcomes.join(", "));
    println!(
        "tokens   {:.1} a sample; {:.1} % of the samples were cut short",
        report.tokens_mean,
        100.0 * report.truncated_rate
    );
    if let Some(out) = &options.out {
        println!("records  {}", out.join("items.jsonl").display());
    }
}

fn say_pass(of: &str, pass: &PassAtK) {
    for (k, Interval { mean, low, high }) in &pass.pass_at {
        let (mean, low, high) = (100.0 * mean, 100.0 * low, 100.0 * high);
        println!("pass@{k:<3} {mean:.1} % [{low:.1}, {high:.1}]{of}");
    }
}

fn say_language(language: &str, consistency: &Consistency) {
    let Consistency { items, in_language, both, found, .. } = consistency;
    let percent = |Interval { mean, low, high }: &Interval| {
        format!("{:.1} % [{:.1}, {:.1}]", 100.0 * mean, 100.0 * low, 100.0 * high)
    };
    let mut found: Vec<(&String, &usize)> = found.iter().collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let found: Vec<String> = found.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!(
        "language={language} ({items} items): kept {}, right and kept {}; answers in: {}",
        percent(in_language),
        percent(both),
        found.join(", ")
    );
}

fn in_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Correct => "correct",
        Outcome::Different => "with another answer",
        Outcome::NoAnswer => "without an answer",
        Outcome::Unreadable => "with an unreadable answer",
        Outcome::PromptTooLong => "not begun (the prompt is too long)",
    }
}
