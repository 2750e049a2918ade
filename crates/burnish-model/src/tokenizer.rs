//! Converts text to ids and back, with `tokenizer.json`.

use burnish_core::Piece;
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, OffsetReferential, OffsetType, TokenizerBuilder};

use crate::{ChatError, ModelError, files};

/// Size of the byte alphabet, with which every text can be written.
const BYTES: usize = 256;

/// A tokenizer of the `tokenizers` library.
///
/// Special tokens in a text are recognised, and none is added. Truncation and padding that `tokenizer.json` may ask for
/// are switched off, because they would silently change what the policy reads.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// `tokenizer.json` as it was read or made, so that writing it back loses nothing.
    json: String,
    /// Texts of the special tokens.
    special: Vec<String>,
    /// The same without special tokens, with [`BEFORE`], made when it is needed.
    text_only: OnceLock<tokenizers::Tokenizer>,
}

/// A token before a text that is not the beginning of a prompt, where some tokenizers would put a space.
const BEFORE: &str = "\u{fdef}";

/// The ids of a text, and the bytes that each covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Byte ranges in the text, one per id. A token for part of a character has the range of the whole character.
    pub bytes: Vec<Range<usize>>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// If the file can't be read, or is not a tokenizer.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Tokenizer::from_json(files::read_text(path)?)
            .map_err(|problem| ModelError::malformed(path, format!("not a tokenizer: {problem}")))
    }

    pub(crate) fn from_json(json: String) -> Result<Self, String> {
        let mut inner = tokenizers::Tokenizer::from_bytes(&json).map_err(|error| error.to_string())?;
        inner.with_truncation(None).map_err(|error| error.to_string())?;
        inner.with_padding(None);
        let mut special: Vec<String> = inner
            .get_added_tokens_decoder()
            .into_values()
            .filter(|token| token.special)
            .map(|token| token.content)
            .collect();
        special.sort_unstable();
        Ok(Tokenizer { inner, json, special, text_only: OnceLock::new() })
    }

    /// Trains a byte-level BPE tokenizer (Sennrich et al. 2016; bytes and word pattern as in GPT-2). The special tokens
    /// get the first ids, in order; the 256 bytes follow, then the merges. The same texts give the same tokenizer. A
    /// small corpus may give fewer than `vocab_size` ids.
    ///
    /// # Errors
    /// If there is no text, or `vocab_size` has no room for the bytes and the special tokens.
    pub fn train_bpe<S: AsRef<str> + Sync>(
        texts: &[S],
        vocab_size: usize,
        special_tokens: &[&str],
    ) -> Result<Self, ModelError> {
        let smallest = BYTES + special_tokens.len();
        if vocab_size < smallest {
            return Err(ModelError::Training(format!(
                "vocab_size is {vocab_size}, but {BYTES} bytes and {} special tokens need {smallest}",
                special_tokens.len()
            )));
        }
        if texts.iter().all(|text| text.as_ref().is_empty()) {
            return Err(ModelError::Training("there is no text".into()));
        }
        train(texts, vocab_size, special_tokens)
            .and_then(|json| Ok(Tokenizer::from_json(json)?))
            .map_err(|error| ModelError::Training(error.to_string()))
    }

    /// The same tokenizer with these added tokens treated as text, so that decoding without special tokens, as servers
    /// do, keeps them. `<think>` and `</think>` are text in this sense in Qwen3's tokenizer.
    ///
    /// # Errors
    /// Names the first that is not an added token.
    pub fn with_text_tokens(&self, tokens: &[&str]) -> Result<Self, ModelError> {
        let failed = |problem: String| ModelError::Training(problem);
        let mut json: Value = serde_json::from_str(&self.json).map_err(|error| failed(error.to_string()))?;
        for token in tokens {
            let mut added = json["added_tokens"].as_array_mut().into_iter().flatten();
            let found = added.find(|added| added["content"].as_str() == Some(token));
            found.ok_or_else(|| failed(format!("`{token}` is no added token")))?["special"] = json!(false);
        }
        let text = serde_json::to_string_pretty(&json).map_err(|error| failed(error.to_string()))?;
        Tokenizer::from_json(text).map_err(failed)
    }

    /// The same tokenizer with more special tokens, at the ids after all others. It keeps those that it has.
    ///
    /// # Errors
    /// If `tokenizer.json` can't be extended.
    pub fn with_special_tokens(&self, tokens: &[&str]) -> Result<Self, ModelError> {
        let failed = |problem: String| ModelError::Training(problem);
        let mut json: Value = serde_json::from_str(&self.json).map_err(|error| failed(error.to_string()))?;
        let next = self.inner.get_vocab(true).into_values().max().map_or(0, |id| id + 1);
        let missing = tokens.iter().filter(|token| self.token_id(token).is_none());
        let added = missing.zip(next..).map(|(token, id)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true
            })
        });
        match json["added_tokens"].as_array_mut() {
            Some(known) => known.extend(added),
            None => json["added_tokens"] = added.collect(),
        }
        let text = serde_json::to_string_pretty(&json).map_err(|error| failed(error.to_string()))?;
        Tokenizer::from_json(text).map_err(failed)
    }

    /// The ids of a text.
    ///
    /// # Errors
    /// If the tokenizer can't write the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let encoding = self.inner.encode_fast(text, false).map_err(failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of a text, with the special tokens that the tokenizer puts around every text.
    pub(crate) fn encode_with_special(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let encoding = self.inner.encode_fast(text, true).map_err(failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of a text, with the bytes that each covers.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_with_offsets(&self, text: &str) -> Result<Encoded, ChatError> {
        let encoding = self.inner.encode(text, false).map_err(failed)?;
        let bytes = encoding.get_offsets().iter().map(|&(start, end)| start..end).collect();
        Ok(Encoded { ids: encoding.get_ids().to_vec(), bytes })
    }

    /// The ids of `part` of a text, in which special tokens are ordinary text, and the bytes of the text that each
    /// covers.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(crate) fn encode_as_text(&self, text: &str, part: Range<usize>) -> Result<Encoded, ChatError> {
        let said = &text[part.clone()];
        let text_only = |more: &[AddedToken]| {
            let mut inner = self.inner.clone();
            inner.set_encode_special_tokens(true);
            inner.add_tokens(more.iter().cloned()).map(|_| inner).map_err(failed)
        };
        if said.contains(BEFORE) {
            return encode_after(&text_only(&[])?, "", text, part);
        }
        if self.text_only.get().is_none() {
            let before = AddedToken::from(BEFORE, false).normalized(false);
            // Another thread may have been faster.
            let _ = self.text_only.set(text_only(&[before])?);
        }
        let inner = self.text_only.get().ok_or_else(|| ChatError::Tokenizer("is not ready".into()))?;
        encode_after(inner, if part.start > 0 { BEFORE } else { "" }, text, part)
    }

    /// The special tokens in a text, as encoding finds them, with the spaces that belong to them.
    pub(crate) fn special_in(&self, text: &str) -> Vec<Range<usize>> {
        let added = self.inner.get_added_vocabulary();
        let is_normalized =
            added.get_added_tokens_decoder().values().any(|token| token.special && token.normalized);
        // Texts are only normalised where that decides.
        let normalizer = self.inner.get_normalizer().filter(|_| is_normalized);
        let split = added.extract_and_normalize(normalizer, text);
        let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte).into_iter();
        let special = splits.filter(|(_, _, tokens)| {
            tokens.as_ref().and_then(|tokens| tokens.first()).is_some_and(|token| self.is_special(token.id))
        });
        special.map(|(_, (start, end), _)| start..end).collect()
    }

    /// Is this the id of a special token?
    pub(crate) fn is_special(&self, id: u32) -> bool {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&id).is_some_and(|token| token.special)
    }

    /// The text of ids. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// If the decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, ChatError> {
        self.inner.decode(ids, skip_special).map_err(failed)
    }

    /// A text as the given beginning of an answer.
    ///
    /// # Errors
    /// If it can't be tokenised.
    pub fn piece_of_text(&self, text: &str) -> Result<Piece, ChatError> {
        Ok(Piece { ids: self.encode(text)?, text: text.to_owned(), sampled: None })
    }

    /// Ids as the given beginning of an answer. An unfinished character at their end belongs to what follows.
    ///
    /// # Errors
    /// If they can't be decoded.
    pub fn piece_of_ids(&self, ids: &[u32]) -> Result<Piece, ChatError> {
        let text = self.decode(ids, false)?;
        let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned();
        Ok(Piece { ids: ids.to_vec(), text, sampled: None })
    }

    /// `tokenizer.json`.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The id of a token, written as in `tokenizer.json`.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of an id, written as in `tokenizer.json`.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Is there a token with this id?
    pub fn id_exists(&self, id: u32) -> bool {
        self.inner.id_to_token(id).is_some()
    }

    /// Number of tokens, including added ones.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Do both have the same tokens under the same ids? Only then do log-probs of ids mean the same in both.
    pub fn has_the_vocabulary_of(&self, other: &Tokenizer) -> bool {
        let id_max = self.id_max();
        id_max == other.id_max() && (0..=id_max.unwrap_or(0)).all(|id| self.token(id) == other.token(id))
    }

    /// The highest id; `None` for an empty tokenizer.
    pub fn id_max(&self) -> Option<u32> {
        self.inner.get_vocab(true).into_values().max()
    }

    /// The ids of `tokens`.
    ///
    /// # Errors
    /// Names all missing tokens; `place` says where they are needed.
    pub fn token_ids<S: AsRef<str>>(&self, tokens: &[S], place: &str) -> Result<Vec<u32>, ModelError> {
        let missing: Vec<String> = tokens
            .iter()
            .map(AsRef::as_ref)
            .filter(|token| self.token_id(token).is_none())
            .map(String::from)
            .collect();
        if !missing.is_empty() {
            return Err(ModelError::MissingTokens { place: place.into(), tokens: missing });
        }
        Ok(tokens.iter().filter_map(|token| self.token_id(token.as_ref())).collect())
    }

    /// Does `text` begin with a special token?
    pub(crate) fn starts_special(&self, text: &str) -> bool {
        self.special.iter().any(|token| text.starts_with(token.as_str()))
    }

    /// Writes `tokenizer.json`.
    ///
    /// # Errors
    /// If the file can't be written; an earlier file then stays.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        files::write_text(path, &self.json)
    }
}

