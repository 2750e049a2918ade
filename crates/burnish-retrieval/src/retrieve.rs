//! Retrievers: what they see of a dialogue, and how they rank chunks.

use std::str::FromStr;

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use serde::{Deserialize, Serialize};

use crate::data::{Chunk, Dialogue};
use crate::embed::{Embed, cosine, unit_vectors};
use crate::index::{Index, highest};
use crate::{Result, RetrievalError, wrong};

/// What a retriever sees of a dialogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// What the user says in this turn.
    LastTurn,
    /// What the user has said up to and with this turn.
    Questions,
    /// Everything that was said up to and with the user's words in this turn.
    Conversation,
    /// The oracle's rewriting of this turn's question.
    Rewrite,
}

impl View {
    /// All views.
    pub const ALL: [View; 4] = [View::LastTurn, View::Questions, View::Conversation, View::Rewrite];

    /// Its name in reports and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            View::LastTurn => "last_turn",
            View::Questions => "questions",
            View::Conversation => "conversation",
            View::Rewrite => "rewrite",
        }
    }

    /// The query for turn `number` (from 0) of `dialogue`; an error where nobody knows the rewriting.
    pub fn query(self, dialogue: &Dialogue, number: usize) -> Result<String> {
        let turn = &dialogue.turns[number];
        let earlier = &dialogue.turns[..number];
        Ok(match self {
            View::LastTurn => turn.user.clone(),
            View::Rewrite => match &turn.rewrite {
                Some(rewrite) => rewrite.clone(),
                None => {
                    return wrong(format!(
                        "dialogue {:?}, turn {}: there is no `rewrite`, which the view `rewrite` needs; leave that \
                         view out",
                        dialogue.id,
                        number + 1
                    ));
                }
            },
            View::Questions => lines(earlier.iter().map(|turn| turn.user.as_str()), &turn.user),
            View::Conversation => {
                lines(earlier.iter().flat_map(|turn| [turn.user.as_str(), turn.answer.as_str()]), &turn.user)
            }
        })
    }
}

impl FromStr for View {
    type Err = RetrievalError;

    fn from_str(text: &str) -> Result<Self> {
        match View::ALL.into_iter().find(|view| view.name() == text) {
            Some(view) => Ok(view),
            None => wrong(format!(
                "{text:?} is no view of a dialogue; there are {}",
                View::ALL.map(View::name).join(", ")
            )),
        }
    }
}

fn lines<'a>(earlier: impl Iterator<Item = &'a str>, last: &'a str) -> String {
    earlier.chain([last]).collect::<Vec<_>>().join("\n")
}

/// Ranks the chunks of a benchmark.
pub trait Ranker {
    /// The name that reports give it.
    fn name(&self) -> String;

    /// For each query the places of the `depth` best chunks, best first, fewer only if there are fewer chunks.
    fn rank(&self, queries: &[&str], depth: usize) -> Result<Vec<Vec<usize>>>;
}

/// A view and a ranker: what is compared.
#[derive(Clone, Copy)]
pub struct Arm<'a> {
    /// What the ranker sees.
    pub view: View,
    /// What ranks.
    pub ranker: &'a dyn Ranker,
}

impl Arm<'_> {
    /// Its name in reports: `bm25/last_turn`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.ranker.name(), self.view.name())
    }
}

/// BM25 ([`Index::nearest`]).
#[derive(Debug, Clone)]
pub struct Bm25 {
    index: Index,
}

impl Bm25 {
    /// Over `chunks`.
    pub fn new(chunks: &[Chunk]) -> Self {
        Bm25 { index: Index::new(chunks.iter().map(|chunk| chunk.text.as_str())) }
    }
}

impl Ranker for Bm25 {
    fn name(&self) -> String {
        "bm25".to_owned()
    }

    fn rank(&self, queries: &[&str], depth: usize) -> Result<Vec<Vec<usize>>> {
        let places =
            |query: &&str| self.index.nearest(query, depth).into_iter().map(|(place, _)| place).collect();
        Ok(queries.iter().map(places).collect())
    }
}

/// Dense retrieval: the cosine of vectors.
pub struct Dense<'a> {
    embed: &'a dyn Embed,
    chunks: Vec<Vec<f32>>,
}

impl<'a> Dense<'a> {
    /// Over `chunks`, whose vectors are made now.
    pub fn new(chunks: &[Chunk], embed: &'a dyn Embed) -> Result<Self> {
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        Ok(Dense { embed, chunks: unit_vectors(embed, &texts)? })
    }
}

impl Ranker for Dense<'_> {
    fn name(&self) -> String {
        format!("dense:{}", self.embed.name())
    }

    fn rank(&self, queries: &[&str], depth: usize) -> Result<Vec<Vec<usize>>> {
        let vectors = unit_vectors(self.embed, queries)?;
        let widths = (self.chunks.first().map(Vec::len), vectors.first().map(Vec::len));
        if let (Some(chunks), Some(queries)) = widths
            && chunks != queries
        {
            return wrong(format!(
                "{}: chunks have vectors of {chunks} numbers, queries of {queries}; embed both alike",
                self.name()
            ));
        }
        Ok(vectors
            .iter()
            .map(|query| {
                let scores: Vec<f64> = self.chunks.iter().map(|chunk| cosine(chunk, query)).collect();
                highest(&scores, depth)
            })
            .collect())
    }
}

/// A random order per query: what a retriever finds that knows nothing.
#[derive(Debug, Clone, Copy)]
pub struct RandomOrder {
    /// The number of chunks.
    pub count: usize,
    /// Seed.
    pub seed: u64,
}

impl Ranker for RandomOrder {
    fn name(&self) -> String {
        "random".to_owned()
    }

    fn rank(&self, queries: &[&str], depth: usize) -> Result<Vec<Vec<usize>>> {
        Ok(queries
            .iter()
            .map(|query| {
                let address = Address {
                    task: fold_bytes(query.len() as u64, query.as_bytes()),
                    ..Address::new(self.seed, Purpose::Shuffle)
                };
                let mut places: Vec<usize> = (0..self.count).collect();
                Stream::new(address.seed()).shuffle(&mut places);
                places.truncate(depth);
                places
            })
            .collect())
    }
}
