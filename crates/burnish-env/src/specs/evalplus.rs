//! The track of real functions: those of EvalPlus (Liu et al. 2023, arXiv:2305.01210), with its contracts and inputs.
//!
//! A contract decides which inputs are valid; the canonical program gives the right outputs; mutants of it give near
//! misses, kept only where their output differs from the right one. That is sound only for functions with one right
//! answer, so those that EvalPlus itself compares otherwise are left out ([`MANY_ANSWERS`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Task};
use burnish_data::{DataError, read_whole};
use burnish_sandbox::{Job, Limits, Outcome, Part};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::report::Cases;
use super::{ID, Specs, Truth};
use crate::settings::{config_error, to_value};
use crate::tasks::{seed_of, task};
use crate::{CellReport, EnvError, TaskSet};

/// Why nothing may be trained on these tasks.
pub(super) const TEST_ONLY: &str = "EvalPlus's problems are a test set: they are for `burnish eval` and never for training; train on the \
    track `generated`";

/// Makes the cases of a problem.
const PREPARE: &str = include_str!("evalplus.py");

/// Functions with many right answers: EvalPlus compares their outputs as sets, by their truth, or by a check of their own.
pub(super) const MANY_ANSWERS: [&str; 16] = [
    "find_zero",
    "similar_elements",
    "find_char_long",
    "common_in_nested_lists",
    "extract_singly",
    "larg_nnum",
    "intersection_array",
    "find_dissimilar",
    "Diff",
    "check_str",
    "text_match_three",
    "text_starta_endb",
    "are_equivalent",
    "sum_div",
    "surface_Area",
    "digit_distance_nums",
];

/// A function of EvalPlus.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    id: String,
    /// What the policy reads of it.
    says: String,
    /// Whether `says` has examples.
    has_examples: bool,
    program: String,
    entry: String,
    /// Its row as it is in the file, with contract and inputs: only Python reads all of Python's JSON, which has
    /// infinities and whole numbers of any size.
    row: String,
    /// The row with more inputs, if there is one.
    more: Option<String>,
}

/// A row of any of the files. Their kinds have different fields.
#[derive(Debug, Deserialize)]
struct Row {
    task_id: Option<String>,
    prompt: Option<String>,
    entry_point: Option<String>,
    canonical_solution: Option<String>,
    contract: Option<String>,
    reference: Option<String>,
    base_input: Option<Vec<IgnoredAny>>,
    /// More inputs of HumanEval's problems.
    inputs: Option<Vec<IgnoredAny>>,
}

/// The text of a row without what Python's JSON has and JSON has not: infinities and `NaN` become `null`.
fn readable(text: &str) -> String {
    let mut readable = String::with_capacity(text.len());
    let (mut is_text, mut is_escaped) = (false, false);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let odd = ["-Infinity", "Infinity", "NaN"].into_iter().find(|odd| !is_text && rest.starts_with(odd));
        if let Some(odd) = odd {
            readable.push_str("null");
            rest = &rest[odd.len()..];
            continue;
        }
        match next {
            '"' if !is_escaped => is_text = !is_text,
            _ => {}
        }
        is_escaped = is_text && next == '\\' && !is_escaped;
        readable.push(next);
        rest = &rest[next.len_utf8()..];
    }
    readable
}

/// The files that these paths name: of a folder, those that are JSON lines.
pub(super) fn files(paths: &[String]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths.iter().map(Path::new) {
        let Ok(entries) = std::fs::read_dir(path) else {
            files.push(path.to_owned());
            continue;
        };
        let is_rows = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
        };
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_rows).collect();
        inside.sort();
        files.extend(inside);
    }
    files
}

/// Everything that was read.
#[derive(Default)]
struct Found {
    /// HumanEval's own rows by number: prompt and entry point.
    prompts: BTreeMap<usize, (String, String)>,
    /// EvalPlus's rows of HumanEval, whose number is their place.
    plus: Vec<(PathBuf, Row, String)>,
    more: BTreeMap<usize, String>,
    mbpp: BTreeMap<String, Problem>,
}

