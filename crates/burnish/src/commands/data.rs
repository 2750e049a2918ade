//! `burnish data check|show`

use std::path::{Path, PathBuf};

use burnish_core::{Message, Role};
use burnish_data::overlap::{Counter, NGRAM, Overlap, OverlapReport};
use burnish_data::{Columns, Row, Stream, for_each_row};
use clap::{Args, Subcommand};

use super::Done;

/// What to do with data files.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Decontamination: which training rows share text with evaluation rows.
    Check(Check),
    /// Read a file to its end and show its first rows, as they are understood.
    Show {
        /// A jsonl (packed with gzip or not) or parquet file.
        file: PathBuf,
        /// How many rows to show.
        #[arg(long, default_value_t = 3)]
        count: usize,
        /// Which column is what: `auto`, or such as `prompt=question,answer=answer`.
        #[arg(long, default_value = "auto", value_parser = Columns::parse)]
        columns: Columns,
    },
}

/// Training rows against evaluation rows.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Files of training rows.
    #[arg(required = true)]
    training: Vec<PathBuf>,
    /// Files of evaluation rows.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    against: Vec<PathBuf>,
    /// Words of a run that a training row must not share with an evaluation row.
    #[arg(long, default_value_t = NGRAM as u16, value_parser = clap::value_parser!(u16).range(1..))]
    ngram: u16,
    /// Columns of the training rows: `auto`, or such as `prompt=question,completion=answer`.
    #[arg(long, default_value = "auto", value_parser = Columns::parse)]
    columns: Columns,
    /// Columns of the evaluation rows, where they differ from those of the training rows.
    #[arg(long, value_parser = Columns::parse)]
    against_columns: Option<Columns>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: Command) -> Done {
    match command {
        Command::Check(check) => run_check(&check),
        Command::Show { file, count, columns } => show(&file, count, &columns),
    }
}

fn run_check(check: &Check) -> Done {
    let mut overlap = Overlap::new(check.ngram.into());
    for file in &check.against {
        let columns = check.against_columns.as_ref().unwrap_or(&check.columns);
        for_each_row(file, columns, |_, row| overlap.add(&row))?;
    }
    let mut counter = Counter::new(&overlap);
    for file in &check.training {
        counter.count_file(file, &check.columns)?;
    }
    let report = counter.report();
    if check.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        say(&report);
    }
    Ok(())
}

fn say(report: &OverlapReport) {
    for file in &report.files {
        println!("{}: {} of {} rows overlap", file.file, file.overlapping, file.rows);
        for example in &file.examples {
            println!("  {}, evaluation row {}: {}", example.place, example.evaluation_row, example.words);
        }
    }
    if report.common_runs > 0 {
        println!("{} runs of words that many evaluation rows share do not count", report.common_runs);
    }
    println!("{}", report.summary());
}

fn show(file: &Path, count: usize, columns: &Columns) -> Done {
    if let Some(first) = Stream::open(file)?.next() {
        // Where they can't be found out, reading the rows says so with its place.
        if let Ok(names) = columns.of(&first?.columns) {
            println!("columns: {names}");
        }
    }
    let mut rows = 0;
    for_each_row(file, columns, |place, row| {
        rows += 1;
        if rows <= count {
            println!("\n{place}");
            show_row(&row);
        }
    })?;
    println!("\n{}: {rows} rows", file.display());
    Ok(())
}

fn show_row(row: &Row) {
    let messages = |name: &str, messages: &[Message]| {
        for message in messages {
            let role = match message.role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            field(&format!("{name} {role}"), &message.content);
            for call in &message.tool_calls {
                field("  calls", &format!("{} {}", call.function.name, call.function.arguments));
            }
        }
    };
    messages("prompt", &row.prompt);
    let answers = [("completion", &row.completion), ("chosen", &row.chosen), ("rejected", &row.rejected)];
    for (name, answer) in answers {
        messages(name, answer.as_deref().unwrap_or_default());
    }
    for (name, text) in [("text", &row.text), ("answer", &row.answer), ("source", &row.source)] {
        text.iter().for_each(|text| field(name, text));
    }
    row.label.iter().for_each(|label| field("label", &label.to_string()));
    row.tools.iter().for_each(|tool| field("tool", &tool.name));
    row.extra.iter().for_each(|(name, value)| field(&format!("extra {name}"), &value.to_string()));
}

fn field(name: &str, text: &str) {
    let text = text.lines().collect::<Vec<_>>().join("\n                       ");
    println!("  {name:20} {text}");
}
