//! Numbers and mathematics: reads an answer out of a response and compares it.

use crate::equal::same;
use crate::extract::{self, Mark};
use crate::prose::{self, Reading};
use crate::structure::read;
use crate::syntax::{Expr, Value};
use crate::text;
use crate::work::Work;

/// A reference, read once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    value: Value,
    words: String,
    /// Whether `1,234` outside of brackets is one number.
    grouped: bool,
    /// Whether `(5)` is -5.
    accounting: bool,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The answer as found, and whether it could be read.
    pub(crate) answer: Option<(String, bool)>,
    pub(crate) is_same: bool,
}

/// Why a reference was refused.
pub(crate) enum Refusal {
    Unreadable,
    NotANumber,
}

impl Reference {
    /// Reads a reference; `number_only` asks for one number without variables.
    pub(crate) fn new(reference: &str, number_only: bool) -> Result<Reference, Refusal> {
        let clean = extract::stripped(reference);
        let clean = if number_only { accounted(clean) } else { clean.to_owned() };
        let value = read(&clean, true).ok_or(Refusal::Unreadable)?;
        if number_only && !matches!(&value, Value::Quantity { expr, .. } if is_number(expr)) {
            return Err(Refusal::NotANumber);
        }
        let grouped = !matches!(value, Value::List(_) | Value::Set(_));
        Ok(Reference { value, words: text::words(reference), grouped, accounting: number_only })
    }

    /// Judges `response`.
    pub(crate) fn judge(&self, response: &str, work: &mut Work) -> Outcome {
        let Some((reading, source)) = self.reading(response) else {
            return Outcome { answer: None, is_same: false };
        };
        let is_text = matches!(self.value, Value::Text(_)) || matches!(reading, Some(Value::Text(_)));
        let is_same = match &reading {
            Some(value) if same(&self.value, value, work) => true,
            // `\text{(C)}` and C, `\text{even}` and even.
            _ if is_text => !self.words.is_empty() && text::words(extract::stripped(&source)) == self.words,
            _ => false,
        };
        Outcome { answer: Some((source, reading.is_some() || is_same)), is_same }
    }

    /// The answer's value (if it can be read) and its text. `None` if there is no answer.
    fn reading(&self, response: &str) -> Option<(Option<Value>, String)> {
        if let Some(found) = extract::marked(response) {
            let text = extract::stripped(&found.text).to_owned();
            if let Some(value) = self.read(&text) {
                return Some((Some(value), text));
            }
            match self.in_prose(&found.text) {
                Reading::Value(value, source) => return Some((Some(value), source)),
                Reading::Unclear(source) => return Some((None, source)),
                // "The answer is correct." marks nothing; a box always does.
                Reading::Nothing if found.mark == Mark::Phrase && !self.is_text() => {}
                Reading::Nothing if found.mark == Mark::Phrase => {
                    return Some((None, extract::sentence(&text).to_owned()));
                }
                Reading::Nothing => return Some((None, text)),
            }
        } else if response.len() <= 400
            && let Some(value) = self.read(extract::stripped(response))
        {
            return Some((Some(value), extract::stripped(response).to_owned()));
        }
        self.last(response)
    }

    fn is_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    fn read(&self, text: &str) -> Option<Value> {
        let text = if self.accounting { accounted(text) } else { text.to_owned() };
        read(&text, self.grouped).filter(|value| self.is_text() || !is_mere_words(value))
    }

    /// The first formula or number of a sentence that is known to hold the answer.
    fn in_prose(&self, text: &str) -> Reading {
        let sentence = extract::sentence(text);
        let clean = extract::stripped(sentence);
        if let Some(value) = self.read(clean) {
            return Reading::Value(value, clean.to_owned());
        }
        let formulas = extract::formulas(text);
        let number = prose::first(text);
        if let Some((range, _)) = formulas.first() {
            let is_number_earlier = match &number {
                Reading::Value(_, source) | Reading::Unclear(source) => {
                    text.find(source.as_str()).is_some_and(|at| at < range.start)
                }
                Reading::Nothing => false,
            };
            if !is_number_earlier && let Some(found) = self.joined(text, &formulas, 0, true) {
                return Reading::Value(found.0, found.1);
            }
        }
        number
    }

    /// The last formula or number that can be read.
    fn last(&self, response: &str) -> Option<(Option<Value>, String)> {
        let (number, number_at) = prose::last(response);
        let formulas = extract::formulas(response);
        for index in (0..formulas.len()).rev().take(8) {
            let (range, _) = &formulas[index];
            if number != Reading::Nothing && number_at >= range.end {
                break;
            }
            if let Some((value, source)) = self.joined(response, &formulas, index, false) {
                return Some((Some(value), source));
            }
        }
        match number {
            Reading::Value(value, source) => Some((Some(value), source)),
            Reading::Unclear(source) => Some((None, source)),
            Reading::Nothing => None,
        }
    }

    /// The formula at `index` and those joined to it (after it, or before it) as one answer.
    fn joined(
        &self,
        text: &str,
        formulas: &[(std::ops::Range<usize>, &str)],
        index: usize,
        forward: bool,
    ) -> Option<(Value, String)> {
        let (mut first, mut last) = (index, index);
        let is_joined = |left: usize, right: usize| {
            extract::is_connective(&text[formulas[left].0.end..formulas[right].0.start])
        };
        while forward && last + 1 < formulas.len() && is_joined(last, last + 1) {
            last += 1;
        }
        while !forward && first > 0 && is_joined(first - 1, first) {
            first -= 1;
        }
        let source =
            formulas[first..=last].iter().map(|(_, inner)| inner.trim()).collect::<Vec<_>>().join(", ");
        self.read(extract::stripped(&source)).map(|value| (value, source))
    }
}

fn is_mere_words(value: &Value) -> bool {
    match value {
        Value::Text(words) => words.split(' ').count() > 3,
        Value::List(items) => items.iter().any(is_mere_words),
        _ => false,
    }
}

/// Whether `expr` is a number: no variables, nothing infinite.
fn is_number(expr: &Expr) -> bool {
    !matches!(expr, Expr::Symbol(_) | Expr::Infinity) && expr.children().into_iter().all(is_number)
}

/// Accountants write -5 as (5): `$(5)`, `$ (3.5)`, `(66)%`.
fn accounted(text: &str) -> String {
    let bare = text.trim().trim_start_matches(['$', '\\', ' ']);
    let inner = bare.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    match inner {
        Some((digits, rest))
            if digits.chars().any(|c| c.is_ascii_digit())
                && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '.' | ' ' | '$')) =>
        {
            format!("-{digits}{rest}")
        }
        _ => text.to_owned(),
    }
}
