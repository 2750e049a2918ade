//! Multiple choice: one letter.

use crate::explain::Place;
use crate::extract::{self, Mark};
use crate::prose;

/// In a line longer than this many bytes, no letter is looked for in the words, because they are compared with each
/// other.
const LINE_MAX: usize = 2_000;

/// The letter of a reference: `B`, `(B)`, `B.`, `\text{(B)}`.
pub(crate) fn reference(reference: &str) -> Option<char> {
    let letters: Vec<char> = plain(reference).chars().filter(|c| c.is_alphanumeric()).collect();
    match letters[..] {
        [letter] if letter.is_ascii_alphabetic() => Some(letter.to_ascii_uppercase()),
        _ => None,
    }
}

/// The letter a response chooses, and the text that says so. `Err` holds a text that does not name a single letter.
pub(crate) fn chosen(response: &str) -> Option<Result<(char, String), String>> {
    if let Some(found) = extract::marked(response) {
        let text = found.text.trim().to_owned();
        let letter = match found.mark {
            Mark::Phrase if prose::is_denied(response, found.start) => None,
            Mark::Phrase => {
                letter(extract::sentence(&text), true).or_else(|| scanned(extract::sentence(&text), true))
            }
            _ => letter(&text, true).or_else(|| scanned(&text, true)),
        };
        return Some(letter.map(|letter| (letter, text.clone())).ok_or(text));
    }
    // Without a mark: the letter that opens the last line (as `(B)`, `B.`, `B)` or by itself), or that the line names.
    let line = response.lines().rev().find(|line| !line.trim().is_empty())?.trim();
    letter(line, false).or_else(|| scanned(line, false)).map(|letter| Ok((letter, line.to_owned())))
}

/// Where the letter of [`chosen`] was found.
pub(crate) fn place(response: &str) -> Place {
    match extract::marked(response) {
        Some(found) => Place::of(found.mark),
        None if response.trim().lines().count() <= 1 => Place::Whole,
        None => Place::Last,
    }
}

/// A letter in running text, and the words around it.
struct Named {
    letter: char,
    /// Said not to be the answer.
    is_denied: bool,
    /// Whether the words around it choose it: "is B", "B is correct", "option B".
    is_chosen: bool,
}

/// The one letter that a text names and does not deny: "therefore B", "(B) is correct", "not A but B".
fn scanned(text: &str, is_marked: bool) -> Option<char> {
    if text.len() > LINE_MAX {
        return None;
    }
    let named: Vec<Named> = named(text, is_marked);
    let mut standing = named.iter().filter(|name| !name.is_denied);
    let first = standing.next()?;
    let is_single = standing.all(|other| other.letter == first.letter);
    let is_chosen = named.iter().any(|name| !name.is_denied && name.is_chosen);
    (is_single && is_chosen).then_some(first.letter)
}

