//! Sentences of an instruction, and what its user says in their place.

use std::collections::BTreeSet;

/// Words that say nothing about what a sentence is about.
const EMPTY: &[&str] = &[
    "a",
    "about",
    "above",
    "after",
    "again",
    "agent",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "are",
    "as",
    "ask",
    "asks",
    "at",
    "be",
    "because",
    "been",
    "before",
    "but",
    "by",
    "can",
    "could",
    "customer",
    "details",
    "do",
    "does",
    "don't",
    "else",
    "for",
    "from",
    "get",
    "give",
    "has",
    "have",
    "help",
    "how",
    "i",
    "i'd",
    "i'm",
    "if",
    "in",
    "information",
    "into",
    "is",
    "it",
    "its",
    "just",
    "know",
    "let",
    "like",
    "look",
    "may",
    "me",
    "more",
    "my",
    "need",
    "no",
    "not",
    "of",
    "on",
    "one",
    "only",
    "or",
    "other",
    "our",
    "out",
    "please",
    "provide",
    "same",
    "says",
    "see",
    "so",
    "some",
    "such",
    "sure",
    "tells",
    "than",
    "thank",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "to",
    "today",
    "up",
    "us",
    "want",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "who",
    "will",
    "with",
    "would",
    "yes",
    "you",
    "you're",
    "your",
];

/// What a question for a yes is about.
pub(super) const CONFIRM: &str = "confirm";

/// What is done by "the agent", and by "you".
const DONE_BY: &[(&str, &str)] = &[
    ("asks", "ask"),
    ("books", "book"),
    ("charges", "charge"),
    ("does", "do"),
    ("doesn't", "don't"),
    ("finds", "find"),
    ("gives", "give"),
    ("has", "have"),
    ("is", "are"),
    ("needs", "need"),
    ("offers", "offer"),
    ("says", "say"),
    ("tells", "tell"),
    ("uses", "use"),
    ("wants", "want"),
    ("was", "were"),
];

/// Words before which "you" is the user's "me".
const GIVES: &[&str] = &[
    "about", "allow", "allows", "ask", "asked", "asks", "at", "by", "charge", "charges", "for", "from",
    "give", "gives", "giving", "help", "helps", "let", "lets", "of", "offer", "offers", "send", "sends",
    "show", "tell", "tells", "than", "to", "told", "with",
];

/// How an instruction has the user ask or say something, and how the user begins then.
const SPOKEN: &[(&str, &str)] = &[
    ("tell the agent that ", ""),
    ("tell the agent ", ""),
    ("tell them ", ""),
    ("say that ", ""),
    ("mention that ", ""),
    ("ask the agent to ", "Please "),
    ("ask the agent for ", "I would like "),
    ("ask the agent ", "I would like to know "),
    ("ask for ", "I would like "),
    ("ask to ", "I would like to "),
    ("ask if ", "I would like to know if "),
    ("ask whether ", "I would like to know whether "),
];

/// The sentences of a text; lines end sentences too.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() {
            let ends = rest.match_indices(['.', '!', '?']);
            let end = ends.map(|(at, sign)| at + sign.len()).find(|end| {
                let next = rest[*end..].chars().next();
                next.is_none_or(char::is_whitespace) && !rest[..*end].ends_with("Mr.")
            });
            let (sentence, more) = rest.split_at(end.unwrap_or(rest.len()));
            let sentence = sentence.trim().trim_start_matches(['-', '*', '.', ' ']);
            if sentence.chars().any(char::is_alphanumeric) {
                found.push(sentence.to_owned());
            }
            rest = more.trim();
        }
    }
    found
}

/// The words of a text in lower case, without signs around them.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|sign: char| sign.is_whitespace() || matches!(sign, '/' | '(' | ')' | ','))
        .map(|word| word.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '#').to_lowercase())
        .filter(|word| !word.is_empty())
}

/// What a text is about: its words but for empty ones, in one form for singular and plural.
pub(super) fn topics(text: &str) -> BTreeSet<String> {
    let is_full = |word: &String| !EMPTY.contains(&word.as_str());
    let stem = |word: String| match word.strip_suffix('s') {
        _ if word == "confirmation" => CONFIRM.to_owned(),
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
        _ => word,
    };
    words(text).filter(is_full).map(stem).collect()
}

