//! Decontamination: which training rows share text with evaluation rows.
//!
//! Two rows overlap when they share a run of `ngram` words (13 by default, as in Brown et al. 2020, appendix C), in
//! lower case and without punctuation. The compared texts of a row are all its messages except system messages, and its
//! answers (`completion`, `chosen`, `rejected`, `answer`). Each text is compared by itself, so that no run of words
//! crosses from one into the next. An evaluation prompt with fewer words overlaps with a training row whose prompt, or
//! one message of it, is the same (up to case and punctuation). Runs of words that many evaluation rows share are
//! instructions, not content, and do not count.
//!
//! Only hashes of the evaluation rows are held; training rows stream past. Memory: about 16 bytes per word of
//! evaluation text.

use burnish_core::{Message, Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use crate::words::{hash, hash_bytes, words};
use crate::{Columns, DataError, Row, for_each_row};

/// Length, in words, of a run that two rows must not share (Brown et al. 2020).
pub const NGRAM: usize = 13;

/// A run of words that occurs in more evaluation rows than this counts as a common instruction (Brown et al. 2020 use
/// the same number of training documents).
pub const SHARED_MAX: u32 = 10;

/// Number of examples per file in a report.
pub const EXAMPLES_MAX: usize = 5;

/// Hashes of the evaluation rows; finds the training rows that overlap with them.
#[derive(Debug)]
pub struct Overlap {
    ngram: usize,
    /// The runs of words of the evaluation rows.
    runs: HashMap<u64, Run>,
    /// The whole prompts of evaluation rows that are shorter than a run.
    prompts: HashMap<u64, u32>,
    /// Hashes of the evaluation rows, so that a repeated row counts once.
    known: HashSet<u64>,
    rows: u32,
}

/// A run of words in the evaluation rows.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The evaluation row that has it, from 0; the last one if there are several.
    row: u32,
    /// Number of different evaluation rows that have it.
    rows: u32,
}

/// What a training row shares with an evaluation row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Numbers of the evaluation rows, from 0, in the order in which they were added. If several share a run of words,
    /// the last stands for all.
    pub rows: BTreeSet<usize>,
    /// The first words that both have.
    pub words: String,
}

impl Overlap {
    /// A comparison without evaluation rows yet. An `ngram` of 0 is taken as 1.
    pub fn new(ngram: usize) -> Self {
        Overlap {
            ngram: ngram.max(1),
            runs: HashMap::new(),
            prompts: HashMap::new(),
            known: HashSet::new(),
            rows: 0,
        }
    }

    /// Adds an evaluation row.
    pub fn add(&mut self, row: &Row) {
        let number = self.rows;
        self.rows += 1;
        let texts: Vec<Vec<String>> = texts(row).map(words).collect();
        let content = texts.iter().fold(hash_bytes(prompt_text(row).as_bytes()), |content, words| {
            burnish_core::rng::bits(content, hash(words))
        });
        if !self.known.insert(content) {
            return;
        }
        let mut own = HashSet::new();
        for run in texts.iter().flat_map(|words| words.windows(self.ngram)) {
            let hash = hash(run);
            if own.insert(hash) {
                let run = self.runs.entry(hash).or_insert(Run { row: number, rows: 0 });
                *run = Run { row: number, rows: run.rows + 1 };
            }
        }
        let prompt = prompt_text(row);
        let prompt_words = words(&prompt);
        if prompt_words.len() < self.ngram {
            self.prompts.insert(whole(&prompt_words, &prompt), number);
        }
    }

    /// Number of evaluation rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Number of runs of words that do not count because too many evaluation rows share them.
    pub fn common_runs(&self) -> usize {
        self.runs.values().filter(|run| run.rows > SHARED_MAX).count()
    }

    /// What a training row shares with the evaluation rows; `None` if it does not overlap with any.
    pub fn find(&self, row: &Row) -> Option<Shared> {
        let mut shared: Option<Shared> = None;
        let mut note = |number: u32, words: &dyn Fn() -> String| {
            let shared = shared.get_or_insert_with(|| Shared { rows: BTreeSet::new(), words: words() });
            shared.rows.insert(number as usize);
        };
        let prompt = prompt_text(row);
        let users = row.prompt.iter().filter(|message| message.role == Role::User);
        for text in std::iter::once(&*prompt).chain(users.map(|message| &*message.content)) {
            if let Some(number) = self.prompts.get(&whole(&words(text), text)) {
                note(*number, &|| text.trim().to_owned());
            }
        }
        for text in texts(row) {
            for run in words(text).windows(self.ngram) {
                if let Some(found) = self.runs.get(&hash(run)).filter(|found| found.rows <= SHARED_MAX) {
                    note(found.row, &|| run.join(" "));
                }
            }
        }
        shared
    }
}

