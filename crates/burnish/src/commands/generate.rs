//! `burnish generate`

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::{Grammar, Policy};
use burnish_data::Columns;
use burnish_recipe::StrategySection;
use burnish_recipe::bounds::ROLLOUTS_MAX;
use burnish_run::generate::{Answer, Answerer, Many, Prompt, answer_all, follow, read_prompts, read_tools};
use burnish_run::strategies::OnTop;
use burnish_run::watch::{Stop, Unwatched, Watch};
use burnish_rundir::files::{FileError, write_atomic_with};
use clap::Args;

use super::Done;
use super::policy::{SamplingArguments, Who};
use crate::answer::AnswerView;
use crate::progress::Progress;
use crate::{out, signals};

/// Failures that are shown one by one.
const SHOWN_FAILURES: usize = 10;

/// Who answers what, and where the answers go.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    who: Who,
    /// The prompt. Without it and without --file, standard input is the prompt.
    #[arg(conflicts_with = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Prompts: rows of a jsonl, csv, tsv or parquet file (`prompt` or `messages`, `tools`, and the names that other
    /// frameworks use), or the lines of a .txt file.
    #[arg(long, value_name = "FILE", value_parser = super::path())]
    file: Option<PathBuf>,
    /// Which column is what, where they have other names: `prompt=question`.
    #[arg(long, value_name = "NAMES", default_value = "auto", requires = "file", value_parser = Columns::parse)]
    columns: Columns,
    /// A system message before every prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw", allow_hyphen_values = true)]
    system: Option<String>,
    /// Continue the text itself, without a chat template.
    #[arg(long)]
    raw: bool,
    /// The beginning of every answer.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw", allow_hyphen_values = true)]
    prefix: Option<String>,
    /// A JSON list of tools (OpenAI function schemas) that may be called, for prompts that bring none.
    #[arg(long, value_name = "FILE", conflicts_with = "raw", value_parser = super::path())]
    tools: Option<PathBuf>,
    /// Answers to each prompt.
    #[arg(long, value_name = "N", default_value = "1", value_parser = super::at_least_one)]
    samples: usize,
    /// Most answers that are sampled at the same time. Changes no answer.
    #[arg(long, value_name = "N", default_value = "64", value_parser = super::at_least_one)]
    batch: usize,
    /// Answer by a strategy: NAME, NAME:key=value,key=value, or a TOML file (docs/reasoning.md).
    #[arg(long, value_name = "STRATEGY", conflicts_with = "raw")]
    strategy: Option<String>,
    /// Print one JSON object per answer.
    #[arg(long, conflicts_with = "out")]
    json: bool,
    /// Write one JSON object per answer to this file.
    #[arg(long, value_name = "FILE", value_parser = super::path())]
    out: Option<PathBuf>,
    /// Replace the file of --out if it is there.
    #[arg(long, requires = "out")]
    overwrite: bool,
    #[command(flatten)]
    sampling: SamplingArguments,
    /// Include the text of --stop in the answer.
    #[arg(long, requires = "stop")]
    include_stop: bool,
    /// Go on after the end of an answer, up to --max-tokens.
    #[arg(long)]
    ignore_eos: bool,
    /// With --json or --out: ids and log-probs of all tokens, and this many of the likeliest at each place.
    #[arg(long, value_name = "N")]
    logprobs: Option<usize>,
    /// The answer is JSON that fits the schema in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "regex", value_parser = super::path())]
    json_schema: Option<PathBuf>,
    /// The answer matches this regular expression as a whole.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    regex: Option<String>,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    if arguments.samples as u64 > ROLLOUTS_MAX {
        return Err(format!("--samples {}: must be {ROLLOUTS_MAX} or less", arguments.samples).into());
    }
    if let Some(out) = arguments.out.as_ref().filter(|out| out.exists() && !arguments.overwrite) {
        return Err(format!("--out {}: exists already; --overwrite replaces it", out.display()).into());
    }
    let strategy = arguments.strategy.as_deref().map(StrategySection::parse).transpose()?;
    let prompts = arguments.prompts()?;
    let tools = arguments.tools.as_deref().map(read_tools).transpose()?.unwrap_or_default();
    let grammar = arguments.grammar()?;
    // What a strategy chooses is not known before it has chosen.
    let is_one = prompts.len() * arguments.samples == 1 && strategy.is_none();
    let is_shown = is_one && !arguments.json && arguments.out.is_none();
    let asked = arguments.who.asked(arguments.batch, arguments.raw, is_shown)?;
    let mut answerer = Answerer::open(&asked)?;
    super::say_notes(answerer.notes());
    let mut options = arguments.sampling.options(grammar);
    options.include_stop = arguments.include_stop;
    options.ignore_eos = arguments.ignore_eos;
    options.logprobs = arguments.logprobs;
    let sampling = answerer.sampling(&options)?;
    if arguments.samples > 1 && sampling.temperature == 0.0 {
        return Err(format!(
            "--samples {}: greedy sampling would give one answer over and over: several samples need a temperature above 0, \
             such as --temperature 0.8",
            arguments.samples
        )
        .into());
    }
    let prefix = arguments.prefix.as_deref().map(|text| answerer.prefix(text)).transpose()?;
    let many = Many {
        prompts,
        tools: Arc::new(tools),
        prefix: prefix.unwrap_or_default(),
        sampling: Arc::new(sampling),
        samples: arguments.samples,
        seed: arguments.sampling.seed.unwrap_or(0),
        ahead: 2 * arguments.batch,
    };
    if is_shown {
        return show_one(&mut answerer, &many, arguments.prefix.as_deref().unwrap_or_default());
    }
    let mut on_top = strategy.as_ref().map(|section| OnTop::new(section, &many.sampling)).transpose()?;
    if let (Some(on_top), Some(section)) = (&mut on_top, &strategy) {
        on_top.check(answerer.policy(), &many.sampling)?;
        let tokenizer = answerer.tokenizer();
        on_top.load(section, asked.device.as_deref().unwrap_or("cpu"), tokenizer.as_deref())?;
    }
    let mut strategist;
    let policy: &mut dyn Policy = match &mut on_top {
        Some(on_top) => {
            strategist = on_top.over(answerer.policy());
            &mut strategist
        }
        None => answerer.policy(),
    };
    match &arguments.out {
        Some(path) => write_all(policy, &many, path, arguments.raw),
        None => print_all(policy, &many, &arguments),
    }
}

