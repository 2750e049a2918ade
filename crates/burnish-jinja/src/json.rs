//! JSON as Python's `json.dumps` writes it: the filter `tojson` of `transformers`.

use crate::args::Call;
use crate::error::{Result, type_error, value_error};
use crate::sort;
use crate::text::float;
use crate::value::Value;

/// The filter `tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`. Nothing is escaped for HTML.
pub(crate) fn tojson(value: &Value, call: Call) -> Result<Value> {
    let [ascii, indent, separators, sorted] =
        call.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"], 0)?;
    let is_true = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(value) => Some(match (value.as_str(), value.as_place()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(width)) => " ".repeat(width.clamp(0, 1000) as usize),
            _ => return type_error("tojson: indent must be a number or a text"),
        }),
    };
    let (item, key) = match separators {
        None | Some(Value::None) if indent.is_none() => (", ".into(), ": ".into()),
        None | Some(Value::None) => (",".into(), ": ".into()),
        Some(separators) => {
            let pair = separators.items()?;
            match pair.as_slice() {
                [item, key] => match (item.as_str(), key.as_str()) {
                    (Some(item), Some(key)) => (item.to_owned(), key.to_owned()),
                    _ => return type_error("tojson: separators must be two texts"),
                },
                _ => return value_error("tojson: separators must be two texts"),
            }
        }
    };
    let writer = Writer { is_ascii: is_true(ascii), indent, item, key, is_sorted: is_true(sorted) };
    let mut out = String::new();
    writer.write(value, 0, &mut out)?;
    Ok(out.into())
}

struct Writer {
    is_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    is_sorted: bool,
}

impl Writer {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<()> {
        match value {
            Value::None => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Int(_) | Value::Big(_) => out.push_str(&value.repr()?),
            Value::Float(number) => out.push_str(&json_float(*number)),
            Value::Str(text) | Value::Markup(text) => self.write_text(text, out),
            Value::List(items) => self.write_items(items, depth, out)?,
            Value::Dict(dict) => {
                let mut entries = dict.entries().to_vec();
                if self.is_sorted {
                    entries = sort::by_key(entries, |(key, _)| Ok(key.clone()), false)?;
                }
                self.write_all(entries.len(), ['{', '}'], depth, out, |at, out| {
                    let (key, value) = &entries[at];
                    self.write_text(&key_text(key)?, out);
                    out.push_str(&self.key);
                    self.write(value, depth + 1, out)
                })?;
            }
            value => match value.as_tuple() {
                Some(items) => self.write_items(items, depth, out)?,
                None => {
                    return type_error(format!(
                        "Object of type {} is not JSON serializable",
                        value.type_name()
                    ));
                }
            },
        }
        Ok(())
    }

    fn write_items(&self, items: &[Value], depth: usize, out: &mut String) -> Result<()> {
        self.write_all(items.len(), ['[', ']'], depth, out, |at, out| self.write(&items[at], depth + 1, out))
    }

    fn write_all(
        &self,
        count: usize,
        [open, close]: [char; 2],
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(usize, &mut String) -> Result<()>,
    ) -> Result<()> {
        out.push(open);
        for at in 0..count {
            if at > 0 {
                out.push_str(&self.item);
            }
            self.new_line(depth + 1, out);
            write(at, out)?;
        }
        if count > 0 {
            self.new_line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if u32::from(c) < 0x20 || (self.is_ascii && !(' '..='~').contains(&c)) => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn json_float(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else {
        float(value)
    }
}

fn key_text(key: &Value) -> Result<String> {
    Ok(match key {
        Value::Str(text) | Value::Markup(text) => text.to_string(),
        Value::None => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(_) | Value::Big(_) => key.repr()?,
        Value::Float(value) => json_float(*value),
        _ => {
            return type_error(format!(
                "keys must be str, int, float, bool or None, not {}",
                key.type_name()
            ));
        }
    })
}
