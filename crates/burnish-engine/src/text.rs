//! The text of an answer while it is sampled, and the stop strings in it.

use burnish_model::{ChatError, Tokenizer};
use std::sync::Arc;

/// U+FFFD, which stands for bytes that are no character, or not yet.
const UNFINISHED: char = char::REPLACEMENT_CHARACTER;

/// Most tokens that one character is split into.
const CHARACTER_TOKENS_MAX: usize = 4;

/// Text of ids that arrive one by one. Per id, only a few ids are decoded, however long the text is.
#[derive(Debug)]
pub(crate) struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    /// Ids whose text is settled. They are kept because a tokenizer may write a token differently at the beginning of a
    /// text.
    context: Vec<u32>,
    /// Ids after them, whose text can still change with the next ids.
    pending: Vec<u32>,
    pub(crate) text: String,
    /// Bytes of `text` before the part that `pending` contributes.
    settled: usize,
}

impl Detokenizer {
    /// The text of ids that follow `context`.
    pub(crate) fn after(tokenizer: Arc<Tokenizer>, context: Vec<u32>) -> Self {
        Detokenizer { tokenizer, context, pending: Vec::new(), text: String::new(), settled: 0 }
    }

    /// Appends the text of an id. An unfinished character at the end is left out until it is finished.
    pub(crate) fn push(&mut self, id: u32) -> Result<(), ChatError> {
        self.pending.push(id);
        let new = self.new_text(&self.pending)?;
        self.text.truncate(self.settled);
        match new.strip_suffix(UNFINISHED) {
            None => {
                self.text.push_str(&new);
                self.settle(self.pending.len());
            }
            Some(finished) => {
                self.text.push_str(finished);
                if self.pending.len() > 2 * CHARACTER_TOKENS_MAX {
                    self.settle_between_characters(&new)?;
                }
            }
        }
        Ok(())
    }

    /// If a long run of ids ends in bytes that are no character, settles all but the last few, which may become one.
    /// The cut is where the text before and the text after add up to the whole.
    fn settle_between_characters(&mut self, whole: &str) -> Result<(), ChatError> {
        self.text.truncate(self.settled);
        let count = self.pending.len();
        for cut in (count - CHARACTER_TOKENS_MAX..count).rev() {
            let before = self.new_text(&self.pending[..cut])?;
            let after = self.tokenizer.decode(&self.pending[cut..], false)?;
            if !after.is_empty() && whole.strip_prefix(before.as_str()) == Some(after.as_str()) {
                self.text.push_str(&before);
                self.settle(cut);
                self.text.push_str(after.strip_suffix(UNFINISHED).unwrap_or(&after));
                return Ok(());
            }
        }
        self.text.push_str(whole);
        self.settle(count);
        Ok(())
    }

    /// The text of `ids` after the context.
    fn new_text(&self, ids: &[u32]) -> Result<String, ChatError> {
        let before = self.tokenizer.decode(&self.context, false)?;
        let mut both = self.tokenizer.decode(&[self.context.as_slice(), ids].concat(), false)?;
        both.drain(..both.floor_char_boundary(before.len()));
        Ok(both)
    }

    /// Settles the first `count` pending ids; `text` must end with their text.
    fn settle(&mut self, count: usize) {
        self.settled = self.text.len();
        self.context.clear();
        self.context.extend(self.pending.drain(..count));
    }
}

/// The text up to where a stop string may have begun that later text would complete.
pub(crate) fn before_stop<'a>(text: &'a str, stop: &[String]) -> &'a str {
    let held = |stop: &String| {
        let ends = stop.char_indices().map(|(at, _)| at).rev().filter(|at| *at > 0);
        ends.into_iter().find(|end| text.ends_with(&stop[..*end])).unwrap_or(0)
    };
    &text[..text.len() - stop.iter().map(held).max().unwrap_or(0)]
}

/// Watches an answer for stop strings, even across token boundaries.
#[derive(Debug)]
pub(crate) struct StopStrings {
    stop: Vec<String>,
    include: bool,
    detokenizer: Detokenizer,
    /// Bytes of the text in which no stop string can end: those of the first `min_tokens` tokens, and those already
    /// searched.
    searched: usize,
    tokens: usize,
    min_tokens: usize,
}

