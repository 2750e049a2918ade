//! Named spans of answers as tokens.

use std::ops::Range;

use burnish_model::Tokenizer;
use burnish_recipe::{Recipe, SpanSection};
use burnish_rundir::metrics::Values;

use super::groups::Groups;
use super::samples::OwnSample;
use crate::RunError;

/// The share of sampled tokens that are in the span of the loss.
const SHARE: &str = "loss/span_share";

impl Groups {
    /// Takes tokens outside of the spans of all losses out of the loss, and notes which loss learns from which. Reports which
    /// share of the tokens is in the span of `[loss]`.
    ///
    /// # Errors
    /// If ids can't be decoded.
    pub(super) fn mask_spans(&mut self, recipe: &Recipe, tokenizer: &Tokenizer) -> Result<Values, RunError> {
        let (loss, spans) = (&recipe.loss, &recipe.spans);
        let names = std::iter::once(&loss.on).chain(loss.terms.iter().map(|term| &term.on));
        let on: Vec<Option<&SpanSection>> =
            names.map(|name| spans.iter().find(|span| span.name == *name)).collect();
        if on.iter().all(Option::is_none) {
            return Ok(Values::new());
        }
        let (mut inside, mut all) = (0, 0);
        for own in self.samples_mut() {
            let mut parts = vec![0u8; own.sample.ids.len()];
            for (part, span) in on.iter().enumerate() {
                let is_inside = match span {
                    Some(span) => own.tokens_in(span, tokenizer)?,
                    None => vec![true; parts.len()],
                };
                parts.iter_mut().zip(is_inside).for_each(|(parts, is_in)| *parts |= u8::from(is_in) << part);
            }
            all += own.sample.scored_tokens();
            inside += own.sample.scored().filter(|at| parts[*at] & 1 == 1).count();
            own.sample.loss_mask.iter_mut().zip(&parts).for_each(|(mask, parts)| *mask &= *parts != 0);
            if on.len() > 1 {
                own.sample.parts = parts;
            }
        }
        Ok(Values::from([(SHARE.to_owned(), inside as f64 / all.max(1) as f64)]))
    }
}

impl OwnSample {
    /// For each token, whether a turn sampled it and it begins inside of the span.
    pub(super) fn tokens_in(&self, span: &SpanSection, tokenizer: &Tokenizer) -> Result<Vec<bool>, RunError> {
        let ids = &self.sample.ids;
        let mut is_inside = vec![false; ids.len()];
        for turn in self.turns() {
            let own = &ids[turn.clone()];
            for place in span.places(&tokenizer.decode(own, false)?) {
                let tokens = tokens_of(own, &place, tokenizer)?;
                is_inside[turn.start + tokens.start..turn.start + tokens.end].fill(true);
            }
        }
        Ok(is_inside)
    }
}

/// Bytes of text before token number `at`. A token within a character begins where the character does.
fn begins(ids: &[u32], at: usize, tokenizer: &Tokenizer) -> Result<usize, RunError> {
    Ok(tokenizer.decode(&ids[..at], false)?.trim_end_matches(char::REPLACEMENT_CHARACTER).len())
}

/// The tokens of `ids` that begin in `place`, a range of bytes of their text.
fn tokens_of(ids: &[u32], place: &Range<usize>, tokenizer: &Tokenizer) -> Result<Range<usize>, RunError> {
    // The first token that begins at `byte` or after it.
    let first = |byte: usize| -> Result<usize, RunError> {
        let (mut low, mut high) = (0, ids.len());
        while low < high {
            let middle = (low + high) / 2;
            match begins(ids, middle, tokenizer)? >= byte {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(low)
    };
    Ok(first(place.start)?..first(place.end)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn tokens_belong_to_a_span_if_they_begin_in_it() {
        let texts =
            ["<think>3 plus 4 is 7</think> The answer is 7", "é😀 plus ünder 4 <think> is 7", "aaaa bbbb"];
        let tokenizer = Tokenizer::train_bpe(&texts, 290, &[]).unwrap();
        for text in texts {
            let ids = tokenizer.encode(text).unwrap();
            let starts: Vec<usize> = (0..ids.len()).map(|at| begins(&ids, at, &tokenizer).unwrap()).collect();
            assert!(starts.is_sorted() && starts.iter().all(|start| text.is_char_boundary(*start)));
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let ends: Vec<usize> = ends.collect();
            for (from, start) in ends.iter().enumerate() {
                for end in &ends[from..] {
                    let found = tokens_of(&ids, &(*start..*end), &tokenizer).unwrap();
                    for (at, begins) in starts.iter().enumerate() {
                        assert_eq!(
                            found.contains(&at),
                            (*start..*end).contains(begins),
                            "{text}: {at} in {start}..{end}"
                        );
                    }
                }
            }
        }
    }
}
