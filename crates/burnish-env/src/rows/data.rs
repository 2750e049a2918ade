//! Reading the file.

use burnish_core::{Message, Role, Task, TaskId};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

use super::ID;
use super::config::{Config, PROMPT};
use crate::EnvError;
use crate::digest::digest;

/// All rows of the configured file as tasks, in its order. Empty lines are skipped.
///
/// # Errors
/// If the file can't be read or has no row, or a row is not what the configuration says: names file, line and
/// column.
pub(super) fn read(config: &Config) -> Result<Vec<Task>, EnvError> {
    let path = config.data_path();
    let bytes =
        std::fs::read(&path).map_err(|error| problem(&path, None, format!("can't be read: {error}")))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut tasks = Vec::new();
    let mut line_of_id: BTreeMap<TaskId, usize> = BTreeMap::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let task = read_line(line, config).map_err(|what| problem(&path, Some(number), what))?;
        let earlier = line_of_id.insert(task.id.clone(), number);
        if let (Some(earlier), Some(key)) = (earlier, &config.id_key) {
            let what = format!("the `{key}` is that of line {earlier} too; names must differ");
            return Err(problem(&path, Some(number), what));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(problem(&path, None, "has no rows; put one JSON object on each line".to_owned()));
    }
    Ok(tasks)
}

fn problem(path: &Path, line: Option<usize>, problem: String) -> EnvError {
    EnvError::Data { path: path.display().to_string(), line, problem }
}

fn read_line(line: &[u8], config: &Config) -> Result<Task, String> {
    let text = std::str::from_utf8(line)
        .map_err(|error| format!("is not UTF-8 (byte {} of the line)", error.valid_up_to() + 1))?;
    let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let Value::Object(row) = value else { return Err("must be a JSON object".to_owned()) };
    let (prompt, demonstration) = read_conversation(&row, config)?;
    if demonstration.is_none() && config.verifier.command.is_empty() {
        return Err("has no answer to imitate, and nothing judges one: set `verifier.command` or \
                    `demonstration_key`"
            .to_owned());
    }
    let mut labels = BTreeMap::new();
    for key in &config.label_keys {
        labels.insert(key.clone(), label(column(&row, key, "label_keys")?));
    }
    let name = match &config.id_key {
        Some(key) => label(column(&row, key, "id_key")?),
        None => digest(Value::Object(row.clone()).to_string().as_bytes()),
    };
    Ok(Task {
        id: TaskId(format!("{ID}/{name}")),
        environment: ID.to_owned(),
        prompt,
        truth: Value::Object(row),
        labels,
    })
}

/// The messages that open the conversation, and the answer to imitate: that of the demonstration's column, or
/// the assistant's message at the end of the list.
///
/// # Errors
/// If a column is missing or not of its form.
pub(super) fn read_conversation(
    row: &Map<String, Value>,
    config: &Config,
) -> Result<(Vec<Message>, Option<Message>), String> {
    let is_default = config.prompt_key == PROMPT && !row.contains_key(PROMPT);
    let key = if is_default && row.contains_key("messages") { "messages" } else { &config.prompt_key };
    let mut messages = match column(row, key, "prompt_key")? {
        Value::String(text) => vec![Message::user(text)],
        list @ Value::Array(_) => Vec::<Message>::deserialize(list)
            .map_err(|error| format!("column `{key}` is not a list of messages: {error}"))?,
        _ => return Err(format!("column `{key}` must be a text or a list of messages")),
    };
    let mut demonstration = messages.pop_if(|last| last.role == Role::Assistant);
    if let Some(key) = &config.demonstration_key {
        let answer = column(row, key, "demonstration_key")?.as_str();
        demonstration = Some(Message::assistant(answer.ok_or(format!("column `{key}` must be a text"))?));
    }
    if messages.iter().all(|message| message.content.is_empty()) {
        return Err(format!("column `{key}` holds an empty prompt"));
    }
    Ok((messages, demonstration))
}

/// The value of a column that the configuration names under `setting`.
fn column<'r>(row: &'r Map<String, Value>, key: &str, setting: &str) -> Result<&'r Value, String> {
    row.get(key).ok_or_else(|| {
        let columns: Vec<&str> = row.keys().map(String::as_str).collect();
        let columns = if columns.is_empty() { "none".to_owned() } else { columns.join(", ") };
        format!("has no column `{key}`; the columns are: {columns} (`{setting}` says which is read)")
    })
}

fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults with a command, which nothing here starts.
    fn judged() -> Config {
        let mut config = Config::default();
        config.verifier.command = vec!["judge".to_owned()];
        config
    }

    fn demonstration(task: &Task, config: &Config) -> Option<Message> {
        read_conversation(task.truth.as_object().unwrap(), config).unwrap().1
    }

    fn read_bytes(bytes: &[u8], config: Config) -> Result<Vec<Task>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data.jsonl"), bytes).unwrap();
        let base_dir = folder.path().display().to_string();
        let path = "data.jsonl".to_owned();
        read(&Config { path, base_dir: Some(base_dir.clone()), ..config })
            .map_err(|error| error.to_string().replace(&base_dir, "DIR"))
    }

    fn refuse(bytes: &[u8], config: Config, expected: &str) {
        assert_eq!(read_bytes(bytes, config).unwrap_err(), expected);
    }

    #[test]
    fn a_text_a_list_and_a_conversation_with_its_answer_are_prompts() {
        let tasks = read_bytes(
            b"\xef\xbb\xbf{\"prompt\": \"2+2?\"}\n\n{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, \
              {\"role\": \"user\", \"content\": \"u\"}]}\r\n{\"messages\": [{\"role\": \"user\", \"content\": \
              \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
            judged(),
        )
        .unwrap();
        assert_eq!(tasks[0].prompt, [Message::user("2+2?")]);
        assert_eq!(tasks[1].prompt, [Message::system("s"), Message::user("u")]);
        assert_eq!(demonstration(&tasks[1], &judged()), None);
        assert_eq!(tasks[2].prompt, [Message::user("q")]);
        assert_eq!(demonstration(&tasks[2], &judged()), Some(Message::assistant("a")));
    }

    #[test]
    fn names_labels_and_demonstrations_come_from_the_named_columns() {
        let config = Config {
            prompt_key: "q".into(),
            id_key: Some("n".into()),
            label_keys: vec!["level".into()],
            demonstration_key: Some("a".into()),
            ..Config::default()
        };
        let tasks = read_bytes(br#"{"q": "x", "n": 7, "level": 2, "a": "y"}"#, config.clone()).unwrap();
        assert_eq!(tasks[0].id.0, "rows/7");
        assert_eq!(tasks[0].labels["level"], "2");
        assert_eq!(demonstration(&tasks[0], &config), Some(Message::assistant("y")));
        assert_eq!(tasks[0].truth["a"], "y");
        let twice = b"{\"q\": \"x\", \"n\": 7, \"level\": 2, \"a\": \"y\"}\n{\"q\": \"z\", \"n\": 7, \
                      \"level\": 1, \"a\": \"y\"}";
        refuse(twice, config, "DIR/data.jsonl, line 2: the `n` is that of line 1 too; names must differ");
    }

    #[test]
    fn the_name_of_a_row_without_one_follows_its_content() {
        let tasks = read_bytes(b"{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n{\"prompt\":\"a\"}", judged());
        let ids: Vec<String> = tasks.unwrap().into_iter().map(|task| task.id.0).collect();
        assert!(ids[0] == ids[2] && ids[0] != ids[1]);
    }

    #[test]
    fn a_file_that_is_not_what_was_said_is_refused_with_place_and_reason() {
        let d = judged;
        let empty = "DIR/data.jsonl: has no rows; put one JSON object on each line";
        refuse(b"", d(), empty);
        refuse(b"\n \n", d(), empty);
        refuse(b"{\"prompt\": \"\xff\"}", d(), "DIR/data.jsonl, line 1: is not UTF-8 (byte 13 of the line)");
        let not_json = read_bytes(b"{\"prompt\": \"a\"}\nprompt", d()).unwrap_err();
        assert!(not_json.starts_with("DIR/data.jsonl, line 2: is not JSON: "), "{not_json}");
        refuse(b"[1]", d(), "DIR/data.jsonl, line 1: must be a JSON object");
        refuse(
            b"{\"question\": \"a\", \"answer\": \"b\"}",
            d(),
            "DIR/data.jsonl, line 1: has no column `prompt`; the columns are: question, answer (`prompt_key` says \
             which is read)",
        );
        refuse(
            b"{\"prompt\": 3}",
            d(),
            "DIR/data.jsonl, line 1: column `prompt` must be a text or a list of messages",
        );
        refuse(b"{\"prompt\": []}", d(), "DIR/data.jsonl, line 1: column `prompt` holds an empty prompt");
        let unknown_role =
            read_bytes(b"{\"prompt\": [{\"role\": \"boss\", \"content\": \"\"}]}", d()).unwrap_err();
        assert!(unknown_role.contains("column `prompt` is not a list of messages: unknown variant `boss`"));
        let idle = read_bytes(b"{\"prompt\": \"a\"}", Config::default()).unwrap_err();
        assert!(idle.contains("line 1: has no answer to imitate, and nothing judges one"), "{idle}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(&Config { path: "/nowhere/x.jsonl".into(), ..Config::default() }).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/x.jsonl: can't be read: "), "{error}");
    }
}
