//! Data that is wrong on purpose, to see whether an auditor notices.

use std::collections::BTreeSet;
use std::str::FromStr;

use burnish_core::rng::{Address, Purpose, Stream};
use serde::{Deserialize, Serialize};

use crate::data::{Benchmark, Dialogue};
use crate::judge::Dimension;
use crate::text::{numbers, words};
use crate::{Result, RetrievalError, wrong};

/// A way to make data wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Corruption {
    /// The evidence of each turn is a chunk of another document, or of another dialogue where there is one document.
    WrongEvidence,
    /// Each turn has the answer of a turn with other evidence.
    SwappedAnswer,
    /// The user points at a passage that only whoever wrote the question has seen.
    LeakedReference,
    /// The user asks for the reason as well: a second question, about the same evidence.
    SecondQuestion,
    /// The answer's first auxiliary verb is negated, or no longer is. Answers without one stay as they are.
    NegatedAnswer,
    /// A number of the answer is one more. Answers without numbers stay as they are.
    ChangedNumber,
    /// Every question of a dialogue is about nothing.
    EmptyQuestion,
}

impl Corruption {
    /// All corruptions.
    pub const ALL: [Corruption; 7] = [
        Corruption::WrongEvidence,
        Corruption::SwappedAnswer,
        Corruption::LeakedReference,
        Corruption::SecondQuestion,
        Corruption::NegatedAnswer,
        Corruption::ChangedNumber,
        Corruption::EmptyQuestion,
    ];

    /// Its name in reports and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Corruption::WrongEvidence => "wrong_evidence",
            Corruption::SwappedAnswer => "swapped_answer",
            Corruption::LeakedReference => "leaked_reference",
            Corruption::SecondQuestion => "second_question",
            Corruption::NegatedAnswer => "negated_answer",
            Corruption::ChangedNumber => "changed_number",
            Corruption::EmptyQuestion => "empty_question",
        }
    }

    /// The dimensions that it must lower: those that look at what it changes. No other may fall.
    pub fn lowers(self) -> &'static [Dimension] {
        match self {
            Corruption::WrongEvidence => {
                &[Dimension::Alignment, Dimension::Completeness, Dimension::Faithfulness]
            }
            Corruption::SwappedAnswer => &[Dimension::Faithfulness, Dimension::Quality],
            Corruption::LeakedReference => &[Dimension::NoReference],
            Corruption::SecondQuestion => &[Dimension::Atomic],
            Corruption::NegatedAnswer | Corruption::ChangedNumber => &[Dimension::Faithfulness],
            Corruption::EmptyQuestion => &[Dimension::Alignment, Dimension::Completeness, Dimension::Quality],
        }
    }
}

impl FromStr for Corruption {
    type Err = RetrievalError;

    fn from_str(text: &str) -> Result<Self> {
        match Corruption::ALL.into_iter().find(|corruption| corruption.name() == text) {
            Some(corruption) => Ok(corruption),
            None => wrong(format!(
                "{text:?} is no corruption; there are {}",
                Corruption::ALL.map(Corruption::name).join(", ")
            )),
        }
    }
}

/// `benchmark` with every turn that has evidence made wrong, where that is possible.
pub fn corrupt(benchmark: &Benchmark, corruption: Corruption, seed: u64) -> Result<Benchmark> {
    let mut dialogues = benchmark.dialogues.clone();
    if corruption == Corruption::EmptyQuestion {
        for turn in dialogues.iter_mut().flat_map(|dialogue| &mut dialogue.turns) {
            turn.user = "And what about it?".to_owned();
            turn.rewrite = turn.rewrite.as_ref().map(|_| turn.user.clone());
        }
        return Benchmark::new(benchmark.chunks.clone(), dialogues);
    }
    let turns: Vec<(usize, usize)> = dialogues
        .iter()
        .enumerate()
        .flat_map(|(dialogue, value)| (0..value.turns.len()).map(move |turn| (dialogue, turn)))
        .filter(|(dialogue, turn)| !dialogues[*dialogue].turns[*turn].evidence.is_empty())
        .collect();
    let stream = |number: usize| {
        Stream::new(Address { task: number as u64, ..Address::new(seed, Purpose::Perturb) }.seed())
    };
    for (number, (dialogue, turn)) in turns.iter().copied().enumerate() {
        let mut stream = stream(number);
        let changed = match corruption {
            Corruption::WrongEvidence => {
                let chunk = foreign_chunk(benchmark, &benchmark.dialogues[dialogue], turn, &mut stream);
                chunk.map(|id| dialogues[dialogue].turns[turn].evidence = vec![id])
            }
            Corruption::SwappedAnswer => {
                other_turn(benchmark, &turns, number, &mut stream).map(|(from, at)| {
                    dialogues[dialogue].turns[turn]
                        .answer
                        .clone_from(&benchmark.dialogues[from].turns[at].answer);
                })
            }
            Corruption::LeakedReference => {
                let target = &mut dialogues[dialogue].turns[turn];
                target.user = with_reference(&target.user, stream.index(4));
                Some(())
            }
            Corruption::SecondQuestion => {
                let target = &mut dialogues[dialogue].turns[turn];
                let first = target.user.trim_end().trim_end_matches(['?', '.', '!', '？', '。']);
                target.user = format!("{first}, and why is that so?");
                Some(())
            }
            Corruption::NegatedAnswer | Corruption::ChangedNumber => {
                let answer = &mut dialogues[dialogue].turns[turn].answer;
                let changed = match corruption {
                    Corruption::NegatedAnswer => negated(answer),
                    _ => with_another_number(answer, &mut stream),
                };
                if let Some(changed) = changed {
                    *answer = changed;
                }
                Some(())
            }
            Corruption::EmptyQuestion => None,
        };
        if changed.is_none() {
            return wrong(format!(
                "dialogue {:?}, turn {}: {} needs a chunk or an answer from elsewhere, and there is none; give more \
                 documents or dialogues",
                benchmark.dialogues[dialogue].id,
                turn + 1,
                corruption.name()
            ));
        }
    }
    Benchmark::new(benchmark.chunks.clone(), dialogues)
}

