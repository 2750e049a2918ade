//! A row of data, independent of what its columns were called.

use burnish_core::{Message, Role, ToolSpec, json};
use serde_json::{Map, Value};

use crate::columns::{ColumnNames, names_of, value};
use crate::{Template, messages};

/// A row: what the policy is asked, and what is known about the answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// The messages before the answer. For a whole conversation: all but its last assistant message. Empty for plain
    /// text.
    pub prompt: Vec<Message>,
    /// The answer to imitate.
    pub completion: Option<Vec<Message>>,
    /// Whether this was a whole conversation (`messages`), whose earlier assistant messages are to be imitated too.
    pub is_conversation: bool,
    /// The better of two answers.
    pub chosen: Option<Vec<Message>>,
    /// The worse of two answers.
    pub rejected: Option<Vec<Message>>,
    /// Whether `completion` is a good answer.
    pub label: Option<bool>,
    /// The ground truth that a verifier compares with. A number, list or table is given as its JSON text.
    pub answer: Option<String>,
    /// Plain text, without roles.
    pub text: Option<String>,
    /// Tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// Name of the data set that the row comes from.
    pub source: Option<String>,
    /// The columns that were not read.
    pub extra: Map<String, Value>,
}

impl Row {
    /// Reads a row whose columns have the given `names`.
    ///
    /// # Errors
    /// If a column is missing or has the wrong form: names the column, what was found, and what is expected.
    pub fn read(row: &Map<String, Value>, names: &ColumnNames) -> Result<Self, String> {
        let said = |name: &Option<String>, role| -> Result<Option<Vec<Message>>, String> {
            name.as_ref().map(|name| column(row, name, |value| messages::read(value, role))).transpose()
        };
        let mut read = Row {
            text: names.text.as_ref().map(|name| column(row, name, text)).transpose()?,
            answer: optional(row, &names.answer, |value| Ok(plain(value)))?,
            label: optional(row, &names.label, verdict)?,
            tools: optional(row, &names.tools, messages::tools)?.unwrap_or_default(),
            source: optional(row, &names.source, |value| Ok(plain(value)))?,
            extra: extra(row, names),
            ..Row::default()
        };
        let written = |what: &str, template: &Option<Template>| -> Result<Option<String>, String> {
            let text = template.as_ref().map(|template| template.render(row)).transpose();
            text.map_err(|problem| format!("`columns.{what}`: {problem}"))
        };
        read.completion = said(&names.completion, Role::Assistant)?;
        if let Some(text) = written("completion_template", &names.completion_template)? {
            read.completion = Some(vec![Message::assistant(text)]);
        }
        if let Some(prompt) = said(&names.prompt, Role::User)? {
            read.prompt = prompt;
        }
        if let Some(text) = written("prompt_template", &names.prompt_template)? {
            read.prompt = vec![Message::user(text)];
        }
        if let Some(conversation) = said(&names.messages, Role::User)? {
            read.prompt = conversation;
            read.is_conversation = true;
        }
        if read.completion.is_none() {
            // A list that ends with an answer brings its own demonstration.
            let answer = read.prompt.pop_if(|last| last.role == Role::Assistant);
            read.completion = answer.map(|answer| vec![answer]);
        }
        if let (Some(chosen), Some(rejected)) = (&names.chosen, &names.rejected) {
            read.read_preference(row, chosen, rejected)?;
        }
        if read.text.is_none() && read.prompt.iter().all(|message| message.content.is_empty()) {
            let opening = [&names.prompt, &names.messages, &names.chosen];
            return Err(match opening.into_iter().flatten().next() {
                Some(name) if names.prompt_template.is_none() => {
                    format!("column `{name}` holds an empty prompt")
                }
                _ => "`columns.prompt_template` makes an empty prompt of it".to_owned(),
            });
        }
        if let Some(text) = written("system_template", &names.system_template)? {
            if read.prompt.first().is_some_and(|message| message.role == Role::System) {
                return Err(
                    "begins with a system message, and `columns.system_template` gives another".to_owned()
                );
            }
            read.prompt.insert(0, Message::system(text));
        }
        Ok(read)
    }

