//! `burnish eval NAME` for named benchmarks, and `burnish eval --list`.

use std::path::PathBuf;

use burnish_data::Columns;
use burnish_eval::{Interval, PassAtK};
use burnish_recipe::{ComputeType, StrategySection};
use burnish_run::inspect::Target;
use burnish_run::items::EndpointConfig;
use burnish_run::strategies::Compared;
use burnish_run::watch::{Event, Stop, Watch};
use burnish_study::benchmark::{
    self, BENCHMARKS, Benchmark, Consistency, Finish, Outcome, PLAYED, Played, Report,
};
use clap::Args;

use super::Done;
use super::policy::Place;
use crate::progress::Progress;
use crate::{out, program, signals};

/// How a benchmark is played, and which policy plays it or a recipe's held-out tasks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Benchmarks and policies")]
pub(crate) struct Settings {
    /// The policy: a model directory (also an adapter's), a run directory, or, with a recipe, http(s)://HOST/v1 for a
    /// server with OpenAI's chat completions.
    #[arg(long, value_name = "POLICY", value_parser = super::path())]
    pub(crate) policy: Option<PathBuf>,
    /// The data: a file, or a folder with files of the usual names. By default $BURNISH_DATA/NAME.
    #[arg(long, value_name = "PATH", value_parser = super::path())]
    data: Option<PathBuf>,
    /// Which column is which, if they have other names than the benchmark's: `prompt=question,answer=answer`.
    #[arg(long, value_name = "NAMES", value_parser = Columns::parse)]
    columns: Option<Columns>,
    /// Samples per item. [default: 1]
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// The k of pass@k, separated by commas. [default: 1 and the number of samples]
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
    /// Play only the first N items of each file.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// With a benchmark in several languages: play only these, separated by commas.
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<String>,
    /// Store a record of every item in this directory. The same command continues an evaluation that was stopped.
    #[arg(long, value_name = "DIR", value_parser = super::path())]
    pub(crate) out: Option<PathBuf>,
    /// Seed of everything random. [default: 0]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Sequences sampled at once. [default: 64]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    #[command(flatten)]
    place: Place,
}

impl Settings {
    /// The first given option that is only for benchmarks, and what to write instead with a recipe.
    pub(crate) fn first_of_benchmarks(&self) -> Option<(&'static str, &'static str)> {
        [
            ("--data", self.data.is_some(), "the recipe names its data, as `eval.config.path`"),
            ("--columns", self.columns.is_some(), "the recipe names its columns, as `env.config.columns`"),
            ("--samples", self.samples.is_some(), "write `eval.rollouts=N`"),
            ("--k", !self.k.is_empty(), "pass@k is shown for 2, 4, 8 ... up to `eval.rollouts`"),
            ("--temperature", self.temperature.is_some(), "write `eval.temperature=T`"),
            ("--sampling", self.sampling.is_some(), "write `eval.temperature=T`, `eval.top_k=N` and so on"),
            ("--tokens-max", self.tokens_max.is_some(), "write `rollout.tokens_max=N`"),
            ("--limit", self.limit.is_some(), "write `eval.tasks=N`"),
            ("--lang", !self.lang.is_empty(), "its tasks are those of the recipe"),
            ("--seed", self.seed.is_some(), "write `eval.seed=S`"),
            ("--batch", self.batch.is_some(), "write `rollout.batch_max=N`"),
        ]
        .into_iter()
        .find_map(|(name, is_given, instead)| is_given.then_some((name, instead)))
    }