impl Arguments {
    /// What is asked.
    fn prompts(&self) -> Result<Vec<Prompt>, Box<dyn std::error::Error>> {
        let prompts = match (&self.prompt, &self.file) {
            (Some(text), _) => vec![Prompt::text(text, "the prompt")],
            (None, Some(file)) => read_prompts(file, &self.columns, self.raw)?,
            (None, None) => vec![Prompt::text(read_stdin()?, "standard input")],
        };
        let with_system = |prompt: Prompt| match &self.system {
            Some(system) => prompt.with_system(system),
            None => Ok(prompt),
        };
        Ok(prompts.into_iter().map(with_system).collect::<Result<_, _>>()?)
    }

    fn grammar(&self) -> Result<Option<Grammar>, Box<dyn std::error::Error>> {
        match (&self.json_schema, &self.regex) {
            (Some(path), _) => {
                let text = std::fs::read_to_string(path).map_err(FileError::on("read", path))?;
                let schema = burnish_core::json::parse(&text);
                let wrong = |error| format!("--json-schema {}: is not JSON: {error}", path.display());
                Ok(Some(Grammar::JsonSchema(schema.map_err(wrong)?)))
            }
            (None, Some(pattern)) => Ok(Some(Grammar::Regex(pattern.clone()))),
            (None, None) => Ok(None),
        }
    }
}

/// The prompt on standard input, without the end of its last line.
fn read_stdin() -> Result<String, Box<dyn std::error::Error>> {
    if io::stdin().is_terminal() {
        return Err("there is no prompt: write it behind the policy, in quotes, or name a file of prompts with --file".into());
    }
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| format!("standard input can't be read: {error}"))?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.is_empty() {
        return Err("standard input is empty, so there is no prompt; write it behind the policy, or name a file with --file".into());
    }
    Ok(text)
}