/// `tokenizer.json` of a tokenizer trained on `texts`.
fn train<S: AsRef<str> + Sync>(
    texts: &[S],
    vocab_size: usize,
    special_tokens: &[&str],
) -> tokenizers::Result<String> {
    let words = ByteLevel::new(false, false, true);
    let mut tokenizer = TokenizerBuilder::<BPE, _, _, _, _>::new()
        .with_model(BPE::default())
        .with_normalizer(None::<tokenizers::NormalizerWrapper>)
        .with_pre_tokenizer(Some(words))
        .with_post_processor(Some(words))
        .with_decoder(Some(words))
        .build()?;
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(vocab_size)
        .min_frequency(2)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect::<HashSet<_>>())
        .special_tokens(special_tokens.iter().map(|token| AddedToken::from(*token, true)).collect())
        .build();
    tokenizer.train(&mut trainer, texts.iter().map(AsRef::as_ref))?;
    tokenizer.to_string(true)
}

/// The ids of `part` of a text behind the token `before`, if that is not empty.
fn encode_after(
    inner: &tokenizers::Tokenizer,
    before: &str,
    text: &str,
    part: Range<usize>,
) -> Result<Encoded, ChatError> {
    let encoding = inner.encode(format!("{before}{}", &text[part.clone()]), false).map_err(failed)?;
    let skipped = usize::from(!before.is_empty());
    let moved = |at: usize| part.start + at.saturating_sub(before.len());
    let bytes = encoding.get_offsets()[skipped..].iter().map(|&(start, end)| moved(start)..moved(end));
    Ok(Encoded { ids: encoding.get_ids()[skipped..].to_vec(), bytes: bytes.collect() })
}