/// A sentence about "you" in the mouth of the one it is about.
pub(super) fn first_person(sentence: &str) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut before = String::new();
    let mut skips = false;
    let all: Vec<&str> = sentence.split_whitespace().collect();
    for (at, word) in all.iter().enumerate() {
        if std::mem::take(&mut skips) {
            continue;
        }
        let bare = word.trim_matches(|sign: char| !sign.is_alphanumeric());
        let lower = bare.to_lowercase();
        let next = all.get(at + 1).map(|next| next.to_lowercase());
        let mut done = None;
        let changed = match (lower.as_str(), next.as_deref()) {
            ("you", Some(verb @ ("are" | "were"))) if !GIVES.contains(&before.as_str()) => {
                skips = true;
                Some(if verb == "are" { "I am" } else { "I was" })
            }
            // The files have "You name is" in many places.
            ("you", Some("name")) | ("your", _) => Some("my"),
            ("you", _) if GIVES.contains(&before.as_str()) => Some("me"),
            ("you", _) => Some("I"),
            ("you're", _) => Some("I'm"),
            ("you've", _) => Some("I've"),
            ("you'd", _) => Some("I'd"),
            ("you'll", _) => Some("I'll"),
            ("yours", _) => Some("mine"),
            ("yourself", _) => Some("myself"),
            ("agent", next) if before == "the" => {
                said.pop();
                let does = DONE_BY.iter().find(|(verb, _)| Some(*verb) == next);
                if let Some((_, verb)) = does {
                    said.push("you".to_owned());
                    skips = true;
                    done = Some(*verb);
                    Some(*verb)
                } else {
                    Some("you")
                }
            }
            ("agent's", _) if before == "the" => {
                said.pop();
                Some("your")
            }
            _ => None,
        };
        said.push(changed.map_or_else(|| (*word).to_owned(), |changed| word.replacen(bare, changed, 1)));
        before = done.map_or(lower, str::to_owned);
    }
    said.join(" ")
}

/// A sentence of an instruction as its user says it.
pub(super) fn spoken(sentence: &str) -> String {
    let lower = sentence.to_lowercase();
    let begins = SPOKEN.iter().find(|(prefix, _)| lower.starts_with(prefix));
    let said = match begins {
        Some((prefix, begins)) => {
            format!("{begins}{}", first_person(sentence.get(prefix.len()..).unwrap_or_default()))
        }
        None => first_person(sentence),
    };
    let said = said.trim_end_matches(['.', ',', ';']);
    let mut signs = said.chars();
    let Some(first) = signs.next() else { return String::new() };
    let ends = if said.ends_with(['!', '?']) { "" } else { "." };
    format!("{}{}{ends}", first.to_uppercase(), signs.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_sentences() {
        let text = ".You are Ann. You have $1.50.\n\nTell Mr. Bo! - Why?  \n.\nno end";
        assert_eq!(sentences(text), ["You are Ann.", "You have $1.50.", "Tell Mr. Bo!", "Why?", "no end"]);
    }

    #[test]
    fn the_user_speaks_of_itself() {
        for (told, said) in [
            ("You are Yusuf Rossi in zip code 19122.", "I am Yusuf Rossi in zip code 19122."),
            (
                "You want to know if your order is for you, or yours",
                "I want to know if my order is for me, or mine.",
            ),
            ("Tell the agent that you're a valued Gold member.", "I'm a valued Gold member."),
            ("Ask for a refund", "I would like a refund."),
            ("mention that you were told that you didn't need it", "I was told that I didn't need it."),
            ("You want the agent to cancel", "I want you to cancel."),
            ("When the agent asks you, you pay", "When you ask me, I pay."),
            ("You name is Mei and you are here", "My name is Mei and I am here."),
            ("Ask the agent to call back!", "Please call back!"),
        ] {
            assert_eq!(spoken(told), said);
        }
        assert_eq!(spoken(""), "");
    }

    #[test]
    fn topics_are_the_full_words() {
        let wanted = ["#w12", "desk", "lamp", "order"].map(str::to_owned);
        assert_eq!(
            topics("Please provide the order (#W12) of your desk lamps?").into_iter().collect::<Vec<_>>(),
            wanted
        );
    }
}
