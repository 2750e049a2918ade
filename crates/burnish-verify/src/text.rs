//! Text answers: exact, normalised, and lists of spans.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::extract::{self, Mark};
use crate::numeral::{ascii_digit, exponent};
use crate::prose;

/// Longest response that is compared as text, in bytes.
const LENGTH: usize = 1 << 16;
/// Attempts to split a response into the items of a list.
const ATTEMPTS: u32 = 10_000;

/// Words that lead to an answer and are not part of it: "the answer is therefore Paris".
const LEADS: &[&str] = &[
    "therefore",
    "thus",
    "hence",
    "then",
    "indeed",
    "simply",
    "just",
    "clearly",
    "obviously",
    "definitely",
    "certainly",
    "probably",
    "likely",
    "surely",
    "actually",
    "of course,",
    "in fact",
    "most likely",
    "therefore,",
    "thus,",
    "hence,",
    "then,",
    "evidently",
    "presumably",
];

/// The candidates for a text answer: the marked one, or the whole response.
pub(crate) fn candidates(response: &str) -> Vec<String> {
    let Some(found) = extract::marked(response) else {
        let whole = response.trim().to_owned();
        // "Paris is the answer."
        let lower = whole.to_ascii_lowercase();
        let named = [
            "is the answer",
            "is the final answer",
            "is the correct answer",
            "is my answer",
            "is my final answer",
        ];
        let bare = lower.trim_end_matches(['.', '!']);
        let named = named
            .iter()
            .find_map(|phrase| bare.strip_suffix(phrase))
            .map(|before| whole[..before.len()].trim().to_owned());
        let mut candidates = vec![whole];
        candidates.extend(named.filter(|named| !named.contains('\n')));
        return candidates;
    };
    let text = found.text.trim();
    match found.mark {
        Mark::Phrase if prose::is_denied(response, found.start) => vec![format!("not {text}")],
        // A marked phrase ends with its sentence's full stop, or is in quotes.
        Mark::Phrase => {
            let mut candidates = vec![text.to_owned(), extract::stripped(text).to_owned()];
            // "The answer is to reduce costs": the infinitive belongs to the answer.
            let before = response[..found.start].trim_end();
            if before.to_ascii_lowercase().ends_with(" to") {
                candidates.push(extract::stripped(&format!("to {text}")).to_owned());
            }
            let lower = text.to_ascii_lowercase();
            for lead in LEADS {
                if let Some(rest) = lower.strip_prefix(lead).filter(|rest| rest.starts_with([' ', ':'])) {
                    candidates.push(extract::stripped(&text[text.len() - rest.len()..]).to_owned());
                }
            }
            candidates
        }
        _ => vec![text.to_owned()],
    }
}

/// Words of an answer for a comparison of texts inside mathematics: letters and digits in lower case, commands
/// and punctuation left out.
pub(crate) fn words(text: &str) -> String {
    let mut words = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' {
            while chars.peek().is_some_and(char::is_ascii_alphabetic) {
                chars.next();
            }
        } else if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
            continue;
        }
        if !words.is_empty() && !words.ends_with(' ') {
            words.push(' ');
        }
    }
    words.trim_end().to_owned()
}

/// One word or number of a normalised text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Word(String),
    Number(BigRational),
    Percent,
}

impl std::fmt::Display for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Piece::Word(word) => f.write_str(word),
            Piece::Number(value) => write!(f, "{value}"),
            Piece::Percent => f.write_str("%"),
        }
    }
}

