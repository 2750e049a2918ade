//! Where the data of a benchmark lies, and its items.

use std::path::{Path, PathBuf};

use burnish_core::{Message, Role, Task, TaskId};
use burnish_data::{ColumnNames, Columns, DataError, Paths, Stream};
use burnish_env::rows::{Config, Rows, VerifierConfig, reference};
use burnish_env::{EnvError, Generator};

use super::cards::{Benchmark, Part, did_you_mean};
use crate::RunError;

/// The environment variable with the folder in which benchmarks lie, each in a folder of its name.
pub(super) const FOLDER_VARIABLE: &str = "BURNISH_DATA";

/// The label with the language of an item.
const LANGUAGE: &str = "language";

/// A part of a benchmark and its file.
#[derive(Debug)]
pub struct Located {
    /// Number of the part in the benchmark.
    pub index: usize,
    /// The part.
    pub part: &'static Part,
    /// Its file.
    pub path: PathBuf,
}

/// The files of the parts in `languages`, or of all parts where none is given. `data` is a file, or a folder with
/// files of the usual names; without it the benchmark's folder in `folder` is taken.
///
/// # Errors
/// If a language is not known or a file is not there: says which file is wanted and where it comes from.
pub fn locate(
    benchmark: &'static Benchmark,
    data: Option<&Path>,
    languages: &[String],
    folder: Option<&Path>,
) -> Result<Vec<Located>, RunError> {
    let known = benchmark.languages();
    let name = benchmark.name;
    for language in languages {
        if known.is_empty() {
            return Err(RunError::Refused(format!("--lang {language}: {name} is in one language only")));
        }
        if !known.contains(&language.as_str()) {
            let near = did_you_mean(language, &known);
            let known = known.join(", ");
            return Err(RunError::Refused(format!(
                "--lang {language}: {name} has no such language{near}; it has: {known}"
            )));
        }
    }
    let is_chosen = |part: &Part| {
        languages.is_empty() || languages.iter().any(|language| Some(language.as_str()) == part.language)
    };
    let chosen = || benchmark.parts.iter().enumerate().filter(|(_, part)| is_chosen(part));
    if let Some(file) = data.filter(|data| !data.is_dir()) {
        if !file.exists() {
            return Err(missing(benchmark, &file.display().to_string()));
        }
        let is_named =
            |part: &Part| file.file_name().is_some_and(|name| part.files.iter().any(|known| name == *known));
        let of_name = || chosen().find(|(_, part)| is_named(part));
        let (index, part) = match (chosen().next(), chosen().nth(1)) {
            (Some(only), None) => only,
            _ => of_name().ok_or_else(|| {
                RunError::Refused(format!(
                    "{}: in which language is it? Its name says none of {name}'s; give one with --lang ({})",
                    file.display(),
                    known.join(", ")
                ))
            })?,
        };
        return Ok(vec![Located { index, part, path: file.to_owned() }]);
    }
    let folder = match (data, folder) {
        (Some(data), _) => data.to_owned(),
        (None, Some(folder)) => folder.join(name),
        (None, None) => {
            let file =
                benchmark.parts.first().and_then(|part| part.files.first()).copied().unwrap_or_default();
            return Err(missing(benchmark, file));
        }
    };
    chosen()
        .map(|(index, part)| {
            let mut paths = part.files.iter().map(|file| folder.join(file));
            let path = paths.find(|path| path.is_file());
            let wanted =
                || folder.join(part.files.first().copied().unwrap_or_default()).display().to_string();
            Ok(Located { index, part, path: path.ok_or_else(|| missing(benchmark, &wanted()))? })
        })
        .collect()
}

fn missing(benchmark: &Benchmark, file: &str) -> RunError {
    let Benchmark { name, source, licence, .. } = benchmark;
    RunError::Refused(format!(
        "{name} needs its data: there is no `{file}`. It comes from {source} (licence: {licence}); nothing is \
         downloaded here. Give it with --data FILE, or lay it into ${FOLDER_VARIABLE}/{name}/"
    ))
}

