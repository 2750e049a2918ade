//! Where an answer was found, and how both sides were read.

use serde::{Deserialize, Serialize};

use crate::pieces::{Piece, pieces};
use crate::reading::{Mark, marked};
use crate::{Gold, Judgement, Kind, choice, json};

/// Where in a response its answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The last `\\boxed{...}`, with the boxes joined to it.
    Box,
    /// The last `<answer>...</answer>`.
    Tag,
    /// The last `#### ...`.
    Hashes,
    /// After one of [`PHRASES`](crate::PHRASES).
    Phrase,
    /// The whole response.
    Whole,
    /// The last value or letter of a response that marks nothing.
    Last,
    /// The part that a model copied out of a response that marks nothing.
    Extracted,
}

impl Place {
    /// The place in words: "a box".
    pub fn description(self) -> &'static str {
        match self {
            Place::Box => "a box",
            Place::Tag => "an <answer> tag",
            Place::Hashes => "the line of ####",
            Place::Phrase => "the text after a phrase",
            Place::Whole => "the whole response",
            Place::Last => "the last value",
            Place::Extracted => "the part that a model copied",
        }
    }

    pub(crate) fn of(mark: Mark) -> Self {
        match mark {
            Mark::Boxed => Place::Box,
            Mark::Tag => Place::Tag,
            Mark::Hashes => Place::Hashes,
            Mark::Phrase => Place::Phrase,
        }
    }
}

/// A judgement, with the reading of both sides that it is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The judgement, as [`Gold::judge`] gives it.
    pub judgement: Judgement,
    /// How the reference was read: a value for `number` and `math`, a letter, words, or JSON.
    pub reference: String,
    /// Where the answer was found. `None` if there is none.
    pub place: Option<Place>,
    /// How the answer was read. `None` if it could not be read.
    pub answer: Option<String>,
}

/// How an answer was read, and where it was found.
type Read = (Option<Place>, Option<String>);

impl Gold {
    /// Judges a response like [`Gold::judge`], and says how both sides were read.
    ///
    /// ```
    /// use burnish_verify::{Place, Verifier};
    ///
    /// let gold = Verifier::Math.gold(r"\frac12").unwrap();
    /// let explained = gold.explain("The answer is 0.5.");
    /// assert!(explained.judgement.is_correct);
    /// assert_eq!(explained.reference, "1/2");
    /// assert_eq!((explained.place, explained.answer.as_deref()), (Some(Place::Phrase), Some("0.5")));
    /// ```
    pub fn explain(&self, response: &str) -> Explanation {
        let judgement = self.judge(response);
        let place = marked(response).map_or(Place::Whole, |found| Place::of(found.mark));
        let words = |words: &[Piece]| words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let (reference, read): (String, Read) = match &self.kind {
            Kind::Math(reference) => (reference.shown(), reference.read_of(response, self.reading)),
            Kind::Choice(letter) => {
                let chosen = choice::chosen(response, self.reading);
                let read = chosen.as_ref().and_then(|chosen| chosen.letter);
                (letter.to_string(), (chosen.map(|chosen| chosen.place), read.map(String::from)))
            }
            Kind::Exact(reference) => (reference.clone(), (Some(place), judgement.answer.clone())),
            Kind::Text(reference) => {
                let answer = judgement.answer.as_deref().map(|answer| words(&pieces(answer)));
                (words(reference), (Some(place), answer))
            }
            Kind::Items(items) => {
                let answer = judgement.answer.as_deref().map(|answer| words(&pieces(answer)));
                (items.iter().map(|item| words(item)).collect::<Vec<_>>().join(" | "), (Some(place), answer))
            }
            Kind::Json(value) => {
                // Values that were read can be written.
                let text = |value: &serde_json::Value| burnish_core::json::text(value).unwrap_or_default();
                let found = json::found(response, self.reading).and_then(Result::ok);
                (text(value), (Some(place), found.map(|(value, _)| text(&value))))
            }
            Kind::Abstention(golds) => {
                let reference =
                    if golds.is_empty() { crate::abstention::NO_ANSWER.to_owned() } else { golds.join(", ") };
                (
                    crate::qa::normalised(&reference),
                    (Some(Place::Tag), judgement.answer.as_deref().map(crate::qa::normalised)),
                )
            }
        };
        let (place, answer) = if judgement.answer.is_some() { read } else { (None, None) };
        Explanation { judgement, reference, place, answer }
    }
}
