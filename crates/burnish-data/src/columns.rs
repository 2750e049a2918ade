//! Which column holds what.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;

use crate::Template;
use crate::messages::kind;

/// Which columns of a file are read: found by their names, or given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Columns {
    /// `"auto"`: by the names that TRL, verl, OpenRLHF, slime and verifiers use. It is an error if two columns could
    /// have the same meaning.
    #[default]
    Auto,
    /// Exactly these columns, and no others.
    Named(Box<ColumnNames>),
}

/// The name of each column that is read. `a.b` is field `b` of the column `a`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColumnNames {
    /// What the policy reads: a text (one user message), or a list of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Instead of `prompt`: a template that makes one user message from several columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<Template>,
    /// A template that makes a system message before the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_template: Option<Template>,
    /// Instead of `completion`: a template that makes the answer to imitate from several columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_template: Option<Template>,
    /// A whole conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<String>,
    /// Plain text, without roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The answer to imitate: a text (one assistant message), or a list of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<String>,
    /// The better of two answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The worse of two answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// Whether the completion is a good one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The ground truth that a verifier compares with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// Name of the data set that the row comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Names of the column with the prompt.
const PROMPT: [&str; 4] = ["prompt", "question", "problem", "input"];

/// Names of the column with the ground truth; `label` is one of them unless it holds a yes or no.
const ANSWER: [&str; 5] = ["answer", "ground_truth", "solution", "label", "reward_model.ground_truth"];

/// Names of the column with the source; the first one present counts.
const SOURCE: [&str; 2] = ["data_source", "task"];

impl Columns {
    /// The columns of a row.
    ///
    /// # Errors
    /// If no column can be the prompt, or several columns can have the same meaning: says what was found and what to
    /// write.
    pub fn of(&self, row: &Map<String, Value>) -> Result<ColumnNames, String> {
        match self {
            Columns::Named(names) => Ok((**names).clone()),
            Columns::Auto => find(row),
        }
    }

    /// Are columns given, and all by number, as for a file without a header?
    pub(crate) fn are_numbers(&self) -> bool {
        let is_number = |name: &String| name.parse::<usize>().is_ok();
        match self {
            Columns::Auto => false,
            Columns::Named(names) => {
                names.pairs().into_iter().filter_map(|(_, name)| name.as_ref()).all(is_number)
            }
        }
    }

    /// Reads `NAME=COLUMN,NAME=COLUMN`, a JSON table, or `auto`: the forms of the command line.
    ///
    /// # Errors
    /// If the text has another form, or a name is unknown.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Columns::Auto);
        }
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| error.to_string());
        }
        let pair = |pair: &str| {
            let (name, column) = pair.split_once('=').ok_or_else(|| {
                format!("`{pair}` has no `=`: write `auto`, or such as `prompt=question,answer=answer`")
            })?;
            Ok((name.trim().to_owned(), Value::from(column.trim())))
        };
        let names = text.split(',').map(pair).collect::<Result<Map<_, _>, String>>()?;
        serde_json::from_value(Value::Object(names)).map_err(|error| error.to_string())
    }
}

impl ColumnNames {
    /// The columns with their names, in a fixed order.
    fn pairs(&self) -> [(&'static str, &Option<String>); 10] {
        let ColumnNames {
            prompt,
            messages,
            text,
            completion,
            chosen,
            rejected,
            label,
            answer,
            tools,
            source,
            prompt_template: _,
            system_template: _,
            completion_template: _,
        } = self;
        [
            ("prompt", prompt),
            ("messages", messages),
            ("text", text),
            ("completion", completion),
            ("chosen", chosen),
            ("rejected", rejected),
            ("label", label),
            ("answer", answer),
            ("tools", tools),
            ("source", source),
        ]
    }

    /// The templates with their names.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (&'static str, &Template)> {
        let all = [
            ("prompt_template", &self.prompt_template),
            ("system_template", &self.system_template),
            ("completion_template", &self.completion_template),
        ];
        all.into_iter().filter_map(|(name, template)| Some((name, template.as_ref()?)))
    }

    /// Do both read the same columns for everything that determines the kind of row? Tools and source may differ.
    pub(crate) fn is_like(&self, other: &ColumnNames) -> bool {
        self.pairs()[..8] == other.pairs()[..8]
    }