    /// Reads two answers. Without a prompt column, their common beginning is the prompt (TRL's implicit prompt).
    fn read_preference(
        &mut self,
        row: &Map<String, Value>,
        chosen_name: &str,
        rejected_name: &str,
    ) -> Result<(), String> {
        let is_implicit = self.prompt.is_empty();
        if is_implicit
            && let (Some(Value::String(chosen)), Some(Value::String(rejected))) =
                (value(row, chosen_name), value(row, rejected_name))
        {
            let end = shared_text(chosen, rejected);
            self.prompt = vec![Message::user(&chosen[..end])];
            self.chosen = Some(vec![Message::assistant(&chosen[end..])]);
            self.rejected = Some(vec![Message::assistant(&rejected[end..])]);
        } else {
            let answer = |name: &str| column(row, name, |value| messages::read(value, Role::Assistant));
            let (mut chosen, mut rejected) = (answer(chosen_name)?, answer(rejected_name)?);
            let shared = chosen.iter().zip(&rejected).take_while(|(one, other)| one == other).count();
            if is_implicit {
                self.prompt = chosen.drain(..shared).collect();
                rejected.drain(..shared);
            } else if chosen.starts_with(&self.prompt) && rejected.starts_with(&self.prompt) {
                // Some files repeat the prompt in both answers.
                chosen.drain(..self.prompt.len());
                rejected.drain(..self.prompt.len());
            }
            self.chosen = Some(chosen);
            self.rejected = Some(rejected);
        }
        if self.chosen == self.rejected {
            return Err(format!("columns `{chosen_name}` and `{rejected_name}` say the same"));
        }
        Ok(())
    }

    /// The whole conversation, and the index from which its assistant messages are to be imitated; `None` if the row
    /// has no answer to imitate.
    pub fn demonstration(&self) -> Option<(Vec<Message>, usize)> {
        let completion = self.completion.as_ref()?;
        let first = if self.is_conversation { 0 } else { self.prompt.len() };
        Some((self.prompt.iter().chain(completion).cloned().collect(), first))
    }
}

/// Length in bytes of the common beginning of two texts, without a space at its end.
fn shared_text(one: &str, other: &str) -> usize {
    let pairs = one.char_indices().zip(other.chars());
    let end = pairs.take_while(|((_, a), b)| a == b).last().map_or(0, |((at, a), _)| at + a.len_utf8());
    if one[..end].ends_with(' ') { end - 1 } else { end }
}

/// Reads a column that must be present.
fn column<T>(
    row: &Map<String, Value>,
    name: &str,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<T, String> {
    let value = value(row, name).ok_or_else(|| missing(row, name))?;
    read(value).map_err(|problem| format!("column `{name}`: {problem}"))
}

/// Reads a column whose value may be null.
fn optional<T>(
    row: &Map<String, Value>,
    name: &Option<String>,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let Some(name) = name else { return Ok(None) };
    match value(row, name) {
        Some(value) => read(value).map(Some).map_err(|problem| format!("column `{name}`: {problem}")),
        None if is_null(row, name) => Ok(None),
        None => Err(missing(row, name)),
    }
}

/// Is the column present but without a value?
fn is_null(row: &Map<String, Value>, name: &str) -> bool {
    row.contains_key(name) || name.split_once('.').is_some_and(|(first, _)| row.contains_key(first))
}

fn missing(row: &Map<String, Value>, name: &str) -> String {
    let what = if is_null(row, name) { "has a null in" } else { "has no" };
    format!("{what} column `{name}`; the columns are: {} (`columns` says which are read)", names_of(row))
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| format!("must be a text, not {}", messages::kind(value)))
}

/// A text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| json::line(value), str::to_owned)
}

fn verdict(value: &Value) -> Result<bool, String> {
    // A text, such as any field of a csv file, may say the same in words.
    let said = value.as_str().and_then(|text| serde_json::from_str(&text.trim().to_lowercase()).ok());
    let value = said.as_ref().unwrap_or(value);
    match (value.as_bool(), value.as_f64()) {
        (Some(is_good), _) => Ok(is_good),
        (None, Some(0.0)) => Ok(false),
        (None, Some(1.0)) => Ok(true),
        _ => Err(format!("must be true or false (or 1 or 0), not {value}")),
    }
}

/// The columns that are not read.
fn extra(row: &Map<String, Value>, names: &ColumnNames) -> Map<String, Value> {
    let left = row.iter().filter(|(name, _)| !names.reads(name));
    left.map(|(name, value)| (name.clone(), json::rounded(value.clone()))).collect()
}
