//! Finds the data of a benchmark, and reads its items.

use std::path::{Path, PathBuf};

use burnish_core::{Message, Role, Task, TaskId};
use burnish_data::{ColumnNames, Columns, DataError, Paths, Stream};
use burnish_env::rows::{Config, Rows, reference};
use burnish_env::timeqa::{self, Input, TimeQa};
use burnish_env::{EnvError, Generator};
use burnish_verify::language::Language;

use super::cards::{Benchmark, Judge, Part, Tests, did_you_mean};
use burnish_run::RunError;

/// The environment variable with the folder that holds all benchmarks, each in a folder of its name.
pub(super) const FOLDER_VARIABLE: &str = "BURNISH_DATA";

/// The name of the label with an item's language.
pub(super) const LANGUAGE: &str = "language";

/// A part of a benchmark and its file.
#[derive(Debug)]
pub struct Located {
    /// Index of the part in the benchmark.
    pub index: usize,
    /// The part.
    pub part: &'static Part,
    /// Its file.
    pub path: PathBuf,
}

/// The files of the parts in `languages`, or of all parts if `languages` is empty. `data` is a file, or a folder with
/// files of the usual names. Without it, the benchmark's folder in `folder` is used.
///
/// # Errors
/// If a language is unknown or a file does not exist: says which file is needed and where to get it.
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
        (None, Some(folder)) => folder.join(benchmark.folder),
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
    let Benchmark { name, folder, source, licence, .. } = benchmark;
    RunError::Refused(format!(
        "{name} needs its data: there is no `{file}`. It comes from {source} (licence: {licence}); nothing is \
         downloaded here. Give it with --data FILE, or lay it into ${FOLDER_VARIABLE}/{folder}/"
    ))
}

/// The items of one part, as tasks in the order of the file.
pub struct Items {
    /// Index of the part in the benchmark.
    pub part: usize,
    /// The language that answers must be in, if the benchmark has several.
    pub language: Option<Language>,
    /// Plays and judges them.
    pub generator: Box<dyn Generator>,
    /// One task per item, named after its place (`mgsm/de/17`, from 0).
    pub tasks: Vec<Task>,
    /// The reference of each item.
    pub references: Vec<String>,
}

impl Items {
    /// Reads a whole part, and keeps the first `limit` items.
    ///
    /// # Errors
    /// If the file can't be read, lacks the benchmark's columns, or has a reference that nothing can be compared
    /// with: names file and line.
    pub fn read(benchmark: &Benchmark, located: &Located, limit: Option<usize>) -> Result<Self, RunError> {
        Items::read_as(benchmark, located, &Columns::Auto, limit)
    }

    /// As [`Items::read`], but the columns may have other names than the benchmark's.
    ///
    /// # Errors
    /// As [`Items::read`]; also if columns other than the question and the reference are named.
    pub fn read_as(
        benchmark: &Benchmark,
        located: &Located,
        columns: &Columns,
        limit: Option<usize>,
    ) -> Result<Self, RunError> {
        if let Some(input) = benchmark.timeqa {
            if *columns != Columns::Auto {
                return Err(RunError::Refused(format!(
                    "--columns: {} is read from TimeQA's own file, which has no columns to name",
                    benchmark.name
                )));
            }
            return Items::of_timeqa(benchmark, located, input, limit);
        }
        let (columns, labels) = columns_of(benchmark, &located.path, columns)?;
        let language = located.part.language.and_then(Language::of);
        let config = Config {
            path: Paths(vec![located.path.clone()]),
            columns: Columns::Named(Box::new(columns)),
            label_keys: labels.iter().map(|(column, _)| (*column).to_owned()).collect(),
            verifier: benchmark.verifier(),
            language,
            ..Config::default()
        };
        let data_error = |error| match error {
            EnvError::Data(error) => RunError::Data(error),
            other => RunError::Environment(other),
        };
        let generator = Rows::new(config).map_err(data_error)?;
        let mut rows: Vec<(usize, Task)> =
            generator.in_order().map_err(data_error)?.into_iter().enumerate().collect();
        rows.retain(|(_, row)| is_tested(benchmark, row));
        if rows.is_empty() {
            return Err(DataError::file(&located.path, "has no row of the test set").into());
        }
        let kept = limit.unwrap_or(rows.len()).min(rows.len());
        let generator: Box<dyn Generator> = Box::new(generator);
        let (tasks, references) = (Vec::new(), Vec::new());
        let mut items = Items { part: located.index, language, generator, tasks, references };
        for (index, row) in rows.into_iter().take(kept) {
            let of_file = items.generator.rows().and_then(|rows| rows.row(&row));
            let answer = of_file.and_then(|(_, row)| row.answer).unwrap_or_default();
            items.references.push(match &benchmark.judge {
                Judge::Verifier(verifier) => reference(*verifier, &answer).to_owned(),
                Judge::Code(_) => answer,
            });
            items.tasks.push(task(benchmark, located, &labels, index, row)?);
        }
        Ok(items)
    }

