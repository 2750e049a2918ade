//! Names (keys, values, variables), and the sentences that hide them.

use burnish_core::rng::Stream;

use super::config::Config;
use super::kind::{Form, RecallTask, Shape};
use super::wording::{assignment, copy, needle};
use super::words::{ADJECTIVES, NOUNS};

/// A kind of name, with its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// `amber-acorn`, or `acorn`.
    Word,
    /// A number of so many digits.
    Number(usize),
    /// The beginning of a UUID.
    Uuid,
    /// Capital letters.
    Variable,
}

impl Name {
    fn of(form: Form, config: &Config) -> Self {
        match form {
            Form::Words => Name::Word,
            Form::Numbers => Name::Number(config.numbers.digits),
            Form::Uuids => Name::Uuid,
        }
    }

    /// How many there are, at least.
    pub(super) fn capacity(self, config: &Config) -> u64 {
        match self {
            Name::Word => (config.words.adjectives.max(1) * config.words.nouns) as u64,
            Name::Number(digits) => 9 * 10u64.pow(digits.saturating_sub(1) as u32),
            // The digits after the twelfth are not all free.
            Name::Uuid => 16u64.pow(config.uuids.digits.min(12) as u32),
            Name::Variable => 26u64.pow(config.variables.letters as u32),
        }
    }

    /// One of the longest.
    pub(super) fn longest(self, config: &Config) -> String {
        let most = |words: &[&str]| words.iter().map(|word| word.len()).max().unwrap_or(0);
        let letters = match self {
            Name::Word => match &ADJECTIVES[..config.words.adjectives] {
                [] => most(&NOUNS[..config.words.nouns]),
                adjectives => most(adjectives) + 1 + most(&NOUNS[..config.words.nouns]),
            },
            Name::Number(digits) => digits,
            Name::Uuid => uuid(&[0; 32], config.uuids.digits).len(),
            Name::Variable => config.variables.letters,
        };
        "X".repeat(letters)
    }

    /// Draws one.
    pub(super) fn draw(self, config: &Config, stream: &mut Stream) -> String {
        match self {
            Name::Word => {
                let noun = NOUNS[stream.index(config.words.nouns)];
                match config.words.adjectives {
                    0 => noun.to_owned(),
                    adjectives => format!("{}-{noun}", ADJECTIVES[stream.index(adjectives)]),
                }
            }
            Name::Number(digits) => {
                let least = 10u64.pow(digits.saturating_sub(1) as u32);
                (least + stream.below(9 * least)).to_string()
            }
            Name::Uuid => {
                let mut digits = [0u8; 32];
                digits.fill_with(|| stream.below(16) as u8);
                // Version 4, and the variant of RFC 4122.
                digits[12] = 4;
                digits[16] = 8 | digits[16] & 3;
                uuid(&digits, config.uuids.digits)
            }
            Name::Variable => {
                let letter = |_| char::from(b'A' + stream.below(26) as u8);
                (0..config.variables.letters).map(letter).collect()
            }
        }
    }
}

/// The first `count` digits, with dashes where a UUID has them.
fn uuid(digits: &[u8; 32], count: usize) -> String {
    let mut text = String::new();
    for (at, &digit) in digits.iter().take(count).enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.extend(char::from_digit(u32::from(digit), 16));
    }
    text
}

/// What is hidden in a text, and what is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hidden {
    /// The sentences that answer the question, in the order in which they have to stand.
    pub(super) asked: Vec<String>,
    /// Sentences like them that do not; those of one list stand in its order.
    pub(super) others: Vec<Vec<String>>,
    /// What is asked, turn by turn.
    pub(super) questions: Vec<Question>,
}

impl Hidden {
    /// What the answers have to contain.
    pub(super) fn references(&self) -> impl Iterator<Item = &String> {
        self.questions.iter().flat_map(|question| &question.references)
    }
}

/// One question.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Question {
    /// The keys that are asked for, or the value of `vt`.
    pub(super) queries: Vec<String>,
    /// What an answer has to contain.
    pub(super) references: Vec<String>,
}

