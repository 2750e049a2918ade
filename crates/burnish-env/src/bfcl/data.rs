//! Reads the leaderboard's files: rows, possible answers, documents of functions.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::Message;
use burnish_data::{DataError, Place, read_whole};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::apis::{Apis, DOCUMENTS};
use super::calls::{self, Call};
use super::config::{Category, Check};
use super::tools::Function;
use crate::EnvError;

/// A row of the leaderboard.
#[derive(Debug)]
pub(super) struct Row {
    /// Its id (`simple_python_0`).
    pub(super) id: String,
    /// Its category.
    pub(super) category: Category,
    /// What is said to the policy, request by request. A request without messages tells that there are further functions.
    pub(super) turns: Vec<Vec<Message>>,
    /// The functions, in the order of the documents. Rows of the same API share them.
    pub(super) functions: Vec<Arc<Function>>,
    /// Names of functions that are held back, by the request at which they come.
    pub(super) held_back: BTreeMap<usize, Vec<String>>,
    /// What is right.
    pub(super) gold: Gold,
}

/// What is right.
#[derive(Debug)]
pub(super) enum Gold {
    /// These calls, in any order if there are several.
    Calls(Vec<Allowed>),
    /// No call.
    NoCall,
    /// Some call.
    SomeCall,
    /// The states and results that these calls lead to.
    Turns {
        /// The APIs before the first request.
        apis: Box<Apis>,
        /// The gold calls of each request.
        calls: Vec<Vec<Call>>,
    },
}

/// A call that is right, with every value that each argument may have; an empty text among them says that it may be left
/// out.
#[derive(Debug, Clone)]
pub(super) struct Allowed {
    /// Name of the function.
    pub(super) name: String,
    /// Allowed values by argument.
    pub(super) arguments: BTreeMap<String, Vec<Value>>,
}

/// What was read.
pub(super) struct Read {
    pub(super) rows: Vec<Row>,
    pub(super) files: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SingleRow {
    id: String,
    question: Vec<Vec<Message>>,
    function: Vec<Function>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnsRow {
    id: String,
    question: Vec<Vec<Message>>,
    initial_config: Map<String, Value>,
    involved_classes: Vec<String>,
    #[serde(default)]
    missed_function: BTreeMap<String, Vec<String>>,
    /// The functions that the row's author had in mind. Not used by the leaderboard.
    #[serde(default, rename = "path")]
    _path: Vec<String>,
    /// Not used by the leaderboard either: these functions are offered all the same.
    #[serde(default, rename = "excluded_function")]
    _excluded_function: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer<T> {
    id: String,
    ground_truth: Vec<T>,
}

/// Reads the rows of the categories below `folder`.
///
/// # Errors
/// Names file, line and field of the first thing that is not as it should be.
pub(super) fn read(folder: &Path, categories: &[Category]) -> Result<Read, EnvError> {
    let mut files = Files { folder, used: Vec::new() };
    let mut rows = Vec::new();
    let mut documents = HashMap::new();
    for &category in categories {
        let file = format!("BFCL_v4_{}", category.name());
        match category.check() {
            Check::Turns => rows.extend(turns(&mut files, category, &file, &mut documents)?),
            _ => rows.extend(single(&mut files, category, &file)?),
        }
    }
    Ok(Read { rows, files: files.used })
}

/// The files of a folder, and those that were read.
struct Files<'a> {
    folder: &'a Path,
    used: Vec<PathBuf>,
}

impl Files<'_> {
    /// The lines of a file, which ends in `.jsonl` or, in the leaderboard's repository, in `.json`.
    fn lines<T: DeserializeOwned>(&mut self, name: &str) -> Result<(PathBuf, Vec<T>), DataError> {
        let with = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        let path = [with("jsonl"), with("json")].into_iter().find(|path| path.is_file());
        let path = path.ok_or_else(|| {
            let problem = "is not there, nor is it as `.json`; get BFCL's data (`bfcl_eval/data` of \
                 github.com/ShishirPatil/gorilla), or leave its category out of `category`";
            DataError::file(&with("jsonl"), problem)
        })?;
        let text = String::from_utf8(read_whole(&path)?)
            .map_err(|error| DataError::file(&path, format!("is not UTF-8: {error}")))?;
        let mut found = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            found.push(serde_json::from_str(line).map_err(|error| at_line(&path, at, error.to_string()))?);
        }
        if found.is_empty() {
            return Err(DataError::file(&path, "has no rows"));
        }
        self.used.push(path.clone());
        Ok((path, found))
    }
}

fn at_line(path: &Path, at: usize, problem: impl Into<String>) -> DataError {
    DataError::at(path, Place::Line(at as u64 + 1), problem)
}

/// The answers to as many rows, by the places of the rows.
fn answers<T: DeserializeOwned>(
    files: &mut Files<'_>,
    file: &str,
    ids: &[&str],
) -> Result<(PathBuf, Vec<Vec<T>>), DataError> {
    let (path, answers) = files.lines::<Answer<T>>(&format!("possible_answer/{file}"))?;
    if answers.len() != ids.len() {
        let problem = format!("has {} answers, but the category has {} rows", answers.len(), ids.len());
        return Err(DataError::file(&path, problem));
    }
    if let Some(at) = answers.iter().zip(ids).position(|(answer, id)| answer.id != *id) {
        let problem = format!("id: is `{}`, but the row of this line is `{}`", answers[at].id, ids[at]);
        return Err(at_line(&path, at, problem));
    }
    Ok((path, answers.into_iter().map(|answer| answer.ground_truth).collect()))
}