    fn of_timeqa(
        benchmark: &Benchmark,
        located: &Located,
        input: Input,
        limit: Option<usize>,
    ) -> Result<Self, RunError> {
        let path = located.path.display().to_string();
        let generator = TimeQa::new(timeqa::Config { path, input, ..timeqa::Config::default() });
        let generator = generator.map_err(|error| match error {
            EnvError::Data(error) => RunError::Data(error),
            other => RunError::Environment(other),
        })?;
        let mut tasks = generator.in_order();
        tasks.truncate(limit.unwrap_or(tasks.len()));
        for (index, task) in tasks.iter_mut().enumerate() {
            task.id = TaskId(format!("{}/{index}", benchmark.name));
        }
        let references = tasks.iter().map(TimeQa::reference).collect();
        Ok(Items { part: located.index, language: None, generator: Box::new(generator), tasks, references })
    }
}

/// Is a row part of the test set? A file that holds only the test set may lack the column that says so.
fn is_tested(benchmark: &Benchmark, row: &Task) -> bool {
    let Judge::Code(Tests { within: Some((column, first, last)), .. }) = &benchmark.judge else {
        return true;
    };
    row.truth
        .get(*column)
        .and_then(serde_json::Value::as_u64)
        .is_none_or(|number| (*first..=*last).contains(&number))
}

/// The question, with the tests where the benchmark shows them.
fn asked(benchmark: &Benchmark, question: &str, row: &Task) -> String {
    let Judge::Code(Tests { tests, shown: Some(introduction), .. }) = &benchmark.judge else {
        return question.to_owned();
    };
    let lines: Vec<&str> = match row.truth.get(*tests) {
        Some(serde_json::Value::Array(tests)) => tests.iter().filter_map(serde_json::Value::as_str).collect(),
        Some(serde_json::Value::String(test)) => vec![test],
        _ => Vec::new(),
    };
    format!("{question} {introduction}\n\n{}", lines.join("\n"))
}

/// A row as an item, named after its place and asked in the benchmark's words.
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
        // Tables of floats turn level 5 into 5.0.
        let value = if *label == "level" { value.trim_end_matches(".0") } else { value };
        Some(((*label).to_owned(), value.to_owned()))
    };
    Ok(Task {
        id: TaskId(format!("{}/{within}{index}", benchmark.name)),
        prompt: vec![Message::user(located.part.prompt(&asked(benchmark, question, &row)))],
        labels: labels
            .iter()
            .filter_map(named)
            .chain(language.map(|language| (LANGUAGE.to_owned(), language.to_owned())))
            .collect(),
        ..row
    })
}

type Labels = Vec<(&'static str, &'static str)>;

/// The columns of the question and of the reference, if these two are named and no others.
fn pair_of(names: &ColumnNames) -> Result<(&str, &str), RunError> {
    let only =
        ColumnNames { prompt: names.prompt.clone(), answer: names.answer.clone(), ..ColumnNames::default() };
    match (&names.prompt, &names.answer) {
        (Some(question), Some(answer)) if *names == only => Ok((question, answer)),
        _ => Err(RunError::Refused(
            "--columns: a benchmark has a question and a reference; write such as `prompt=question,answer=answer`, and no \
             other"
                .into(),
        )),
    }
}

