//! JSON whose integers may have any number of digits.
//!
//! A [`Value`] holds 64-bit integers and turns a longer one into a float. Data can hold such integers (ids, hashes),
//! and a policy reads their digits. So [`parse`] keeps such a number, with its digits, as an object with the single key
//! `$burnish::integer`, and [`text`] writes it as a number again. (The feature `arbitrary_precision` of `serde_json`
//! would change how the whole program reads numbers, and breaks `flatten` and `untagged`.)

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Key of an object that stands for a long integer.
const LONG: &str = "$burnish::integer";

/// Reads JSON.
///
/// # Errors
/// As `serde_json`.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    read(text)
}

/// Reads JSON as something that holds values.
///
/// # Errors
/// As `serde_json`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    match marked(text) {
        Cow::Borrowed(text) => serde_json::from_str(text),
        // Errors are looked for in the original text, because the columns that they report must be those of the user's
        // text.
        Cow::Owned(marked) => serde_json::from_str(&marked).or_else(|_| serde_json::from_str(text)),
    }
}

/// Writes JSON, with long integers as plain digits.
///
/// # Errors
/// As `serde_json`.
pub fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(value).map(plain)
}

/// A value as [`text`] writes it.
pub fn line(value: &Value) -> String {
    plain(value.to_string())
}

/// JSON that `serde_json` wrote on one line, with long integers as plain digits.
#[must_use]
pub fn plain(text: String) -> String {
    // Inside a string the quotes would be escaped, so this can only be such an object.
    let mut rest = text.split("{\"$burnish::integer\":\"");
    let mut out = rest.next().unwrap_or_default().to_owned();
    for after in rest {
        match after.split_once("\"}") {
            Some((digits, after)) if is_whole(digits) => out.extend([digits, after]),
            _ => out.extend(["{\"$burnish::integer\":\"", after]),
        }
    }
    out
}

/// The digits of a long integer; `None` for every other value.
pub fn long_digits(value: &Value) -> Option<&str> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    let digits = map.get(LONG)?.as_str()?;
    is_whole(digits).then_some(digits)
}

/// The value with each long integer replaced by the nearest float.
#[must_use]
pub fn rounded(value: Value) -> Value {
    if let Some(number) = long_digits(&value).and_then(|digits| digits.parse::<f64>().ok()) {
        return json!(number);
    }
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(rounded).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, rounded(value))).collect::<Map<_, _>>())
        }
        value => value,
    }
}

fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Bytes of the escape at `at`; an error where it is half of a character alone.
fn escape_bytes(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let unit = |at: usize| -> Option<u32> {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
    };
    match (unit(at), unit(at + 6)) {
        (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => Ok(12),
        (Some(0xd800..0xe000), _) => Err(6),
        _ => Ok(2),
    }
}

/// Has this process replaced a lone surrogate?
static REPLACED: AtomicBool = AtomicBool::new(false);

/// Has [`marked`] replaced a lone surrogate in this process? A command says so once, at its end.
pub fn has_replaced_surrogates() -> bool {
    REPLACED.load(Ordering::Relaxed)
}

/// The text for others who read it with `serde_json`: every integer that a [`Value`] can't hold is written as an object, and
/// -0, which is also an integer, as 0. JavaScript and Python write a text that was cut inside of a character with half of it
/// (`\ud83d`) and read it again; here it becomes the replacement character.
pub fn marked(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    let length = match bytes[at] {
                        b'\\' => escape_bytes(bytes, at),
                        _ => Ok(1),
                    };
                    at += length.unwrap_or_else(|lone| {
                        out += &text[copied..at];
                        REPLACED.store(true, Ordering::Relaxed);
                        out += "\\ufffd";
                        copied = at + lone;
                        lone
                    });
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let begin = at;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                let number = &text[begin..at];
                let is_long = number.len() >= 19
                    && is_whole(number)
                    && !number.trim_start_matches('-').starts_with('0')
                    && number.parse::<i64>().is_err()
                    && number.parse::<u64>().is_err();
                if is_long || number == "-0" {
                    out += &text[copied..begin];
                    out += &if is_long { format!("{{\"{LONG}\":\"{number}\"}}") } else { "0".to_owned() };
                    copied = at;
                }
            }
            _ => at += 1,
        }
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(out + &text[copied..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_whole_numbers_keep_their_digits() {
        let given = r#"{"a":[18446744073709551616,-9223372036854775809,18446744073709551615],"b":"1e5 \"99999999999999999999\\","c":{"d":123456789012345678901234567890}}"#;
        let value = parse(given).unwrap();
        assert_eq!(long_digits(&value["a"][0]), Some("18446744073709551616"));
        assert_eq!(long_digits(&value["a"][1]), Some("-9223372036854775809"));
        assert_eq!(value["a"][2], json!(u64::MAX));
        assert_eq!(value["b"], "1e5 \"99999999999999999999\\");
        assert_eq!(text(&value).unwrap(), given);
        // A user's own object is not touched, and what is a text stays one.
        let own = json!({"a": {LONG: "x"}, "b": {LONG: "1", "c": 2}, "d": format!("{{\"{LONG}\":\"1\"}}")});
        assert_eq!(text(&own).unwrap(), own.to_string());
        assert_eq!(rounded(value)["c"]["d"], json!(123_456_789_012_345_678_901_234_567_890_f64));
    }

    #[test]
    fn half_a_character_is_replaced() {
        for (given, expected) in [
            (r#"{"text": "a\ud83d", "n": 7}"#, json!({"text": "a\u{fffd}", "n": 7})),
            (r#"["\ude00\uD83D\ud83d\ude00"]"#, json!(["\u{fffd}\u{fffd}\u{1f600}"])),
            (r#"["\ud83dx\u00e9\n\\ud83d"]"#, json!(["\u{fffd}xé\n\\ud83d"])),
        ] {
            assert_eq!(parse(given).unwrap(), expected, "{given}");
        }
        assert!(parse(r#""\ud8""#).is_err());
    }

    #[test]
    fn other_numbers_are_read_as_ever() {
        let floats = "[1.0, -0.0, 1e20, 12345678901234567890.5, 1E400]";
        assert!(parse(floats).is_err(), "no float is so great");
        let floats = "[1.0, -0.0, 1e20, 12345678901234567890.5]";
        assert_eq!(parse(floats).unwrap(), serde_json::from_str::<Value>(floats).unwrap());
        assert_eq!(parse("[-0, 7]").unwrap(), json!([0, 7]));
        assert_eq!(parse("-0").unwrap().to_string(), "0");
    }

    #[test]
    fn an_error_names_the_place_in_the_text_itself() {
        let error = parse(r#"{"a": 123456789012345678901234567890, "b": }"#).unwrap_err();
        assert_eq!(error.column(), 44);
        for broken in ["\"", "\"\\", "[00000000000000000000000]", "-", "{\"a\": 1234567890123456789012-3}"] {
            assert!(parse(broken).is_err(), "{broken}");
        }
    }
}
