//! `burnish verify`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use burnish_data::{DataError, Stream};
use burnish_verify::{Explanation, Gold, Reading, Reason, Verifier};
use clap::Args;
use serde_json::{Map, Value, json};

use super::Done;
use crate::out;

/// Names of the column with the response; the first one that exists is used.
const RESPONSES: [&str; 8] =
    ["response", "completion", "prediction", "pred", "output", "model_output", "generation", "solution_str"];

/// Names of the column with the reference answer, as `burnish-data` looks for them.
const GOLDS: [&str; 7] =
    ["gold", "answer", "ground_truth", "reference", "solution", "label", "reward_model.ground_truth"];

/// Judge responses: prints the verdict, the reason, and how both sides were read.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The verifier: number, math, choice, exact, text, json or abstention.
    #[arg(value_parser = verifier)]
    verifier: Verifier,
    /// How the answer of a response is found: `mark` (only where it is marked) or `last` (else the last value).
    #[arg(long, default_value = "last")]
    reading: Reading,
    /// Responses to judge against `--gold`.
    #[arg(conflicts_with = "data", requires = "gold", allow_hyphen_values = true)]
    responses: Vec<String>,
    /// The reference answer.
    #[arg(long, conflicts_with = "data", allow_hyphen_values = true)]
    gold: Option<String>,
    /// A file of rows, each with a response and a reference.
    #[arg(long, value_name = "FILE", required_unless_present = "gold", value_parser = super::path())]
    data: Option<PathBuf>,
    /// The column with the response; `a.b` is field `b` of column `a`.
    #[arg(long, value_name = "COLUMN", requires = "data")]
    response_column: Option<String>,
    /// The column with the reference answer. If it is a worked solution that ends in `#### ANSWER`, that answer is
    /// used.
    #[arg(long, value_name = "COLUMN", requires = "data")]
    gold_column: Option<String>,
    /// Print one JSON object per row, and one with the counts.
    #[arg(long)]
    json: bool,
}

fn verifier(name: &str) -> Result<Verifier, String> {
    let known = Verifier::ALL.into_iter().find(|verifier| verifier.name() == name);
    known.ok_or_else(|| format!("there are {}", Verifier::ALL.map(Verifier::name).join(", ")))
}

/// Number of rows per outcome.
#[derive(Debug, Default)]
struct Counts {
    correct: usize,
    different: usize,
    unreadable: usize,
    no_answer: usize,
    /// Rows whose reference or response is none, and the first of them with what is wrong.
    not_judged: usize,
    first_problem: Option<String>,
}

impl Counts {
    fn add(&mut self, reason: Reason) {
        *match reason {
            Reason::Correct => &mut self.correct,
            Reason::Different => &mut self.different,
            Reason::Unreadable => &mut self.unreadable,
            Reason::NoAnswer => &mut self.no_answer,
        } += 1;
    }

    fn rows(&self) -> usize {
        self.correct + self.different + self.unreadable + self.no_answer
    }
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let mut counts = Counts::default();
    let mut shown = |place: &str, judged: Result<&Explanation, String>| match judged {
        Ok(explained) => {
            counts.add(explained.judgement.reason);
            if arguments.json {
                out::json(line(place, explained).trim_end());
            } else {
                print!("{}", block(place, explained));
            }
        }
        Err(problem) => {
            counts.not_judged += 1;
            if arguments.json {
                out::json(&json!({ "at": place, "error": problem }).to_string());
            } else {
                println!("{place}: not judged: {}", printable(&problem));
            }
            counts.first_problem.get_or_insert(format!("{place}: {problem}"));
        }
    };
    if let Some(file) = &arguments.data {
        judge_file(&arguments, file, &mut shown)?;
    } else if let Some(gold) = &arguments.gold {
        let gold = arguments.verifier.gold(gold)?.with_reading(arguments.reading);
        if arguments.responses.is_empty() {
            return Err("there is no response: write it behind the verifier, in quotes".into());
        }
        for (index, response) in arguments.responses.iter().enumerate() {
            shown(&format!("response {}", index + 1), Ok(&gold.explain(response)));
        }
    }
    let rows = counts.rows();
    let Counts { correct, different, unreadable, no_answer, not_judged, first_problem } = counts;
    if arguments.json {
        let counts = json!({
            "rows": rows, "correct": correct, "different": different, "unreadable": unreadable, "no_answer": no_answer,
            "not_judged": not_judged
        });
        out::json(&json!({ "summary": counts }).to_string());
    } else {
        let others = if not_judged > 0 { format!("; {not_judged} more not judged") } else { String::new() };
        println!(
            "{correct} of {rows} correct, {different} different, {unreadable} unreadable, {no_answer} without an \
             answer{others}"
        );
    }
    match first_problem {
        Some(problem) if rows == 0 => Err(format!("no row could be judged; the first one: {problem}").into()),
        _ => Ok(()),
    }
}

