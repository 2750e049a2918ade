//! Multiple choice: one letter.

use crate::extract::{self, Mark};

/// The letter of a reference: `B`, `(B)`, `B.`, `\text{(B)}`.
pub(crate) fn reference(reference: &str) -> Option<char> {
    let letters: Vec<char> = plain(reference).chars().filter(|c| c.is_alphanumeric()).collect();
    match letters[..] {
        [letter] if letter.is_ascii_alphabetic() => Some(letter.to_ascii_uppercase()),
        _ => None,
    }
}

/// The letter a response chooses, and the text that says so. `Err` holds a text that names no single letter.
pub(crate) fn chosen(response: &str) -> Option<Result<(char, String), String>> {
    if let Some(found) = extract::marked(response) {
        let text = found.text.trim().to_owned();
        let letter = match found.mark {
            Mark::Phrase => letter(extract::sentence(&text), true),
            _ => letter(&text, true),
        };
        return Some(letter.map(|letter| (letter, text.clone())).ok_or(text));
    }
    // Without a mark: the letter that opens the last line, as `(B)`, `B.`, `B)` or by itself.
    let line = response.lines().rev().find(|line| !line.trim().is_empty())?.trim();
    letter(line, false).or_else(|| said(line)).map(|letter| Ok((letter, line.to_owned())))
}

/// The letter of a line that says "... is (B) ...", and has no other letter in brackets.
fn said(line: &str) -> Option<char> {
    let line = plain(line);
    let mut bracketed = line.match_indices('(').filter_map(|(at, _)| {
        let mut inner = line[at + 1..].chars();
        match (inner.next(), inner.next()) {
            (Some(letter), Some(')')) if letter.is_ascii_uppercase() => Some((at, letter)),
            _ => None,
        }
    });
    let (at, letter) = bracketed.next()?;
    (bracketed.next().is_none() && line[..at].trim_end().ends_with(" is")).then_some(letter)
}

/// The one letter that `text` opens with; `None` where it opens with none, or names another as well.
fn letter(text: &str, is_marked: bool) -> Option<char> {
    let text = plain(text);
    let text = text.trim();
    let mut text = text.trim_start_matches("option ").trim_start_matches("Option ");
    if is_marked {
        text = text.trim_start_matches("choice ").trim_start_matches("Choice ");
    }
    let (inner, is_bracketed) = match text.strip_prefix('(') {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let letter = inner.chars().next().filter(char::is_ascii_alphabetic)?;
    let after = &inner[1..];
    let is_alone = after.is_empty();
    let is_labelled = match after.chars().next() {
        Some(')') => true,
        Some('.' | ':' | ',' | ';') => !is_bracketed,
        // "B because", "B Paris": not "A dog" or "I think", and only where an answer is marked.
        Some(' ') => {
            is_marked && !is_bracketed && letter.is_ascii_uppercase() && !matches!(letter, 'A' | 'I')
        }
        _ => false,
    };
    let is_lower_word = letter.is_ascii_lowercase() && !(is_alone || is_bracketed || after.starts_with(')'));
    if !(is_alone || is_labelled) || is_lower_word {
        return None;
    }
    (!names_another(after, letter)).then(|| letter.to_ascii_uppercase())
}

/// Whether the rest hedges: another letter in brackets, or after "or", "and", a comma or a slash.
fn names_another(rest: &str, chosen: char) -> bool {
    let tokens: Vec<&str> = rest
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '/' | ';' | ')' | '.'))
        .filter(|token| !token.is_empty())
        .collect();
    tokens.iter().enumerate().any(|(index, token)| {
        let is_bracketed = token.starts_with('(');
        let is_joined = index == 0 || matches!(tokens[index - 1].to_lowercase().as_str(), "or" | "and");
        let mut chars = token.trim_start_matches('(').chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if c.is_ascii_uppercase() && c != 'I' => {
                !c.eq_ignore_ascii_case(&chosen)
                    && (is_bracketed || (is_joined && c != 'A') || tokens.len() < 4)
            }
            _ => false,
        }
    })
}

/// Without LaTeX's and markdown's dress.
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
        chosen(response).and_then(Result::ok).map(|(letter, _)| letter)
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
        ] {
            assert_eq!(letter_of(response), Some('B'), "{response}");
        }
    }

    #[test]
    fn a_letter_is_not_found_where_it_is_not_the_answer() {
        for response in [
            "A or B",
            "The answer is A or B.",
            r"\boxed{A, B}",
            "A/B",
            "The answer is a dog.",
            "The answer is A dog.",
            "I think so",
            "It was plan B all along",
            "(A) (B) (C)",
            "One of them is (A), the other is (B).",
            "It is not like (B).",
            r"\boxed{ABCD}",
            "",
        ] {
            assert_eq!(letter_of(response), None, "{response}");
        }
    }

    #[test]
    fn a_reference_is_one_letter() {
        assert_eq!(reference("(c)"), Some('C'));
        assert_eq!(reference(r"\text{(C)}"), Some('C'));
        assert_eq!(reference("CD"), None);
        assert_eq!(reference("3"), None);
    }
}
