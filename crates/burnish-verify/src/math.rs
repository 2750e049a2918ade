//! Numbers and mathematics: reads an answer out of a response and compares it.

use crate::equal::same;
use crate::extract::{self, Mark};
use crate::prose::{self, Reading};
use crate::structure::read;
use crate::syntax::{Expr, Value};
use crate::text;
use crate::work::Work;

/// Most formulas that are taken as one list.
const FORMULAS: usize = 64;

/// A reference, read once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    value: Value,
    words: String,
    /// Whether `1,234` outside of brackets is one number.
    grouped: bool,
    /// Whether `3,5` is 3.5, since no list is asked for.
    decimal_comma: bool,
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
        let decimal_comma = matches!(value, Value::Quantity { .. });
        let words = text::words(reference);
        Ok(Reference { value, words, grouped, decimal_comma, accounting: number_only })
    }

    /// Judges `response`.
    pub(crate) fn judge(&self, response: &str, work: &mut Work) -> Outcome {
        let Some((reading, source)) = self.reading(response) else {
            return Outcome { answer: None, is_same: false };
        };
        // Prose takes `3,5` for two numbers; against one number it is a decimal.
        let decimal = if self.decimal_comma { with_point(&source) } else { None };
        let reading = decimal.and_then(|text| read(&text, true)).or(reading);
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
            // A box holds an answer and no prose: "any number such as 2" is not 2.
            let reading =
                if found.mark == Mark::Boxed { Reading::Nothing } else { self.in_prose(&found.text) };
            match reading {
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
        let text = if self.decimal_comma { with_point(&text).unwrap_or(text) } else { text };
        read(&text, self.grouped).filter(|value| self.is_text() || !is_mere_words(value))
    }

    /// The first formula or number of a sentence that is known to hold the answer.
    fn in_prose(&self, text: &str) -> Reading {
        let sentence = extract::sentence(text);
        let clean = extract::stripped(sentence);
        if clean.starts_with("not ") {
            return Reading::Unclear(clean.to_owned());
        }
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
        while forward && last + 1 < formulas.len().min(index + FORMULAS) && is_joined(last, last + 1) {
            last += 1;
        }
        while !forward && first > index.saturating_sub(FORMULAS) && is_joined(first - 1, first) {
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

/// `3,5` with a point, where its comma can't be one of thousands and is the only one. `None` for anything else.
fn with_point(text: &str) -> Option<String> {
    let (whole, rest) = text.split_once(',')?;
    let decimals = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_number = whole.trim_start_matches(['-', '$', '€', '\\']).chars().all(|c| c.is_ascii_digit())
        && whole.ends_with(|c: char| c.is_ascii_digit())
        && !matches!(decimals, 0 | 3)
        && !rest[decimals..].contains([',', '.', ';'])
        && !rest[decimals..].contains(|c: char| c.is_ascii_digit());
    is_number.then(|| format!("{whole}.{rest}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(reference: &str, response: &str) -> bool {
        let Ok(reference) = Reference::new(reference, false) else { panic!("{reference}") };
        reference.judge(response, &mut Work::new()).is_same
    }

    #[test]
    fn a_comma_is_a_point_where_it_can_be_nothing_else() {
        assert_eq!(with_point("3,5").as_deref(), Some("3.5"));
        assert_eq!(with_point("-12,25 kg").as_deref(), Some("-12.25 kg"));
        for text in ["3,500", "3, 5", "3,5,7", "3,", ",5", "x,5", "3,5.5", "3,5 or 4"] {
            assert_eq!(with_point(text), None, "{text}");
        }
        assert!(judge("3.5", "Die Antwort ist 3,5."));
        assert!(!judge("3", "Die Antwort ist 3,5."));
        assert!(judge("3,5", r"\boxed{5,3}"));
    }

    #[test]
    fn accountants_brackets_are_minus_for_numbers_alone() {
        assert_eq!(accounted("$ (3.5)"), "-3.5");
        assert_eq!(accounted("(66)%"), "-66%");
        assert_eq!(accounted("(x)"), "(x)");
        assert_eq!(accounted("(1,2) and more"), "-1,2 and more");
        assert!(judge("114", "(114)"));
    }

    #[test]
    fn an_answer_is_not_accepted_for_standing_somewhere() {
        let hedges = [
            "1 or 2 or 3",
            "The answer is 1, 2, or 3.",
            r"\boxed{1,2,3}",
            r"\boxed{[1, 3]}",
            r"\boxed{\{1, 2, 3\}}",
            r"\boxed{2}, \boxed{3}",
            r"\boxed{2} ... so \boxed{3}",
            "The answer is 2 or 3.",
            "The answer is between 2 and 3",
            "The answer is 2-3.",
            r"The answer is $2$ or $3$.",
            r"\boxed{2 \text{ or } 3}",
            r"\boxed{x \ge 2}",
            r"\boxed{2 \pm 1}",
            r"\boxed{\text{any number such as } 2}",
            "<answer>2</answer> <answer>3</answer>",
            "2 is even. The answer is 3.",
            "The answer is not 2.",
            "",
            r"\boxed{}",
            r"\boxed{2",
        ];
        for response in hedges {
            assert!(!judge("2", response), "{response}");
        }
    }

    #[test]
    fn the_last_number_or_formula_counts_where_nothing_is_marked() {
        for response in [
            "She makes 9 * 2 = $18 every day.",
            r"\( 9 \times 2 = 18 \) dollars",
            "18",
            "18.",
            "**18**",
            "She has 18 eggs",
            "Half of 36 is 36 / 2",
        ] {
            assert!(judge("18", response), "{response}");
        }
        assert!(!judge("18", "She has 18 eggs of 20"));
        assert!(judge(r"\frac{3}{4}", r"The chance is thus $\frac{3}{4}$ in all."));
        assert!(judge("-2,1", r"So $x=1$ or $x = -2$."));
    }
}
