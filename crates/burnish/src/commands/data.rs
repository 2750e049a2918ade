//! `burnish data check|show|dialogues|audit`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use burnish_core::{Message, Role};
use burnish_data::overlap::{Counter, NGRAM, Overlap};
use burnish_data::{Columns, Row, Stream, for_each_row};
use burnish_rundir::text::visible_line;
use clap::{Args, Subcommand};

use super::{Done, retrieval};
use crate::out;

/// What to do with data files.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check contamination: which training rows share text with evaluation rows.
    Check(Check),
    /// Make a benchmark of conversational retrieval from texts: dialogues whose answers are in known passages.
    Dialogues(Box<retrieval::Dialogues>),
    /// Judge a benchmark of conversational retrieval, turn by turn.
    Audit(Box<retrieval::Audit>),
    /// Read a whole file, and show its first rows as they are understood.
    Show {
        /// A jsonl or csv file (plain or gzipped), a tsv or a parquet file.
        #[arg(value_parser = super::path())]
        file: PathBuf,
        /// How many rows to show.
        #[arg(long, default_value_t = 3)]
        count: usize,
        /// Which column is which: `auto`, or for example `prompt=question,answer=answer`.
        #[arg(long, default_value = "auto", value_parser = Columns::parse)]
        columns: Columns,
    },
}

/// Compares training rows with evaluation rows.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Files of training rows.
    #[arg(required = true, value_parser = super::path())]
    training: Vec<PathBuf>,
    /// Files of evaluation rows.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE", value_parser = super::path())]
    against: Vec<PathBuf>,
    /// Length in words of a run that a training row must not share with an evaluation row.
    #[arg(long, default_value_t = NGRAM as u16, value_parser = clap::value_parser!(u16).range(1..))]
    ngram: u16,
    /// Columns of the training rows: `auto`, or for example `prompt=question,completion=answer`.
    #[arg(long, default_value = "auto", value_parser = Columns::parse)]
    columns: Columns,
    /// Columns of the evaluation rows, if they differ from those of the training rows.
    #[arg(long, value_parser = Columns::parse)]
    against_columns: Option<Columns>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: Command) -> Done {
    match command {
        Command::Check(check) => run_check(&check),
        Command::Dialogues(arguments) => retrieval::dialogues(&arguments),
        Command::Audit(arguments) => retrieval::audited(&arguments),
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
        out::json(&serde_json::to_string(&report)?);
        return Ok(());
    }
    let mut text = String::new();
    for file in &report.files {
        writeln!(text, "{}: {} of {} rows overlap", file.file, file.overlapping, file.rows)?;
        for example in &file.examples {
            writeln!(
                text,
                "  {}, evaluation row {}: {}",
                example.place, example.evaluation_row, example.words
            )?;
        }
    }
    if report.common_runs > 0 {
        writeln!(text, "{} runs of words that many evaluation rows share do not count", report.common_runs)?;
    }
    println!("{text}{}", report.summary());
    Ok(())
}

fn show(file: &Path, count: usize, columns: &Columns) -> Done {
    let mut text = String::new();
    if let Some(first) = Stream::of(file, columns)?.next() {
        // If the columns can't be determined, reading the rows reports that with its place.
        if let Ok(names) = columns.of(&first?.columns) {
            text = format!("columns: {names}\n");
        }
    }
    let mut rows = 0;
    for_each_row(file, columns, |place, row| {
        rows += 1;
        if rows <= count {
            text += &format!("\n{place}\n{}", shown(&row));
        }
    })?;
    println!("{text}\n{}: {rows} rows", file.display());
    Ok(())
}

fn shown(row: &Row) -> String {
    let mut lines = Vec::new();
    let mut field = |name: &str, text: &str| {
        let text = text.lines().collect::<Vec<_>>().join("\n                       ");
        lines.push(format!("  {name:20} {text}\n"));
    };
    let answers = [("completion", &row.completion), ("chosen", &row.chosen), ("rejected", &row.rejected)];
    let answers = answers.into_iter().map(|(name, answer)| (name, answer.as_deref().unwrap_or_default()));
    for (name, messages) in std::iter::once(("prompt", &row.prompt[..])).chain(answers) {
        for message in messages {
            field(&format!("{name} {}", role(message)), &message.content);
            for call in &message.tool_calls {
                let arguments = burnish_core::json::text(&call.function.arguments).unwrap_or_default();
                field("  calls", &format!("{} {arguments}", call.function.name));
            }
        }
    }
    for (name, text) in [("text", &row.text), ("answer", &row.answer), ("source", &row.source)] {
        text.iter().for_each(|text| field(name, text));
    }
    row.label.iter().for_each(|label| field("label", &label.to_string()));
    row.tools.iter().for_each(|tool| field("tool", &tool.name));
    row.extra
        .iter()
        .for_each(|(name, value)| field(&format!("extra {}", visible_line(name)), &value.to_string()));
    lines.concat()
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}
