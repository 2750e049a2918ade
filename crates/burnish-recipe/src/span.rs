//! `[[spans]]`: named parts of the policy's answers, found by marks in their text.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// `[[spans]]`: a part of an answer, from `begin` to `end`. Each turn of the policy is searched by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanSection {
    /// Its name, by which other tables refer to it.
    pub name: String,
    /// The text at which it begins; without it, it begins with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// The text at which it ends; without it, it goes to the end of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Do the marks belong to it? Default: true, so that a policy that is trained on the span learns where it ends.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub marks: bool,
}

fn yes() -> bool {
    true
}

impl SpanSection {
    /// Its places in an answer, as bytes: in order, apart from each other. With both marks there may be several. An answer
    /// that goes on from a `begin` in its prompt has the span from its start to the first `end`; one that is cut off has it
    /// to its end.
    pub fn places(&self, answer: &str) -> Vec<Range<usize>> {
        let find = |mark: &Option<String>, from: usize| -> Option<Range<usize>> {
            let mark = mark.as_deref()?;
            let at = from + answer.get(from..)?.find(mark)?;
            Some(at..at + mark.len())
        };
        let mut places = Vec::new();
        let mut from = 0;
        while from < answer.len() {
            let (begin, end) = (find(&self.begin, from), find(&self.end, from));
            let ends_first =
                end.as_ref().is_some_and(|end| begin.as_ref().is_none_or(|begin| end.start < begin.start));
            let begin = match begin {
                // Only at the start may the mark be missing, in the text or in the recipe.
                _ if from == 0 && (self.begin.is_none() || ends_first) => 0..0,
                Some(begin) => begin,
                None => break,
            };
            let end = find(&self.end, begin.end).unwrap_or(answer.len()..answer.len());
            places.push(if self.marks { begin.start..end.end } else { begin.end..end.start });
            if self.begin.is_none() || self.end.is_none() {
                break;
            }
            from = end.end;
        }
        places.retain(|place| !place.is_empty());
        places
    }

    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let is_empty = |mark: &Option<String>| mark.as_deref().is_some_and(str::is_empty);
        match self {
            Self { name, .. } if name.trim().is_empty() => Err(("name", "must not be empty")),
            Self { begin: None, end: None, .. } => {
                Err(("begin", "or `end` is needed: the text at which the span begins or ends"))
            }
            Self { begin, .. } if is_empty(begin) => Err(("begin", "must not be empty: leave it out")),
            Self { end, .. } if is_empty(end) => Err(("end", "must not be empty: leave it out")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(begin: Option<&str>, end: Option<&str>, marks: bool, answer: &'a str) -> Vec<&'a str> {
        let (begin, end) = (begin.map(str::to_owned), end.map(str::to_owned));
        let span = SpanSection { name: "a".into(), begin, end, marks };
        span.places(answer).into_iter().map(|place| &answer[place]).collect()
    }

    #[test]
    fn a_span_is_found_by_its_marks() {
        let (begin, end) = (Some("<think>"), Some("</think>"));
        for (answer, inside, whole) in [
            ("<think>a</think>b", vec!["a"], vec!["<think>a</think>"]),
            (
                "x<think>é</think>b<think>c</think>",
                vec!["é", "c"],
                vec!["<think>é</think>", "<think>c</think>"],
            ),
            // The prompt began the thoughts.
            ("a</think>b<think>c", vec!["a", "c"], vec!["a</think>", "<think>c"]),
            // It was cut off.
            ("<think>a", vec!["a"], vec!["<think>a"]),
            ("<think></think>b", vec![], vec!["<think></think>"]),
            // A second end is no span.
            ("<think>a</think>b</think>c", vec!["a"], vec!["<think>a</think>"]),
            ("nothing", vec![], vec![]),
            ("", vec![], vec![]),
        ] {
            assert_eq!(texts(begin, end, false, answer), inside, "{answer}");
            assert_eq!(texts(begin, end, true, answer), whole, "{answer}");
        }
        // What follows the thoughts.
        assert_eq!(texts(Some("</think>"), None, false, "<think>a</think>b</think>c"), ["b</think>c"]);
        assert_eq!(texts(Some("</think>"), None, false, "a"), [""; 0]);
        // The first line.
        assert_eq!(texts(None, Some("\n"), false, "a\nb\nc"), ["a"]);
        assert_eq!(texts(None, Some("\n"), true, "abc"), ["abc"]);
    }
}
