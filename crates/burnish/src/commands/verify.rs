//! `burnish verify`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use burnish_data::{DataError, Stream};
use burnish_run::extractor::Extractor;
use burnish_verify::{Explanation, Gold, Reading, Reason, Verifier, extracted, extraction, is_marked};
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

/// Most tokens of an answer that a model copies.
const EXTRACTED_TOKENS_MAX: usize = 64;

/// Rows whose answers are asked for together.
const ASKED_AT_ONCE: usize = 64;

/// Receives each verdict with its place.
type Shown<'a> = &'a mut dyn FnMut(&str, Result<&Explanation, String>);

/// Judge responses: prints the verdict, the reason, and how both sides were read.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The verifier: number, math, choice, exact, text, json or abstention.
    #[arg(value_parser = verifier)]
    verifier: Verifier,
    /// The way to the answer of a response: `mark` (only where it is marked), `last` (else the last value), or `judge`
    /// (else a model copies it: `--extractor`).
    #[arg(long, default_value = "last")]
    reading: Reading,
    /// The model that copies answers for `--reading judge`: a directory, or the address of an OpenAI-compatible server.
    #[arg(long, value_name = "PATH_OR_URL", required_if_eq("reading", "judge"))]
    extractor: Option<String>,
    /// The name of the model on that server.
    #[arg(long, value_name = "NAME", requires = "extractor", default_value = "default")]
    extractor_model: String,
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
    let mut reader = Reader::new(&arguments)?;
    if let Some(file) = &arguments.data {
        judge_file(&arguments, file, &mut reader, &mut shown)?;
    } else if let Some(gold) = &arguments.gold {
        if arguments.responses.is_empty() {
            return Err("there is no response: write it behind the verifier, in quotes".into());
        }
        // A reference that is none is the command's error, not a response's.
        arguments.verifier.gold(gold)?;
        let pairs = arguments.responses.iter().enumerate().map(|(index, response)| {
            let pair = Pair { task: String::new(), response: response.clone(), gold: gold.clone() };
            (format!("response {}", index + 1), Ok(pair))
        });
        reader.judge(pairs.collect(), &mut shown)?;
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

/// A response to judge, and the reference.
struct Pair {
    /// The question, where a column has it.
    task: String,
    response: String,
    gold: String,
}

/// A place, and the pair to judge there, or why there is none.
type Placed = (String, Result<Pair, String>);

/// Judges responses, and asks the model for answers that nothing marks.
struct Reader {
    verifier: Verifier,
    reading: Reading,
    extractor: Option<Extractor>,
    /// Many rows have the same reference, so it is parsed once.
    last: Option<(String, Gold)>,
}

impl Reader {
    fn new(arguments: &Arguments) -> Result<Self, Box<dyn std::error::Error>> {
        let named = arguments.extractor.as_deref().filter(|_| arguments.reading == Reading::Judge);
        let extractor = named.map(|named| Extractor::open(named, &arguments.extractor_model));
        Ok(Reader {
            verifier: arguments.verifier,
            reading: arguments.reading,
            extractor: extractor.transpose()?,
            last: None,
        })
    }

    /// Judges some places in their order.
    fn judge(&mut self, placed: Vec<Placed>, shown: Shown<'_>) -> Done {
        let is_asked = |pair: &Pair| !is_marked(&pair.response) && !pair.response.trim().is_empty();
        let mut said = Vec::new().into_iter();
        if let Some(extractor) = &mut self.extractor {
            let pairs = placed.iter().filter_map(|(_, pair)| pair.as_ref().ok());
            let asked = pairs.filter(|pair| is_asked(pair));
            let questions = asked.map(|pair| extraction(&pair.task, &pair.response)).collect();
            said = extractor.ask(questions, EXTRACTED_TOKENS_MAX)?.into_iter();
        }
        for (place, pair) in placed {
            let judged = pair.and_then(|pair| {
                let said = if is_asked(&pair) { said.next() } else { None };
                let gold = self.gold(&pair.gold)?;
                match said {
                    Some(said) => Ok(gold.explain_extracted(extracted(&pair.response, &said)?.as_deref())),
                    None => Ok(gold.explain(&pair.response)),
                }
            });
            shown(&place, judged.as_ref().map_err(Clone::clone));
        }
        Ok(())
    }

    fn gold(&mut self, text: &str) -> Result<&Gold, String> {
        let known = self.last.take().filter(|(known, _)| known == text);
        let (_, gold) = match known {
            Some(known) => self.last.insert(known),
            None => {
                let gold = self.verifier.gold(text).map_err(|error| error.to_string())?;
                self.last.insert((text.to_owned(), gold.with_reading(self.reading)))
            }
        };
        Ok(gold)
    }
}

fn judge_file(arguments: &Arguments, file: &Path, reader: &mut Reader, shown: Shown<'_>) -> Done {
    let mut waiting = Vec::new();
    for (index, record) in Stream::open(file)?.enumerate() {
        let record = record?;
        let columns = &record.columns;
        let found = column(columns, arguments.response_column.as_deref(), &RESPONSES, "response").and_then(
            |response| Ok((response, column(columns, arguments.gold_column.as_deref(), &GOLDS, "gold")?)),
        );
        let pair = match found {
            Ok((response, gold)) => pair(columns, response, gold),
            // What the first row lacks is probably no column of the file.
            Err(problem) if index == 0 => return Err(DataError::at(file, record.place, problem).into()),
            Err(problem) => Err(problem),
        };
        waiting.push((record.place.to_string(), pair));
        if waiting.len() == ASKED_AT_ONCE {
            reader.judge(std::mem::take(&mut waiting), shown)?;
        }
    }
    reader.judge(waiting, shown)
}

/// The pair of a row.
fn pair(columns: &Map<String, Value>, response: &Value, gold: &Value) -> Result<Pair, String> {
    let response = said(response).ok_or("the response is neither a text nor a list of messages")?;
    let gold = reference(gold).ok_or("the reference answer is neither a text nor a number")?;
    let task = ["prompt", "question", "problem"].iter().find_map(|name| said(field(columns, name)?));
    Ok(Pair { task: task.unwrap_or_default(), response, gold })
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
