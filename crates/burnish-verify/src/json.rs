//! JSON answers.

use burnish_core::json;
use serde_json::Value;

use crate::fence::blocks;
use crate::reading::{Reading, marked, stripped, tagged};

/// How many places at which a value may start are tried, from the end of a response.
const ATTEMPTS: usize = 64;

/// The JSON value of a response: of the last tag, or without one the whole response, the last fenced block, the value
/// that ends it, or what another mark holds. `Err` holds text that is not JSON.
pub(crate) fn found(response: &str, reading: Reading) -> Option<Result<(Value, String), String>> {
    let parse = |text: &str| json::parse(text).ok().map(|value| (value, text.to_owned()));
    let trimmed = response.trim();
    if trimmed.is_empty() {
        return None;
    }
    let is_last = reading == Reading::Last;
    if let Some(found) = parse(trimmed).filter(|_| is_last) {
        return Some(Ok(found));
    }
    if let Some(tag) = tagged(response) {
        let inner = fenced(&tag).unwrap_or(tag);
        let inner = inner.trim();
        return Some(parse(inner).ok_or_else(|| inner.to_owned()));
    }
    if is_last {
        if let Some(block) = fenced(response) {
            return Some(parse(block.trim()).ok_or_else(|| block.trim().to_owned()));
        }
        let end = trimmed.trim_end_matches('.');
        let starts = end.char_indices().filter(|(_, c)| matches!(c, '{' | '['));
        let starts: Vec<usize> = starts.map(|(index, _)| index).take(ATTEMPTS).collect();
        if let Some(found) = starts.iter().find_map(|start| parse(&end[*start..])) {
            return Some(Ok(found));
        }
    }
    let marked = marked(response)?;
    let text = stripped(&marked.text);
    Some(parse(text).ok_or_else(|| text.to_owned()))
}

/// The content of the last fenced block, or of what stands on one line between three ticks.
fn fenced(text: &str) -> Option<String> {
    if let Some(block) = blocks(text).into_iter().rfind(|block| block.is_closed) {
        return Some(block.content);
    }
    let (before, _) = text.rsplit_once("```")?;
    before.rsplit_once("```").map(|(_, inner)| inner.to_owned())
}

/// Objects without order, arrays with order, numbers by value, everything else exactly. Integers have all their digits
/// ([`json::parse`]).
pub(crate) fn same(gold: &Value, answer: &Value) -> bool {
    match (gold, answer) {
        (Value::Number(gold), Value::Number(answer)) => {
            // Whole numbers exactly; others as the doubles that JSON readers turn them into.
            match (integer(gold), integer(answer)) {
                (Some(a), Some(b)) => a == b,
                (None, None) => gold.as_f64() == answer.as_f64(),
                _ => false,
            }
        }
        (Value::Array(gold), Value::Array(answer)) => {
            gold.len() == answer.len() && gold.iter().zip(answer).all(|(a, b)| same(a, b))
        }
        (Value::Object(gold), Value::Object(answer)) => {
            gold.len() == answer.len()
                && gold.iter().all(|(key, value)| answer.get(key).is_some_and(|other| same(value, other)))
        }
        (gold, answer) => gold == answer,
    }
}

/// The integer that a number is, also for `1.0` and `1e2`.
fn integer(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| {
        let value = number.as_f64()?;
        // Beyond 2^53, a double has lost digits, so it is compared as a double.
        (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(gold: &str, response: &str) -> bool {
        let gold = json::parse(gold).unwrap();
        matches!(found(response, Reading::Last), Some(Ok((value, _))) if same(&gold, &value))
    }

    #[test]
    fn values_are_found_and_compared_by_what_they_mean() {
        let gold = r#"{"a": 1, "b": [1.5, "x"], "c": null}"#;
        let other_order = r#"{"c":null,"b":[1.5,"x"],"a":1.0}"#;
        for response in [
            other_order.to_owned(),
            format!("Here it is:\n```json\n{other_order}\n```\nDone."),
            format!("<answer>{other_order}</answer>"),
            format!("The answer is {other_order}."),
            format!("```\n{{}}\n```\nNo:\n```\n{other_order}\n```"),
        ] {
            assert!(agrees(gold, &response), "{response}");
        }
        for response in [
            r#"{"a": 1, "b": ["x", 1.5], "c": null}"#,
            r#"{"a": "1", "b": [1.5, "x"], "c": null}"#,
            r#"{"a": 1, "b": [1.5, "x"]}"#,
            r#"{"a": 1, "b": [1.5, "x"], "c": null, "d": 2}"#,
            r#"{"a": 1, "b": [1.5, "X"], "c": null}"#,
            "",
            "no JSON",
        ] {
            assert!(!agrees(gold, response), "{response}");
        }
        // An unclosed tag, a tag that is only named, a fence inside of a string.
        assert!(
            agrees("[1]", "<answer>[1]")
                && agrees("[1]", "<answer>[1]</answer> stands in <answer></answer>.")
        );
        assert!(agrees(r#"["```"]"#, "````json\n[\"```\"]\n````") && agrees("[1]", "So: ```[1]```"));
    }

    #[test]
    fn integers_are_compared_with_all_their_digits() {
        let long = "123456789012345678901234567890";
        for (gold, other) in [
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551616", "18446744073709551617"),
            ("-9223372036854775809", "-9223372036854775808"),
            (long, "123456789012345678901234567891"),
            (long, "1.2345678901234568e29"),
            (long, "-123456789012345678901234567890"),
        ] {
            assert!(agrees(gold, gold) && !agrees(gold, other) && !agrees(other, gold), "{gold} {other}");
            let (nested, of_other) = (format!(r#"{{"a": [{gold}]}}"#), format!(r#"{{"a": [{other}]}}"#));
            assert!(agrees(&nested, &nested) && !agrees(&nested, &of_other), "{gold} {other}");
        }
        assert!(agrees("100", "1e2") && agrees("1", "1.0") && !agrees(long, &format!("\"{long}\"")));
    }
}