/// Hides names that `draw` gives, all of them different, and asks for the first ones. `None` if it gives none.
pub(super) fn hide(
    config: &Config,
    task: RecallTask,
    draw: &mut dyn FnMut(Name) -> Option<String>,
) -> Option<Hidden> {
    match task.shape(config) {
        Some(shape) => needles(config, shape, draw),
        None => chains(config, draw),
    }
}

fn needles(config: &Config, shape: Shape, draw: &mut dyn FnMut(Name) -> Option<String>) -> Option<Hidden> {
    let questions = vec![Question::default(); shape.turns_count];
    let mut hidden = Hidden { asked: vec![], others: vec![], questions };
    for index in 0..shape.keys_count {
        let key = draw(Name::of(shape.keys, config))?;
        let mut question = hidden.questions.get_mut(index / shape.queries_count);
        for _ in 0..shape.values_count {
            let value = draw(Name::of(shape.values, config))?;
            let sentence = needle(config.prompt, shape.values, &key, &value);
            if let Some(question) = &mut question {
                hidden.asked.push(sentence);
                question.references.push(value);
            } else {
                hidden.others.push(vec![sentence]);
            }
        }
        if let Some(question) = question {
            question.queries.push(key);
        }
    }
    Some(hidden)
}

fn chains(config: &Config, draw: &mut dyn FnMut(Name) -> Option<String>) -> Option<Hidden> {
    let sizes = config.variables;
    let mut chain = || {
        let value = draw(Name::Number(sizes.digits))?;
        let names: Option<Vec<String>> = (0..=sizes.hops).map(|_| draw(Name::Variable)).collect();
        let names = names?;
        let mut sentences = vec![assignment(config.prompt, &names[0], &value)];
        sentences.extend(names.windows(2).map(|pair| copy(config.prompt, &pair[1], &pair[0])));
        Some((value, names, sentences))
    };
    let (value, references, asked) = chain()?;
    let others: Option<Vec<_>> =
        (1..sizes.chains).map(|_| chain().map(|(_, _, sentences)| sentences)).collect();
    let question = Question { queries: vec![value], references };
    Some(Hidden { asked, others: others?, questions: vec![question] })
}

/// A needle under a key that is not asked for: `draw` gives a name that was not drawn before, `value` any that is no
/// reference.
pub(super) fn distractor(
    config: &Config,
    shape: Shape,
    draw: &mut dyn FnMut(Name) -> Option<String>,
    value: &mut dyn FnMut(Name) -> Option<String>,
) -> Option<String> {
    let key = draw(Name::of(shape.keys, config))?;
    let value = value(Name::of(shape.values, config))?;
    Some(needle(config.prompt, shape.values, &key, &value))
}

/// Number of different names that keys, and that values of `shape` can have.
pub(super) fn capacities(config: &Config, shape: Shape) -> [u64; 2] {
    [shape.keys, shape.values].map(|form| Name::of(form, config).capacity(config))
}

/// Bytes of the shortest needle of `shape`.
pub(super) fn shortest_needle(config: &Config, shape: Shape) -> usize {
    let value = Name::of(shape.values, config).longest(config);
    let key = match shape.keys {
        Form::Words => "X".repeat(if config.words.adjectives == 0 { 3 } else { 7 }),
        form => Name::of(form, config).longest(config),
    };
    needle(config.prompt, shape.values, &key, &value).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_sizes_that_are_asked_for() {
        let mut config = Config::default();
        let mut stream = Stream::new(3);
        for _ in 0..200 {
            let uuid = Name::Uuid.draw(&config, &mut stream);
            let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12]);
            assert!(uuid[14..].starts_with('4') && matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
            assert_eq!(Name::Number(7).draw(&config, &mut stream).len(), 7);
            assert_eq!(Name::Variable.draw(&config, &mut stream).len(), 5);
            assert_eq!(Name::Word.draw(&config, &mut stream).split('-').count(), 2);
        }
        config.words.adjectives = 0;
        config.uuids.digits = 3;
        assert!(!Name::Word.draw(&config, &mut stream).contains('-'));
        assert_eq!(Name::Uuid.draw(&config, &mut stream).len(), 3);
        assert_eq!(Name::Number(1).capacity(&config), 9);
        assert_eq!(Name::Uuid.capacity(&config), 4096);
    }
}
