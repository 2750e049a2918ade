//! JSON as Python's `json.dumps` writes it: what the `tojson` filter of chat templates is in `transformers`.

use std::io::{self, Write};

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::Formatter;

/// The filter `tojson`, with the arguments that `transformers` gives it. Non-ASCII characters stay
/// (`ensure_ascii=False`), and nothing is escaped for HTML.
pub(crate) fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let is_sorted = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let is_ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    if is_ascii {
        return Err(refused("tojson(ensure_ascii=true) is not supported"));
    }
    let (item, key) = match (separators.as_deref(), indent) {
        (None, None) => (", ", ": "),
        (None, Some(_)) => (",", ": "),
        (Some([item, key]), _) => (item.as_str(), key.as_str()),
        (Some(_), _) => return Err(refused("tojson: separators must be two strings")),
    };
    let mut json = serde_json::to_value(value).map_err(|error| refused(&error.to_string()))?;
    if is_sorted {
        json.sort_all_objects();
    }
    let layout = Layout { item, key, indent, depth: 0, has_items: false };
    dumps(&json, layout).map_err(|error| refused(&error.to_string()))
}

fn refused(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.to_string())
}

fn dumps(json: &serde_json::Value, layout: Layout<'_>) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    json.serialize(&mut serde_json::Serializer::with_formatter(&mut out, layout))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Where `json.dumps` puts separators, line breaks and exponents.
struct Layout<'a> {
    item: &'a str,
    key: &'a str,
    indent: Option<usize>,
    depth: usize,
    has_items: bool,
}

impl Layout<'_> {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_items = false;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.has_items = true;
        self.new_line(writer)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.has_items {
            self.new_line(writer)?;
        }
        self.has_items = true;
        writer.write_all(bracket)
    }

    fn new_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        match self.indent {
            Some(width) => write!(writer, "\n{:1$}", "", width * self.depth),
            None => Ok(()),
        }
    }
}

impl Formatter for Layout<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }
}

/// A float as Python prints it. Rust's `Debug` takes exponents where Python does, below 1e-4 and from 1e16 on;
/// Python writes them with a sign and at least two digits: `1e-05`, `1e+16`.
pub(crate) fn float(value: f64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(expression: &str, value: serde_json::Value) -> Result<String, Error> {
        let mut environment = minijinja::Environment::new();
        environment.add_filter("tojson", tojson);
        let expression = format!("{{{{ value|{expression} }}}}");
        environment.render_str(
            &expression,
            minijinja::context! { value => Value::from(minijinja::value::Serde(value)) },
        )
    }

    // The expected texts are what `json.dumps` of Python 3.11 gives.
    #[test]
    fn json_looks_as_python_writes_it() {
        let value = json!({"b": [1, 2.5, null, true], "a": {"é<&'": "\u{7f}\n\"\\"}, "e": [], "o": {}});
        assert_eq!(
            rendered("tojson", value.clone()).unwrap(),
            "{\"b\": [1, 2.5, null, true], \"a\": {\"é<&'\": \"\u{7f}\\n\\\"\\\\\"}, \"e\": [], \"o\": {}}"
        );
        assert_eq!(
            rendered("tojson(indent=2, sort_keys=true)", json!({"b": [1, {}], "a": []})).unwrap(),
            "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {}\n  ]\n}"
        );
        assert_eq!(rendered("tojson(separators=(',', ':'))", json!({"a": [1, 2]})).unwrap(), "{\"a\":[1,2]}");
        assert_eq!(
            rendered("tojson", json!([1e-5, 1e16, 1.5e300, 0.0001, 1.0])).unwrap(),
            "[1e-05, 1e+16, 1.5e+300, 0.0001, 1.0]"
        );
    }

    #[test]
    fn an_argument_that_is_not_supported_is_an_error() {
        assert!(rendered("tojson(ensure_ascii=true)", json!(1)).is_err());
        assert!(rendered("tojson(colour=1)", json!(1)).is_err());
    }
}
