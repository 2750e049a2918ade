//! Real tables and what is asked or stated about them: WikiTableQuestions (Pasupat and Liang 2015, arXiv:1508.00305) and
//! TabFact (Chen et al. 2020, arXiv:1909.02164).
//!
//! A directory holds the tables as JSON Lines (`{"table": "csv/204-csv/772.csv", "csv": "..."}`), and a file of questions
//! as its makers publish it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use burnish_data::{DataError, read_whole};
use serde::Deserialize;

use super::ID;
use super::config::Config;
use super::proxy;
use super::table::{Order, Table};
use super::truth::Truth;
use crate::settings::config_error;
use crate::{CellReport, EnvError};

/// The file of tables, compressed or not.
const TABLES: [&str; 2] = ["tables.jsonl.gz", "tables.jsonl"];

/// Which data set a file of questions belongs to: its extension says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// Questions in a tsv file: `id, utterance, context, targetValue`.
    WikiTableQuestions,
    /// Statements in a json file: `{table: [statements, labels, title]}`.
    TabFact,
}

impl Dataset {
    /// Its name in ids and labels.
    pub fn name(self) -> &'static str {
        match self {
            Dataset::WikiTableQuestions => "wikitablequestions",
            Dataset::TabFact => "tabfact",
        }
    }

    /// The file of questions that is read if none is named.
    fn usual_file(self) -> &'static str {
        match self {
            Dataset::WikiTableQuestions => "random-split-1-dev.tsv",
            Dataset::TabFact => "test_examples.json",
        }
    }
}

/// A question about a real table.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) truth: Truth,
    pub(super) labels: BTreeMap<String, String>,
}

/// What is read.
#[derive(Debug)]
pub(super) struct Real {
    pub(super) items: Vec<Item>,
    /// How many questions there are and how many were left out, by reason.
    pub(super) report: CellReport,
    pub(super) files: Vec<PathBuf>,
    /// Is the file of questions a test set by its name?
    pub(super) is_test: bool,
}

/// A question as a file has it.
struct Asked {
    id: String,
    table: String,
    text: String,
    answers: Vec<String>,
    labels: Vec<(String, String)>,
}

/// Reads the tables and the questions about those that are small enough.
///
/// # Errors
/// If the directory or a file is missing, can't be read or is not in its format, or no question is left.
pub(super) fn read(config: &Config) -> Result<Real, EnvError> {
    let folder = Path::new(&config.source);
    if !folder.is_dir() {
        let problem = format!("there is no directory {}", folder.display());
        return Err(config_error("source", &problem));
    }
    let Some(tables) = TABLES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
        let problem = format!("{} has no {}", folder.display(), TABLES.join(" or "));
        return Err(config_error("source", &problem));
    };
    let (dataset, questions) = questions_file(folder, &config.file)?;
    let parsed = read_tables(&tables, dataset)?;
    let text = read_text(&questions)?;
    let wrong = |problem: String| EnvError::from(DataError::file(&questions, problem));
    let asked = match dataset {
        Dataset::WikiTableQuestions => wiki_questions(&text),
        Dataset::TabFact => tabfact_statements(&text),
    }
    .map_err(&wrong)?;

    let name = questions.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut report = CellReport {
        cell: format!("{} {name}", dataset.name()),
        drawn: asked.len(),
        ..CellReport::default()
    };
    let mut items = Vec::new();
    for asked in asked {
        let Some(table) = parsed.get(&asked.table) else {
            let problem =
                format!("{} is about {}, which {} has not", asked.id, asked.table, tables.display());
            return Err(wrong(problem));
        };
        match item(dataset, asked, table, config) {
            Ok(item) => items.push(item),
            Err(reason) => *report.dropped.entry(reason).or_default() += 1,
        }
    }
    report.made = items.len();
    if items.is_empty() {
        return Err(wrong(format!("has no question about a table of at most {} cells", config.cells_max)));
    }
    let is_test = name.starts_with("test") || name.starts_with("pristine");
    Ok(Real { items, report, files: vec![tables, questions], is_test })
}

/// The file of questions and what it belongs to.
fn questions_file(folder: &Path, named: &str) -> Result<(Dataset, PathBuf), EnvError> {
    let sets = [Dataset::WikiTableQuestions, Dataset::TabFact];
    if named.is_empty() {
        let found = sets.into_iter().map(|set| (set, folder.join(set.usual_file())));
        return found.into_iter().find(|(_, path)| path.is_file()).ok_or_else(|| {
            let usual = sets.map(Dataset::usual_file).join(" nor ");
            let problem =
                format!("{} has neither {usual}; name its file of questions in `file`", folder.display());
            config_error("source", &problem)
        });
    }
    let path = folder.join(named);
    let set = match path.extension().and_then(|extension| extension.to_str()) {
        Some("tsv") => Dataset::WikiTableQuestions,
        Some("json") => Dataset::TabFact,
        _ => {
            let problem = format!("{named} is neither a .tsv of WikiTableQuestions nor a .json of TabFact");
            return Err(config_error("file", &problem));
        }
    };
    match path.is_file() {
        true => Ok((set, path)),
        false => Err(config_error("file", &format!("there is no {}", path.display()))),
    }
}

fn read_text(path: &Path) -> Result<String, EnvError> {
    let wrong = |problem: String| EnvError::from(DataError::file(path, problem));
    String::from_utf8(read_whole(path)?).map_err(|error| wrong(format!("is not UTF-8: {error}")))
}

/// A line of the file of tables.
#[derive(Deserialize)]
struct Line {
    table: String,
    csv: String,
}

