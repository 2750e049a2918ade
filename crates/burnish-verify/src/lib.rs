//! Is an answer right? Verifiers for numbers, mathematics, choices, text and JSON.
//!
//! Pure functions on text: no tensors, no files, no network, no clock. The work and memory of a judgement are bounded,
//! whatever the response holds (`9^9^9^9`, a thousand brackets); a response that exceeds the bounds is not correct.
//!
//! ```
//! use burnish_verify::{Reason, Verifier};
//!
//! let gold = Verifier::Math.gold(r"\frac{7}{2}").unwrap();
//! assert!(gold.judge(r"So the value is \boxed{3\frac12}.").is_correct);
//! assert_eq!(gold.judge("The answer is 3 or 3.5").reason, Reason::Different);
//! ```
//!
//! `docs/verifiers.md` states the rules of every verifier, and where they differ from math-verify's.

pub mod abstention;
mod choice;
pub mod code;
mod commands;
mod equal;
mod explain;
mod expression;
mod fence;
mod infix;
mod json;
pub mod language;
mod lex;
mod math;
mod normal;
mod numeral;
mod pieces;
mod poly;
pub mod qa;
mod reading;
mod relation;
mod sample;
mod show;
mod structure;
mod syntax;
mod text;
mod units;
mod work;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

pub use explain::{Explanation, Place};
pub use reading::{PHRASES, Reading, ReadingError, extracted, extraction};

use pieces::{Piece, pieces};

/// How a response is compared with a reference answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verifier {
    /// One number: integers, decimals, fractions, percentages, currencies, units, words of scale such as "million".
    Number,
    /// LaTeX and plain mathematics: expressions, equations, sets, tuples, intervals, matrices, and all numbers.
    Math,
    /// A letter of a multiple choice.
    Choice,
    /// The same characters, apart from space around them.
    Exact,
    /// The same words: case, punctuation, articles and spacing do not count. If the reference is a JSON array of
    /// strings, all of them are asked for, in any order.
    Text,
    /// The same JSON value.
    Json,
    /// A short answer inside `<answer>`, or `No Answer` if the reference says so; see [`mod@abstention`].
    Abstention,
}

/// A reference answer that cannot be judged against.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{reference}` is no reference for the verifier `{verifier}`: {problem}", verifier = verifier.name())]
pub struct GoldError {
    /// The verifier that refused it.
    pub verifier: Verifier,
    /// The reference answer.
    pub reference: String,
    /// What is wrong, and what to use instead.
    pub problem: &'static str,
}

/// A reference answer, read once so that many responses can be judged against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    kind: Kind,
    reading: Reading,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Math(Box<math::Reference>),
    Choice(char),
    Exact(String),
    Text(Vec<Piece>),
    Items(Vec<Vec<Piece>>),
    Json(serde_json::Value),
    Abstention(Vec<String>),
}

/// What a verifier found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Whether the answer is the reference.
    pub is_correct: bool,
    /// The final answer, as written in the response.
    pub answer: Option<String>,
    /// Why.
    pub reason: Reason,
}

/// Why a response is correct or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The answer is the reference.
    Correct,
    /// The answer was read, and differs from the reference.
    Different,
    /// The response gives no answer.
    NoAnswer,
    /// There is an answer, but it is not of the kind that the verifier compares, or not a single answer.
    Unreadable,
}

