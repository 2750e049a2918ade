//! Converts a value to text as Python does: `str` and `repr`.

use crate::chars::is_printable;
use crate::error::{Error, Result, value_error};
use crate::value::{Dict, Other, Value, View};

/// Python refuses to write longer integers.
const MAX_DIGITS: usize = 4300;

impl Value {
    /// `str(value)`.
    ///
    /// # Errors
    /// If Python's text would contain an object's address.
    pub(crate) fn str(&self) -> Result<String> {
        match self {
            Value::Undefined(_) => Ok(String::new()),
            Value::Str(text) | Value::Markup(text) => Ok(text.to_string()),
            _ => self.repr(),
        }
    }

    /// `repr(value)`.
    ///
    /// # Errors
    /// As [`Value::str`].
    pub(crate) fn repr(&self) -> Result<String> {
        let mut out = String::new();
        self.write_repr(&mut out)?;
        Ok(out)
    }

    fn write_repr(&self, out: &mut String) -> Result<()> {
        match self {
            Value::Undefined(_) => out.push_str("Undefined"),
            Value::None => out.push_str("None"),
            Value::Bool(true) => out.push_str("True"),
            Value::Bool(false) => out.push_str("False"),
            Value::Int(value) => out.push_str(&value.to_string()),
            Value::Big(value) => {
                let text = value.to_string();
                if text.trim_start_matches('-').len() > MAX_DIGITS {
                    return value_error(format!(
                        "Exceeds the limit ({MAX_DIGITS} digits) for integer string conversion"
                    ));
                }
                out.push_str(&text);
            }
            Value::Float(value) => out.push_str(&float(*value)),
            Value::Str(text) => write_quoted(text, out),
            Value::Markup(text) => {
                out.push_str("Markup(");
                write_quoted(text, out);
                out.push(')');
            }
            Value::List(items) => write_items(items, "[", "]", out)?,
            Value::Tuple(items) => write_tuple(items, out)?,
            Value::Dict(dict) => write_dict(dict, out)?,
            Value::Other(other) => self.write_other(other, out)?,
        }
        Ok(())
    }

    fn write_other(&self, other: &Other, out: &mut String) -> Result<()> {
        match other {
            Other::Group(items) => write_tuple(items, out)?,
            Other::Range(range) if range.step == 1 => {
                out.push_str(&format!("range({}, {})", range.start, range.stop));
            }
            Other::Range(range) => {
                out.push_str(&format!("range({}, {}, {})", range.start, range.stop, range.step));
            }
            Other::View(view, _) => {
                let name = match view {
                    View::Keys => "dict_keys(",
                    View::Values => "dict_values(",
                    View::Items => "dict_items(",
                };
                out.push_str(name);
                write_items(&self.items()?, "[", "])", out)?;
            }
            Other::Namespace(dict) => {
                out.push_str("<Namespace ");
                write_dict(&dict.borrow(), out)?;
                out.push('>');
            }
            Other::Macro(body) => match body.name() {
                Some(name) => {
                    out.push_str("<Macro ");
                    write_quoted(name, out);
                    out.push('>');
                }
                None => out.push_str("<Macro anonymous>"),
            },
            Other::Loop(state) => {
                let state = state.borrow();
                out.push_str(&format!("<LoopContext {}/{}>", state.index + 1, state.length()));
            }
            Other::Blocks(_) => out.push_str("<TemplateReference None>"),
            Other::Global("joiner") => out.push_str("<class 'jinja2.utils.Joiner'>"),
            Other::Global("cycler") => out.push_str("<class 'jinja2.utils.Cycler'>"),
            Other::Global("namespace") => out.push_str(
                "<class 'transformers.utils.chat_template_utils._cached_compile_jinja_template.<locals>.\
                 TemplateNamespace'>",
            ),
            _ => {
                return Err(Error::other(format!(
                    "the text of a {} is its address in memory; make a list of it, or call it",
                    self.type_name()
                )));
            }
        }
        Ok(())
    }
}

fn write_tuple(items: &[Value], out: &mut String) -> Result<()> {
    write_items(items, "(", if items.len() == 1 { ",)" } else { ")" }, out)
}

fn write_items(items: &[Value], open: &str, close: &str, out: &mut String) -> Result<()> {
    out.push_str(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        item.write_repr(out)?;
    }
    out.push_str(close);
    Ok(())
}

fn write_dict(dict: &Dict, out: &mut String) -> Result<()> {
    out.push('{');
    for (at, (key, value)) in dict.entries().iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        key.write_repr(out)?;
        out.push_str(": ");
        value.write_repr(out)?;
    }
    out.push('}');
    Ok(())
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => push_escape(c, out),
        }
    }
    out.push(quote);
}

/// Writes a character as an escape, as Python does in a text.
pub(crate) fn push_escape(c: char, out: &mut String) {
    let number = u32::from(c);
    out.push_str(&match number {
        ..=0xff => format!("\\x{number:02x}"),
        0x100..=0xffff => format!("\\u{number:04x}"),
        _ => format!("\\U{number:08x}"),
    });
}

/// `repr` of a text.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_quoted(text, &mut out);
    out
}

/// A float as Python prints it. Rust's `Debug` uses exponents where Python does, below 1e-4 and from 1e16 on; Python
/// writes them with a sign and at least two digits: `1e-05`, `1e+16`.
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .into();
    }
    let text = format!("{value:?}");
    match text.split_once('e') {
        None => text,
        Some((mantissa, exponent)) => {
            let digits = exponent.trim_start_matches('-');
            let sign = if exponent.starts_with('-') { '-' } else { '+' };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
    }
}
