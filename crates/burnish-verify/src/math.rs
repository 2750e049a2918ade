//! Numbers and mathematics: finds and reads the answer in a response, and compares it.

use crate::equal::same;
use crate::explain::Place;
use crate::lex;
use crate::reading::{Mark, Marked, Reading, marked_where, stripped, values};
use crate::relation;
use crate::show::shown;
use crate::structure::read;
use crate::syntax::{Expr, Value};
use crate::text;
use crate::units;
use crate::work::Work;

/// How much of a response without a mark is searched for values, from its end, in bytes.
const TAIL: usize = 6_000;
/// How much of the text of a mark is.
const AHEAD: usize = 500;
/// The longest response that may be an answer as a whole, in bytes.
const WHOLE: usize = 400;

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
        let clean = stripped(reference);
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
    pub(crate) fn judge(&self, response: &str, reading: Reading, work: &mut Work) -> Outcome {
        let Some((value, source, _)) = self.found(response, reading) else {
            return Outcome { answer: None, is_same: false };
        };
        let is_text = self.is_text() || matches!(value, Some(Value::Text(_)));
        let is_same = match &value {
            Some(value) if same(&self.value, value, work) => true,
            // `(18)` by itself is -18 to accountants, 18 to everyone else.
            Some(_) if self.accounting && in_brackets(&source).is_some() => in_brackets(&source)
                .and_then(|inner| read(inner, true))
                .is_some_and(|value| same(&self.value, &value, work)),
            // `\text{(C)}` and C, `\text{even}` and even.
            _ if is_text => !self.words.is_empty() && text::words(stripped(&source)) == self.words,
            _ => false,
        };
        Outcome { answer: Some((source, value.is_some() || is_same)), is_same }
    }

    /// How the reference was read.
    pub(crate) fn shown(&self) -> String {
        shown(&self.value)
    }

    /// Where the answer of `response` was found, and how it was read.
    pub(crate) fn read_of(&self, response: &str, reading: Reading) -> (Option<Place>, Option<String>) {
        match self.found(response, reading) {
            None => (None, None),
            Some((value, _, place)) => (Some(place), value.as_ref().map(shown)),
        }
    }

    /// The answer's value (if it can be read), its text, and where it was found. `None` if there is no answer.
    fn found(&self, response: &str, reading: Reading) -> Option<Found> {
        let response = if self.is_number { without_label(response) } else { response };
        if let Some(marked) = marked_where(response, |text| self.holds(text)) {
            return Some(self.marked(&marked));
        }
        if reading != Reading::Last {
            return None;
        }
        let whole = stripped(response);
        if self.is_said(whole) {
            return Some((Some(self.value.clone()), whole.to_owned(), Place::Whole));
        }
        if whole.len() <= WHOLE
            && let Some(value) = self.read_bare(whole)
        {
            return Some((Some(value), whole.to_owned(), Place::Whole));
        }
        let tail = &response[response.ceil_char_boundary(response.len().saturating_sub(TAIL))..];
        let (value, source) = self.values(tail).pop()?;
        Some((value, source, Place::Last))
    }

    /// The answer of a mark: all of its text, or the first value in it. A box must be an answer as a whole.
    fn marked(&self, marked: &Marked) -> Found {
        let text = stripped(&marked.text).to_owned();
        let place = Place::of(marked.mark);
        let is_phrase = marked.mark == Mark::Phrase;
        if is_phrase && self.is_said(first_sentence(&text)) {
            return (Some(self.value.clone()), text, place);
        }
        let value = if is_phrase { self.read_bare(&text) } else { self.read(&text, false) };
        if value.is_some() || marked.mark == Mark::Boxed {
            return (value, text, place);
        }
        match self.values(ahead(&text)).into_iter().next() {
            Some((value, source)) => (value, source, place),
            None => (None, text, place),
        }
    }

    /// Whether the text after a phrase holds an answer: "the answer is correct" marks none.
    fn holds(&self, text: &str) -> bool {
        self.is_text() || relation::is_name(&self.value) || !self.values(ahead(text)).is_empty()
    }

    /// The values of running text.
    fn values(&self, text: &str) -> Vec<(Option<Value>, String)> {
        values(text, |source, is_formula| {
            let value = self.read(source, !is_formula)?;
            let is_wanted = if self.is_number {
                gives_number(&value)
            } else {
                // "where $x$ is the side"
                !relation::is_name(&value) || relation::is_name(&self.value)
            };
            (is_wanted && (self.is_text() || !has_words(&value))).then_some(value)
        })
    }

    /// Whether `text` has the words of a reference that is words or one letter.
    fn is_said(&self, text: &str) -> bool {
        (self.is_text() || relation::is_name(&self.value))
            && !self.words.is_empty()
            && text::words(text) == self.words
    }

    fn is_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    /// Reads a text that is nothing but an answer. In a sentence "36!" is an exclamation, in a mark a factorial.
    fn read(&self, text: &str, is_sentence: bool) -> Option<Value> {
        let text = if self.accounting { accounted(text) } else { text.to_owned() };
        let text = if self.decimal_comma { with_point(&text).unwrap_or(text) } else { text };
        let text = if self.is_number { units::without_rate(&text) } else { &text };
        let text = if self.is_number && is_sentence { exclaimed(text) } else { text };
        let value = read(text, self.grouped)?;
        if self.is_number && is_unsolved(&value) {
            return None;
        }
        let value = if self.is_number { last_step(value) } else { value };
        let is_prose = if self.is_number { has_words(&value) } else { is_mere_words(&value) };
        (self.is_text() || !is_prose).then_some(value)
    }

    /// Reads a sentence that is nothing but an answer, without words.
    fn read_bare(&self, text: &str) -> Option<Value> {
        if is_prose(text) { None } else { self.read(text, true).filter(|value| !has_words(value)) }
    }
}