/// The tables by name; `None` for one that has no cells or rows of different lengths.
fn read_tables(path: &Path, dataset: Dataset) -> Result<HashMap<String, Option<Table>>, EnvError> {
    let mut tables = HashMap::new();
    for (at, line) in read_text(path)?.lines().enumerate() {
        let Line { table, csv } = serde_json::from_str(line).map_err(|error| {
            DataError::file(path, format!("line {} is not a table with its csv: {error}", at + 1))
        })?;
        let rows = match dataset {
            Dataset::WikiTableQuestions => csv_rows(&csv),
            Dataset::TabFact => {
                csv.lines().map(|line| line.split('#').map(str::to_owned).collect()).collect()
            }
        };
        let mut rows = rows.into_iter().map(|row| row.iter().map(|text| cleaned(text)).collect::<Vec<_>>());
        let parsed = Table { header: rows.next().unwrap_or_default(), rows: rows.collect() };
        tables.insert(table, (!parsed.is_empty() && parsed.is_rectangular()).then_some(parsed));
    }
    Ok(tables)
}

/// A text that can stand in a table's line: no line breaks and bars, and not empty.
fn cleaned(text: &str) -> String {
    let text = text.replace('|', "/").split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Rows of a csv file of WikiTableQuestions: fields in quotes, in which a backslash keeps the next character.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut is_row) = (false, false);
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => field.extend(signs.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\r' if !is_quoted => continue,
            '\n' if !is_quoted => {
                if is_row {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                is_row = false;
                continue;
            }
            sign => field.push(sign),
        }
        is_row = true;
    }
    if is_row {
        row.push(field);
        rows.push(row);
    }
    rows
}

/// The questions of a tsv file. `targetValue` is a list with bars between, in which `\p` is a bar and `\n` a line break.
fn wiki_questions(text: &str) -> Result<Vec<Asked>, String> {
    let question = |(at, line): (usize, &str)| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, text, table, answers] = fields[..] else {
            return Err(format!(
                "line {} has {} fields; a question has 4: id, utterance, context, targetValue",
                at + 1,
                fields.len()
            ));
        };
        let plain = |text: &str| text.replace("\\p", "|").replace("\\n", "\n").replace("\\\\", "\\");
        Ok(Asked {
            id: id.to_owned(),
            table: table.to_owned(),
            text: plain(text),
            answers: answers.split('|').map(plain).collect(),
            labels: Vec::new(),
        })
    };
    text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty()).map(question).collect()
}

/// The statements of a json file.
fn tabfact_statements(text: &str) -> Result<Vec<Asked>, String> {
    type Rows = BTreeMap<String, (Vec<String>, Vec<u8>, String)>;
    let rows: Rows = serde_json::from_str(text)
        .map_err(|error| format!("is not TabFact's map of tables to [statements, labels, title]: {error}"))?;
    let mut asked = Vec::new();
    for (table, (statements, labels, _)) in rows {
        if statements.len() != labels.len() {
            return Err(format!("{table} has {} statements and {} labels", statements.len(), labels.len()));
        }
        asked.extend(statements.into_iter().zip(labels).enumerate().map(|(at, (text, label))| {
            let is_entailed = if label == 1 { "yes" } else { "no" };
            Asked {
                id: format!("{table}/{at}"),
                table: table.clone(),
                text,
                answers: vec![is_entailed.to_owned()],
                labels: vec![("entailed".to_owned(), is_entailed.to_owned())],
            }
        }));
    }
    Ok(asked)
}

/// A task of a question, or why there is none.
fn item(dataset: Dataset, asked: Asked, table: &Option<Table>, config: &Config) -> Result<Item, String> {
    let table = table.as_ref().ok_or("the table has no cells, or rows of different lengths")?;
    if table.len() > config.cells_max {
        return Err(format!("the table has more than {} cells", config.cells_max));
    }
    // Whether a statement is true is not in the table.
    let answers = if dataset == Dataset::TabFact { &[][..] } else { &asked.answers };
    let marked = proxy::cells(table, &asked.text, answers);
    if marked.is_empty() {
        return Err("no cell's text is in the question or is the answer".to_owned());
    }
    let (rows, columns) = (table.rows.len(), table.header.len());
    let mut labels = BTreeMap::from([
        ("op".to_owned(), "proxy".to_owned()),
        ("rows".to_owned(), rows.to_string()),
        ("dataset".to_owned(), dataset.name().to_owned()),
    ]);
    labels.extend(asked.labels);
    let truth = Truth {
        question: cleaned(&asked.text),
        gold: proxy::plan(table, &marked),
        table: table.clone(),
        answer: asked.answers.join(", "),
        proxy: Some(marked),
        original: format!("{ID}/{}/{}", dataset.name(), asked.id),
        order: Order::unchanged(rows, columns),
    };
    Ok(Item { truth, labels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_csv_file_keep_quotes_commas_and_line_breaks() {
        let text = "\"A\",\"B\"\n\"x, \\\"y\\\"\",\"1\n2\"\n\"\",\"c\\\\d\"";
        assert_eq!(csv_rows(text), [["A", "B"], ["x, \"y\"", "1\n2"], ["", "c\\d"]]);
        assert_eq!(csv_rows("\"a\"\r\n\n\"b\"\n"), [["a"], ["b"]]);
        assert!(csv_rows("").is_empty());
        assert_eq!(cleaned(" a |\n b "), "a / b");
        assert_eq!(cleaned("\n"), "-");
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = wiki_questions("id\tutterance\tcontext\ttargetValue\nnt-1\twho").err().unwrap();
        assert_eq!(error, "line 2 has 2 fields; a question has 4: id, utterance, context, targetValue");
        let error = tabfact_statements("{\"t\": [[\"a\"], [], \"x\"]}").err().unwrap();
        assert_eq!(error, "t has 1 statements and 0 labels");
    }
}