fn judge_file(
    arguments: &Arguments,
    file: &Path,
    shown: &mut impl FnMut(&str, Result<&Explanation, String>),
) -> Done {
    // Many rows have the same reference, so it is parsed once.
    let mut last: Option<(String, Gold)> = None;
    for (index, record) in Stream::open(file)?.enumerate() {
        let record = record?;
        let columns = &record.columns;
        let found = column(columns, arguments.response_column.as_deref(), &RESPONSES, "response").and_then(
            |response| Ok((response, column(columns, arguments.gold_column.as_deref(), &GOLDS, "gold")?)),
        );
        let judged = match found {
            Ok((response, gold)) => judge(arguments, response, gold, &mut last),
            // What the first row lacks is probably no column of the file.
            Err(problem) if index == 0 => return Err(DataError::at(file, record.place, problem).into()),
            Err(problem) => Err(problem),
        };
        shown(&record.place.to_string(), judged.as_ref().map_err(Clone::clone));
    }
    Ok(())
}

/// Judges one row, or says why it can't be judged.
fn judge(
    arguments: &Arguments,
    response: &Value,
    gold: &Value,
    last: &mut Option<(String, Gold)>,
) -> Result<Explanation, String> {
    let response = said(response).ok_or("the response is neither a text nor a list of messages")?;
    let gold = reference(gold).ok_or("the reference answer is neither a text nor a number")?;
    let gold = match last {
        Some((text, read)) if *text == gold => read,
        _ => {
            let read = arguments.verifier.gold(&gold).map_err(|error| error.to_string())?;
            &mut last.insert((gold, read.with_reading(arguments.reading))).1
        }
    };
    Ok(gold.explain(&response))
}

/// The named column, or the first of `known` that exists.
fn column<'a>(
    row: &'a Map<String, Value>,
    named: Option<&str>,
    known: &[&str],
    what: &str,
) -> Result<&'a Value, String> {
    let columns = || row.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match named {
        Some(name) => {
            field(row, name).ok_or_else(|| format!("there is no column `{name}`; there are {}", columns()))
        }
        None => {
            known.iter().filter_map(|name| field(row, name)).min_by_key(|value| value.is_null()).ok_or_else(
                || {
                    format!(
                        "no column is known as the {what}; name it by `--{what}-column`; there are {}",
                        columns()
                    )
                },
            )
        }
    }
}

/// The value of column `a`, or for `a.b` that of its field `b`.
fn field<'a>(row: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = row.get(name) {
        return Some(value);
    }
    let (column, rest) = name.split_once('.')?;
    field(row.get(column)?.as_object()?, rest)
}

/// A response: a text, or the last message of a list.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(messages) => messages.last()?.get("content")?.as_str().map(str::to_owned),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A reference: as it is, the part after the last `####` of a worked solution, or a list of items for `text`.
fn reference(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => {
            Some(text.rsplit_once("####").map_or(text.as_str(), |(_, answer)| answer).trim().to_owned())
        }
        Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
        Value::Null => None,
    }
}

fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Correct => "correct",
        Reason::Different => "different",
        Reason::Unreadable => "unreadable",
        Reason::NoAnswer => "no answer",
    }
}

fn line(place: &str, explained: &Explanation) -> String {
    format!(
        "{}\n",
        json!({
            "at": place,
            "is_correct": explained.judgement.is_correct,
            "reason": explained.judgement.reason,
            "reference": explained.reference,
            "place": explained.place,
            "found": explained.judgement.answer,
            "answer": explained.answer,
        })
    )
}

fn block(place: &str, explained: &Explanation) -> String {
    let mut text = format!(
        "{place}: {}\n  reference  {}\n",
        name(explained.judgement.reason),
        shortened(&explained.reference)
    );
    if let Some(found) = &explained.judgement.answer {
        let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
        let whence = explained.place.map_or("the response", |place| place.description());
        let read = explained.answer.as_deref().unwrap_or("no single answer");
        let _ =
            writeln!(text, "  answer     {read}\n  read from  {} in {whence}", shortened(&printable(&found)));
    }
    text
}

/// Text without characters that a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