    /// Is anything read from this column?
    pub(crate) fn reads(&self, column: &str) -> bool {
        self.pairs().iter().any(|(_, name)| name.as_deref() == Some(column))
            || self.templates().any(|(_, template)| template.columns().contains(column))
    }
}

/// `prompt from "question", answer from "answer"`
impl fmt::Display for ColumnNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.pairs().into_iter().filter_map(|(what, name)| Some((what, name.as_ref()?)));
        let mut parts: Vec<String> = named.map(|(what, name)| format!("{what} from \"{name}\"")).collect();
        for (what, template) in self.templates() {
            let columns: Vec<String> = template.columns().iter().map(|name| format!("\"{name}\"")).collect();
            parts.push(format!("{} from {}", what.trim_end_matches("_template"), columns.join(" and ")));
        }
        f.write_str(&parts.join(", "))
    }
}

/// The value of a column; `a.b` is field `b` of the column `a` where no column has the whole name. A null counts
/// as absent.
pub(crate) fn value<'r>(row: &'r Map<String, Value>, name: &str) -> Option<&'r Value> {
    let found = row.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(row.get(first)?, |value, part| value.get(part))
    });
    found.filter(|value| !value.is_null())
}

fn find(row: &Map<String, Value>) -> Result<ColumnNames, String> {
    refuse_unread(row)?;
    let is_there = |name: &str| value(row, name).is_some();
    let only = |names: &[&str], what: &str| -> Result<Option<String>, String> {
        let found: Vec<&str> = names.iter().copied().filter(|name| is_there(name)).collect();
        match found[..] {
            [] => Ok(None),
            [name] => Ok(Some(name.to_owned())),
            [first, ..] => Err(format!(
                "has several columns that could be {what}: {}; say which is meant, such as `columns = {{ {} = \
                 \"{first}\" }}` with all others that are to be read",
                ticked(&found),
                key_of(first),
            )),
        }
    };
    let optional = |name: &str| row.contains_key(name).then(|| name.to_owned());

    let prompts: Vec<&str> = PROMPT.into_iter().chain(["messages"]).collect();
    let opening = only(&prompts, "the prompt")?;
    let (messages, prompt) = match opening {
        Some(name) if name == "messages" => (Some(name), None),
        other => (None, other),
    };
    let (chosen, rejected) = match (is_there("chosen"), is_there("rejected")) {
        (true, true) => (optional("chosen"), optional("rejected")),
        (false, false) => (None, None),
        (true, false) => return Err("has a column `chosen` but no `rejected`".to_owned()),
        (false, true) => return Err("has a column `rejected` but no `chosen`".to_owned()),
    };
    let is_bare = prompt.is_none() && messages.is_none() && chosen.is_none();
    let text = if is_bare && is_there("text") { optional("text") } else { None };
    if is_bare && text.is_none() {
        return Err(format!(
            "has no column that is known to hold a prompt ({}, chosen with rejected, or text); the columns are: \
             {}. Say which is meant, such as `columns = {{ prompt = \"...\", answer = \"...\" }}`",
            prompts.join(", "),
            names_of(row)
        ));
    }
    let completion = optional("completion");
    let label = optional("label").filter(|name| is_verdict(value(row, name), completion.is_some()));
    let answers: Vec<&str> =
        ANSWER.into_iter().filter(|name| !(*name == "label" && label.is_some())).collect();
    let answer = only(&answers, "the answer")?.or_else(|| answers.iter().find_map(|name| optional(name)));
    let source =
        SOURCE.into_iter().find(|name| value(row, name).is_some_and(Value::is_string)).map(str::to_owned);
    let tools = optional("tools");
    let (prompt_template, system_template, completion_template) = (None, None, None);
    Ok(ColumnNames {
        prompt,
        prompt_template,
        system_template,
        completion_template,
        messages,
        text,
        completion,
        chosen,
        rejected,
        label,
        answer,
        tools,
        source,
    })
}