/// The pair of the benchmark's columns that the file has, or the `named` columns.
fn columns_of(
    benchmark: &Benchmark,
    path: &Path,
    named: &Columns,
) -> Result<(ColumnNames, Labels), RunError> {
    let first = Stream::open(path)?.next().transpose()?;
    let first = first.ok_or_else(|| DataError::file(path, "has no rows"))?.columns;
    let has = |column: &str| first.contains_key(column);
    let labels = benchmark.labels.iter().filter(|(column, _)| has(column)).copied().collect();
    let found = || first.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let pair = match named {
        Columns::Auto => {
            benchmark.columns.iter().find(|(question, answer)| has(question) && has(answer)).copied()
        }
        Columns::Named(names) => Some(pair_of(names)?),
    };
    let Some((question, answer)) = pair else {
        let wanted: Vec<String> = benchmark
            .columns
            .iter()
            .map(|(question, answer)| format!("`{question}` and `{answer}`"))
            .collect();
        let problem = format!(
            "has the columns {}; {} needs {}; name others with --columns prompt=QUESTION,answer=ANSWER",
            found(),
            benchmark.name,
            wanted.join(", or ")
        );
        return Err(DataError::file(path, problem).into());
    };
    // A column with a dot may be a field inside a column (`a.b`), which is looked up in each row.
    let is_missing = |column: &&str| !has(column) && !column.split('.').next().is_some_and(has);
    if let Some(column) = [question, answer].iter().find(|column| is_missing(column)) {
        let problem = format!("has no column `{column}` (--columns); it has {}", found());
        return Err(DataError::file(path, problem).into());
    }
    let columns = ColumnNames {
        prompt: Some(question.to_owned()),
        answer: Some(answer.to_owned()),
        ..ColumnNames::default()
    };
    Ok((columns, labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::{BENCHMARKS, find};

    /// The items of the only part of a benchmark, from a file with this content.
    fn read(name: &str, file: &str, content: &str, languages: &[&str]) -> Result<Items, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::write(&path, content).unwrap();
        let benchmark = find(name).unwrap();
        let languages: Vec<String> = languages.iter().map(|language| (*language).to_owned()).collect();
        locate(benchmark, Some(&path), &languages, None)
            .and_then(|located| Items::read(benchmark, &located[0], None))
            .map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "DIR"))
    }

    #[test]
    fn an_item_is_named_after_its_place_and_asked_in_the_benchmarks_words() {
        let row = r#"{"question": "1+1?", "answer": "1+1 = <<1+1=2>>2\n#### 2"}"#;
        let items = read("gsm8k", "any.jsonl", &format!("{row}\n{row}\n"), &[]).unwrap();
        let ids: Vec<&str> = items.tasks.iter().map(|task| task.id.0.as_str()).collect();
        assert_eq!(ids, ["gsm8k/0", "gsm8k/1"]);
        assert_eq!(items.references, ["2", "2"]);
        assert!(items.tasks[0].prompt[0].content.starts_with("1+1?\n\nPlease reason step by step"));
        assert!(items.tasks[0].labels.is_empty());
    }

    #[test]
    fn a_file_of_ones_own_is_read_by_the_columns_that_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.jsonl");
        std::fs::write(&path, "{\"q\": \"1+1?\", \"gold\": {\"value\": \"2\"}, \"answer\": \"no\"}\n")
            .unwrap();
        let benchmark = find("gsm8k").unwrap();
        let located = locate(benchmark, Some(&path), &[], None).unwrap();
        let read = |columns: &str| {
            Items::read_as(benchmark, &located[0], &Columns::parse(columns).unwrap(), None)
                .map_err(|error| error.to_string())
        };
        let items = read("prompt=q,answer=gold.value").unwrap();
        assert_eq!(items.references, ["2"]);
        assert!(items.tasks[0].prompt[0].content.starts_with("1+1?\n\nPlease reason"));
        for (columns, parts) in [
            ("auto", &["mine.jsonl", "--columns prompt=QUESTION,answer=ANSWER"][..]),
            ("prompt=qq,answer=gold.value", &["no column `qq`", "q, gold, answer"]),
            ("prompt=q", &["--columns", "a question and a reference"]),
            ("prompt=q,answer=answer,tools=x", &["--columns", "no other"]),
            ("prompt=q,answer=answer", &["mine.jsonl", "line 1"]),
        ] {
            let error = read(columns).err().unwrap();
            assert!(parts.iter().all(|part| error.contains(part)), "{columns}: {error}");
        }
    }

    #[test]
    fn a_language_comes_from_the_files_name_or_from_the_option() {
        for (file, languages) in [("mgsm_de.tsv", &[][..]), ("fragen.tsv", &["de"])] {
            let items = read("mgsm", file, "Wie viel ist 1+1?\t2\nUnd 1000+1?\t1,001\n", languages).unwrap();
            assert_eq!((items.part, items.tasks[1].id.0.as_str()), (1, "mgsm/de/1"));
            assert_eq!(
                items.tasks[0].prompt[0].content,
                "Frage: Wie viel ist 1+1?\nSchritt-für-Schritt-Antwort:"
            );
            assert_eq!(items.tasks[0].labels["language"], "de");
            assert_eq!(items.references, ["2", "1,001"]);
        }
        let error = read("mgsm", "fragen.tsv", "a\t1\n", &[]).err().unwrap();
        assert!(error.contains("DIR/fragen.tsv: in which language") && error.contains("--lang"), "{error}");
        let error = read("mgsm", "mgsm_de.tsv", "a\t1\n", &["ger"]).err().unwrap();
        assert!(error.contains("no such language") && error.contains("bn, de, en"), "{error}");
        let error = read("gsm8k", "test.jsonl", "", &["de"]).err().unwrap();
        assert!(error.contains("one language only"), "{error}");
    }

    #[test]
    fn the_level_of_math500_is_a_label_in_both_forms_of_the_data() {
        let hub = r#"{"problem": "x?", "solution": "s", "answer": "\\frac{1}{2}", "subject": "Algebra", "level": 2}"#;
        let other = r#"{"problem": "x?", "answer": "\\frac{1}{2}", "difficulty": 2.0}"#;
        for (row, labels) in [(hub, 2), (other, 1)] {
            let items = read("math500", "test.jsonl", row, &[]).unwrap();
            assert_eq!((items.tasks[0].labels["level"].as_str(), items.tasks[0].labels.len()), ("2", labels));
        }
    }

    #[test]
    fn rows_that_are_not_the_benchmarks_are_refused_with_file_and_reason() {
        let refuse = |content: &str, parts: &[&str]| {
            let error = read("gsm8k", "test.jsonl", content, &[]).err().unwrap();
            for part in parts {
                assert!(error.contains(part), "{part}: {error}");
            }
        };
        refuse("", &["DIR/test.jsonl: has no rows"]);
        refuse(
            r#"{"problem": "x", "answer": "1"}"#,
            &["DIR/test.jsonl", "problem, answer", "`question` and `answer`"],
        );
        let fine = r#"{"question": "x", "answer": "1"}"#;
        refuse(
            &format!("{fine}\n{{\"question\": \"x\", \"answer\": \"unknown\"}}"),
            &["line 2", "not one number"],
        );
        refuse(&format!("{fine}\n{{\"question\": \"x\"}}"), &["line 2", "`answer`"]);
    }

    #[test]
    fn missing_data_says_which_file_is_wanted_where_it_comes_from_and_its_licence() {
        let folder = tempfile::tempdir().unwrap();
        for benchmark in BENCHMARKS {
            let file = benchmark.parts[0].files[0];
            let nowhere = locate(benchmark, None, &[], None).unwrap_err().to_string();
            let empty = locate(benchmark, None, &[], Some(folder.path())).unwrap_err().to_string();
            let named = locate(benchmark, Some(&folder.path().join("x")), &[], None).unwrap_err().to_string();
            for error in [&nowhere, &empty, &named] {
                for part in [
                    "https://github.com/",
                    benchmark.licence,
                    "--data",
                    "$BURNISH_DATA",
                    "nothing is downloaded",
                ] {
                    assert!(error.contains(part), "{part}: {error}");
                }
            }
            assert!(nowhere.contains(file), "{nowhere}");
            assert!(
                empty.contains(&folder.path().join(benchmark.folder).join(file).display().to_string()),
                "{empty}"
            );
        }
    }

    #[test]
    fn timeqas_questions_are_items_with_each_input() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data/timeqa/human_annotated_test.json.gz");
        if !file.is_file() {
            println!("skipped: there is no {}", file.display());
            return;
        }
        for name in ["timeqa", "timeqa-filtered", "timeqa-quadruples"] {
            let benchmark = find(name).unwrap();
            let located = locate(benchmark, None, &[], file.parent().and_then(Path::parent)).unwrap();
            let items = Items::read(benchmark, &located[0], None).unwrap();
            assert_eq!(
                (items.tasks.len(), items.tasks[7].id.0.as_str()),
                (989, format!("{name}/7").as_str())
            );
            assert_eq!(items.references.iter().filter(|reference| *reference == "No Answer").count(), 159);
            for (task, reference) in items.tasks.iter().zip(&items.references) {
                let prompt = &task.prompt[0].content;
                assert!(
                    prompt.starts_with(located[0].part.before) && prompt.ends_with(located[0].part.after)
                );
                let Judge::Verifier(verifier) = benchmark.judge else { panic!("{name}") };
                let gold = verifier.gold(reference).unwrap();
                assert!(
                    gold.judge(&format!("<answer>{reference}</answer>")).is_correct,
                    "{}: {reference}",
                    task.id
                );
            }
            assert_eq!(Items::read(benchmark, &located[0], Some(7)).unwrap().tasks, items.tasks[..7]);
        }
    }

    #[test]
    fn the_real_sets_are_read_whole_and_every_reference_can_be_judged() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        if !folder.is_dir() {
            println!("skipped: there is no {}", folder.display());
            return;
        }
        for (name, items, files) in [("gsm8k", 1319, 1), ("math500", 500, 1), ("mgsm", 250, 11)] {
            let benchmark = find(name).unwrap();
            let located = locate(benchmark, None, &[], Some(&folder)).unwrap();
            assert_eq!(located.len(), files, "{name}");
            for located in &located {
                let read = Items::read(benchmark, located, None).unwrap();
                assert_eq!(read.tasks.len(), items, "{}", located.path.display());
                for (task, reference) in read.tasks.iter().zip(&read.references) {
                    let Judge::Verifier(verifier) = benchmark.judge else { panic!("{name}") };
                    let gold = verifier.gold(reference).unwrap();
                    assert!(
                        gold.judge(&format!("\\boxed{{{reference}}}")).is_correct,
                        "{}: {reference}",
                        task.id
                    );
                }
                assert_eq!(Items::read(benchmark, located, Some(7)).unwrap().tasks, read.tasks[..7]);
            }
        }
    }
}