/// Reads the problems of these paths; none without paths.
///
/// # Errors
/// If a file can't be read or is none of EvalPlus's, or prompts of HumanEval are missing.
pub(super) fn read(paths: &[String]) -> Result<Vec<Problem>, EnvError> {
    let mut found = Found::default();
    for path in files(paths) {
        let wrong = |problem: String| EnvError::from(DataError::file(&path, problem));
        let bytes = read_whole(&path)?;
        let text = std::str::from_utf8(&bytes).map_err(|error| wrong(format!("is no UTF-8: {error}")))?;
        for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let wrong = |problem: String| wrong(format!("line {}: {problem}", line + 1));
            let row = serde_json::from_str(&readable(text)).map_err(|error| wrong(error.to_string()))?;
            found.add(&path, row, text.to_owned()).map_err(wrong)?;
        }
    }
    let mut problems: Vec<Problem> = Vec::new();
    for (number, (path, row, text)) in found.plus.into_iter().enumerate() {
        let Some((prompt, entry)) = found.prompts.get(&number) else {
            let problem = format!(
                "the prompt of HumanEval/{number} is missing: EvalPlus's file {} has none, so name HumanEval.jsonl too",
                path.display()
            );
            return Err(config_error("path", &problem));
        };
        problems.push(Problem {
            id: format!("HumanEval/{number}"),
            says: format!("{}\n", prompt.trim_end()),
            has_examples: true,
            program: format!("{prompt}{}", row.reference.unwrap_or_default()),
            entry: entry.clone(),
            row: text,
            more: found.more.remove(&number),
        });
    }
    problems.extend(found.mbpp.into_values());
    if problems.is_empty() && !paths.is_empty() {
        return Err(config_error("path", "there is no problem of EvalPlus in these files"));
    }
    Ok(problems)
}

impl Found {
    fn add(&mut self, path: &Path, row: Row, text: String) -> Result<(), String> {
        let id = row.task_id.clone().unwrap_or_default();
        let number = |prefix: &str| id.strip_prefix(prefix).and_then(|number| number.parse::<usize>().ok());
        let unknown = "is no row of HumanEvalPlus, HumanEvalPlusInputs, HumanEval or MbppPlus";
        if let (Some(number), true) = (number("HumanEval_"), row.inputs.is_some()) {
            self.more.insert(number, text);
        } else if let (Some(number), Some(prompt), Some(entry)) =
            (number("HumanEval/"), &row.prompt, &row.entry_point)
        {
            self.prompts.insert(number, (prompt.clone(), entry.clone()));
        } else if row.reference.is_some() && row.contract.is_some() && row.base_input.is_some() {
            self.plus.push((path.to_owned(), row, text));
        } else if id.starts_with("Mbpp/") {
            let (Some(prompt), Some(entry), Some(program), true, true) = (
                row.prompt,
                row.entry_point,
                row.canonical_solution,
                row.contract.is_some(),
                row.base_input.is_some(),
            ) else {
                return Err(format!("{id} {unknown}: a field is missing"));
            };
            let says = prompt.trim().trim_matches('\'').trim_matches('"').trim().to_owned();
            // Of two files with the same problem, the one with fewer inputs adds nothing.
            if self.mbpp.get(&id).is_none_or(|known| known.row.len() < text.len()) {
                let (row, more) = (text, None);
                self.mbpp
                    .insert(id.clone(), Problem { id, says, has_examples: false, program, entry, row, more });
            }
        } else {
            return Err(unknown.to_owned());
        }
        Ok(())
    }
}

/// What `evalplus.py` answers.
#[derive(Debug, Deserialize)]
struct Prepared {
    left_out: Option<String>,
    #[serde(default)]
    inputs: usize,
    #[serde(default)]
    signature: String,
    #[serde(default)]
    examples: Vec<String>,
    /// The right outputs as comparisons that hold.
    #[serde(default)]
    right: Vec<String>,
    #[serde(default)]
    cases: Cases,
}