/// Columns that other programs show to the policy but that are not read automatically here, with what to write instead.
const UNREAD: [(&str, &str); 9] = [
    ("images", "images can't be read; to go on without them, name the columns that are to be read"),
    ("image", "images can't be read; to go on without them, name the columns that are to be read"),
    ("videos", "videos can't be read; to go on without them, name the columns that are to be read"),
    ("audios", "sounds can't be read; to go on without them, name the columns that are to be read"),
    ("audio", "sounds can't be read; to go on without them, name the columns that are to be read"),
    (
        "chat_template_kwargs",
        "variables of the chat template can't differ from row to row; to go on without them, name the columns that are to \
         be read",
    ),
    (
        "system",
        "it is not read by itself: name the columns with `system_template = \"{{system}}\"` beside `prompt`, or without it",
    ),
    (
        "system_prompt",
        "it is not read by itself: name the columns with `system_template = \"{{system_prompt}}\"` beside `prompt`, or \
         without it",
    ),
    (
        "instruction",
        "it is not read by itself: name the columns, such as `columns = { prompt_template = \"{{instruction}}{% if input \
         %}\\n{{input}}{% endif %}\", completion = \"output\" }`",
    ),
];

/// Fails if a row has a column that was meant for the policy and would be left out silently.
fn refuse_unread(row: &Map<String, Value>) -> Result<(), String> {
    let holds = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        // Parquet gives every table all fields.
        Value::Object(fields) => fields.values().any(|value| !value.is_null()),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match UNREAD
        .into_iter()
        .find_map(|(name, advice)| Some((name, advice, row.get(name).filter(|it| holds(it))?)))
    {
        Some((name, advice, value)) => {
            Err(format!("has a column `{name}` that holds {}: {advice}", kind(value)))
        }
        None => Ok(()),
    }
}

/// Does `label` say whether a completion is good (and not what the right answer is)?
fn is_verdict(label: Option<&Value>, has_completion: bool) -> bool {
    match label {
        Some(Value::Bool(_)) => true,
        Some(Value::Number(number)) => has_completion && matches!(number.as_f64(), Some(0.0 | 1.0)),
        Some(Value::String(text)) => {
            has_completion && ["true", "false"].contains(&text.trim().to_lowercase().as_str())
        }
        None => has_completion,
        Some(_) => false,
    }
}

/// The key of [`ColumnNames`] for a column of this name.
fn key_of(column: &str) -> &str {
    match column {
        "messages" => "messages",
        column if PROMPT.contains(&column) => "prompt",
        _ => "answer",
    }
}

fn ticked(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The names of a row's columns, for an error message.
pub(crate) fn names_of(row: &Map<String, Value>) -> String {
    let names: Vec<&str> = row.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Columns::Auto => serializer.serialize_str("auto"),
            Columns::Named(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Columns;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a table such as { prompt = \"question\", answer = \"answer\" }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Columns, E> {
                match text {
                    "auto" => Ok(Columns::Auto),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Columns, A::Error> {
                let names = ColumnNames::deserialize(MapAccessDeserializer::new(map))?;
                let opens = [&names.prompt, &names.messages, &names.text, &names.chosen];
                if opens.iter().all(|name| name.is_none()) && names.prompt_template.is_none() {
                    return Err(A::Error::custom(
                        "names no column to start from: give `prompt`, `prompt_template`, `messages`, `text` or `chosen`",
                    ));
                }
                let template = |template: &Option<Template>| template.is_some();
                let exclude = [
                    (names.prompt.is_some(), names.messages.is_some(), "`prompt` and `messages`"),
                    (
                        names.prompt.is_some(),
                        template(&names.prompt_template),
                        "`prompt` and `prompt_template`",
                    ),
                    (
                        names.messages.is_some(),
                        template(&names.prompt_template),
                        "`messages` and `prompt_template`",
                    ),
                    (names.text.is_some(), template(&names.system_template), "`text` and `system_template`"),
                    (
                        names.completion.is_some(),
                        template(&names.completion_template),
                        "`completion` and `completion_template`",
                    ),
                ];
                if let Some((.., pair)) = exclude.into_iter().find(|(one, other, _)| *one && *other) {
                    return Err(A::Error::custom(format_args!("{pair} exclude each other")));
                }
                if names.chosen.is_some() != names.rejected.is_some() {
                    return Err(A::Error::custom("`chosen` and `rejected` need each other"));
                }
                Ok(Columns::Named(Box::new(names)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
