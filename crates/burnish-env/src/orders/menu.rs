//! The possible wishes, and how they are written.

use burnish_core::rng::Stream;

use super::config::OrdersConfig;

/// Words; the configuration says how many of them are used. No word is in two lists.
pub(super) const ITEMS: [&str; 12] =
    ["pizza", "salad", "soup", "pasta", "burger", "wrap", "curry", "stew", "rice", "toast", "cake", "pie"];
pub(super) const SIZES: [&str; 4] = ["small", "medium", "large", "huge"];
pub(super) const EXTRAS: [&str; 12] = [
    "cheese", "olives", "onion", "corn", "beans", "nuts", "herbs", "garlic", "lemon", "ginger", "honey",
    "cream",
];

/// Words in an order that carry no meaning.
const FILLERS: [&str; 4] = ["a", "an", "with", "and"];

/// What a user wants: indices into the lists of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) item: usize,
    pub(super) size: usize,
    /// In ascending order.
    pub(super) extras: Vec<usize>,
}

impl Wish {
    /// Draws a wish.
    pub(super) fn draw(config: &OrdersConfig, stream: &mut Stream) -> Self {
        let (item, size) = (stream.index(config.items), stream.index(config.sizes));
        let count = stream.index(config.extras_max + 1);
        Wish { item, size, extras: subset(config.extras, count, stream) }
    }

    /// Reads an order: one size, one dish and any extras, each once, in any word order. `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mut item, mut size, mut extras) = (None, None, Vec::new());
        let place = |list: &[&str], word: &str| list.iter().position(|it| *it == word);
        for word in words(text) {
            if let Some(at) = place(&ITEMS, &word) {
                if item.replace(at).is_some() {
                    return None;
                }
            } else if let Some(at) = place(&SIZES, &word) {
                if size.replace(at).is_some() {
                    return None;
                }
            } else if let Some(at) = place(&EXTRAS, &word) {
                if extras.contains(&at) {
                    return None;
                }
                extras.push(at);
            } else if !FILLERS.contains(&word.as_str()) {
                return None;
            }
        }
        extras.sort_unstable();
        Some(Wish { item: item?, size: size?, extras })
    }

    /// `large pizza with cheese and olives`.
    pub(super) fn text(&self) -> String {
        let plain = format!("{} {}", SIZES[self.size], ITEMS[self.item]);
        match self.extras_text() {
            Some(extras) => format!("{plain} with {extras}"),
            None => plain,
        }
    }

    /// `cheese and olives`; `None` without extras.
    pub(super) fn extras_text(&self) -> Option<String> {
        let names: Vec<&str> = self.extras.iter().map(|&at| EXTRAS[at]).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }

    /// The same wish with other extras.
    pub(super) fn with_other_extras(&self, config: &OrdersConfig, stream: &mut Stream) -> Self {
        let count = stream.index(config.extras_max + 1);
        let mut extras = subset(config.extras, count, stream);
        if extras == self.extras {
            // Nothing instead of something, or one extra instead of nothing.
            extras = if extras.is_empty() { vec![stream.index(config.extras)] } else { Vec::new() };
        }
        Wish { extras, ..self.clone() }
    }
}

/// `count` of the numbers below `of`, ascending.
fn subset(of: usize, count: usize, stream: &mut Stream) -> Vec<usize> {
    let mut all: Vec<usize> = (0..of).collect();
    stream.shuffle(&mut all);
    all.truncate(count);
    all.sort_unstable();
    all
}

/// A number below `of` other than `than`.
pub(super) fn other(than: usize, of: usize, stream: &mut Stream) -> usize {
    (than + 1 + stream.index(of.saturating_sub(1).max(1))) % of
}

/// The words of a text in lower case, without punctuation.
pub(super) fn words(text: &str) -> Vec<String> {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_order_is_read_in_any_order_of_words_and_nothing_else_is_one() {
        let wish = Wish { item: 0, size: 2, extras: vec![0, 1] };
        assert_eq!(wish.text(), "large pizza with cheese and olives");
        for text in ["Large pizza with olives, cheese!", "a pizza, LARGE\nolives and cheese"] {
            assert_eq!(Wish::parse(text).as_ref(), Some(&wish), "{text}");
        }
        for text in [
            "",
            "pizza",
            "large",
            "large pizza with cheese and cheese",
            "large pizza and soup",
            "small large pizza",
            "large pizza without cheese",
            "large pizzas",
        ] {
            assert_eq!(Wish::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_word_means_two_things() {
        let all: Vec<&str> = [&ITEMS[..], &SIZES, &EXTRAS, &FILLERS].concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_and_others_differ(seed in any::<u64>(), extras in 1..12_usize) {
            let config = OrdersConfig { extras, extras_max: extras.min(4), ..OrdersConfig::default() };
            let mut stream = Stream::new(seed);
            let wish = Wish::draw(&config, &mut stream);
            prop_assert_eq!(Wish::parse(&wish.text()), Some(wish.clone()));
            let different = wish.with_other_extras(&config, &mut stream);
            prop_assert!(different != wish && different.extras.len() <= config.extras_max);
            let size = other(wish.size, config.sizes, &mut stream);
            prop_assert!(size != wish.size && size < config.sizes);
        }
    }
}