/// The rows of a category of one turn.
fn single(files: &mut Files<'_>, category: Category, file: &str) -> Result<Vec<Row>, DataError> {
    let (path, rows) = files.lines::<SingleRow>(file)?;
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let gold: Vec<Gold> = match category.check() {
        Check::NoCall => rows.iter().map(|_| Gold::NoCall).collect(),
        Check::SomeCall => rows.iter().map(|_| Gold::SomeCall).collect(),
        _ => {
            let (path, answers) =
                answers::<BTreeMap<String, BTreeMap<String, Vec<Value>>>>(files, file, &ids)?;
            let calls = answers.into_iter().zip(&rows).enumerate().map(|(at, (answer, row))| {
                let calls = answer.into_iter().map(|call| allowed(call, &row.function));
                let calls: Result<Vec<Allowed>, String> = calls.collect();
                match calls {
                    Ok(calls) if calls.is_empty() => Err(at_line(&path, at, "ground_truth: has no call")),
                    Ok(calls) => Ok(Gold::Calls(calls)),
                    Err(problem) => Err(at_line(&path, at, format!("ground_truth: {problem}"))),
                }
            });
            calls.collect::<Result<_, _>>()?
        }
    };
    let row = |(at, (row, gold)): (usize, (SingleRow, Gold))| {
        let SingleRow { id, question, function: functions } = row;
        if question.len() != 1 || question[0].is_empty() {
            return Err(at_line(&path, at, format!("question: must have one turn, not {}", question.len())));
        }
        for function in &functions {
            let problem = |problem| at_line(&path, at, format!("function `{}`: {problem}", function.name));
            function.parameters().map_err(problem)?;
        }
        if functions.is_empty() {
            return Err(at_line(&path, at, "function: has no function"));
        }
        let functions = functions.into_iter().map(Arc::new).collect();
        Ok(Row { id, category, turns: question, functions, held_back: BTreeMap::new(), gold })
    };
    rows.into_iter().zip(gold).enumerate().map(row).collect()
}

fn allowed(
    call: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
    functions: &[Function],
) -> Result<Allowed, String> {
    let count = call.len();
    let mut calls = call.into_iter();
    let (Some((name, arguments)), None) = (calls.next(), calls.next()) else {
        return Err(format!("a call names one function, not {count}"));
    };
    if !functions.iter().any(|function| function.name == name) {
        return Err(format!("there is no function `{name}` in the row"));
    }
    Ok(Allowed { name, arguments })
}

/// The rows of a category of several turns.
fn turns(
    files: &mut Files<'_>,
    category: Category,
    file: &str,
    documents: &mut HashMap<String, Vec<Arc<Function>>>,
) -> Result<Vec<Row>, DataError> {
    let (path, rows) = files.lines::<TurnsRow>(file)?;
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let (answers_path, answers) = answers::<Vec<String>>(files, file, &ids)?;
    let mut found = Vec::with_capacity(rows.len());
    for (at, (row, answer)) in rows.into_iter().zip(answers).enumerate() {
        let wrong = |problem: String| at_line(&path, at, problem);
        let mut functions = Vec::new();
        for class in &row.involved_classes {
            let Some((_, document)) = DOCUMENTS.iter().find(|(name, _)| name == class) else {
                return Err(wrong(format!("involved_classes: there is no API `{class}` here")));
            };
            if !documents.contains_key(class) {
                let (path, read) = files.lines::<Function>(&format!("multi_turn_func_doc/{document}"))?;
                for (at, function) in read.iter().enumerate() {
                    function.parameters().map_err(|problem| at_line(&path, at, problem))?;
                }
                documents.insert(class.clone(), read.into_iter().map(Arc::new).collect());
            }
            functions.extend(documents[class].iter().cloned());
        }
        let apis = Apis::new(&row.involved_classes, &row.initial_config)
            .map_err(|problem| wrong(format!("initial_config.{problem}")))?;
        let held_back = held_back(&row, &functions).map_err(wrong)?;
        let in_answer = |problem: String| at_line(&answers_path, at, format!("ground_truth: {problem}"));
        if answer.len() != row.question.len() {
            let problem = format!("has {} turns, but the row has {}", answer.len(), row.question.len());
            return Err(in_answer(problem));
        }
        let read = |text: &String| calls::read(text, &functions).map_err(in_answer);
        let calls = answer.iter().map(|turn| turn.iter().map(read).collect());
        let calls = calls.collect::<Result<_, _>>()?;
        let gold = Gold::Turns { apis: Box::new(apis), calls };
        found.push(Row { id: row.id, category, turns: row.question, functions, held_back, gold });
    }
    Ok(found)
}

/// The functions that a row holds back, by the place of the request that brings them.
fn held_back(row: &TurnsRow, functions: &[Arc<Function>]) -> Result<BTreeMap<usize, Vec<String>>, String> {
    let mut found = BTreeMap::new();
    for (turn, names) in &row.missed_function {
        let place =
            turn.parse::<usize>().ok().filter(|place| row.question.get(*place).is_some_and(Vec::is_empty));
        let place = place.ok_or_else(|| {
            format!("missed_function: `{turn}` is not the place of a turn without messages")
        })?;
        if let Some(name) =
            names.iter().find(|name| !functions.iter().any(|function| function.name == **name))
        {
            return Err(format!("missed_function: there is no function `{name}`"));
        }
        found.insert(place, names.clone());
    }
    let silent = |(place, turn): (usize, &Vec<Message>)| turn.is_empty() && !found.contains_key(&place);
    match row.question.iter().enumerate().any(silent) {
        true => Err("question: has a turn without messages that brings no function".to_owned()),
        false => Ok(found),
    }
}