/// A text without case, punctuation, articles and spacing; numbers by value, with `(3)` as -3 if it stands alone.
///
/// Based on the normalisation of SQuAD (lower case, no punctuation, no articles, single spaces).
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    if text.len() > LENGTH {
        return Vec::new();
    }
    let text = unwrapped(text);
    let chars: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let is_number = ascii_digit(c).is_some()
            || (c == '.' && chars.get(at + 1).is_some_and(|c| ascii_digit(*c).is_some()));
        if is_number {
            let (value, end) = number(&chars, at);
            let is_joined = at > 0 && chars[at - 1].is_alphabetic();
            pieces.push(match value {
                Some(value) if !is_joined && is_negative(&chars, at, end) => Piece::Number(-value),
                Some(value) => Piece::Number(value),
                None => Piece::Word(chars[at..end].iter().collect()),
            });
            at = end;
        } else if c.is_alphabetic() {
            let end = (at..chars.len()).find(|i| !is_word(chars[*i])).unwrap_or(chars.len());
            let word: String =
                chars[at..end].iter().flat_map(|c| c.to_lowercase()).filter(|c| *c != '\'').collect();
            match word.as_str() {
                "a" | "an" | "the" => {}
                "percent" | "percentage" | "pct" => pieces.push(Piece::Percent),
                _ => pieces.push(Piece::Word(word)),
            }
            at = end;
        } else {
            if c == '%' {
                pieces.push(Piece::Percent);
            }
            at += 1;
        }
    }
    pieces
}

/// Letters, and the apostrophes and accents inside of words.
fn is_word(c: char) -> bool {
    (c.is_alphabetic() || c == '\'' || (c.is_alphanumeric() && ascii_digit(c).is_none()))
        && !c.is_whitespace()
}

/// Typographic signs as plain ones, `\text{..}` and the like removed.
fn unwrapped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\\') {
        plain.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let name = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let is_command =
            matches!(&rest[..name], "text" | "textbf" | "textit" | "mbox" | "mathrm" | "mathbf" | "boxed");
        rest = if is_command { &rest[name..] } else { rest };
    }
    plain.push_str(rest);
    plain.replace(['’', '‘'], "'").replace(['−', '–', '—', '‐', '‑'], "-").replace(['“', '”'], "\"")
}

/// The number at `start`, and where it ends. `None` if it is too long.
fn number(chars: &[char], start: usize) -> (Option<BigRational>, usize) {
    let digit = |index: usize| chars.get(index).copied().and_then(ascii_digit);
    let mut digits = String::new();
    let mut end = start;
    loop {
        match digit(end) {
            Some(d) => digits.push(d),
            // A comma between a digit and three more separates thousands.
            None if chars.get(end) == Some(&',')
                && end > start
                && (1..=3).all(|i| digit(end + i).is_some())
                && digit(end + 4).is_none() => {}
            None => break,
        }
        end += 1;
    }
    let mut places = 0;
    if chars.get(end) == Some(&'.') && digit(end + 1).is_some() {
        end += 1;
        while let Some(d) = digit(end) {
            digits.push(d);
            places += 1;
            end += 1;
        }
    }
    let value = (digits.len() <= 100).then(|| digits.parse::<BigInt>().ok()).flatten();
    let mut value = value.map(|value| BigRational::new(value, BigInt::from(10).pow(places)));
    if let Some((length, power)) = exponent(|ahead| chars.get(end + ahead).copied()) {
        end += length;
        let shift = BigRational::from_integer(BigInt::from(10).pow(power.unsigned_abs()));
        value = value.map(|value| if power < 0 { value / shift } else { value * shift });
    }
    (value, end)
}

/// `-5`, `-$5`, and accountants' `(5)`, `$ (5)`; `- 5` is an item of a list.
fn is_negative(chars: &[char], start: usize, end: usize) -> bool {
    let sign_end = match chars[..start].iter().rposition(|c| *c != ' ') {
        Some(currency) if matches!(chars[currency], '$' | '€' | '£' | '¥') => currency,
        _ => start,
    };
    let before = |count: usize| sign_end.checked_sub(count).map(|index| chars[index]);
    match before(1) {
        Some('-') => before(2).is_none_or(|c| !c.is_alphanumeric()),
        Some('(') => chars.get(end) == Some(&')'),
        _ => false,
    }
}

