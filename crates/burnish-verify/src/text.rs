//! Text answers: exact, normalised, and lists of spans.

use crate::pieces::{Piece, beginning, pieces};
use crate::reading::{Mark, Marked, Reading, marked, stripped};

/// Attempts to split a response into the items of a list.
const ATTEMPTS: u32 = 10_000;

/// The candidates for a text answer: the marked one, or the whole response.
pub(crate) fn candidates(response: &str, reading: Reading) -> Vec<String> {
    match marked(response) {
        // A phrase ends with its sentence's full stop, or is in quotes.
        Some(Marked { text, mark: Mark::Phrase }) => {
            vec![text.trim().to_owned(), stripped(&text).to_owned()]
        }
        Some(found) => vec![found.text.trim().to_owned()],
        None if reading != Reading::Last => vec![String::new()],
        None => vec![response.trim().to_owned()],
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
        if let Some(length) = beginning(rest, &items[index]) {
            let after = &rest[length..];
            used[index] = true;
            if cover(after, items, used, attempts) {
                return true;
            }
            if after.first().and_then(Piece::word) == Some("and") && cover(&after[1..], items, used, attempts)
            {
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
    use crate::pieces::same;

    #[test]
    fn an_answer_is_what_is_marked_or_the_whole_response() {
        let is_found = |response: &str, reading| {
            candidates(response, reading).iter().any(|found| same(&pieces(found), &pieces("Paris")))
        };
        for response in
            ["The answer is **Paris**.", "Answer: \"Paris\"", "<answer>Paris</answer>", r"\boxed{Paris}"]
        {
            assert!(is_found(response, Reading::Last) && is_found(response, Reading::Mark), "{response}");
        }
        assert!(is_found("Paris.", Reading::Last) && !is_found("Paris.", Reading::Mark));
        for response in ["The answer is not Paris.", "Paris is the answer.", "It is Paris"] {
            assert!(!is_found(response, Reading::Last), "{response}");
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
        let items = items(&vec!["x".to_owned(); 60]);
        let answer = pieces(&"x ".repeat(61));
        assert!(!is_made_of(&answer, &items));
    }
}