/// Shows the only answer while it is sampled.
fn show_one(answerer: &mut Answerer, many: &Many, prefix: &str) -> Done {
    let openings = if many.tools_of(&many.prompts[0]).is_empty() { &[] } else { answerer.call_openings() };
    let mut view = AnswerView::new(openings);
    out::answer(prefix);
    let answered =
        follow(answerer.policy(), many.turn(0), &|| !out::is_read(), &mut |partial| view.show(partial));
    // `None`: nobody reads any more.
    let Some(answered) = answered else { return Ok(()) };
    match answered.result {
        Ok(output) => {
            view.finish(&output.message, &output.malformed, prefix);
            Ok(())
        }
        Err(error) => {
            view.end_line();
            Err(format!("{}: {error}", many.prompts[0].place).into())
        }
    }
}

/// What came of all prompts.
#[derive(Debug, Default)]
struct Tally {
    answers: usize,
    failures: usize,
}

impl Tally {
    /// Counts an answer; says why there is none.
    fn add(&mut self, answer: &Answer, many: &Many) {
        let Err(error) = &answer.result else {
            self.answers += 1;
            return;
        };
        self.failures += 1;
        if self.failures <= SHOWN_FAILURES {
            eprintln!("{}: {error}", many.prompts[answer.index].place);
        }
    }

    /// Fails if prompts were not answered, and says if not all of them were asked.
    fn finish(self, many: &Many, is_stopped: bool) -> Done {
        let Tally { answers, failures } = self;
        if failures > SHOWN_FAILURES {
            eprintln!("... and {} more", failures - SHOWN_FAILURES);
        }
        if is_stopped && answers + failures < many.len() {
            eprintln!("stopped after {} of {} answers", answers + failures, many.len());
            signals::leave_unfinished();
        }
        if failures > 0 {
            return Err(format!("{failures} of {} answers failed", many.len()).into());
        }
        Ok(())
    }
}

/// Prints all answers, as text or as JSON.
fn print_all(policy: &mut dyn Policy, many: &Many, arguments: &Arguments) -> Done {
    let stop = Stop::default();
    // Where answers are printed, each shows how far it is.
    let mut watch: Box<dyn Watch> = match io::stdout().is_terminal() || many.len() == 1 {
        true => Box::new(Unwatched),
        false => Box::new(Progress::aside("answer")),
    };
    let mut tally = Tally::default();
    let asked_to_stop = stop.clone();
    answer_all(policy, many, &mut *watch, &stop, &mut |answer| {
        tally.add(&answer, many);
        if arguments.json {
            if let Some(record) = answer.record(many, arguments.raw) {
                out::json(&record.to_string());
            }
        } else {
            print_answer(&answer, many);
        }
        if !out::is_read() {
            asked_to_stop.ask();
        }
    });
    drop(watch);
    let is_cut = !out::is_read();
    tally.finish(many, stop.is_asked() && !is_cut)
}

fn print_answer(answer: &Answer, many: &Many) {
    let Ok(output) = &answer.result else { return };
    let sample = if many.samples > 1 { format!(", sample {}", answer.sample + 1) } else { String::new() };
    println!("=== {}{sample}", many.prompts[answer.index].place);
    AnswerView::new(&[]).finish(&output.message, &output.malformed, "");
    println!();
}

/// Writes all answers to a file, which is there when it is complete.
fn write_all(policy: &mut dyn Policy, many: &Many, path: &Path, is_raw: bool) -> Done {
    let stop = Stop::default();
    signals::listen(stop.clone(), signals::Work::Generation)?;
    let mut watch = Progress::aside("answer");
    let mut tally = Tally::default();
    let written = write_atomic_with(path, |file| {
        let mut file = io::BufWriter::new(file);
        let mut result = Ok(());
        answer_all(policy, many, &mut watch, &stop, &mut |answer| {
            tally.add(&answer, many);
            if let (Ok(()), Some(record)) = (&result, answer.record(many, is_raw)) {
                result = writeln!(file, "{record}");
                if result.is_err() {
                    stop.ask();
                }
            }
        });
        result?;
        match tally.answers {
            // An empty file would be taken for an answer of some kind.
            0 => Err(io::Error::other("there is no answer to write")),
            _ => file.flush(),
        }
    });
    drop(watch);
    let answers = tally.answers;
    // Why there is no answer is said below.
    if answers > 0 || (tally.failures == 0 && !stop.is_asked()) {
        written?;
        println!("{answers} answers in {}", path.display());
    }
    tally.finish(many, stop.is_asked())
}