/// The texts of a row that are compared.
fn texts(row: &Row) -> impl Iterator<Item = &str> {
    let answers = [&row.completion, &row.chosen, &row.rejected].into_iter().flatten().flatten();
    let messages = row.prompt.iter().chain(answers);
    let said = messages.filter(|message| message.role != Role::System).map(|message| &*message.content);
    said.chain(row.answer.as_deref()).chain(row.text.as_deref())
}

/// The prompt as one text, without system messages.
fn prompt_text(row: &Row) -> String {
    let is_said = |message: &&Message| message.role != Role::System;
    let said: Vec<&str> = row.prompt.iter().filter(is_said).map(|message| &*message.content).collect();
    if said.is_empty() { row.text.clone().unwrap_or_default() } else { said.join("\n") }
}

/// 64 bits for a whole text: from its words, or from its characters if it has no words (a grid of symbols).
fn whole(words: &[String], text: &str) -> u64 {
    if words.is_empty() { hash_bytes(text.trim().as_bytes()) } else { hash(words) }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapReport {
    /// Number of words in a run.
    pub ngram: usize,
    /// Number of evaluation rows compared with.
    pub evaluation_rows: usize,
    /// Number of evaluation rows that overlap with training rows.
    pub evaluation_rows_found: usize,
    /// Number of runs of words that more than [`SHARED_MAX`] evaluation rows share; they are taken for instructions and
    /// not counted.
    pub common_runs: usize,
    /// The results per file.
    pub files: Vec<FileOverlap>,
}

/// The result of a comparison for one file of training rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileOverlap {
    /// The file.
    pub file: String,
    /// Number of rows checked.
    pub rows: usize,
    /// Number of rows that overlap with an evaluation row.
    pub overlapping: usize,
    /// The first overlapping rows.
    pub examples: Vec<Example>,
}

/// A training row that overlaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Where it stands.
    pub place: String,
    /// Number of the evaluation row, from 1.
    pub evaluation_row: usize,
    /// The words that both have.
    pub words: String,
}

/// Counts overlaps while training rows pass by.
#[derive(Debug)]
pub struct Counter<'o> {
    overlap: &'o Overlap,
    files: Vec<FileOverlap>,
    found: BTreeSet<usize>,
}

impl<'o> Counter<'o> {
    /// A counter at zero.
    pub fn new(overlap: &'o Overlap) -> Self {
        Counter { overlap, files: Vec::new(), found: BTreeSet::new() }
    }

    /// Counts a row of `file` and returns whether it overlaps. `place` is called only if the row is kept as an example.
    pub fn count(&mut self, file: &str, row: &Row, place: impl FnOnce() -> String) -> bool {
        let at = self.files.iter().position(|known| known.file == file).unwrap_or_else(|| {
            self.files.push(FileOverlap { file: file.to_owned(), ..FileOverlap::default() });
            self.files.len() - 1
        });
        let counted = &mut self.files[at];
        counted.rows += 1;
        let Some(shared) = self.overlap.find(row) else { return false };
        counted.overlapping += 1;
        if counted.examples.len() < EXAMPLES_MAX {
            let evaluation_row = shared.rows.first().map_or(0, |row| row + 1);
            counted.examples.push(Example { place: place(), evaluation_row, words: shared.words });
        }
        self.found.extend(shared.rows);
        true
    }

    /// Counts all rows of a file as they stream past.
    ///
    /// # Errors
    /// If the file can't be used.
    pub fn count_file(&mut self, path: &Path, columns: &Columns) -> Result<(), DataError> {
        let file = path.display().to_string();
        for_each_row(path, columns, |place, row| {
            self.count(&file, &row, || place.to_string());
        })
    }

    /// The report so far.
    pub fn report(self) -> OverlapReport {
        OverlapReport {
            ngram: self.overlap.ngram,
            evaluation_rows: self.overlap.rows(),
            evaluation_rows_found: self.found.len(),
            common_runs: self.overlap.common_runs(),
            files: self.files,
        }
    }
}

impl OverlapReport {
    /// Number of training rows checked.
    pub fn rows(&self) -> usize {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Number of training rows that overlap with an evaluation row.
    pub fn overlapping(&self) -> usize {
        self.files.iter().map(|file| file.overlapping).sum()
    }

    /// A summary in one line.
    pub fn summary(&self) -> String {
        let (rows, overlapping) = (self.rows(), self.overlapping());
        format!(
            "{overlapping} of {rows} training rows ({:.2} %) overlap with {} of {} evaluation rows ({}-grams)",
            100.0 * overlapping as f64 / rows.max(1) as f64,
            self.evaluation_rows_found,
            self.evaluation_rows,
            self.ngram
        )
    }
}