/// The items of a list reference, without those that are empty.
pub(crate) fn items(reference: &[String]) -> Vec<Vec<Piece>> {
    reference.iter().map(|item| pieces(item)).filter(|item| !item.is_empty()).collect()
}

/// Whether `answer` is made of all `items`, each once, in any order, with nothing but "and" between them.
pub(crate) fn is_made_of(answer: &[Piece], items: &[Vec<Piece>]) -> bool {
    let mut used = vec![false; items.len()];
    let mut attempts = ATTEMPTS;
    // The number of items bounds the depth.
    items.len() <= 64 && cover(answer, items, &mut used, &mut attempts)
}

fn cover(rest: &[Piece], items: &[Vec<Piece>], used: &mut [bool], attempts: &mut u32) -> bool {
    if used.iter().all(|used| *used) {
        return rest.is_empty();
    }
    for index in 0..items.len() {
        if used[index] {
            continue;
        }
        let Some(left) = attempts.checked_sub(1) else { return false };
        *attempts = left;
        if let Some(after) = rest.strip_prefix(&items[index][..]) {
            used[index] = true;
            if cover(after, items, used, attempts) {
                return true;
            }
            let and = Piece::Word("and".to_owned());
            if after.first() == Some(&and) && cover(&after[1..], items, used, attempts) {
                return true;
            }
            used[index] = false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_punctuation_articles_and_spacing_do_not_count() {
        let same = [
            ("The fixed-price type", "fixed price  type."),
            ("$1,305", "1305"),
            ("(114)", "-114"),
            ("$ (3.5)", "-$3.50"),
            ("- 5 apples", "5 Apples"),
            ("75%", "75 percent"),
            ("6.05e7 years", "60,500,000 years"),
            ("1E-3", "0.001"),
            (r"\text{Paris}", "paris"),
            ("the Group’s", "group's"),
        ];
        for (a, b) in same {
            assert_eq!(pieces(a), pieces(b), "{a} {b}");
        }
        let other = [
            ("5", "-5"),
            ("1,305", "1,306"),
            ("fixed price", "price fixed"),
            ("75%", "75"),
            ("not it", "it"),
        ];
        for (a, b) in other {
            assert_ne!(pieces(a), pieces(b), "{a} {b}");
        }
    }

    #[test]
    fn words_that_lead_to_an_answer_are_no_part_of_it() {
        let is_found =
            |response: &str| candidates(response).iter().any(|found| pieces(found) == pieces("Paris"));
        for response in [
            "The answer is therefore Paris.",
            "The answer is clearly **Paris**.",
            "Paris is the answer.",
            "Paris",
        ] {
            assert!(is_found(response), "{response}");
        }
        for response in [
            "The answer is not Paris.",
            "The answer isn't Paris.",
            "I don't think the answer is Paris.",
            "The wrong answer is Paris.",
            "If the answer is Paris, I am lost.",
            "Not Paris is the answer.",
            "Paris isn't the answer.",
        ] {
            assert!(!is_found(response), "{response}");
        }
    }

    #[test]
    fn a_list_asks_for_every_item_once_and_nothing_else() {
        let gold = items(&["cash and equivalents".to_owned(), "cash".to_owned(), String::new()]);
        for answer in
            ["cash, cash and equivalents", "Cash and equivalents and cash", "- cash\n- cash and equivalents"]
        {
            assert!(is_made_of(&pieces(answer), &gold), "{answer}");
        }
        for answer in
            ["cash", "cash, cash", "cash, cash and equivalents, debtors", "and cash cash and equivalents", ""]
        {
            assert!(!is_made_of(&pieces(answer), &gold), "{answer}");
        }
    }

    #[test]
    fn splitting_a_list_ends() {
        let same = items(&vec!["x".to_owned(); 60]);
        let answer = vec![Piece::Word("x".to_owned()); 61];
        assert!(!is_made_of(&answer, &same));
    }
}
