//! Text answers: exact, normalised, and lists of spans.

use crate::extract::{self, Mark};
use crate::pieces::{Piece, beginning, pieces};
use crate::prose;

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
    fn words_that_lead_to_an_answer_are_no_part_of_it() {
        let is_found =
            |response: &str| candidates(response).iter().any(|found| same(&pieces(found), &pieces("Paris")));
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
        let items = items(&vec!["x".to_owned(); 60]);
        let answer = pieces(&"x ".repeat(61));
        assert!(!is_made_of(&answer, &items));
    }
}