impl Verifier {
    /// Every verifier.
    pub const ALL: [Verifier; 7] = [
        Verifier::Number,
        Verifier::Math,
        Verifier::Choice,
        Verifier::Exact,
        Verifier::Text,
        Verifier::Json,
        Verifier::Abstention,
    ];

    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Verifier::Number => "number",
            Verifier::Math => "math",
            Verifier::Choice => "choice",
            Verifier::Exact => "exact",
            Verifier::Text => "text",
            Verifier::Json => "json",
            Verifier::Abstention => "abstention",
        }
    }

    /// The final answer of a response, as written there: what this verifier would compare with a reference of one value.
    /// Nothing is compared. `None` if the response gives no answer.
    pub fn answer(self, response: &str) -> Option<String> {
        // Any reference does: it decides whether an answer is right, not where it is.
        let some = match self {
            Verifier::Number | Verifier::Math => "0",
            Verifier::Choice => "A",
            Verifier::Json => "null",
            Verifier::Exact | Verifier::Text | Verifier::Abstention => "x",
        };
        self.gold(some).ok()?.judge(response).answer
    }

    /// Do two final answers ([`Verifier::answer`]) say the same? `one` is read as a reference; where it can't be, the
    /// texts are compared.
    pub fn is_same(self, one: &str, other: &str) -> bool {
        let (one, other) = (one.trim(), other.trim());
        // An abstention's answer stands in tags, which are gone here.
        let verifier = if self == Verifier::Abstention { Verifier::Text } else { self };
        one == other || verifier.gold(one).is_ok_and(|gold| gold.judge(other).is_correct)
    }

    /// Reads a reference answer.
    ///
    /// # Errors
    /// If this verifier cannot compare with it; the error names the reference and says what to use instead.
    pub fn gold(self, reference: &str) -> Result<Gold, GoldError> {
        let refuse = |problem| GoldError { verifier: self, reference: reference.to_owned(), problem };
        if reference.trim().is_empty() {
            return Err(refuse("it is empty"));
        }
        let kind = match self {
            Verifier::Number | Verifier::Math => {
                let reference = math::Reference::new(reference, self == Verifier::Number).map_err(|why| {
                    refuse(match why {
                        math::Refusal::Unreadable => "it can't be read as mathematics; use `text` or `exact`",
                        math::Refusal::NotANumber => "it is not one number; use `math` or `text`",
                    })
                })?;
                Kind::Math(Box::new(reference))
            }
            Verifier::Choice => Kind::Choice(
                choice::reference(reference).ok_or_else(|| refuse("it is not one letter; use `text`"))?,
            ),
            Verifier::Exact => Kind::Exact(reference.trim().nfc().collect()),
            Verifier::Text => match serde_json::from_str::<Vec<String>>(reference) {
                Ok(items) => {
                    Kind::Items(some(text::items(&items)).ok_or_else(|| refuse("no item has words"))?)
                }
                Err(_) => {
                    Kind::Text(some(pieces(reference)).ok_or_else(|| refuse("it has no words; use `exact`"))?)
                }
            },
            Verifier::Json => Kind::Json(
                burnish_core::json::parse(reference)
                    .map_err(|_| refuse("it is not JSON; use `text` or `exact`"))?,
            ),
            Verifier::Abstention => Kind::Abstention(abstention::golds(reference)),
        };
        Ok(Gold { kind, reading: Reading::default() })
    }
}

/// Is the final answer of a response marked, by a box, `<answer>`, `####` or one of [`PHRASES`]?
pub fn is_marked(response: &str) -> bool {
    reading::marked(response).is_some_and(|marked| !marked.text.trim().is_empty())
}

/// The text of a worked solution before the first place where a final answer is marked; all of it if none is.
pub fn before_answer(solution: &str) -> &str {
    reading::before(solution)
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

impl Gold {
    /// The same reference, for responses whose answer is found by `reading`.
    #[must_use]
    pub fn with_reading(self, reading: Reading) -> Gold {
        Gold { reading, ..self }
    }

    /// Judges a response: finds its final answer and compares.
    pub fn judge(&self, response: &str) -> Judgement {
        self.judge_with(response, &mut work::Work::new())
    }

    fn judge_with(&self, response: &str, work: &mut work::Work) -> Judgement {
        match &self.kind {
            Kind::Math(reference) => {
                let outcome = reference.judge(response, self.reading, work);
                match outcome.answer {
                    None => Judgement::none(),
                    Some((answer, is_read)) => Judgement::of(answer, is_read, outcome.is_same),
                }
            }
            Kind::Choice(gold) => match choice::chosen(response, self.reading) {
                None => Judgement::none(),
                Some(choice::Chosen { letter, text, .. }) => {
                    Judgement::of(text, letter.is_some(), letter == Some(*gold))
                }
            },
            Kind::Exact(gold) => self.of_texts(response, |answer| answer.nfc().eq(gold.chars())),
            Kind::Text(gold) => self.of_texts(response, |answer| pieces::same(&pieces(answer), gold)),
            Kind::Items(gold) => self.of_texts(response, |answer| text::is_made_of(&pieces(answer), gold)),
            Kind::Json(gold) => match json::found(response, self.reading) {
                None => Judgement::none(),
                Some(Err(text)) => Judgement::of(text, false, false),
                Some(Ok((value, text))) => Judgement::of(text, true, json::same(gold, &value)),
            },
            Kind::Abstention(golds) => {
                let finding = abstention::judge(golds, response);
                let is_right = finding.is_right();
                finding.answer.map_or_else(Judgement::none, |answer| Judgement::of(answer, true, is_right))
            }
        }
    }

    /// Judges the candidates for a text answer.
    fn of_texts(&self, response: &str, is_same: impl Fn(&str) -> bool) -> Judgement {
        let mut candidates = text::candidates(response, self.reading);
        let right = candidates.iter().position(|candidate| is_same(candidate));
        let chosen = candidates.swap_remove(right.unwrap_or(0));
        if chosen.is_empty() { Judgement::none() } else { Judgement::of(chosen, true, right.is_some()) }
    }
}

impl Judgement {
    fn none() -> Judgement {
        Judgement { is_correct: false, answer: None, reason: Reason::NoAnswer }
    }

    fn of(answer: String, is_read: bool, is_correct: bool) -> Judgement {
        let reason = match (is_correct, is_read) {
            (true, _) => Reason::Correct,
            (false, true) => Reason::Different,
            (false, false) => Reason::Unreadable,
        };
        Judgement { is_correct, answer: Some(answer), reason }
    }
}
