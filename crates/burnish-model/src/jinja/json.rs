//! JSON as Python's `json.dumps` writes it: the filter `tojson` of `transformers`.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::builtins::wrong;
use super::values;

/// The filter `tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`. Nothing is escaped for HTML.
pub(super) fn tojson(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    let given =
        |name| arguments.get::<Option<Value>>(name).map(|value| value.filter(|value| !value.is_none()));
    let is_true = |name| given(name).map(|value| value.is_some_and(|value| value.is_true()));
    let indent = match given("indent")? {
        None => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(i64::try_from(value)?.clamp(0, 1000) as usize),
        }),
    };
    let separators = match given("separators")? {
        None => vec![if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
        Some(pair) => pair.try_iter()?.map(|text| text.to_string()).collect(),
    };
    let Ok([item, key]) = <[String; 2]>::try_from(separators) else {
        return Err(wrong("tojson: separators must be two texts"));
    };
    let (is_ascii, is_sorted) = (is_true("ensure_ascii")?, is_true("sort_keys")?);
    let writer = Writer { is_ascii, indent, item, key, is_sorted };
    arguments.assert_all_used()?;
    let mut out = String::new();
    writer.write(value, 0, &mut out)?;
    Ok(out)
}

struct Writer {
    is_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    is_sorted: bool,
}

impl Writer {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&values::number(value)),
            ValueKind::String => self.write_text(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_all(&items, ['[', ']'], depth, out, |item, out| self.write(item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.is_sorted {
                    keys.sort();
                }
                self.write_all(&keys, ['{', '}'], depth, out, |key, out| {
                    let mut text = String::new();
                    self.write(key, 0, &mut text)?;
                    out.push_str(&if key.as_str().is_some() { text } else { format!("\"{text}\"") });
                    out.push_str(&self.key);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            _ if values::is_exact(value) => out.push_str(&value.to_string()),
            kind => return Err(wrong(format!("tojson: a value of type {kind} is not JSON"))),
        }
        Ok(())
    }

    fn write_all(
        &self,
        items: &[Value],
        [open, close]: [char; 2],
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(&self.item);
            }
            self.new_line(depth + 1, out);
            write(item, out)?;
        }
        if !items.is_empty() {
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
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}
