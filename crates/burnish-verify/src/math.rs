//! Numbers and mathematics: finds and reads the answer in a response, and compares it.

use crate::equal::same;
use crate::explain::Place;
use crate::extract::{self, Mark};
use crate::prose::{self, Reading};
use crate::relation;
use crate::show::shown;
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
    /// Whether `3,5` is 3.5, because no list is asked for.
    decimal_comma: bool,
    /// Whether `(5)` is -5.
    accounting: bool,
    /// Whether it is one number, so that a formula with variables is passed over.
    is_number: bool,
}

/// The outcome of a comparison.
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
        let is_number = matches!(&value, Value::Quantity { expr, .. } if is_number(expr));
        Ok(Reference { value, words, grouped, decimal_comma, accounting: number_only, is_number })
    }

    /// Judges `response`.
    pub(crate) fn judge(&self, response: &str, work: &mut Work) -> Outcome {
        let Some((reading, source, _)) = self.reading(response) else {
            return Outcome { answer: None, is_same: false };
        };
        // In prose, `3,5` is read as two numbers; compared with one number, it is a decimal.
        let decimal = if self.decimal_comma { with_point(&source) } else { None };
        let reading = decimal.and_then(|text| read(&text, true)).or(reading);
        let is_text = matches!(self.value, Value::Text(_)) || matches!(reading, Some(Value::Text(_)));
        let is_same = match &reading {
            Some(value) if same(&self.value, value, work) => true,
            // `(18)` by itself is -18 to accountants, 18 to everyone else.
            Some(_) if self.accounting && in_brackets(&source).is_some() => in_brackets(&source)
                .and_then(|inner| read(inner, true))
                .is_some_and(|value| same(&self.value, &value, work)),
            // `\text{(C)}` and C, `\text{even}` and even.
            _ if is_text => !self.words.is_empty() && text::words(extract::stripped(&source)) == self.words,
            _ => false,
        };
        Outcome { answer: Some((source, reading.is_some() || is_same)), is_same }
    }

    /// How the reference was read.
    pub(crate) fn shown(&self) -> String {
        shown(&self.value)
    }

    /// Where the answer of `response` was found, and how it was read.
    pub(crate) fn read_of(&self, response: &str) -> (Option<Place>, Option<String>) {
        match self.reading(response) {
            None => (None, None),
            Some((value, source, place)) => {
                let decimal = if self.decimal_comma { with_point(&source) } else { None };
                let value = decimal.and_then(|text| read(&text, true)).or(value);
                (Some(place), value.as_ref().map(shown))
            }
        }
    }

    /// The answer's value (if it can be read), its text, and where it was found. `None` if there is no answer.
    fn reading(&self, response: &str) -> Option<Found> {
        // "Seven of them are left."
        let in_digits = if self.is_number { prose::in_digits(response) } else { None };
        let response = in_digits.as_deref().unwrap_or(response);
        let response = if self.is_number { without_label(response) } else { response };
        let Some(marked) = extract::marked(response) else {
            if let Some(said) = self.said_in_words(response) {
                return Some((Some(self.value.clone()), said, Place::Whole));
            }
            let bare = extract::stripped(response);
            let whole = if response.len() <= 400 { self.read(bare, true) } else { None };
            if self.is_text() {
                let last = prose::last(response, false);
                if let Reading::Value(value @ Value::Text(_), source) = last {
                    return Some((Some(value), source, Place::Last));
                }
            }
            if let Some(value) = whole {
                return Some((Some(value), bare.to_owned(), Place::Whole));
            }
            if let Some(reading) = prose::named_after(response, 0, self.is_number) {
                return found(reading, Place::Phrase);
            }
            return found(prose::last(response, self.is_number), Place::Last);
        };
        let text = extract::stripped(&marked.text).to_owned();
        let place = Place::of(marked.mark);
        if marked.mark == Mark::Phrase {
            return self.after_phrase(response, &marked, text);
        }
        if let Some(value) = self.read(&text, false) {
            return Some((Some(value), text, place));
        }
        // A box holds an answer and no prose: "any number such as 2" is not 2.
        let reading = if marked.mark == Mark::Boxed {
            prose::bare(&marked.text)
        } else {
            prose::after(&marked.text, 0, self.is_number)
        };
        found(reading, place).or(Some((None, text, place)))
    }

    fn after_phrase(&self, response: &str, marked: &extract::Marked, text: String) -> Option<Found> {
        // "18 is the answer. To answer it one has to ...": the later of the two counts.
        if let Some(reading) = prose::named_after(response, marked.start, self.is_number) {
            return found(reading, Place::Phrase);
        }
        if let Some(said) = self.said_in_words(response) {
            return Some((Some(self.value.clone()), said, Place::Phrase));
        }
        if self.is_text() {
            let reading = prose::after(response, marked.start, false);
            if let Reading::Value(value @ Value::Text(_), source) = reading {
                return Some((Some(value), source, Place::Phrase));
            }
            if prose::is_denied(response, marked.start) {
                return Some((None, text, Place::Phrase));
            }
            if let Some(value) = self.read(&text, true) {
                return Some((Some(value), text, Place::Phrase));
            }
            let said = extract::sentence(&text).to_owned();
            return Some((None, said, Place::Phrase));
        }
        // Only an answer follows, and nothing denies it.
        let is_last = response[marked.start..].trim_end().ends_with(marked.text.trim_end());
        if is_last
            && !text.ends_with('!')
            && !prose::is_denied(response, marked.start)
            && let Some(value) = self.read(&text, true)
        {
            return Some((Some(value), text, Place::Phrase));
        }
        let mut start = marked.start;
        let mut end = response.len();
        let mut unclear = None;
        for _ in 0..4 {
            match prose::after(&response[..end], start, self.is_number) {
                Reading::Value(value, source) => return Some((Some(value), source, Place::Phrase)),
                Reading::Unclear(source) => unclear = unclear.or(Some(source)),
                Reading::Nothing => {}
            }
            // A phrase under a condition ("if the answer is 7"), or with nothing after it, gives way to an earlier one.
            if unclear.is_some() && !prose::is_supposed(response, start) {
                break;
            }
            let Some(earlier) = extract::earlier_phrase(&response[..start]) else { break };
            end = start;
            start = earlier;
        }
        if let Some(source) = unclear {
            return Some((None, source, Place::Phrase));
        }
        if let Some(value) = self.read(&text, true) {
            return Some((Some(value), text, Place::Phrase));
        }
        // "The answer is correct." marks nothing.
        found(prose::last(response, self.is_number), Place::Last)
    }

    /// The marked text, or the text before "is the answer", if the reference is words or one letter and the text has
    /// the same words.
    fn said_in_words(&self, response: &str) -> Option<String> {
        if !(self.is_text() || relation::is_name(&self.value)) || self.words.is_empty() {
            return None;
        }
        let candidates = text::candidates(response);
        candidates.into_iter().find(|candidate| text::words(extract::stripped(candidate)) == self.words)
    }

    fn is_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    /// Reads a text that is nothing but an answer. In a sentence "36!" is an exclamation, in a mark a factorial.
    fn read(&self, text: &str, is_sentence: bool) -> Option<Value> {
        let text = if self.accounting { accounted(text) } else { text.to_owned() };
        let text = if self.decimal_comma { with_point(&text).unwrap_or(text) } else { text };
        // "48 (6 × 8)" is not a product.
        let is_explained =
            self.is_number && text.contains(" (") && text.starts_with(|c: char| c.is_ascii_digit());
        if is_explained || (self.is_number && text.contains("!=")) {
            return None;
        }
        if self.is_number && prose::is_unsolved(&text) {
            return None;
        }
        let is_thousands = self.is_number && text.ends_with(['k', 'K', 'M', 'B']);
        if !self.is_text() && (is_thousands || prose::has_words(&text)) {
            return None;
        }
        let text = if self.is_number { prose::without_unit(&text) } else { &text };
        let text = if self.is_number && is_sentence { exclaimed(text) } else { text };
        read(text, self.grouped)
            .map(|value| if self.is_number { last_step(value) } else { value })
            .filter(|value| self.is_text() || !is_mere_words(value))
    }
}

