//! What needles are hidden in.

use std::path::Path;

use burnish_core::rng::Stream;
use burnish_data::DataError;

use super::config::Config;
use super::kind::Surroundings;
use super::wording::PromptStyle;
use super::words::{NOISE, PEOPLE, PLACES, THINGS, VERBS};
use crate::EnvError;

/// Longest part of a text that no needle is put into, in bytes. Longer sentences are divided between words.
const SENTENCE_MAX: usize = 300;

/// Reads a file as sentences, with single spaces between words.
///
/// # Errors
/// If it can't be read, is not UTF-8, or has no words.
pub(super) fn read(path: &Path) -> Result<Vec<String>, EnvError> {
    let wrong = |problem: String| EnvError::from(DataError::file(path, problem));
    let bytes = std::fs::read(path).map_err(|error| wrong(format!("can't be read: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| wrong(format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))?;
    let sentences = sentences(&text);
    if sentences.is_empty() {
        return Err(wrong("has no words: name a file of plain text".to_owned()));
    }
    Ok(sentences)
}

/// A sentence ends with a word that ends with `.`, `!` or `?`, perhaps in quotes or brackets.
fn sentences(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut sentence = String::new();
    for word in text.split_whitespace() {
        if !sentence.is_empty() && sentence.len() + 1 + word.len() > SENTENCE_MAX {
            all.push(std::mem::take(&mut sentence));
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        if word.trim_end_matches(['"', '\'', ')', ']', '”', '’']).ends_with(['.', '!', '?']) {
            all.push(std::mem::take(&mut sentence));
        }
    }
    if !sentence.is_empty() {
        all.push(sentence);
    }
    all
}

/// Sentences of at most `room` bytes together, with a separator after each. Noise leaves less than a sentence of room,
/// a text less than a word.
pub(super) fn fill(
    config: &Config,
    surroundings: Surroundings,
    text: &[String],
    room: usize,
    stream: &mut Stream,
) -> Vec<String> {
    match surroundings {
        Surroundings::Noise => noise(config.prompt, room),
        Surroundings::Text if text.is_empty() => {
            until_full(room, || Some(generated(config.vocabulary, stream)))
        }
        Surroundings::Text => {
            let first = stream.index(text.len());
            let mut sentences = text.iter().cycle().skip(first);
            until_full(room, || sentences.next().cloned())
        }
        // Made by the caller, who knows which keys are taken.
        Surroundings::Needles => Vec::new(),
    }
}

/// Sentences that fit, and of the first that does not as many words as fit.
fn until_full(room: usize, mut next: impl FnMut() -> Option<String>) -> Vec<String> {
    let (mut taken, mut left) = (Vec::new(), room);
    while let Some(sentence) = next() {
        if sentence.len() < left {
            left -= sentence.len() + 1;
            taken.push(sentence);
            continue;
        }
        // The words before the last space whose beginning fits.
        let mut ends = sentence.match_indices(' ').map(|(at, _)| at).filter(|at| *at < left);
        taken.extend(ends.next_back().map(|end| sentence[..end].to_owned()));
        break;
    }
    taken
}

/// RULER's sentences; of the full wording, all of them on each line.
fn noise(style: PromptStyle, room: usize) -> Vec<String> {
    let per_line = if style == PromptStyle::Full { NOISE.len() } else { 1 };
    let (mut lines, mut line, mut left) = (Vec::new(), Vec::new(), room);
    for sentence in NOISE.iter().cycle() {
        if sentence.len() >= left {
            break;
        }
        left -= sentence.len() + 1;
        line.push(*sentence);
        if line.len() == per_line {
            lines.push(std::mem::take(&mut line).join(" "));
        }
    }
    if !line.is_empty() {
        lines.push(line.join(" "));
    }
    lines
}

/// A sentence of the first `vocabulary` words of each kind.
fn generated(vocabulary: usize, stream: &mut Stream) -> String {
    let mut word = |words: &[&'static str]| words[stream.index(vocabulary.min(words.len()))];
    let (who, verb, thing) = (word(&PEOPLE), word(&VERBS), word(&THINGS));
    let place = word(&PLACES);
    format!("The {who} {verb} the {thing} near the {place}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_divided_where_sentences_end() {
        assert_eq!(
            sentences("First Citizen:\nSpeak, speak.  \"Why?\" No\n\nend"),
            ["First Citizen: Speak, speak.", "\"Why?\"", "No end"]
        );
        assert!(sentences(" \n").is_empty());
        let long = "word ".repeat(500);
        assert!(sentences(&long).iter().all(|part| part.len() <= SENTENCE_MAX));
        assert_eq!(sentences(&long).join(" "), long.trim());
    }

    proptest! {
        #[test]
        fn what_is_filled_in_fits_and_leaves_less_than_the_next_piece(room in 0usize..3000, seed: u64) {
            let mut config = Config::default();
            let text: Vec<String> = ["One two three.", "Four.", "Five six seven eight."].map(str::to_owned).into();
            let taken = |units: &[String]| units.iter().map(|unit| unit.len() + 1).sum::<usize>();
            for style in [PromptStyle::Full, PromptStyle::Short] {
                config.prompt = style;
                for (surroundings, text, piece) in
                    [(Surroundings::Noise, &[][..], 22), (Surroundings::Text, &[][..], 10), (Surroundings::Text, &text, 7)]
                {
                    let units = fill(&config, surroundings, text, room, &mut Stream::new(seed));
                    prop_assert!(taken(&units) <= room, "{surroundings:?}");
                    prop_assert!(room - taken(&units) <= piece, "{surroundings:?}: {room} {units:?}");
                }
            }
        }
    }
}
