//! `[data]`: what is imitated, and how training rows are compared with evaluation rows.

use std::path::PathBuf;

use burnish_data::{Columns, Paths, overlap};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{StageRecipe, empty};
use crate::split::Split;

/// `[data]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSection {
    /// SFT: a file of answers to imitate. Preferences: a file of pairs, or of answers with a label. Or a list of
    /// files. Each is jsonl, plain or gzipped, or parquet.
    #[serde(skip_serializing_if = "Paths::is_empty")]
    pub path: Paths,
    /// Instead of `path`: the recipe whose run makes the rows (`docs/stages.md`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<StageRecipe>,
    /// The place of what that recipe made, once it is made.
    #[serde(skip)]
    pub made: Option<PathBuf>,
    /// SFT: which column holds what: `"auto"`, or a table such as `{ prompt = "question", completion = "answer" }`.
    pub columns: Columns,
    /// SFT: answers by the environment's own solver.
    pub demonstrations: Vec<Demonstrations>,
    /// SFT, preferences: rows that are not trained on; the loss on them is `eval/loss`.
    #[serde(skip_serializing_if = "Paths::is_empty")]
    pub held_out: Paths,
    /// The same, as a share of the rows of `path`.
    #[serde(skip_serializing_if = "is_zero")]
    pub held_out_share: f64,
    /// SFT, preferences: most tokens of a sequence; the model's context window if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// SFT, preferences: what becomes of longer ones.
    #[serde(skip_serializing_if = "TooLong::is_drop")]
    pub overlong: TooLong,
    /// SFT: fill sequences of `max_length` tokens with several rows each. Rows never see each other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub packing: bool,
    /// SFT, preferences: take the rows in a new random order in every pass; if not, always in the order of the files.
    #[serde(skip_serializing_if = "is_true")]
    pub shuffle: bool,
    /// Comparison of training rows with evaluation rows, where both come from files.
    pub decontaminate: Decontaminate,
}

impl DataSection {
    /// Are there rows of files to learn from, or will there be?
    pub fn has_rows(&self) -> bool {
        !self.path.is_empty() || self.from.is_some()
    }

    /// The files of rows to learn from; none if another recipe has yet to make them.
    pub fn files(&self) -> Vec<PathBuf> {
        self.path.0.iter().chain(&self.made).cloned().collect()
    }
}

/// What becomes of a row that is longer than the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TooLong {
    /// It is left out.
    #[default]
    Drop,
    /// Its first tokens are kept; it is left out where none of them counts in the loss.
    Truncate,
}

impl TooLong {
    fn is_drop(&self) -> bool {
        *self == TooLong::Drop
    }
}

impl Default for DataSection {
    fn default() -> Self {
        DataSection {
            path: Paths::default(),
            from: None,
            made: None,
            columns: Columns::default(),
            demonstrations: Vec::new(),
            held_out: Paths::default(),
            held_out_share: 0.0,
            max_length: None,
            overlong: TooLong::Drop,
            packing: false,
            shuffle: true,
            decontaminate: Decontaminate::default(),
        }
    }
}

fn is_true(shuffle: &bool) -> bool {
    *shuffle
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// `[data.decontaminate]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decontaminate {
    /// Length in words of a run that a training row must not share with an evaluation row.
    pub ngram: usize,
    /// What to do with a training row that overlaps with an evaluation row.
    pub action: OverlapAction,
}

impl Default for Decontaminate {
    fn default() -> Self {
        Decontaminate { ngram: overlap::NGRAM, action: OverlapAction::Report }
    }
}

/// What to do with a training row that overlaps with an evaluation row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlapAction {
    /// Count and report it.
    #[default]
    Report,
    /// Also leave it out of training.
    Drop,
}

/// `[[data.demonstrations]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demonstrations {
    /// Id of the environment.
    pub env: String,
    /// How many tasks to solve.
    pub tasks: usize,
    /// Which part of these tasks is imitated (`docs/split.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The environment's own configuration.
    #[serde(default = "empty")]
    pub config: Value,
}