/// A value (if it can be read), its text, and where it was found.
type Found = (Option<Value>, String, Place);

fn found(reading: Reading, place: Place) -> Option<Found> {
    match reading {
        Reading::Value(value, source) => Some((Some(value), source, place)),
        Reading::Unclear(source) => Some((None, source, place)),
        Reading::Nothing => None,
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

/// `3,5` with a point, if its comma is the only one and can't be a thousands separator. `None` for anything else.
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

/// A response without the letter of its question, as in "(b) 48".
fn without_label(response: &str) -> &str {
    let bare = response.trim_start();
    let inner = bare.strip_prefix('(').unwrap_or(bare);
    match inner.as_bytes() {
        [b'a'..=b'h', b')', b' ', ..] => inner[2..].trim_start(),
        _ => response,
    }
}

/// The last of several equations: "35 - 12 = 23, 23 + 4 = 27".
fn last_step(value: Value) -> Value {
    match value {
        Value::List(mut items) if are_steps(&items) => match items.pop() {
            Some(last) => last,
            None => Value::List(items),
        },
        other => other,
    }
}

/// Whether equations follow from each other, rather than giving one thing several values.
fn are_steps(items: &[Value]) -> bool {
    let left = |value: &Value| match value {
        Value::Chain(sides, _) => sides.first().cloned(),
        _ => None,
    };
    items.len() > 1
        && items.windows(2).all(|pair| {
            left(&pair[0]).is_some() && left(&pair[1]).is_some() && left(&pair[0]) != left(&pair[1])
        })
}

/// Without the sign of an exclamation.
fn exclaimed(text: &str) -> &str {
    match text.strip_suffix('!') {
        Some(number) if number.trim_start_matches('$').parse::<f64>().is_ok() => number,
        _ => text,
    }
}

/// The content of the brackets around a whole text.
fn in_brackets(text: &str) -> Option<&str> {
    text.trim().strip_prefix('(')?.strip_suffix(')').map(str::trim)
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
    fn an_exclamation_stands_in_a_sentence_and_a_factorial_in_a_mark() {
        for response in [r"\boxed{5!}", "<answer>5!</answer>", "#### 5!", "The answer is $5!$.", "$5!$"] {
            assert!(judge("120", response) && judge("5!", response) && !judge("5", response), "{response}");
        }
        for response in ["5!", "The answer is 5!", "It is 5!"] {
            assert!(judge("5", response) && !judge("120", response), "{response}");
        }
    }

    #[test]
    fn upright_letters_are_no_units() {
        for response in [r"\boxed{2\mathrm{i}}", r"The answer is $2\text{x}$.", r"$2\,\mathrm{e}$", "2𝑥"] {
            assert!(!judge("2", response), "{response}");
        }
        assert!(judge("2+3i", r"\boxed{2+3\mathrm{i}}") && judge("2x", r"So it is $2\mathrm{x}$."));
        assert!(judge("2", r"\boxed{2\,\mathrm{m}}") && judge("2", r"\boxed{2\text{ L}}"));
        assert!(!judge(r"\text{ABC}", r"\boxed{\text{CBA}}") && !judge("ABC", r"\boxed{CBA}"));
        assert!(judge(r"\text{ABC}", r"\boxed{ABC}") && judge("ABC", r"\boxed{\text{ABC}}"));
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
            "She has 18 eggs of 20",
            "Half of 36 is 36 / 2",
        ] {
            assert!(judge("18", response), "{response}");
        }
        assert!(judge(r"\frac{3}{4}", r"The chance is thus $\frac{3}{4}$ in all."));
        assert!(judge("-2,1", r"So $x=1$ or $x = -2$."));
    }
}