fn failed(error: tokenizers::Error) -> ChatError {
    ChatError::Tokenizer(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    const TEXTS: [&str; 3] =
        ["the robot moves right, then down", "the robots move left, then up", "wait; the robot waits"];
    const SPECIAL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

    static TRAINED: LazyLock<Tokenizer> =
        LazyLock::new(|| Tokenizer::train_bpe(&TEXTS, 300, &SPECIAL).unwrap());

    #[test]
    fn special_tokens_come_first_then_bytes_then_merges() {
        assert_eq!(TRAINED.token_ids(&SPECIAL, "test").unwrap(), [0, 1]);
        assert_eq!(TRAINED.token(2).unwrap(), "!");
        // The most frequent pair in the texts.
        assert_eq!(TRAINED.token_id("ob"), None);
        assert!(TRAINED.token_id("Ġthe").is_some() || TRAINED.token_id("the").is_some());
        assert!(TRAINED.vocab_size() <= 300 && TRAINED.vocab_size() > 260);
        assert_eq!(TRAINED.id_max().unwrap() as usize, TRAINED.vocab_size() - 1);
        assert!(!TRAINED.id_exists(TRAINED.vocab_size() as u32));
    }

    #[test]
    fn training_twice_gives_the_same_tokenizer() {
        let again = Tokenizer::train_bpe(&TEXTS, 300, &SPECIAL).unwrap();
        assert_eq!(again.json, TRAINED.json);
    }

    #[test]
    fn special_tokens_are_recognised_and_none_is_added() {
        let ids = TRAINED.encode("<|im_start|>the<|im_end|>").unwrap();
        assert_eq!((ids[0], ids[ids.len() - 1]), (0, 1));
        assert_eq!(TRAINED.decode(&ids, false).unwrap(), "<|im_start|>the<|im_end|>");
        assert_eq!(TRAINED.decode(&ids, true).unwrap(), "the");
    }

    #[test]
    fn a_text_token_is_one_token_and_stays_where_special_ones_are_left_out() {
        let special = ["<|im_start|>", "<|im_end|>", "<think>"];
        let all = Tokenizer::train_bpe(&TEXTS, 300, &special).unwrap();
        let some = all.with_text_tokens(&["<think>"]).unwrap();
        let text = "<|im_start|><think>the<|im_end|>";
        let ids = some.encode(text).unwrap();
        assert_eq!((&ids, ids[1]), (&all.encode(text).unwrap(), 2));
        assert_eq!(all.decode(&ids, true).unwrap(), "the");
        assert_eq!(some.decode(&ids, true).unwrap(), "<think>the");
        assert_eq!(some.decode(&ids, false).unwrap(), text);
        let error = some.with_text_tokens(&["</think>"]).unwrap_err().to_string();
        assert!(error.contains("`</think>` is no added token"), "{error}");
    }

    #[test]
    fn what_cannot_be_trained_or_found_is_named() {
        let error = Tokenizer::train_bpe(&TEXTS, 257, &SPECIAL).unwrap_err().to_string();
        assert!(error.contains("vocab_size is 257") && error.contains("258"), "{error}");
        let error = Tokenizer::train_bpe(&[""], 300, &SPECIAL).unwrap_err().to_string();
        assert!(error.contains("no text"), "{error}");
        let error = TRAINED.token_ids(&["<think>", "<|im_end|>", "</think>"], "recipe").unwrap_err();
        assert_eq!(
            error.to_string(),
            "recipe: the tokenizer does not have `<think>`, `</think>`; add them as special tokens"
        );
    }

    #[test]
    fn padding_and_truncation_of_the_file_are_off() {
        let mut inner = TRAINED.inner.clone();
        inner.with_padding(Some(tokenizers::PaddingParams {
            strategy: tokenizers::PaddingStrategy::Fixed(50),
            ..Default::default()
        }));
        let truncation = tokenizers::TruncationParams { max_length: 2, ..Default::default() };
        inner.with_truncation(Some(truncation)).unwrap();
        let tokenizer = Tokenizer::from_json(inner.to_string(false).unwrap()).unwrap();
        let text = "wait; the robot";
        assert_eq!(tokenizer.encode(text).unwrap(), TRAINED.encode(text).unwrap());
    }

    proptest! {
        #[test]
        fn decoding_gives_the_text_back(text: String) {
            let ids = TRAINED.encode(&text).unwrap();
            prop_assert_eq!(TRAINED.decode(&ids, false).unwrap(), text);
        }

        #[test]
        fn offsets_run_through_the_text(text: String) {
            let encoded = TRAINED.encode_with_offsets(&text).unwrap();
            prop_assert_eq!(&encoded.ids, &TRAINED.encode(&text).unwrap());
            prop_assert_eq!(encoded.ids.len(), encoded.bytes.len());
            prop_assert!(encoded.bytes.is_sorted_by_key(|range| range.start));
            prop_assert!(encoded.bytes.iter().all(|range| text.get(range.clone()).is_some()));
        }
    }
}
