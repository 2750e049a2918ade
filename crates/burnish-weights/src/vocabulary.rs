//! Whether two checkpoints mean the same by a token: shapes alone do not tell.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::WeightsError;
use crate::checkpoint::Checkpoint;

const TOKENIZER: &str = "tokenizer.json";

/// What is compared of a `tokenizer.json`.
#[derive(Deserialize)]
struct Tokenizer {
    model: Option<Model>,
    added_tokens: Option<Vec<Added>>,
}

#[derive(Deserialize)]
struct Model {
    vocab: Option<Vocabulary>,
}

#[derive(Deserialize)]
struct Added {
    id: u64,
    content: String,
}

/// Tokens by id.
#[derive(Default)]
struct Vocabulary(BTreeMap<u64, String>);

impl Tokenizer {
    /// The learned tokens, and those that were added, such as marks of turns.
    fn tokens(self) -> [BTreeMap<u64, String>; 2] {
        let learned = self.model.and_then(|model| model.vocab).unwrap_or_default().0;
        let added = self.added_tokens.into_iter().flatten();
        [learned, added.map(|token| (token.id, token.content)).collect()]
    }
}

/// Checks that the tokens of `source` are those of `chief`, where both have a `tokenizer.json`. Added tokens may differ,
/// because tuning renames those that are reserved; then there is a note.
///
/// # Errors
/// Names the first token that differs.
pub(crate) fn check_tokens(
    chief: &Checkpoint,
    source: &Checkpoint,
    notes: &mut Vec<String>,
) -> Result<(), WeightsError> {
    let paths = [chief, source].map(|checkpoint| checkpoint.path().join(TOKENIZER));
    if paths[0] == paths[1] || !paths.iter().all(|path| path.is_file()) {
        return Ok(());
    }
    let read = |path: &PathBuf| fs::read(path).map_err(|source| WeightsError::read(path, source));
    let [own, other] = [read(&paths[0])?, read(&paths[1])?];
    if own == other {
        return Ok(());
    }
    let tokens = |text: &[u8], path: &PathBuf| {
        let found = serde_json::from_slice(text).map(Tokenizer::tokens);
        found.map_err(|error| WeightsError::malformed(path, format!("not a tokenizer: {error}")))
    };
    let ([learned, added], [other_learned, other_added]) =
        (tokens(&own, &paths[0])?, tokens(&other, &paths[1])?);
    if let Some((id, own, other)) = differing(&learned, &other_learned).next() {
        let problem = format!(
            "token {id} is {other:?}, but {own:?} in {}: the vocabularies differ; bring the tokenizers to one vocabulary \
             first",
            paths[0].display()
        );
        return Err(WeightsError::malformed(&paths[1], problem));
    }
    let mut others = differing(&added, &other_added);
    if let Some((id, own, other)) = others.next() {
        notes.push(format!(
            "{}: {} added tokens are other ones than in {}, the first {id}: {other:?}, there {own:?}",
            source.path().display(),
            1 + others.count(),
            chief.path().display(),
        ));
    }
    Ok(())
}

/// Ids that both have, with other tokens.
fn differing<'a>(
    own: &'a BTreeMap<u64, String>,
    other: &'a BTreeMap<u64, String>,
) -> impl Iterator<Item = (u64, &'a str, &'a str)> {
    own.iter()
        .filter_map(|(id, token)| Some((*id, token.as_str(), other.get(id)?.as_str())))
        .filter(|(_, own, other)| own != other)
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabularyVisitor)
    }
}

struct VocabularyVisitor;

impl<'de> Visitor<'de> for VocabularyVisitor {
    type Value = Vocabulary;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the id of each token, or a list of tokens with their scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Vocabulary, A::Error> {
        let mut tokens = BTreeMap::new();
        while let Some((token, id)) = entries.next_entry::<String, u64>()? {
            tokens.insert(id, token);
        }
        Ok(Vocabulary(tokens))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vocabulary, A::Error> {
        let mut tokens = BTreeMap::new();
        while let Some((token, _)) = entries.next_element::<(String, IgnoredAny)>()? {
            tokens.insert(tokens.len() as u64, token);
        }
        Ok(Vocabulary(tokens))
    }
}
