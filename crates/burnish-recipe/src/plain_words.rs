//! Puts errors into the words of the person who wrote the file.
//!
//! Serde's errors about recipes, data and replies speak of `f64`, `struct RunSection` and sequences. Its messages
//! have fixed forms (`serde::de::Error`), which are replaced by plain words here, wherever they stand in a message.

use std::borrow::Cow;

/// The message in plain words.
pub fn plain(message: &str) -> String {
    let mut text = message.to_owned();
    for (form, plainly) in [
        ("invalid type: ", expected as fn(&str) -> Option<(String, usize)>),
        ("invalid value: ", expected),
        ("invalid length ", length),
        ("unknown variant `", variant),
        ("unknown field `", field),
        ("missing field `", missing),
        ("duplicate field `", duplicate),
    ] {
        let mut from = 0;
        while let Some(at) = text[from..].find(form).map(|at| from + at) {
            let Some((words, taken)) = plainly(&text[at + form.len()..]) else {
                from = at + form.len();
                continue;
            };
            text.replace_range(at..at + form.len() + taken, &words);
            from = at + words.len();
        }
    }
    for (form, words) in [
        ("invalid digit found in string", "must be a whole number, 0 or more"),
        ("cannot parse integer from empty string", "is empty"),
        ("number too large to fit in target type", "is too large"),
        ("number too small to fit in target type", "is too small"),
        ("invalid float literal", "must be a number"),
        ("cannot parse float from empty string", "is empty"),
        ("provided string was not `true` or `false`", "is neither true nor false"),
    ] {
        text = text.replace(form, words);
    }
    text
}

/// `integer `3`, expected struct Range ...`: the plain words, and how much of the text they replace.
fn expected(rest: &str) -> Option<(String, usize)> {
    const EXPECTED: &str = ", expected ";
    // A text that was found may contain anything.
    let within =
        rest.strip_prefix("string \"").map_or(0, |text| rest.len() - text.len() + quoted_length(text));
    let found = &rest[..within + rest[within..].find(EXPECTED)?];
    let (wanted, taken) = wanted(&rest[found.len() + EXPECTED.len()..]);
    let words = match taken {
        0 => format!("is {}, and must be ", value(found)),
        _ => format!("must be {wanted}, not {}", value(found)),
    };
    Some((words, found.len() + EXPECTED.len() + taken))
}

/// The length of a text in which quotes are escaped.
fn quoted_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.find(|character| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

/// `2, expected an array of length 3`
fn length(rest: &str) -> Option<(String, usize)> {
    let (found, after) = rest.split_once(", expected ")?;
    let count: usize = found.parse().ok()?;
    let items = if count == 1 { "item" } else { "items" };
    let (wanted, taken) = wanted(after);
    Some((format!("has {count} {items}, and must be {wanted}"), rest.len() - after.len() + taken))
}

/// `x`, expected one of `a`, `b``
fn variant(rest: &str) -> Option<(String, usize)> {
    let (found, after) = rest.split_once("`, expected ")?;
    Some((format!("is `{found}`, and must be "), rest.len() - after.len()))
}

fn field(rest: &str) -> Option<(String, usize)> {
    let (found, after) = rest.split_once("`, expected ")?;
    let after = after.strip_prefix("one of ").unwrap_or(after);
    Some((format!("`{found}` is not a known key; there are: "), rest.len() - after.len()))
}

fn missing(rest: &str) -> Option<(String, usize)> {
    let (found, _) = rest.split_once('`')?;
    Some((format!("lacks the key `{found}`"), found.len() + 1))
}

fn duplicate(rest: &str) -> Option<(String, usize)> {
    let (found, _) = rest.split_once('`')?;
    Some((format!("has the key `{found}` twice"), found.len() + 1))
}

/// The value that was found, as the person wrote it.
fn value(found: &str) -> Cow<'_, str> {
    for kind in ["boolean ", "integer ", "floating point ", "character "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.trim_matches('`').into();
        }
    }
    match found {
        "unit value" | "Option value" => "null".into(),
        "sequence" => "a list".into(),
        "map" => "a table".into(),
        _ => match found.strip_prefix("string ") {
            Some(text) => format!("the text {text}").into(),
            None => found.into(),
        },
    }
}