    /// What is scored in a benchmark of retrieval.
    pub(crate) fn retrieval(&self, json: bool) -> super::retrieval::Scored<'_> {
        super::retrieval::Scored {
            data: self.data.as_deref(),
            policy: self.policy.as_deref(),
            place: &self.place,
            k: &self.k,
            seed: self.seed,
            json,
        }
    }

    /// What the options say about a benchmark that is played in an environment: overrides of its recipe.
    ///
    /// # Errors
    /// Names an option that has no meaning there.
    fn of_played(&self, name: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let meaningless = [
            ("--columns", self.columns.is_some(), "its files have one form"),
            ("--k", !self.k.is_empty(), "pass@k is shown for 2, 4, 8 ... up to --samples"),
            ("--sampling", self.sampling.is_some(), "give keys, as `eval.temperature=0.6 eval.top_p=0.95`"),
            ("--lang", !self.lang.is_empty(), "it is in one language"),
        ];
        if let Some((option, _, instead)) = meaningless.into_iter().find(|(_, is_given, _)| *is_given) {
            return Err(format!("{option}: {name} does not have this option; {instead}").into());
        }
        let set = [
            self.samples.map(|samples| format!("eval.rollouts={samples}")),
            self.temperature.map(|temperature| format!("eval.temperature={temperature:?}")),
            self.tokens_max.map(|tokens| format!("rollout.tokens_max={tokens}")),
            self.limit.map(|limit| format!("eval.tasks={limit}")),
            self.seed.map(|seed| format!("eval.seed={seed}")),
            self.batch.map(|batch| format!("rollout.batch_max={batch}")),
        ];
        Ok(set.into_iter().flatten().chain(self.as_overrides()).collect())
    }

    /// The policy on a benchmark that is played in an environment, whose recipe `overrides` change further.
    ///
    /// # Errors
    /// If the data, the policy or an override is missing or wrong.
    pub(crate) fn playing(
        &self,
        benchmark: &Played,
        step: Option<u64>,
        overrides: &[String],
    ) -> Result<Target, Box<dyn std::error::Error>> {
        let overrides = [&self.of_played(benchmark.name)?, overrides].concat();
        let recipe = benchmark.recipe(self.data.as_deref(), &overrides)?;
        match (&self.policy, self.endpoint()?) {
            (_, Some(endpoint)) if step.is_some() => {
                Err(format!("--step: {} is a server, which has no steps", endpoint.url).into())
            }
            (_, Some(endpoint)) => Ok(Target::served(recipe, endpoint)),
            (Some(policy), None) => Ok(Target::playing(recipe, policy, step)?),
            (None, None) => Err(format!(
                "{}: which policy? Give a model or run directory with --policy DIR, or a server with --policy \
                 http://HOST/v1 --model NAME",
                benchmark.name
            )
            .into()),
        }
    }

    /// The options that correspond to recipe keys, as overrides.
    pub(crate) fn as_overrides(&self) -> Vec<String> {
        let precision = self.place.precision.map(|precision| match precision {
            ComputeType::F32 => "f32",
            ComputeType::Bf16 => "bf16",
        });
        [
            self.place.device.as_ref().map(|device| format!("device=\"{device}\"")),
            precision.map(|precision| format!("policy.precision={precision}")),
            self.place.threads.map(|threads| format!("run.threads={threads}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The server, if the policy is one.
    pub(crate) fn endpoint(&self) -> Result<Option<EndpointConfig>, Box<dyn std::error::Error>> {
        self.place.endpoint(self.policy.as_deref(), "--policy ")
    }
}

/// Prints the benchmarks.
pub(crate) fn list() -> Done {
    for benchmark in BENCHMARKS {
        println!("{:8} {}", benchmark.name, benchmark.title);
        println!("         data      {} ({})", benchmark.source, benchmark.licence);
        println!("         verifier  {}", benchmark.verifier_name());
        let languages = benchmark.languages();
        if !languages.is_empty() {
            println!("         languages {}", languages.join(", "));
        }
        let english = benchmark.parts.iter().find(|part| matches!(part.language, None | Some("en")));
        if let Some(part) = english {
            println!("         prompt    {}", part.prompt("{question}").replace('\n', "\\n"));
        }
    }
    for benchmark in PLAYED {
        println!("{:8} {}", benchmark.name, benchmark.title);
        if let Some(data) = &benchmark.data {
            println!("         data      {} ({})", data.source, data.licence);
        }
        println!("         recipe    {}", benchmark.settings().trim().replace('\n', "\n                   "));
    }
    Ok(())
}

/// Evaluates a policy on a benchmark.
pub(crate) fn run(
    benchmark: &'static Benchmark,
    settings: Settings,
    step: Option<u64>,
    json: bool,
    strategy: Option<&StrategySection>,
) -> Done {
    if let Some(endpoint) = settings.endpoint()? {
        return Err(format!(
            "--policy {}: a benchmark by name needs a model or run directory; a server can be asked by evaluating a recipe \
             whose environment is `rows`: burnish eval RECIPE.toml --policy {} --model {}",
            endpoint.url, endpoint.url, endpoint.model
        )
        .into());
    }
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
        columns: settings.columns.unwrap_or_default(),
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
        device: settings.place.device,
        precision: settings.place.precision,
        threads: settings.place.threads.unwrap_or(0),
    };
    let stop = Stop::default();
    signals::listen(stop.clone(), signals::Work::Evaluation)?;
    // With --json, only the JSON object goes to stdout.
    let mut watch: Box<dyn Watch> = if json { Box::new(NotesAside) } else { Box::new(Progress::new()) };
    if let Some(own) = strategy {
        match benchmark::compare(&options, own, &mut *watch, &stop)? {
            Compared::Done(comparison) => {
                let policy = options.policy.display().to_string();
                return super::strategy::say(&comparison, &policy, options.out.as_deref(), json);
            }
            Compared::Interrupted { done, items } => say_interrupted(done, items, is_kept),
        }
        return Ok(());
    }
    match benchmark::evaluate(&options, &mut *watch, &stop)? {
        Finish::Done(report) if json => out::json(&serde_json::to_string(&*report)?),
        Finish::Done(report) => say(&options, &report),
        Finish::Interrupted { done, items } => say_interrupted(done, items, is_kept),
    }
    Ok(())
}

/// Reports how far an evaluation came that was stopped on request.
pub(crate) fn say_interrupted(done: usize, items: usize, is_kept: bool) {
    let hint = if is_kept {
        format!("go on with the same command: {}", program::again())
    } else {
        "nothing was kept, as there is no --out DIR".to_owned()
    };
    eprintln!("stopped after {done} of {items} items; {hint}");
    signals::leave_unfinished();
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
        Outcome::Failed => "that failed a test",
        Outcome::Raised => "that raised an exception",
        Outcome::OverLimit => "over a limit",
        Outcome::PromptTooLong => "not begun (the prompt is too long)",
    }
}

/// Prints only the notes, and where they do not disturb the JSON.
struct NotesAside;

impl Watch for NotesAside {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Note(note) = event {
            super::say_notes(&[note]);
        }
    }
}
