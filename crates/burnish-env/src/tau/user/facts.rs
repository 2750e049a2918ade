//! What a user may be asked for: how a question shows it, and how a sentence shows that it has it.

use super::words::words;

/// Something to ask for.
pub(super) struct Fact {
    /// What the user calls it.
    pub(super) name: &'static str,
    /// Texts in a question that ask for it, in lower case.
    pub(super) asked_by: &'static [&'static str],
    /// Whether a sentence says it.
    pub(super) is_in: fn(&str) -> bool,
}

impl Fact {
    /// Whether a question, in lower case, asks for it.
    pub(super) fn is_asked(&self, question: &str) -> bool {
        self.asked_by.iter().any(|text| question.contains(text))
    }
}

fn has(sentence: &str, any: &[&str]) -> bool {
    let lower = sentence.to_lowercase();
    any.iter().any(|text| lower.contains(text))
}

fn has_word(sentence: &str, fits: impl Fn(&str) -> bool) -> bool {
    words(sentence).any(|word| fits(&word))
}

fn is_user_id(word: &str) -> bool {
    let end = word.rsplit('_').next().unwrap_or_default();
    word.contains('_') && !end.is_empty() && end.chars().all(|sign| sign.is_ascii_digit())
}

fn is_digits(word: &str, count: usize) -> bool {
    word.len() == count && word.chars().all(|sign| sign.is_ascii_digit())
}

/// Six capitals or digits, with a capital among them.
fn has_reservation_id(sentence: &str) -> bool {
    sentence.split(|sign: char| !sign.is_ascii_alphanumeric()).any(|word| {
        word.len() == 6
            && word.chars().all(|sign| sign.is_ascii_uppercase() || sign.is_ascii_digit())
            && word.chars().any(|sign| sign.is_ascii_uppercase())
    })
}

/// "I am Ann Lee", "my name is Ann".
fn has_name(sentence: &str) -> bool {
    let named = sentence
        .split_once("I am ")
        .is_some_and(|(_, rest)| rest.starts_with(|sign: char| sign.is_uppercase()));
    named || has(sentence, &["name is", "first name", "last name"])
}

/// The facts of both domains.
pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "name",
        asked_by: &["your name", "full name", "first name", "last name", "name and", "name,"],
        is_in: has_name,
    },
    Fact {
        name: "user id",
        asked_by: &["user id", "userid", "username", "user name", "account id"],
        is_in: |sentence| has_word(sentence, is_user_id),
    },
    Fact { name: "email address", asked_by: &["email", "e-mail"], is_in: |sentence| sentence.contains('@') },
    Fact {
        name: "zip code",
        asked_by: &["zip", "postal code"],
        is_in: |sentence| has_word(sentence, |word| is_digits(word, 5)),
    },
    Fact {
        name: "order number",
        asked_by: &["order id", "order number", "which order", "order #"],
        is_in: |sentence| {
            has_word(sentence, |word| {
                word.trim_start_matches('#').strip_prefix('w').is_some_and(|rest| is_digits(rest, 7))
            })
        },
    },
    Fact {
        name: "reservation number",
        asked_by: &[
            "reservation id",
            "reservation number",
            "confirmation number",
            "confirmation code",
            "which reservation",
        ],
        is_in: has_reservation_id,
    },
    Fact {
        name: "date of birth",
        asked_by: &["date of birth", "dates of birth", "birthday", "birth date", "dob"],
        is_in: |sentence| has(sentence, &["birth", "dob"]),
    },
    Fact {
        name: "payment method",
        asked_by: &[
            "payment method",
            "pay for",
            "like to pay",
            "how would you pay",
            "which card",
            "receive the refund",
        ],
        is_in: |sentence| has(sentence, &["card", "paypal", "certificate", "payment", "voucher"]),
    },
    Fact {
        name: "reason",
        asked_by: &["reason", "why "],
        is_in: |sentence| {
            has(sentence, &["because", "due to", "no longer", "mistake", "sick", "reason", "family"])
        },
    },
    Fact {
        name: "address",
        asked_by: &[
            "new address",
            "shipping address",
            "current address",
            "default address",
            "your address",
            "full address",
        ],
        is_in: |sentence| {
            has(sentence, &["address", "street", "avenue", "drive", "suite", "lane", "live in", "living in"])
        },
    },
    Fact {
        name: "bags",
        asked_by: &["bag", "luggage", "suitcase"],
        is_in: |sentence| has(sentence, &["bag", "luggage", "suitcase"]),
    },
    Fact { name: "insurance", asked_by: &["insurance"], is_in: |sentence| has(sentence, &["insurance"]) },
    Fact {
        name: "cabin",
        asked_by: &["cabin", "which class", "what class"],
        is_in: |sentence| has(sentence, &["economy", "business", "cabin"]),
    },
    Fact {
        name: "passengers",
        asked_by: &["passenger", "traveler", "traveller", "who is flying"],
        is_in: |sentence| has(sentence, &["passenger", "myself", "companion", "dob"]),
    },
    Fact {
        name: "kind of trip",
        asked_by: &["one-way", "one way", "round trip", "round-trip", "type of trip", "trip type"],
        is_in: |sentence| has(sentence, &["one-way", "one way", "round"]),
    },
    Fact {
        name: "date",
        asked_by: &[
            "what date",
            "which date",
            "travel date",
            "departure date",
            "when would",
            "date of travel",
            "which day",
        ],
        is_in: |sentence| has(sentence, &["may ", "june ", "tomorrow", "the day", "same day", "next day"]),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_show_what_they_have() {
        for (sentence, names) in [
            ("I am Yusuf Rossi in zip code 19122.", &["name", "zip code"][..]),
            ("My user id is emma_kim_9957.", &["user id"]),
            ("My email address is ann@example.com.", &["email address", "address"]),
            ("I received my order #W2378156.", &["order number"]),
            ("I want to cancel EHGLP3 because I am sick.", &["reservation number", "reason"]),
            ("I am happy.", &[]),
        ] {
            let found: Vec<&str> =
                FACTS.iter().filter(|fact| (fact.is_in)(sentence)).map(|fact| fact.name).collect();
            assert_eq!(found, names, "{sentence}");
        }
    }
}