/// A value (if it can be read), its text, and where it was found.
type Found = (Option<Value>, String, Place);

/// The beginning of a mark's text.
fn ahead(text: &str) -> &str {
    &text[..text.floor_char_boundary(AHEAD)]
}

/// The first sentence: up to a stop that is followed by space.
fn first_sentence(text: &str) -> &str {
    let end = [". ", "。", "! ", "? "].iter().filter_map(|stop| text.find(stop)).min();
    &text[..end.unwrap_or(text.len())]
}

/// Whether words of two letters and more stand in a text that are no names or units of mathematics. By itself, `xyz` is a
/// product.
fn is_prose(text: &str) -> bool {
    let mut before = ' ';
    text.split_inclusive(|c: char| !c.is_alphabetic()).any(|part| {
        let word = part.trim_end_matches(|c: char| !c.is_alphabetic());
        // `\frac`, `\begin{pmatrix}`.
        let is_command = matches!(before, '\\' | '{');
        before = part.chars().next_back().unwrap_or(' ');
        let is_known = lex::is_name(word)
            || matches!(word, "and" | "or" | "percent" | "pct" | "percentage")
            || units::find(word).is_some()
            || units::scale(word).is_some();
        word.chars().count() > 1 && !is_command && !is_known && text.contains(' ')
    })
}

/// Words that are prose rather than an answer.
fn is_mere_words(value: &Value) -> bool {
    match value {
        Value::Text(words) => words.split(' ').count() > 3,
        Value::List(items) => items.iter().any(is_mere_words),
        _ => false,
    }
}

/// Whether words are part of a value, at any depth of lists.
fn has_words(value: &Value) -> bool {
    match value {
        Value::Text(_) => true,
        Value::List(items)
        | Value::Tuple(items)
        | Value::Set(items)
        | Value::Union(items)
        | Value::Chain(items, _) => items.iter().any(has_words),
        _ => false,
    }
}

/// Whether a value is a number, several numbers, or an equation that ends in one.
fn gives_number(value: &Value) -> bool {
    match value {
        Value::Quantity { expr, .. } => is_number(expr),
        Value::Chain(sides, _) => sides.last().is_some_and(gives_number),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => items.iter().all(gives_number),
        Value::Text(_) => false,
        _ => true,
    }
}

/// Whether an equation gives a part or a multiple of its unknown: `2x = 18`, `x + 1 = 18`. `f(3) = 18` does not.
fn is_unsolved(value: &Value) -> bool {
    let Value::Chain(sides, _) = value else { return false };
    let [Value::Quantity { expr, .. }, _] = &sides[..] else { return false };
    let is_number_first =
        |parts: &[Expr]| parts.first().is_some_and(is_number) && !parts.iter().all(is_number);
    match expr {
        Expr::Product(factors) => is_number_first(factors),
        Expr::Sum(terms) => terms.iter().any(is_number) && !terms.iter().all(is_number),
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
        reference.judge(response, Reading::Last, &mut Work::new()).is_same
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
            "Of 20 eggs she has 18",
            "Half of 36 is 36 / 2",
        ] {
            assert!(judge("18", response), "{response}");
        }
        // No other words are read.
        assert!(judge("20", "She has 18 eggs of 20") && judge("2", "The answer is not 2."));
        assert!(judge(r"\frac{3}{4}", r"The chance is thus $\frac{3}{4}$ in all."));
        assert!(judge("-2,1", r"So $x=1$ or $x = -2$."));
    }
}
