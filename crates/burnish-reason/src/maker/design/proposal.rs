//! What an engineer says, read as changes of keys.

use serde_json::{Map, Value};

/// Bytes of a text that are read, from its end.
const READ_MAX: usize = 1 << 16;
/// Numbers that JSON does not have, as models write them.
const NO_NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// What an engineer proposes: values of keys, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposal {
    /// Why, in the engineer's words; may be empty.
    pub reason: String,
    /// Keys as paths with dots, and what was written for them.
    pub values: Vec<(String, Value)>,
}

impl Proposal {
    /// Reads the last object of JSON in `text` that has a table `config`. Keys of `config` may be nested tables or paths
    /// with dots. Anything may stand around the object.
    ///
    /// # Errors
    /// If there is no such object.
    pub fn read(text: &str) -> Result<Proposal, String> {
        let mut start = text.len().saturating_sub(READ_MAX);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let text = &text[start..];
        let mut found = None;
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|open| at + open) {
            let (object, length) = object_at(&text[open..]);
            at = open + length;
            if object.as_ref().is_some_and(|object| object.get("config").is_some_and(Value::is_object)) {
                found = object;
            }
        }
        let mut object = found.ok_or("there is no object of JSON with a table `config` in it")?;
        let reason = match object.remove("reason") {
            Some(Value::String(reason)) => reason,
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        let mut values = Vec::new();
        if let Some(config) = object.get("config") {
            leaves("", config, &mut values);
        }
        Ok(Proposal { reason, values })
    }
}

/// The object of JSON with which `text` begins, and how many bytes are done with.
fn object_at(text: &str) -> (Option<Map<String, Value>>, usize) {
    let first = |text: &str| {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        match values.next() {
            Some(Ok(Value::Object(object))) => Some((object, values.byte_offset())),
            _ => None,
        }
    };
    if let Some((object, length)) = first(text) {
        return (Some(object), length);
    }
    let has_none = !NO_NUMBERS.iter().any(|word| text.contains(word));
    // Its length in the text as it stands is not known, so the tables inside it are looked at too, which does no harm.
    let object = if has_none { None } else { first(&quoted(text)).map(|(object, _)| object) };
    (object, 1)
}

/// `text` with quotes around numbers that JSON does not have, so that they can be refused by the name of their key.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut is_text, mut is_escaped, mut skip) = (false, false, 0);
    for (at, sign) in text.char_indices() {
        if at < skip {
            continue;
        }
        if is_text {
            is_text = is_escaped || sign != '"';
            is_escaped = !is_escaped && sign == '\\';
        } else if let Some(word) = NO_NUMBERS.iter().find(|word| text[at..].starts_with(**word)) {
            out.push('"');
            out.push_str(word);
            out.push('"');
            skip = at + word.len();
            continue;
        } else {
            is_text = sign == '"';
        }
        out.push(sign);
    }
    out
}

fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(table) => {
            for (name, inner) in table {
                let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(&key, inner, found);
            }
        }
        other => found.push((path.to_owned(), other.clone())),
    }
}