impl Specs {
    /// Problems in shuffled order, those that give no cases left out; if `count` exceeds their number, they are
    /// repeated.
    pub(super) fn evalplus(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let order = burnish_data::order(self.problems.len(), Address::new(seed, Purpose::Shuffle).seed(), 0);
        let mut report = CellReport::new("track=evalplus");
        let mut tasks: Vec<Task> = Vec::new();
        for index in order {
            if tasks.len() >= count {
                break;
            }
            report.drawn += 1;
            match self.prepared(&self.problems[index], index)? {
                Ok(task) => tasks.push(task),
                Err(why) => *report.dropped.entry(why).or_default() += 1,
            }
        }
        report.made = tasks.len();
        if tasks.is_empty() && count > 0 {
            let reasons: Vec<String> =
                report.dropped.iter().map(|(why, count)| format!("{why} ({count})")).collect();
            return Err(config_error("path", &format!("no problem gives cases: {}", reasons.join("; "))));
        }
        let tasks = tasks.iter().cycle().take(count).cloned().collect();
        Ok(TaskSet { tasks, cells: vec![report] })
    }

    /// The task of a problem, or why it is left out.
    fn prepared(&self, problem: &Problem, index: usize) -> Result<Result<Task, String>, EnvError> {
        if MANY_ANSWERS.contains(&problem.entry.as_str()) {
            return Ok(Err("it has many right answers".to_owned()));
        }
        // Of the place in the files, not of the run: a task of one name has the same cases in every task set.
        let stdin = json!({
            "program": problem.program,
            "entry": problem.entry,
            "row": problem.row,
            "more": problem.more,
            "cases": self.config.cases,
            "seed": seed_of(0, index),
        })
        .to_string();
        let limits =
            Limits { wall_seconds: 90.0, cpu_seconds: 20.0, memory_bytes: 512 << 20, ..Limits::default() };
        let job = Job {
            parts: vec![Part("<prepare>", PREPARE)],
            name: "prepare",
            stdin: &stdin,
            limits,
            ..Job::default()
        };
        let sandbox = self.judge.sandbox(0);
        let execution = sandbox.run(&job).map_err(|error| EnvError::Failed(error.to_string()))?;
        if execution.outcome != Outcome::Done {
            return Ok(Err(format!("making its cases {}", execution.outcome.in_words(&limits))));
        }
        let prepared: Prepared = serde_json::from_str(&execution.stdout)
            .map_err(|error| EnvError::Failed(format!("evalplus.py did not answer as it should: {error}")))?;
        if let Some(why) = prepared.left_out {
            return Ok(Err(why));
        }
        // An output that depends on the order of a set is one of many, and no reason to reject the others.
        let checks: Vec<String> = prepared.right.iter().map(|holds| format!("assert {holds}")).collect();
        let job = Job {
            parts: vec![Part("<program>", &problem.program)],
            checks: checks.iter().map(String::as_str).collect(),
            name: "program",
            stdin: "",
            limits,
        };
        let again = self.judge.sandbox(1).run(&job).map_err(|error| EnvError::Failed(error.to_string()))?;
        if !again.is_passed() {
            return Ok(Err("its outputs differ with another seed of hashes".to_owned()));
        }
        Ok(Ok(problem.task(prepared)?))
    }
}

impl Problem {
    fn task(&self, prepared: Prepared) -> Result<Task, EnvError> {
        let Prepared { inputs, signature, examples, cases, .. } = prepared;
        let mut says = match self.has_examples {
            true => format!("```\n{}```\n", self.says),
            false => format!("{}({signature}): {}\n", self.entry, self.says),
        };
        if !self.has_examples {
            says.extend(examples.iter().map(|example| format!("{example}\n")));
        }
        let prompt = format!(
            "{says}Write preconditions({signature}) and postconditions({signature}, output) in Python that assert what \
             must hold of the inputs and of the output, in one ```python block. Don't write the function itself."
        );
        let suite = self.id.split('/').next().unwrap_or_default();
        let labels = BTreeMap::from([
            ("track".to_owned(), "evalplus".to_owned()),
            ("family".to_owned(), suite.to_lowercase()),
            ("answers".to_owned(), "one".to_owned()),
        ]);
        Ok(task(
            ID,
            &self.id,
            vec![Message::user(prompt)],
            to_value(&Truth::Function { inputs, cases, strong: None, program: self.program.clone() })?,
            labels,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_python_reads_is_replaced_outside_texts() {
        assert_eq!(readable(r#"[-Infinity, Infinity, NaN, 1]"#), "[null, null, null, 1]");
        let texts = r#"{"a": "NaN \" Infinity", "b\\": "-Infinity"}"#;
        assert_eq!(readable(texts), texts);
    }
}
