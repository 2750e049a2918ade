//! Rows as tasks.

use burnish_core::{Message, Role, Task, TaskId};
use burnish_data::{Dataset, Row};
use burnish_verify::language::identify;
use burnish_verify::{Verifier, before_answer};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

use super::ID;
use super::built_in::gold;
use super::choice::VerifierConfig;
use super::config::{Config, label};
use crate::EnvError;
use crate::digest::digest;
use crate::lang::{LANGUAGE, RESOURCE, Resource};

/// The label with the file of a task, if there are several files.
const FILE: &str = "file";

/// The label with the source of a row.
const SOURCE: &str = "data_source";

/// The rows of the configured files.
#[derive(Debug)]
pub(super) struct Rows {
    config: Config,
    data: Dataset,
}

impl Rows {
    /// Opens the files and reads every row once, so that errors are reported before anything starts.
    ///
    /// # Errors
    /// If a file can't be read or has no rows, or a row does not fit the configuration: names file, line and column.
    pub(super) fn open(config: &Config) -> Result<Self, EnvError> {
        let data = Dataset::open(&config.files(), &config.columns)?;
        let rows = Rows { config: config.clone(), data };
        // Digests of the names: some 60 bytes per row, and only if names are given.
        let mut known: HashMap<String, usize> = HashMap::new();
        for index in 0..rows.data.len() {
            let (columns, row) = rows.data.entry(index)?;
            let wrong = |problem: String| EnvError::from(rows.data.error(index, problem));
            if row.prompt.is_empty() {
                return Err(wrong("is plain text without a prompt, which nobody can answer".into()));
            }
            let judge = config.verifier.of(&columns).map_err(wrong)?;
            if let VerifierConfig::BuiltIn(verifier) = judge {
                check_truth(verifier, row.answer.as_deref()).map_err(wrong)?;
            }
            if let VerifierConfig::Code(coded) = &judge {
                coded.code.check_row(&columns).map_err(wrong)?;
            }
            if demonstration(&row).is_none() && !judge.judges() {
                return Err(wrong(
                    "has no answer to imitate, and nothing judges one: set `verifier`, or \
                     `columns.completion`"
                        .into(),
                ));
            }
            rows.labels(index, &columns, &row).map_err(wrong)?;
            reasoning(config, &columns).map_err(wrong)?;
            let Some(key) = &config.id_key else { continue };
            let name = label(column(&columns, key, "id_key").map_err(wrong)?);
            if let Some(earlier) = known.insert(digest(name.as_bytes()), index) {
                let file =
                    (rows.data.path(earlier) != rows.data.path(index)).then(|| rows.data.path(earlier));
                let file = file.flatten().map(|file| format!("{}, ", file.display())).unwrap_or_default();
                let place = rows.data.place(earlier)?;
                return Err(wrong(format!("the `{key}` is that of {file}{place} too; names must differ")));
            }
        }
        Ok(rows)
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    /// The file of a row.
    pub(super) fn file(&self, index: usize) -> String {
        self.data.path(index).map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Row number `index` as a task.
    ///
    /// # Errors
    /// If the file has changed since it was opened.
    pub(super) fn task(&self, index: usize) -> Result<Task, EnvError> {
        let (columns, row) = self.data.entry(index)?;
        let wrong = |problem: String| EnvError::from(self.data.error(index, problem));
        let labels = self.labels(index, &columns, &row).map_err(wrong)?;
        let name = match &self.config.id_key {
            Some(key) => label(column(&columns, key, "id_key").map_err(wrong)?),
            None => digest(Value::Object(columns.clone()).to_string().as_bytes()),
        };
        Ok(Task {
            id: TaskId(format!("{ID}/{name}")),
            environment: ID.to_owned(),
            prompt: row.prompt,
            truth: Value::Object(columns),
            labels,
        })
    }

    fn labels(
        &self,
        index: usize,
        columns: &Map<String, Value>,
        row: &Row,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut labels = BTreeMap::new();
        labels.extend(row.source.clone().map(|source| (SOURCE.to_owned(), source)));
        if self.config.path.0.len() > 1 {
            labels.insert(FILE.to_owned(), self.file(index));
        }
        if let Some(of) = self.config.language_of() {
            let language = of.row(columns)?;
            labels.insert(LANGUAGE.to_owned(), language.code().to_owned());
            labels.insert(RESOURCE.to_owned(), Resource::of(language).name().to_owned());
        }
        for key in &self.config.label_keys {
            labels.insert(key.clone(), label(column(columns, key, "label_keys")?));
        }
        Ok(labels)
    }

    /// The row of a task that was made here, and its file.
    pub(super) fn of_task(&self, task: &Task) -> Option<(String, Row)> {
        let columns = task.truth.as_object()?;
        let row = Row::read(columns, &self.config.columns.of(columns).ok()?).ok()?;
        Some((task.labels.get(FILE).cloned().unwrap_or_else(|| self.file(0)), row))
    }
}

/// Checks that the verifier can use the ground truth of a row.
fn check_truth(verifier: Verifier, answer: Option<&str>) -> Result<(), String> {
    let Some(answer) = answer else {
        return Err(format!(
            "has no ground truth for the verifier `{}`: name its column (`columns = {{ answer = \"...\" }}`)",
            verifier.name()
        ));
    };
    gold(verifier, answer).map(drop).map_err(|error| error.to_string())
}

/// The answer to imitate: the only message after the prompt.
pub(super) fn demonstration(row: &Row) -> Option<Message> {
    row.completion.as_ref()?.iter().find(|message| message.role == Role::Assistant).cloned()
}

/// The worked reasoning of a row, up to where a final answer is marked; `None` if there is none.
///
/// # Errors
/// If the column is missing, holds no text, or holds text in a language other than the row's.
pub(super) fn reasoning(config: &Config, columns: &Map<String, Value>) -> Result<Option<String>, String> {
    let Some(key) = &config.reasoning_key else { return Ok(None) };
    let text = match column(columns, key, "reasoning_key")? {
        Value::Null => return Ok(None),
        Value::String(text) => before_answer(text),
        other => return Err(format!("column `{key}`: must be a text, not {other}")),
    };
    if let Some(of) = config.language_of() {
        let (language, found) = (of.row(columns)?, identify(text));
        // Work that consists of formulas only fits every language.
        if found.is_decided() && !found.is_in(language) {
            let (code, name) = (language.code(), found.name());
            return Err(format!(
                "column `{key}`: a hint must be in the row's language, {code}, and this is {name}"
            ));
        }
    }
    Ok((!text.trim().is_empty()).then(|| text.to_owned()))
}

/// The value of a column that the configuration names under the key `setting`.
pub(super) fn column<'r>(row: &'r Map<String, Value>, key: &str, setting: &str) -> Result<&'r Value, String> {
    row.get(key).ok_or_else(|| {
        let columns: Vec<&str> = row.keys().map(String::as_str).collect();
        let columns = if columns.is_empty() { "none".to_owned() } else { columns.join(", ") };
        format!("has no column `{key}`; the columns are: {columns} (`{setting}` says which is read)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_data::{ColumnNames, Columns, Paths};
    use serde_json::json;

    /// The defaults with a command, which is never started here.
    fn judged() -> Config {
        let command = json!({"command": ["judge"], "timeout_seconds": 1.0, "startup_seconds": 1.0});
        Config { verifier: serde_json::from_value(command).unwrap(), ..Config::default() }
    }

    fn read(files: &[&str], config: Config) -> Result<(Vec<Task>, Vec<Option<Message>>), String> {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..files.len()).map(|at| format!("data{at}.jsonl")).collect();
        for (name, content) in names.iter().zip(files) {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let base_dir = folder.path().display().to_string();
        let path = Paths(names.iter().map(Into::into).collect());
        let config = Config { path, base_dir: Some(base_dir.clone()), ..config };
        let read = || {
            let rows = Rows::open(&config)?;
            let tasks = (0..rows.len()).map(|index| rows.task(index)).collect::<Result<Vec<_>, _>>()?;
            let answers = tasks.iter().map(|task| demonstration(&rows.of_task(task)?.1)).collect();
            Ok((tasks, answers))
        };
        read().map_err(|error: EnvError| error.to_string().replace(&base_dir, "DIR"))
    }

    fn refuse(text: &str, config: Config, expected: &str) {
        assert_eq!(read(&[text], config).unwrap_err(), expected);
    }

    #[test]
    fn a_text_a_list_and_a_conversation_with_its_answer_are_prompts() {
        let texts = [
            "\u{feff}{\"prompt\": \"2+2?\"}\n\n{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, \
             {\"role\": \"user\", \"content\": \"u\"}]}\r\n",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \
             \"a\"}]}",
        ];
        let (tasks, answers) = read(&texts, judged()).unwrap();
        assert_eq!(tasks[0].prompt, [Message::user("2+2?")]);
        assert_eq!(tasks[1].prompt, [Message::system("s"), Message::user("u")]);
        assert_eq!(tasks[2].prompt, [Message::user("q")]);
        assert_eq!(answers, [None, None, Some(Message::assistant("a"))]);
        assert!(tasks[2].labels["file"].ends_with("data1.jsonl"));
    }

    #[test]
    fn names_labels_and_demonstrations_come_from_the_named_columns() {
        let columns =
            ColumnNames { prompt: Some("q".into()), completion: Some("a".into()), ..ColumnNames::default() };
        let config = Config {
            columns: Columns::Named(Box::new(columns)),
            id_key: Some("n".into()),
            label_keys: vec!["level".into()],
            ..Config::default()
        };
        let row = r#"{"q": "x", "n": 7, "level": 2, "a": "y"}"#;
        let (tasks, answers) = read(&[row], config.clone()).unwrap();
        assert_eq!(tasks[0].id.0, "rows/7");
        assert_eq!(tasks[0].labels, BTreeMap::from([("level".into(), "2".into())]));
        assert_eq!(answers[0], Some(Message::assistant("y")));
        assert_eq!(tasks[0].truth["a"], "y");
        let twice = "DIR/data0.jsonl, line 3: the `n` is that of line 1 too; names must differ";
        refuse(&format!("{row}\n\n{row}"), config.clone(), twice);
        let twice =
            "DIR/data1.jsonl, line 1: the `n` is that of DIR/data0.jsonl, line 1 too; names must differ";
        assert_eq!(read(&[row, row], config.clone()).unwrap_err(), twice);
        let nameless = "DIR/data0.jsonl, line 1: has no column `n`; the columns are: q, level, a (`id_key` says \
                        which is read)";
        refuse(r#"{"q": "x", "level": 2, "a": "y"}"#, config, nameless);
    }

    #[test]
    fn the_source_of_a_row_is_a_label() {
        let row = r#"{"prompt": "x", "answer": "1", "data_source": "openai/gsm8k"}"#;
        let (tasks, _) = read(&[row], judged()).unwrap();
        assert_eq!(tasks[0].labels["data_source"], "openai/gsm8k");
    }

    #[test]
    fn the_name_of_a_row_without_one_follows_its_content() {
        let (tasks, _) =
            read(&["{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n{\"prompt\":\"a\"}"], judged()).unwrap();
        assert!(tasks[0].id == tasks[2].id && tasks[0].id != tasks[1].id);
    }

    #[test]
    fn rows_that_nobody_can_use_are_refused_with_place_and_reason() {
        refuse("", judged(), "DIR/data0.jsonl: has no rows");
        let idle = read(&["{\"prompt\": \"a\"}"], Config::default()).unwrap_err();
        assert!(idle.contains("line 1: has no answer to imitate, and nothing judges one"), "{idle}");
        let plain = "DIR/data0.jsonl, line 1: is plain text without a prompt, which nobody can answer";
        refuse("{\"text\": \"a\"}", judged(), plain);
        let wrong =
            "DIR/data0.jsonl, line 2: column `prompt`: must be a text or a list of messages, not a number";
        refuse("{\"prompt\": \"a\"}\n{\"prompt\": 3}", judged(), wrong);
    }
}
