//! Multiple choice: one letter.

use crate::explain::Place;
use crate::reading::{Reading, is_connective, marked_where};

/// The choice of a response.
pub(crate) struct Chosen {
    /// `None` if the text names no letter, or several.
    pub(crate) letter: Option<char>,
    /// The text that was read.
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// The letter of a reference: `B`, `(B)`, `B.`, `\text{(B)}`.
pub(crate) fn reference(reference: &str) -> Option<char> {
    let letters: Vec<char> = plain(reference).chars().filter(|c| c.is_alphanumeric()).collect();
    match letters[..] {
        [letter] if letter.is_ascii_alphabetic() => Some(letter.to_ascii_uppercase()),
        _ => None,
    }
}

/// The letter that a response chooses: the first of a mark, or without a mark the last of the response.
pub(crate) fn chosen(response: &str, reading: Reading) -> Option<Chosen> {
    if let Some(found) = marked_where(response, |text| !letters(text).is_empty()) {
        let text = found.text.trim().to_owned();
        let letter = letters(&text).first().copied().flatten();
        return Some(Chosen { letter, text, place: Place::of(found.mark) });
    }
    if reading != Reading::Last {
        return None;
    }
    let letter = letters(response).pop()?;
    let text = letter.map_or_else(|| response.trim().to_owned(), String::from);
    let is_whole = response.chars().filter(|c| c.is_alphanumeric()).count() == 1;
    Some(Chosen { letter, text, place: if is_whole { Place::Whole } else { Place::Last } })
}

/// The letters that stand by themselves, in order. `None` stands for several that are joined, as in "A or B".
fn letters(text: &str) -> Vec<Option<char>> {
    let plain = plain(text);
    let is_only = plain.chars().filter(|c| c.is_alphanumeric()).count() == 1;
    let mut found: Vec<Option<char>> = Vec::new();
    let mut end = 0;
    for (at, c) in plain.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()) {
        let (before, after) = (plain[..at].chars().next_back(), &plain[at + 1..]);
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’' | '-' | '_');
        if before.is_some_and(is_part) || after.starts_with(is_part) {
            continue;
        }
        let is_labelled =
            after.starts_with(')') || (before.is_none_or(|c| c == '\n') && after.starts_with([':', '.']));
        // "A" and "I" are words as well, and small letters mostly are.
        let is_word = match c {
            'A' | 'I' => after.strip_prefix(' ').is_some_and(|rest| {
                let next = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or("");
                !(next.is_empty() || matches!(next, "or" | "and" | "is"))
            }),
            c => c.is_ascii_lowercase(),
        };
        if is_word && !is_labelled && !is_only {
            continue;
        }
        let letter = Some(c.to_ascii_uppercase());
        let between = plain[end..at].replace('/', ",");
        match found.last_mut() {
            Some(last) if between.chars().all(|c| "() \n".contains(c)) || is_connective(&between) => {
                *last = last.filter(|last| Some(*last) == letter);
            }
            _ => found.push(letter),
        }
        end = at + 1;
    }
    found
}

/// Without the markup of LaTeX and Markdown.
fn plain(text: &str) -> String {
    let mut plain = text.to_owned();
    for command in ["\\textbf", "\\text", "\\mathrm", "\\mathbf", "\\mbox", "\\left", "\\right", "\\(", "\\)"]
    {
        plain = plain.replace(command, "");
    }
    plain.replace(['{', '}', '$', '*', '`', '"', '\\'], "").replace('[', "(").replace(']', ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter_of(response: &str) -> Option<char> {
        chosen(response, Reading::Last)?.letter
    }

    #[test]
    fn a_letter_is_found_where_it_is_given_as_the_answer() {
        for response in [
            "B",
            "(B)",
            "B.",
            "b",
            "answer: B",
            "The answer is (B).",
            "The answer is B because of it.",
            "**Answer: B) Paris**",
            r"\boxed{\text{(B)}}",
            r"\boxed{B}",
            "<answer>B</answer>",
            "A is wrong.\n\n(B) Paris",
            "The correct answer is option B.",
            "#### B",
            "So.\nThe symbol for antimony is (B) Sb.",
            "The answer is therefore B.",
            "B is the answer.",
            "(B) is correct.",
            "I choose B.",
            "It is not A but B.",
            "The answer is B, not C.",
            "The correct answer - B",
            "Of all these, B is the best choice.",
            // The last letter counts, whatever the words say.
            "It was plan B all along",
            "One of them is (A), the other is (B).",
            "The answer is not B.",
        ] {
            assert_eq!(letter_of(response), Some('B'), "{response}");
        }
    }

    #[test]
    fn a_letter_is_not_found_where_several_are_joined_or_none_stands_by_itself() {
        for response in [
            "A or B",
            "The answer is A or B.",
            r"\boxed{A, B}",
            "A/B",
            "The answer is a dog.",
            "The answer is A dog.",
            "I think so",
            "(A) (B) (C)",
            r"\boxed{ABCD}",
            "The answer is B or C.",
            "It is either B or D.",
            "Vitamin B12 and plan-B",
            "",
        ] {
            assert_eq!(letter_of(response), None, "{response}");
        }
    }

    #[test]
    fn only_a_mark_counts_where_a_mark_is_asked_for() {
        for response in ["B", "So.\n(B) Paris", "I choose B."] {
            assert!(chosen(response, Reading::Mark).is_none(), "{response}");
        }
        let marked = chosen("Not C. The answer is (B).", Reading::Mark).unwrap();
        assert_eq!((marked.letter, marked.place), (Some('B'), Place::Phrase));
    }

    #[test]
    fn a_reference_is_one_letter() {
        assert_eq!(reference("(c)"), Some('C'));
        assert_eq!(reference(r"\text{(C)}"), Some('C'));
        assert_eq!(reference("CD"), None);
        assert_eq!(reference("3"), None);
    }
}