/// A chunk of a document that is none of the turn's evidence; failing that, one that no turn of the dialogue uses.
fn foreign_chunk(
    benchmark: &Benchmark,
    dialogue: &Dialogue,
    turn: usize,
    stream: &mut Stream,
) -> Option<String> {
    let own: BTreeSet<&str> = dialogue.turns[turn].evidence.iter().map(String::as_str).collect();
    let used: BTreeSet<&str> =
        dialogue.turns.iter().flat_map(|turn| turn.evidence.iter().map(String::as_str)).collect();
    let documents: BTreeSet<&str> = benchmark
        .chunks
        .iter()
        .filter(|chunk| own.contains(chunk.id.as_str()))
        .map(|chunk| chunk.document.as_str())
        .collect();
    let ids = |keep: &dyn Fn(&crate::data::Chunk) -> bool| -> Vec<&str> {
        benchmark.chunks.iter().filter(|chunk| keep(chunk)).map(|chunk| chunk.id.as_str()).collect()
    };
    let mut foreign = ids(&|chunk| !documents.contains(chunk.document.as_str()));
    if foreign.is_empty() {
        foreign = ids(&|chunk| !used.contains(chunk.id.as_str()));
    }
    foreign.get(stream.index(foreign.len())).map(|id| (*id).to_owned())
}

/// A turn of another dialogue with other evidence and another answer; failing that, of the same dialogue.
fn other_turn(
    benchmark: &Benchmark,
    turns: &[(usize, usize)],
    number: usize,
    stream: &mut Stream,
) -> Option<(usize, usize)> {
    let (dialogue, turn) = turns[number];
    let own = &benchmark.dialogues[dialogue].turns[turn];
    let differs = |(from, at): &&(usize, usize)| {
        let other = &benchmark.dialogues[*from].turns[*at];
        other.answer != own.answer && other.evidence.iter().all(|id| !own.evidence.contains(id))
    };
    let mut others: Vec<_> = turns.iter().filter(|(from, _)| *from != dialogue).filter(differs).collect();
    if others.is_empty() {
        others = turns.iter().filter(differs).collect();
    }
    others.get(stream.index(others.len())).map(|place| **place)
}

/// `user` with one of four references to a passage.
fn with_reference(user: &str, form: usize) -> String {
    let bare = user.trim().trim_end_matches(['?', '.', '!', '？', '。']);
    // "And what about Graz?" goes on from what was said; behind a reference it would be a second clause.
    let bare = lower_first(bare);
    let bare = bare.strip_prefix("and ").unwrap_or(&bare);
    match form {
        0 => format!("According to the passage above, {bare}?"),
        1 => format!("Based on the given text, {bare}?"),
        2 => format!("Based on chunk 3, {bare}?"),
        _ => format!("As mentioned in this document, {bare}?"),
    }
}

/// `answer` with its first auxiliary verb negated, or no longer so.
fn negated(answer: &str) -> Option<String> {
    const VERBS: [&str; 19] = [
        "is", "are", "was", "were", "can", "could", "will", "would", "should", "must", "has", "have", "had",
        "does", "do", "did", "may", "might", "shall",
    ];
    let words = words(answer);
    let at = words.iter().position(|word| VERBS.contains(&answer[word.clone()].to_lowercase().as_str()))?;
    let end = words[at].end;
    let (before, after) = answer.split_at(end);
    Some(match words.get(at + 1) {
        Some(next) if &answer[next.clone()] == "not" => format!("{before}{}", &answer[next.end..]),
        _ => format!("{before} not{after}"),
    })
}

/// `answer` with one more in the last digits of one of its numbers.
fn with_another_number(answer: &str, stream: &mut Stream) -> Option<String> {
    let numbers = numbers(answer);
    let (range, _) = numbers.get(stream.index(numbers.len()))?;
    let digits = answer[range.clone()].rsplit(|c: char| !c.is_ascii_digit()).next()?;
    let next: u64 = digits.parse::<u64>().ok()?.checked_add(1)?;
    let start = range.end - digits.len();
    Some(format!("{}{next:0width$}{}", &answer[..start], &answer[range.end..], width = digits.len()))
}

/// `text` with its first letter in lower case, unless it begins with several capitals.
fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) if !characters.clone().next().is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}
