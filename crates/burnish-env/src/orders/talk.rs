//! What clerk and user say to each other.

use burnish_core::Message;
use burnish_core::rng::Stream;

use super::config::{OrdersConfig, PromptStyle};
use super::menu::{EXTRAS, ITEMS, SIZES, Wish};

/// Number of ways to phrase a question.
pub(super) const PHRASINGS: usize = 3;

/// The reply of a user who can't answer.
const PARDON: &str = "pardon?";
/// The reply of a user who wants no extras.
const NOTHING: &str = "no";

/// The things to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Item,
    Size,
    Extras,
}

impl Field {
    pub(super) const ALL: [Field; 3] = [Field::Item, Field::Size, Field::Extras];

    /// Its name in flags.
    pub(super) fn name(self) -> &'static str {
        match self {
            Field::Item => "item",
            Field::Size => "size",
            Field::Extras => "extras",
        }
    }

    fn phrasings(self) -> [&'static str; PHRASINGS] {
        match self {
            Field::Item => ["what would you like?", "which dish?", "what can I bring you?"],
            Field::Size => ["what size?", "how large?", "which size do you want?"],
            Field::Extras => ["any extras?", "anything on top?", "with what extras?"],
        }
    }

    /// The question for it, in one of the phrasings that the configuration allows.
    pub(super) fn question(self, config: &OrdersConfig, stream: &mut Stream) -> &'static str {
        self.phrasings()[stream.index(config.phrasings)]
    }

    /// The thing that a question asks for: it has one of the known phrasings, or a word that gives it away. If several
    /// things are asked for, the user answers the first of size, extras and dish.
    fn asked(question: &str) -> Option<Field> {
        let question = question.trim().to_lowercase();
        let is_known = |field: &Field| field.phrasings().iter().any(|it| it.to_lowercase() == question);
        if let Some(field) = Field::ALL.into_iter().find(is_known) {
            return Some(field);
        }
        let has = |words: &[&str]| words.iter().any(|word| question.contains(word));
        match () {
            () if has(&["size", "how large", "how big"]) => Some(Field::Size),
            () if has(&["extra", "top", "anything else"]) => Some(Field::Extras),
            () if has(&["what", "which", "dish"]) => Some(Field::Item),
            () => None,
        }
    }
}

/// Questions that have no answer in any wish.
const ODD: [&str; 4] = ["how are you?", "is it raining?", "who are you?", "are you here alone?"];

/// A question that a user can't answer.
pub(super) fn odd(stream: &mut Stream) -> &'static str {
    ODD[stream.index(ODD.len())]
}

/// The reply of a user with this wish to a question: what it is asked for, and nothing else.
pub(super) fn reply(wish: &Wish, question: &str) -> String {
    match Field::asked(question) {
        Some(Field::Item) => ITEMS[wish.item].to_owned(),
        Some(Field::Size) => SIZES[wish.size].to_owned(),
        Some(Field::Extras) => wish.extras_text().unwrap_or_else(|| NOTHING.to_owned()),
        None => PARDON.to_owned(),
    }
}

/// The user's opening message; it names the dish if `is_told`.
pub(super) fn opening(wish: &Wish, is_told: bool) -> String {
    if is_told { format!("one {}, please", ITEMS[wish.item]) } else { "hello".to_owned() }
}

/// The clerk's instructions, if the prompt style has any.
pub(super) fn rules(config: &OrdersConfig) -> Option<Message> {
    let menu = |list: &[&str], count: usize| list[..count].join(", ");
    let text = format!(
        "You take orders. Dishes: {}. Sizes: {}. Extras: {}. Ask the user, one question at a time, for what you do not know yet. Then \
         answer with the order alone, such as\norder: {} {} with {}",
        menu(&ITEMS, config.items),
        menu(&SIZES, config.sizes),
        menu(&EXTRAS, config.extras),
        SIZES[0],
        ITEMS[0],
        EXTRAS[0]
    );
    (config.prompt == PromptStyle::Full).then(|| Message::system(text))
}

/// The messages that the user reads: its wish and how to answer, the questions and answers so far, and the question.
pub(super) fn user_reads(
    config: &OrdersConfig,
    wish: &Wish,
    heard: &[(String, String)],
    question: &str,
) -> Vec<Message> {
    let brief = match config.prompt {
        // Each part is on a line of its own, exactly as it is to be said, because some tokenizers take a space into the
        // word; this way they see the same word in the answer.
        PromptStyle::Short => {
            let extras = wish.extras_text().unwrap_or_else(|| NOTHING.to_owned());
            let (size, item) = (SIZES[wish.size], ITEMS[wish.item]);
            format!("you want\n{size}\n{item}\n{extras}\nsay only what you are asked")
        }
        PromptStyle::Full => format!(
            "You are a guest who orders food. You want: {}. Answer the question with as few words as possible and say only what \
             you are asked for: the dish, the size or the extras. Say {NOTHING} if you are asked for extras and want none, and \
             {PARDON} to any other question.",
            wish.text()
        ),
    };
    let mut messages = vec![Message::system(brief)];
    for (question, answer) in heard {
        messages.extend([Message::user(question), Message::assistant(answer)]);
    }
    messages.push(Message::user(question));
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_says_what_it_is_asked_for_and_nothing_else() {
        let wish = Wish { item: 1, size: 0, extras: vec![2, 3] };
        for (field, answer) in Field::ALL.into_iter().zip(["salad", "small", "onion and corn"]) {
            for question in field.phrasings() {
                assert_eq!(reply(&wish, question), answer, "{question}");
                assert_eq!(reply(&wish, &question.to_uppercase()), answer, "{question}");
            }
        }
        let plain = Wish { extras: vec![], ..wish.clone() };
        assert_eq!(reply(&plain, "would you like toppings?"), "no");
        assert_eq!(reply(&wish, "And which size would that be?"), "small");
        assert_eq!(reply(&wish, "What may I get you"), "salad");
        for question in ODD.into_iter().chain(["", "order"]) {
            assert_eq!(reply(&wish, question), "pardon?", "{question}");
        }
    }
}
