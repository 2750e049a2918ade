//! Functions, filters, tests and methods of templates, where minijinja's differ from those of `transformers`.

use chrono::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::{json, tags, values};

/// Filters and tests that Jinja does not have.
const FILTERS: [&str; 5] = ["bool", "chain", "lines", "split", "zip"];
const TESTS: [&str; 3] = ["startingwith", "endingwith", "safe"];

/// An environment without templates.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    FILTERS.iter().for_each(|name| environment.remove_filter(name));
    TESTS.iter().for_each(|name| environment.remove_test(name));
    environment.remove_global("debug");
    environment
        .add_function("raise_exception", |message: &Value| Err::<Value, _>(wrong(message.to_string())));
    environment.add_function(tags::EACH, each);
    environment.set_formatter(|out, _, value| out.write_str(&values::text(value)).map_err(Error::from));
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("string", values::text);
    environment.add_filter("indent", indent);
    environment.add_filter("int", int);
    environment.add_test("number", |value: &Value| is_number(value) || value.kind() == ValueKind::Bool);
    environment.add_test("iterable", |value: &Value| {
        value.is_undefined() || value.as_str().is_some() || values::has_items(value)
    });
    environment.add_test("sequence", |value: &Value| {
        value.is_undefined()
            || value.as_str().is_some()
            || (values::has_items(value) && value.len().is_some())
    });
    Ok(environment)
}

pub(super) fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

fn is_number(value: &Value) -> bool {
    value.kind() == ValueKind::Number || values::is_exact(value)
}

/// What a loop goes over. minijinja takes `None` for an empty list; in Python it is an error.
fn each(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        // A loop over a string does not know which character is the last.
        Some(text) => Ok(text.chars().map(Value::from).collect()),
        None if value.is_none() => Err(wrong("None can't be looped over")),
        None => Ok(value),
    }
}

/// The filter `int`, which gives 0 for what is no number.
fn int(state: &State, value: &Value, default: Option<Value>, arguments: Kwargs) -> Result<Value, Error> {
    let base = arguments.get::<Option<u32>>("base")?;
    let default = default.or(arguments.get::<Option<Value>>("default")?).unwrap_or_else(|| Value::from(0));
    minijinja::filters::int(state, value, Some(default), base, arguments)
}

/// The filter `indent(width=4, first=false, blank=false)`.
fn indent(
    text: &str,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    arguments: Kwargs,
) -> Result<String, Error> {
    let width = width.or(arguments.get::<Option<Value>>("width")?).unwrap_or_else(|| Value::from(4));
    let indent = match width.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(i64::try_from(width)?.clamp(0, 1000) as usize),
    };
    let first = first.or(arguments.get::<Option<bool>>("first")?).unwrap_or_default();
    let blank = blank.or(arguments.get::<Option<bool>>("blank")?).unwrap_or_default();
    arguments.assert_all_used()?;
    let with_end = format!("{text}\n");
    let lines = lines(&with_end).into_iter().enumerate().map(|(at, (line, _))| {
        let is_indented = if at == 0 { first } else { blank || !line.is_empty() };
        format!("{}{line}", if is_indented { indent.as_str() } else { "" })
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Python's lines of a text, each with its end.
fn lines(text: &str) -> Vec<(&str, &str)> {
    let ends =
        |c| matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let end = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        let (end, after) = after.split_at(end);
        lines.push((line, end));
        rest = after;
    }
    lines
}

/// Python's `title`: a letter after anything else is upper case, every other lower case.
fn title(text: &str) -> String {
    let mut is_start = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_start {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        is_start = !c.is_alphabetic();
    }
    out
}

/// Python's methods: those of `minijinja_contrib`, and what real templates use beside them.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), name) {
        (Some(text), "index") => {
            let (what,): (&str,) = from_args(args)?;
            let at = text.find(what).ok_or_else(|| wrong("substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
        }
        (Some(text), "title") => {
            let () = from_args(args)?;
            Ok(Value::from(title(text)))
        }
        (Some(text), "splitlines") => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            let line =
                |(line, end): (&str, &str)| format!("{line}{}", if keep == Some(true) { end } else { "" });
            Ok(lines(text).into_iter().map(line).map(Value::from).collect())
        }
        (Some(text), "rsplit") => {
            let (separator, most): (&str, Option<i64>) = from_args(args)?;
            let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX - 1);
            let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
            parts.reverse();
            Ok(parts.into_iter().map(Value::from).collect())
        }
        _ => pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// Formats a number of seconds since 1970, in UTC.
pub(super) fn strftime(format: &str, unix_seconds: i64) -> Result<String, Error> {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let code = after.strip_prefix('-').unwrap_or(after);
        if !code.starts_with(|c| "YymdejBbhAaHIMSpFTRD%".contains(c)) {
            let length = after.len() - code.len() + code.chars().next().map_or(0, char::len_utf8);
            return Err(wrong(format!("strftime_now: code %{} is not supported", &after[..length])));
        }
        rest = &code[1..];
    }
    let time = DateTime::from_timestamp(unix_seconds, 0);
    let time = time.ok_or_else(|| wrong("strftime_now: the time is out of range"))?;
    Ok(time.format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected texts are what `date -u -d @SECONDS` gives.
    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%A %a %d %B %b %Y %F %T %R %D %e %j %I %p %h %y %%|%-d %-m %-H %-I %-j %-e %-y";
        let expect = [
            (
                0,
                "Thursday Thu 01 January Jan 1970 1970-01-01 00:00:00 00:00 01/01/70  1 001 12 AM Jan 70 %|1 1 0 12 1 1 70",
            ),
            (
                951_827_696,
                "Tuesday Tue 29 February Feb 2000 2000-02-29 12:34:56 12:34 02/29/00 29 060 12 PM Feb 00 %|29 2 12 12 60 29 0",
            ),
        ];
        for (seconds, text) in expect {
            assert_eq!(strftime(all, seconds).unwrap(), text);
        }
        for wrong in ["%Q", "%-Q", "%"] {
            let error = strftime(wrong, 0).unwrap_err().to_string();
            assert!(error.contains(&format!("code {wrong} ")), "{error}");
        }
    }
}