impl StopStrings {
    pub(crate) fn new(tokenizer: Arc<Tokenizer>, stop: &[String], include: bool, min_tokens: usize) -> Self {
        StopStrings {
            stop: stop.to_vec(),
            include,
            detokenizer: Detokenizer::after(tokenizer, Vec::new()),
            searched: 0,
            tokens: 0,
            min_tokens,
        }
    }

    /// Reads the next id. If it completed a stop string, returns the text of the answer. The stop string that ends
    /// first counts; of several, the longest.
    pub(crate) fn push(&mut self, id: u32) -> Result<Option<String>, ChatError> {
        self.detokenizer.push(id)?;
        self.tokens += 1;
        let text = &self.detokenizer.text;
        let searched = std::mem::replace(&mut self.searched, text.len());
        if self.tokens <= self.min_tokens {
            return Ok(None);
        }
        let found = self.stop.iter().filter_map(|stop| {
            // A stop string may begin in searched text but must end after it.
            let from = text.floor_char_boundary((searched + 1).saturating_sub(stop.len()));
            let start = text[from..].match_indices(stop.as_str()).map(|(at, _)| from + at);
            start.map(|start| (start + stop.len(), start)).find(|&(end, _)| end > searched)
        });
        Ok(found.min().map(|(end, start)| text[..if self.include { end } else { start }].to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let texts = ["the answer is done", "<answer>42</answer> the end", "naïve café, 5 € for ten"];
        Arc::new(Tokenizer::train_bpe(&texts, 330, &["<|im_end|>"]).unwrap())
    });

    /// After how many ids a stop string is complete, and the text at that point.
    fn run(ids: &[u32], stop: &[&str], include: bool, min_tokens: usize) -> Option<(usize, String)> {
        let stop: Vec<String> = stop.iter().map(|&stop| stop.to_owned()).collect();
        let mut stops = StopStrings::new(Arc::clone(&TOKENIZER), &stop, include, min_tokens);
        ids.iter().enumerate().find_map(|(at, &id)| Some((at + 1, stops.push(id).unwrap()?)))
    }

    /// One id per byte.
    fn bytes(text: &str) -> Vec<u32> {
        text.bytes().map(byte).collect()
    }

    fn byte(byte: u8) -> u32 {
        // The byte tokens follow the special one, in the order of the characters that represent them: a printable byte
        // represents itself, and the others are numbered from U+0100 on.
        let is_itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let stands_for = |byte: u8| match is_itself(byte) {
            true => char::from(byte),
            false => {
                let before = (0..byte).filter(|&other| !is_itself(other)).count();
                char::from_u32(256 + before as u32).unwrap()
            }
        };
        TOKENIZER.token_id(&stands_for(byte).to_string()).unwrap()
    }

    #[test]
    fn the_tests_know_the_vocabulary() {
        assert_eq!(TOKENIZER.id_max(), Some(264));
        assert_eq!(TOKENIZER.decode(&bytes("naïve €\n"), false).unwrap(), "naïve €\n");
    }

    #[test]
    fn a_stop_string_is_found_across_tokens_and_cut_off() {
        for ids in
            [TOKENIZER.encode("<answer>42</answer> the end").unwrap(), bytes("<answer>42</answer> the end")]
        {
            let (tokens, text) = run(&ids, &["</answer>"], false, 0).unwrap();
            assert_eq!(text, "<answer>42");
            let sampled = TOKENIZER.decode(&ids[..tokens], false).unwrap();
            assert!(sampled.contains("</answer>"));
            assert!(!TOKENIZER.decode(&ids[..tokens - 1], false).unwrap().contains("</answer>"));
            assert_eq!(run(&ids, &["</answer>"], true, 0).unwrap(), (tokens, "<answer>42</answer>".into()));
        }
        assert_eq!(run(&bytes("<answer>42</answe"), &["</answer>"], false, 0), None);
    }

    #[test]
    fn a_character_that_tokens_split_is_matched_when_it_is_whole() {
        let ids = bytes("5 € for");
        assert_eq!(run(&ids, &["€"], false, 0), Some((5, "5 ".into())));
        assert_eq!(run(&ids, &["5 € f"], true, 0), Some((7, "5 € f".into())));
        // Text before an unfinished character counts at once.
        assert_eq!(run(&ids, &["5 "], true, 0), Some((2, "5 ".into())));
    }

    #[test]
    fn bytes_that_are_no_text_neither_hide_nor_make_a_match() {
        let mut ids = vec![byte(0xFF); 100];
        ids.extend(bytes("€"));
        assert_eq!(run(&ids, &["€"], false, 0).unwrap().0, 103);
        let mut ids = [byte(0xE2), byte(0x82)].repeat(50);
        ids.extend(bytes("x€"));
        let (tokens, text) = run(&ids, &["€"], false, 0).unwrap();
        assert_eq!((tokens, text), (104, TOKENIZER.decode(&ids[..101], false).unwrap()));
    }

    #[test]
    fn the_stop_string_that_ends_first_counts_and_of_several_the_longest() {
        let ids = bytes("abcdef");
        assert_eq!(run(&ids, &["cdef", "bcd", "cd"], false, 0), Some((4, "a".into())));
        // One token may complete several stop strings; the text then decides, not the order of the list.
        let whole = TOKENIZER.encode("the answer").unwrap();
        let answer = TOKENIZER.token_id("answer").unwrap();
        assert_eq!(whole.last(), Some(&answer));
        assert_eq!(run(&whole, &["wer", "ans", "n"], true, 0).unwrap().1, "the an");
    }

    #[test]
    fn stop_strings_do_not_count_in_the_first_tokens() {
        let ids = bytes("ab ab ab");
        assert_eq!(run(&ids, &["ab"], false, 0), Some((2, String::new())));
        assert_eq!(run(&ids, &["ab"], false, 1), Some((2, String::new())));
        assert_eq!(run(&ids, &["ab"], false, 2), Some((5, "ab ".into())));
        assert_eq!(run(&ids, &["ab"], false, 5), Some((8, "ab ab ".into())));
        assert_eq!(run(&ids, &["ab"], false, 8), None);
    }

    #[test]
    fn text_is_held_back_while_it_may_become_a_stop_string() {
        let before = |text, stop: &[&str]| {
            let stop: Vec<String> = stop.iter().map(|&stop| stop.to_owned()).collect();
            before_stop(text, &stop).to_owned()
        };
        assert_eq!(before("so </ans", &["</answer>"]), "so ");
        assert_eq!(before("so </anx", &["</answer>"]), "so </anx");
        // The longest beginning counts, of whichever stop string.
        assert_eq!(before("aab", &["aabc", "bc"]), "");
        assert_eq!(before("xab", &["aabc", "bc"]), "xa");
        assert_eq!(before("5 €", &["€€", "x"]), "5 ");
        assert_eq!(before("abc", &[]), "abc");
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_all_ids(ids in prop::collection::vec(0u32..265, 0..80)) {
            let mut detokenizer = Detokenizer::after(Arc::clone(&TOKENIZER), Vec::new());
            for at in 0..ids.len() {
                detokenizer.push(ids[at]).unwrap();
                prop_assert!(detokenizer.pending.len() <= 2 * CHARACTER_TOKENS_MAX + 1);
                let whole = TOKENIZER.decode(&ids[..=at], false).unwrap();
                let finished = whole.strip_suffix(UNFINISHED).unwrap_or(&whole);
                prop_assert_eq!(detokenizer.text.as_str(), finished);
            }
        }

        #[test]
        fn a_stop_string_is_found_where_a_search_of_the_whole_text_finds_it(
            text in "[ab€]{0,40}", stop in "[ab€]{1,4}", is_cut in any::<bool>(),
        ) {
            let ids = if is_cut { bytes(&text) } else { TOKENIZER.encode(&text).unwrap() };
            let found = run(&ids, &[&stop], false, 0).map(|(_, text)| text);
            prop_assert_eq!(found, text.find(&stop).map(|at| text[..at].to_owned()));
        }
    }
}
