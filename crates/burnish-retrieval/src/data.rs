//! What travels: chunks, dialogues, benchmarks, and their JSONL.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Result, wrong};

/// A text with the name that chunks refer to it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Its name, such as the path of its file.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// A passage that retrievers rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// Its name, which dialogues use as evidence.
    pub id: String,
    /// The name of the text that it is part of.
    pub document: String,
    /// First byte, and the byte after the last one, in the document; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<[usize; 2]>,
    /// What it says.
    pub text: String,
}

/// A question, its answer, and where that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// What the user says.
    pub user: String,
    /// The same question without need of a history: the oracle's rewriting. Absent where nobody knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<String>,
    /// What is answered.
    pub answer: String,
    /// The ids of the chunks that hold the answer. A turn without any is history: it is neither scored nor audited.
    pub evidence: Vec<String>,
    /// Does the topic change here without a word?
    #[serde(default)]
    pub switched: bool,
}

/// A conversation about chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dialogue {
    /// Its name.
    pub id: String,
    /// Its turns, in order.
    pub turns: Vec<Turn>,
}

/// Chunks, and dialogues about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// What is searched. Ids differ.
    pub chunks: Vec<Chunk>,
    /// What is asked. Ids differ, and all evidence is among the chunks.
    pub dialogues: Vec<Dialogue>,
}

impl Benchmark {
    /// A benchmark whose ids differ and whose evidence exists; the error says which does not.
    pub fn new(chunks: Vec<Chunk>, dialogues: Vec<Dialogue>) -> Result<Self> {
        let mut ids = BTreeSet::new();
        for chunk in &chunks {
            if !ids.insert(chunk.id.as_str()) {
                return wrong(format!("two chunks are called {:?}; give each its own id", chunk.id));
            }
        }
        let mut names = BTreeSet::new();
        for dialogue in &dialogues {
            if !names.insert(dialogue.id.as_str()) {
                return wrong(format!("two dialogues are called {:?}; give each its own id", dialogue.id));
            }
            if dialogue.turns.is_empty() {
                return wrong(format!("dialogue {:?} has no turns; leave it out", dialogue.id));
            }
            for (number, turn) in dialogue.turns.iter().enumerate() {
                let place = || format!("dialogue {:?}, turn {}", dialogue.id, number + 1);
                if turn.user.trim().is_empty() {
                    return wrong(format!("{}: `user` is empty; every turn asks something", place()));
                }
                if number == 0 && turn.switched {
                    return wrong(format!("{}: the first turn cannot be `switched`", place()));
                }
                let mut seen = BTreeSet::new();
                for id in &turn.evidence {
                    if !ids.contains(id.as_str()) {
                        return wrong(format!("{}: evidence {id:?} is no chunk's id", place()));
                    }
                    if !seen.insert(id) {
                        return wrong(format!("{}: evidence {id:?} is named twice", place()));
                    }
                }
            }
        }
        Ok(Benchmark { chunks, dialogues })
    }

    /// Reads two JSONL texts, with one chunk or one dialogue on each line that is not blank. The names are those that
    /// errors give the texts.
    pub fn read(chunks: (&str, &str), dialogues: (&str, &str)) -> Result<Self> {
        let (chunk_file, dialogue_file) = (chunks.0, dialogues.0);
        let read_chunks = lines::<Chunk>(chunk_file, chunks.1)?;
        let read_dialogues = lines::<Dialogue>(dialogue_file, dialogues.1)?;
        if read_chunks.is_empty() {
            return wrong(format!("{chunk_file} has no chunk; there is nothing to search"));
        }
        Self::new(read_chunks, read_dialogues)
            .or_else(|error| wrong(format!("{chunk_file} and {dialogue_file}: {error}")))
    }

    /// The chunks as JSONL.
    pub fn chunks_jsonl(&self) -> Result<String> {
        jsonl(&self.chunks)
    }

    /// The dialogues as JSONL.
    pub fn dialogues_jsonl(&self) -> Result<String> {
        jsonl(&self.dialogues)
    }

    /// The place of every chunk's id.
    pub(crate) fn places(&self) -> BTreeMap<&str, usize> {
        self.chunks.iter().enumerate().map(|(place, chunk)| (chunk.id.as_str(), place)).collect()
    }

    /// The places of the chunks that `turn` names as evidence.
    pub(crate) fn gold(&self, places: &BTreeMap<&str, usize>, turn: &Turn) -> Result<Vec<usize>> {
        turn.evidence
            .iter()
            .map(|id| match places.get(id.as_str()) {
                Some(place) => Ok(*place),
                None => wrong(format!("evidence {id:?} is no chunk's id")),
            })
            .collect()
    }
}

/// One value per line that is not blank.
fn lines<T: DeserializeOwned>(file: &str, text: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(value) => values.push(value),
            Err(error) => return wrong(format!("{file}, line {}: {error}", number + 1)),
        }
    }
    Ok(values)
}

fn jsonl<T: Serialize>(values: &[T]) -> Result<String> {
    let mut text = String::new();
    for value in values {
        match serde_json::to_string(value) {
            Ok(line) => text.push_str(&line),
            Err(error) => return wrong(format!("a value cannot be written as JSON: {error}")),
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: &str = r#"{"id":"a#0","document":"a","span":[0,4],"text":"Word"}"#;
    const DIALOGUE: &str =
        r#"{"id":"d","turns":[{"user":"What?","answer":"Word","evidence":["a#0"],"switched":false}]}"#;

    #[test]
    fn what_is_written_is_read_again() {
        let benchmark = Benchmark::read(("c", CHUNK), ("d", DIALOGUE)).unwrap();
        assert_eq!(benchmark.chunks_jsonl().unwrap(), format!("{CHUNK}\n"));
        assert_eq!(benchmark.dialogues_jsonl().unwrap(), format!("{DIALOGUE}\n"));
    }

    #[test]
    fn errors_name_file_line_and_what_is_wrong() {
        let refused = |chunks: &str, dialogues: &str| {
            Benchmark::read(("chunks.jsonl", chunks), ("dialogues.jsonl", dialogues)).unwrap_err().0
        };
        let typo = DIALOGUE.replace("answer", "anwser");
        let message = refused(CHUNK, &format!("\n{DIALOGUE}\n{typo}"));
        assert!(message.starts_with("dialogues.jsonl, line 3: unknown field `anwser`"), "{message}");
        for (chunks, dialogues, says) in [
            ("", DIALOGUE.to_owned(), "chunks.jsonl has no chunk"),
            (&format!("{CHUNK}\n{CHUNK}"), DIALOGUE.to_owned(), "two chunks are called \"a#0\""),
            (
                CHUNK,
                DIALOGUE.replace("a#0", "a#1"),
                "dialogue \"d\", turn 1: evidence \"a#1\" is no chunk's id",
            ),
            (CHUNK, format!("{DIALOGUE}\n{DIALOGUE}"), "two dialogues are called \"d\""),
            (CHUNK, DIALOGUE.replace("[\"a#0\"]", "[\"a#0\",\"a#0\"]"), "is named twice"),
            (CHUNK, DIALOGUE.replace("false", "true"), "the first turn cannot be `switched`"),
            (CHUNK, DIALOGUE.replace("What?", " "), "`user` is empty"),
            (CHUNK, r#"{"id":"d","turns":[]}"#.to_owned(), "has no turns"),
        ] {
            let message = refused(chunks, &dialogues);
            assert!(message.contains(says), "{message}");
        }
    }
}
