//! Functions, filters, tests and methods of templates, where minijinja's differ from those of `transformers`.

use chrono::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{ValueKind, from_args};
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
    environment.add_filter("tojson", json::tojson);
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
    if value.is_none() { Err(wrong("None can't be looped over")) } else { Ok(value) }
}

/// Python's methods: those of `minijinja_contrib`, and what real templates use beside them.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), name) {
        (Some(text), "index") => {
            let (what,): (&str,) = from_args(args)?;
            let at = text.find(what).ok_or_else(|| wrong("substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
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
