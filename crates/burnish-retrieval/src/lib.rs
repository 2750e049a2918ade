//! Benchmarks of conversational retrieval: made from texts, audited, scored (MTR-Suite, arXiv:2605.20729).
//!
//! ```text
//! texts ─> chunks ─> quality ─> MinHash ─> neighbours ─> clusters ─> dialogues ─> topic switches   make_dialogues
//! Benchmark, Judge*   ─> four dimensions and two checks per turn, with intervals                   audit
//! Benchmark, Corruption* ─> which dimensions each corruption lowers                                corruption_study
//! Benchmark, Arm*     ─> Recall, MRR, nDCG with intervals                                          score
//! variants, Arm*      ─> how far apart the arms lie in each variant                                compare
//! ```
//!
//! What a model may do is behind three traits: [`Speaker`] asks, answers and polishes; [`Judge`] rates; [`Embed`] turns
//! texts into vectors. Each has an implementation that needs no model ([`Templates`], [`Lexical`], [`Hashed`]); the
//! first two have one over prompts ([`PromptSpeaker`], [`PromptJudge`]), which asks any function from text to text.
//!
//! The unit of evidence is the dialogue: the turns of one dialogue depend on each other, so every number is the mean
//! over dialogues of the mean over a dialogue's turns, and resampling draws dialogues. `docs/retrieval.md` shows the
//! formats. This crate knows no tensors, no network and no files: it gets texts and returns texts.

mod audit;
mod chunk;
mod cluster;
mod compare;
mod corrupt;
mod data;
mod embed;
mod index;
mod judge;
pub mod metrics;
pub mod minhash;
mod pipeline;
mod retrieve;
mod score;
pub mod sources;
mod speak;
mod switch;
pub mod text;

pub use audit::{
    AuditOptions, AuditReport, CorruptionEffect, Rated, audit, corruption_study, options_with_gold,
};
pub use chunk::{Quality, Rejected, chunks};
pub use cluster::{merge, traverse};
pub use compare::{CompareOptions, Comparison, Spread, Variant, compare, four_variants};
pub use corrupt::{Corruption, corrupt};
pub use data::{Benchmark, Chunk, Dialogue, Text, Turn};
pub use embed::{Embed, Hashed, cosine, neighbours};
pub use index::Index;
pub use judge::{Dimension, Item, Judge, Lexical, PromptJudge};
pub use pipeline::{Made, MakeOptions, MakeReport, make_dialogues};
pub use retrieve::{Arm, Bm25, Dense, RandomOrder, Ranker, View};
pub use score::{ArmScore, ScoreOptions, ScoreReport, Slice, score};
pub use speak::{Asked, PromptSpeaker, Said, Scene, Speaker, Templates};
pub use switch::{splice, switch_topics, unpolished};

/// What was wrong with what was given, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RetrievalError(pub String);

/// Results of this crate.
pub type Result<T> = std::result::Result<T, RetrievalError>;

pub(crate) fn wrong<T>(message: impl Into<String>) -> Result<T> {
    Err(RetrievalError(message.into()))
}