/// The items of one part, as tasks in the order of the file.
pub struct Items {
    /// Number of the part in the benchmark.
    pub part: usize,
    /// Plays and judges them.
    pub generator: Rows,
    /// One for each item; named after its place (`mgsm/de/17`, from 0).
    pub tasks: Vec<Task>,
    /// What the answer of each is compared with.
    pub references: Vec<String>,
}

impl Items {
    /// Reads a part whole, and keeps the first `limit` items.
    ///
    /// # Errors
    /// If the file can't be read, lacks the benchmark's columns, or has a reference that can't be compared with:
    /// names file and line.
    pub fn read(benchmark: &Benchmark, located: &Located, limit: Option<usize>) -> Result<Self, RunError> {
        let (columns, labels) = columns_of(benchmark, &located.path)?;
        let config = Config {
            path: Paths(vec![located.path.clone()]),
            columns: Columns::Named(Box::new(columns)),
            label_keys: labels.iter().map(|(column, _)| (*column).to_owned()).collect(),
            verifier: VerifierConfig::BuiltIn(benchmark.verifier),
            ..Config::default()
        };
        let data_error = |error| match error {
            EnvError::Data(error) => RunError::Data(error),
            other => RunError::Environment(other),
        };
        let generator = Rows::new(config).map_err(data_error)?;
        let rows = generator.in_order().map_err(data_error)?;
        let kept = limit.unwrap_or(rows.len()).min(rows.len());
        let mut items = Items { part: located.index, generator, tasks: Vec::new(), references: Vec::new() };
        for (index, row) in rows.into_iter().take(kept).enumerate() {
            let answer = items.generator.row(&row).and_then(|(_, row)| row.answer).unwrap_or_default();
            items.references.push(reference(benchmark.verifier, &answer).to_owned());
            items.tasks.push(task(benchmark, located, &labels, index, row)?);
        }
        Ok(items)
    }
}

/// A row as an item: named after its place, asked in the benchmark's words.
fn task(
    benchmark: &Benchmark,
    located: &Located,
    labels: &[(&str, &str)],
    index: usize,
    row: Task,
) -> Result<Task, RunError> {
    let [Message { role: Role::User, content: question, .. }] = &row.prompt[..] else {
        let problem = format!("item {index} (from 0): the question must be a text");
        return Err(DataError::file(&located.path, problem).into());
    };
    let language = located.part.language;
    let within = language.map(|language| format!("{language}/")).unwrap_or_default();
    let named = |(column, label): &(&str, &str)| {
        let value = row.labels.get(*column)?;
        // A level that came through a table of floats is the same level.
        let value = if *label == "level" { value.trim_end_matches(".0") } else { value };
        Some(((*label).to_owned(), value.to_owned()))
    };
    Ok(Task {
        id: TaskId(format!("{}/{within}{index}", benchmark.name)),
        prompt: vec![Message::user(located.part.prompt(question))],
        labels: labels
            .iter()
            .filter_map(named)
            .chain(language.map(|language| (LANGUAGE.to_owned(), language.to_owned())))
            .collect(),
        ..row
    })
}

type Labels = Vec<(&'static str, &'static str)>;

/// Which of the benchmark's columns the file has.
fn columns_of(benchmark: &Benchmark, path: &Path) -> Result<(ColumnNames, Labels), RunError> {
    let first = Stream::open(path)?.next().transpose()?;
    let first = first.ok_or_else(|| DataError::file(path, "has no rows"))?.columns;
    let has = |column: &str| first.contains_key(column);
    let pair = benchmark.columns.iter().find(|(question, answer)| has(question) && has(answer));
    let Some((question, answer)) = pair else {
        let wanted: Vec<String> = benchmark
            .columns
            .iter()
            .map(|(question, answer)| format!("`{question}` and `{answer}`"))
            .collect();
        let found: Vec<&str> = first.keys().map(String::as_str).collect();
        let problem = format!(
            "has the columns {}; {} needs {}",
            found.join(", "),
            benchmark.name,
            wanted.join(", or ")
        );
        return Err(DataError::file(path, problem).into());
    };
    let columns = ColumnNames {
        prompt: Some((*question).to_owned()),
        answer: Some((*answer).to_owned()),
        ..ColumnNames::default()
    };
    let labels = benchmark.labels.iter().filter(|(column, _)| has(column)).copied().collect();
    Ok((columns, labels))
}