/// What was expected, and how much of the text says so.
fn wanted(text: &str) -> (Cow<'_, str>, usize) {
    let end = |from: &str| from.find(|end: char| !end.is_ascii_alphanumeric() && end != '_' && end != ':');
    if let Some(kind) = text.strip_prefix("a nonzero ") {
        let taken = text.len() - kind.len() + end(kind).unwrap_or(kind.len());
        return ("a whole number other than 0".into(), taken);
    }
    let first = end(text).unwrap_or(text.len());
    let whole = |words: &'static str| (Cow::Borrowed(words), first);
    match &text[..first] {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => return whole("a whole number, 0 or more"),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => return whole("a whole number"),
        "f32" | "f64" => return whole("a number"),
        "option" => return whole("a value"),
        _ => {}
    }
    for (form, words) in [
        ("an array of length ", "a list of length "),
        ("a tuple of size ", "a list of length "),
        ("string or map", "a name"),
        ("path string", "a path"),
        ("a borrowed string", "text"),
        ("a character", "one character"),
        ("a string", "text"),
        ("string", "text"),
        ("a boolean", "true or false"),
        ("a sequence", "a list"),
        ("a map", "a table"),
        ("map", "a table"),
        ("unit", "nothing"),
        ("variant identifier", "a name"),
    ] {
        if text.starts_with(form) {
            return (words.into(), form.len());
        }
    }
    for (form, words) in [
        ("internally tagged enum ", "a table with a name for its kind"),
        ("adjacently tagged enum ", "a table with a name for its kind"),
        ("struct variant ", "a table of keys"),
        ("tuple struct ", "a list"),
        ("tuple variant ", "a list"),
        ("newtype struct ", "a value"),
        ("struct ", "a table of keys"),
        ("enum ", "a name"),
    ] {
        if let Some(name) = text.strip_prefix(form) {
            let mut taken = form.len() + end(name).unwrap_or(name.len());
            // "with 7 elements", "with 1 element"
            let rest = &text[taken..];
            if let Some(count) = rest.strip_prefix(" with ") {
                let digits = count.bytes().take_while(u8::is_ascii_digit).count();
                let word =
                    [" elements", " element"].into_iter().find(|word| count[digits..].starts_with(word));
                taken += word.map_or(0, |word| " with ".len() + digits + word.len());
            }
            return (words.into(), taken);
        }
    }
    ("".into(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// The plain words for an invalid value of this type.
    macro_rules! said {
        ($kind:ty, $value:expr) => {
            plain(&serde_json::from_value::<$kind>($value).unwrap_err().to_string())
        };
    }

    #[test]
    fn no_word_of_the_language_is_left() {
        for (message, words) in [
            (said!(u64, json!("x")), "must be a whole number, 0 or more, not the text \"x\""),
            (said!(usize, json!(-1)), "must be a whole number, 0 or more, not -1"),
            (said!(i32, json!(1.5)), "must be a whole number, not 1.5"),
            (said!(f64, json!(null)), "must be a number, not null"),
            (said!(f32, json!([1])), "must be a number, not a list"),
            (said!(bool, json!({})), "must be true or false, not a table"),
            (said!(String, json!(3)), "must be text, not 3"),
            (said!(Vec<String>, json!(true)), "must be a list, not true"),
            (
                said!(BTreeMap<String, f64>, json!("a\", expected b")),
                "must be a table, not the text \"a\\\", expected b\"",
            ),
            (said!(std::path::PathBuf, json!(1)), "must be a path, not 1"),
            (said!(std::num::NonZeroU32, json!(0)), "must be a whole number other than 0, not 0"),
            (said!([f64; 3], json!([1])), "has 1 item, and must be a list of length 3"),
        ] {
            assert_eq!(message, words);
        }
        for (message, words) in [
            (
                "`train` invalid length 0, expected struct TrainSection with 7 elements",
                "`train` has 0 items, and must be a table of keys",
            ),
            (
                "`run` invalid type: integer `3`, expected struct RunSection\n  help: x",
                "`run` must be a table of keys, not 3\n  help: x",
            ),
            ("unknown variant `f16`, expected `f32` or `bf16`", "is `f16`, and must be `f32` or `bf16`"),
            (
                "x: unknown field `x`, expected one of `a`, `b`",
                "x: `x` is not a known key; there are: `a`, `b`",
            ),
            ("a.toml: missing field `run`", "a.toml: lacks the key `run`"),
            ("duplicate field `a` at line 1 column 3", "has the key `a` twice at line 1 column 3"),
            (
                "invalid type: map, expected u8 at line 2 column 9",
                "must be a whole number, 0 or more, not a table at line 2 column 9",
            ),
            (
                "invalid value 'x' for '--k <K>': invalid digit found in string",
                "invalid value 'x' for '--k <K>': must be a whole number, 0 or more",
            ),
            (
                "invalid type: integer `3`, expected one of number, math",
                "is 3, and must be one of number, math",
            ),
        ] {
            assert_eq!(plain(message), words);
        }
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        for message in [
            "",
            "x.toml: can't be read",
            "`a`: must be 1 or more",
            "invalid type: ",
            "unknown field `",
            "invalid length many, expected 3",
        ] {
            assert_eq!(plain(message), message);
        }
    }
}