fn named(text: &str, is_marked: bool) -> Vec<Named> {
    // "All but B" is one phrase, "not A but B" is two.
    let text = plain(text).replace("thing but ", "thing except ").replace("ll but ", "ll except ");
    let clauses = text
        .split([',', ';', ':', '—', '!', '?'])
        .flat_map(|clause| clause.split(" but "))
        .flat_map(|clause| clause.split(". "));
    let mut found = Vec::new();
    for clause in clauses {
        let raw: Vec<&str> = clause.split_whitespace().collect();
        let words: Vec<String> = raw
            .iter()
            .map(|word| {
                word.trim_matches(|c: char| !c.is_alphanumeric() && c != '\'')
                    .to_lowercase()
                    .replace('’', "'")
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for (index, token) in raw.iter().enumerate() {
            let inner = token.trim_start_matches('(').trim_end_matches([')', '.', '\'']);
            let mut chars = inner.chars();
            let (Some(letter), None) = (chars.next(), chars.next()) else { continue };
            let is_bracketed = token.starts_with('(') && token.contains(')');
            let is_labelled = is_bracketed || token.ends_with(')');
            let is_last = index + 1 == raw.len() || token.ends_with('.');
            let right = &words[index + 1..];
            let is_judged = right.iter().take(3).any(|word| {
                matches!(
                    *word,
                    "is" | "was" | "must" | "would" | "seems" | "looks" | "isn't" | "cannot" | "can't"
                )
            }) && right.iter().take(8).any(|word| {
                matches!(
                    *word,
                    "answer"
                        | "correct"
                        | "right"
                        | "best"
                        | "true"
                        | "choice"
                        | "option"
                        | "it"
                        | "wrong"
                        | "incorrect"
                        | "false"
                )
            });
            let before = index.checked_sub(1).map_or("", |before| words[before]);
            let is_introduced = matches!(
                before,
                "is" | "be"
                    | "choose"
                    | "chose"
                    | "pick"
                    | "picked"
                    | "select"
                    | "selected"
                    | "option"
                    | "choice"
                    | "answer"
                    | "with"
                    | "therefore"
                    | "thus"
                    | "hence"
                    | "so"
                    | "it's"
                    | "not"
                    | "isn't"
                    | "say"
                    | "letter"
                    | "or"
                    | "either"
                    | "and"
                    | "clearly"
                    | "definitely"
                    | "only"
            ) || (raw.len() == 1
                && (text.split_whitespace().count() <= 3
                    || found.last().is_some_and(|earlier: &Named| earlier.is_denied)))
                || (is_marked && (index == 0 || prose::is_leading(before)));
            let is_letter = letter.is_ascii_alphabetic()
                && (letter.is_ascii_uppercase() || is_bracketed)
                && (is_labelled
                    || !matches!(letter, 'A' | 'I')
                    || (letter == 'A'
                        && (is_last || is_judged || matches!(right.first(), Some(&("or" | "and"))))));
            if !is_letter
                || !(is_labelled
                    || is_last
                    || is_judged
                    || matches!(before, "option" | "choice")
                    || matches!(right.first(), Some(&("or" | "and" | "because" | "since"))))
            {
                continue;
            }
            found.push(Named {
                letter: letter.to_ascii_uppercase(),
                is_denied: prose::denies(&words[..index], right),
                is_chosen: is_judged || is_introduced || (is_marked && (is_labelled || is_last)),
            });
        }
    }
    found
}

/// The one letter that `text` opens with; `None` if it opens with none, or names another as well.
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
        // "B because", "B Paris", but not "A dog" or "I think"; and only if the answer is marked.
        Some(' ') => {
            is_marked && !is_bracketed && letter.is_ascii_uppercase() && !matches!(letter, 'A' | 'I')
        }
        _ => false,
    };
    let is_lower_word = letter.is_ascii_lowercase() && !(is_alone || is_bracketed || after.starts_with(')'));
    if !(is_alone || is_labelled) || is_lower_word {
        return None;
    }
    let words = after.to_lowercase();
    let words: Vec<&str> =
        words.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|word| !word.is_empty()).collect();
    // In "(B) False" the word is the option's text, not a verdict on B.
    let is_text = is_labelled && matches!(words.first(), Some(&("false" | "wrong" | "incorrect")));
    (!names_another(after, letter) && (is_text || !prose::denies(&[], &words)))
        .then(|| letter.to_ascii_uppercase())
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
            "The answer is therefore B.",
            "The answer is clearly (B).",
            "B is the answer.",
            "(B) is correct.",
            "Therefore, B.",
            "I choose B.",
            "So the correct option must be B.",
            "It is not A but B.",
            "The answer is B, not C.",
            "The answer is not C but B.",
            "The correct answer - B",
            "Option B is right.",
            "Of all these, B is the best choice.",
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
            "not B",
            "The answer is not B.",
            "The answer isn't B.",
            "I don't think the answer is B.",
            "If the answer is B, I am surprised.",
            "The wrong answer is B.",
            "B is wrong.",
            "The answer is B or C.",
            "either A or B",
            "It is either B or D.",
            "Anything but B.",
            "B is not correct.",
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
