//! Who rates turns.

mod lexical;
mod prompts;

pub use lexical::Lexical;
pub use prompts::PromptJudge;

use serde::{Deserialize, Serialize};

use crate::data::Turn;

/// What is rated. The first four are scores from 1 to 5, the last two are checks, 1 if passed and 0 if not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Is the evidence about what is asked?
    Alignment,
    /// Does the evidence hold the answer, and no other chunk? A judge picks it among hard negatives: 5 if it always
    /// does, 1 if it never does.
    Completeness,
    /// Does the evidence say what the answer says?
    Faithfulness,
    /// Does the answer answer the question? The evidence plays no part.
    Quality,
    /// Does the user ask one thing?
    Atomic,
    /// Does the user ask without pointing at a text that the user has not seen ("according to the passage")?
    NoReference,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Dimension; 6] = [
        Dimension::Alignment,
        Dimension::Completeness,
        Dimension::Faithfulness,
        Dimension::Quality,
        Dimension::Atomic,
        Dimension::NoReference,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Alignment => "alignment",
            Dimension::Completeness => "completeness",
            Dimension::Faithfulness => "faithfulness",
            Dimension::Quality => "quality",
            Dimension::Atomic => "atomic",
            Dimension::NoReference => "no_reference",
        }
    }

    /// The best value less the worst.
    pub fn range(self) -> f64 {
        match self {
            Dimension::Atomic | Dimension::NoReference => 1.0,
            _ => 4.0,
        }
    }
}

/// A turn as judges see it.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// The turns before.
    pub history: &'a [Turn],
    /// The turn.
    pub turn: &'a Turn,
    /// What the turn's evidence says, one text per chunk.
    pub evidence: Vec<&'a str>,
}

/// Rates turns. Errors say what went wrong; a turn that could not be judged is counted, and in no mean.
pub trait Judge {
    /// The name that reports give it.
    fn name(&self) -> &str;

    /// The score of `item` from 1 to 5 for alignment, faithfulness or quality; 1 or 0 for a check. Completeness is
    /// asked for with [`Judge::pick`].
    fn rate(&self, dimension: Dimension, item: &Item<'_>) -> Result<f64, String>;

    /// Which of `options` holds the answer to the turn's question, by its place. The turn's evidence and answer are
    /// not to be looked at: they would tell.
    fn pick(&self, item: &Item<'_>, options: &[&str]) -> Result<usize, String>;
}
