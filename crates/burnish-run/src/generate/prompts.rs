//! What a person asks: texts, and rows of files.

use std::fs;
use std::path::Path;

use burnish_core::{Message, Role, ToolSpec, json};
use burnish_data::{Columns, DataError, Place, Row, for_each_row};
use burnish_rundir::files::FileError;
use serde_json::{Map, Value};

use crate::RunError;

/// A prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Where it stands, for errors: "prompts.jsonl, line 3".
    pub place: String,
    /// What the policy reads.
    pub messages: Vec<Message>,
    /// Tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// The row's column `id`.
    pub id: Option<Value>,
    /// The ground truth that the row has.
    pub answer: Option<String>,
    /// The row's other columns.
    pub extra: Map<String, Value>,
}

impl Prompt {
    /// A text that stands in `place`.
    pub fn text(text: impl Into<String>, place: impl Into<String>) -> Self {
        Prompt {
            place: place.into(),
            messages: vec![Message::user(text)],
            tools: Vec::new(),
            id: None,
            answer: None,
            extra: Map::new(),
        }
    }

    /// The prompt with a system message before it.
    ///
    /// # Errors
    /// If it has one.
    pub fn with_system(mut self, text: &str) -> Result<Self, RunError> {
        if self.messages.first().is_some_and(|message| message.role == Role::System) {
            let problem = format!("{}: begins with a system message, and --system gives another", self.place);
            return Err(RunError::Refused(problem));
        }
        self.messages.insert(0, Message::system(text));
        Ok(self)
    }

    fn of_row(place: String, row: Row, is_raw: bool) -> Result<Self, &'static str> {
        let Row { prompt, text, tools, answer, mut extra, .. } = row;
        let messages = match (text, is_raw) {
            (Some(_), false) => return Err("is plain text, which has no roles; --raw continues it"),
            (Some(text), true) => vec![Message::user(text)],
            (None, true) if prompt.len() != 1 || prompt[0].role != Role::User => {
                return Err(
                    "is a conversation; --raw continues one text (a column `text`, or `prompt` as a text)",
                );
            }
            (None, _) => prompt,
        };
        let id = extra.shift_remove("id");
        Ok(Prompt { place, messages, tools, id, answer, extra })
    }
}

/// The prompts of a file: the rows of a jsonl, csv, tsv or parquet file, or the lines of a `.txt` file, without empty
/// ones. `is_raw`: they are texts to be continued.
///
/// # Errors
/// Names the file, and the line that can't be a prompt.
pub fn read_prompts(file: &Path, columns: &Columns, is_raw: bool) -> Result<Vec<Prompt>, RunError> {
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt")) {
        return read_lines(file);
    }
    let mut prompts = Vec::new();
    let mut wrong = None;
    for_each_row(file, columns, |place, row| {
        match Prompt::of_row(format!("{}, {place}", file.display()), row, is_raw) {
            Ok(prompt) => prompts.push(prompt),
            Err(problem) => {
                wrong.get_or_insert_with(|| DataError::at(file, place, problem));
            }
        }
    })?;
    match wrong {
        Some(error) => Err(error.into()),
        None => Ok(prompts),
    }
}

fn read_lines(file: &Path) -> Result<Vec<Prompt>, RunError> {
    let bytes = fs::read(file).map_err(FileError::on("read", file))?;
    let mut prompts = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let place = Place::Line(number);
        let line = std::str::from_utf8(line).map_err(|_| DataError::at(file, place, "is not UTF-8"))?.trim();
        if !line.is_empty() {
            prompts.push(Prompt::text(line, format!("{}, {place}", file.display())));
        }
    }
    if prompts.is_empty() {
        return Err(DataError::file(file, "has no lines").into());
    }
    Ok(prompts)
}

/// Reads a JSON file with a list of tools: OpenAI function schemas.
///
/// # Errors
/// Names the file, and what is wrong in it.
pub fn read_tools(file: &Path) -> Result<Vec<ToolSpec>, RunError> {
    let text = fs::read_to_string(file).map_err(FileError::on("read", file))?;
    let value = json::parse(&text).map_err(|error| DataError::file(file, format!("is not JSON: {error}")))?;
    Ok(burnish_data::tools(&value).map_err(|problem| DataError::file(file, problem))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, content: &str, is_raw: bool) -> Result<Vec<Prompt>, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        fs::write(&file, content).unwrap();
        read_prompts(&file, &Columns::Auto, is_raw).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_keep_their_columns() {
        let rows = "{\"id\": 7, \"prompt\": \"a\", \"answer\": \"b\", \"level\": 3}\n";
        let prompt = read("x.jsonl", rows, false).unwrap().remove(0);
        assert_eq!(prompt.messages, [Message::user("a")]);
        assert_eq!((prompt.id, prompt.answer.as_deref()), (Some(7.into()), Some("b")));
        assert_eq!(Value::Object(prompt.extra), serde_json::json!({"level": 3}));
        assert!(prompt.place.ends_with("x.jsonl, line 1"), "{}", prompt.place);
    }

    #[test]
    fn lines_of_text_are_prompts() {
        let prompts = read("x.txt", "one\r\n\n two \n", false).unwrap();
        assert_eq!(
            prompts.iter().map(|prompt| &*prompt.messages[0].content).collect::<Vec<_>>(),
            ["one", "two"]
        );
        assert!(prompts[1].place.ends_with("line 3"));
        assert!(read("x.txt", "\n", false).unwrap_err().contains("has no lines"));
    }

    #[test]
    fn raw_prompts_are_texts() {
        assert_eq!(read("x.jsonl", "{\"text\": \"a\"}", true).unwrap()[0].messages, [Message::user("a")]);
        let error = read("x.jsonl", "{\"text\": \"a\"}", false).unwrap_err();
        assert!(error.contains("x.jsonl, line 1: ") && error.contains("--raw"), "{error}");
        let chat = r#"{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}"#;
        assert!(read("x.jsonl", chat, true).unwrap_err().contains("line 1: is a conversation"));
        let prompt = read("x.jsonl", chat, false).unwrap().remove(0);
        assert!(prompt.with_system("t").unwrap_err().to_string().contains("--system"));
    }
}
