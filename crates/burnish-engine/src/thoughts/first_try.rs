//! Thoughts end after the answer was tried (First Try Matters, arXiv:2510.08308).

use std::sync::Arc;

use super::{Act, Part, Said};
use crate::control::{Now, Steer};

/// Closes thoughts behind the `tries`-th try.
#[derive(Debug)]
pub(super) struct FirstTry {
    pub(super) tries: usize,
    pub(super) after: Vec<String>,
    pub(super) until: Vec<String>,
    pub(super) ending: Arc<[u32]>,
}

impl FirstTry {
    /// How many tries of the answer are complete in a text. Behind a brace a try goes on to the one that closes it; what has no
    /// letter and no digit is none.
    fn tries_in(&self, text: &str) -> usize {
        let first = |text: &str, of: &[String]| -> Option<std::ops::Range<usize>> {
            let found = of.iter().filter_map(|it| text.find(it.as_str()).map(|at| at..at + it.len()));
            found.min_by_key(|range| (range.start, range.end))
        };
        let (mut rest, mut tries) = (text, 0);
        while let Some(begun) = first(rest, &self.after) {
            let is_braced = rest[begun.clone()].ends_with('{');
            let behind = &rest[begun.end..];
            let ended = if is_braced { closing(behind) } else { self.end_in(behind) };
            let Some(ended) = ended else { break };
            // A colon and a line break are no answer yet.
            tries += usize::from(behind[..ended.start].contains(char::is_alphanumeric));
            rest = &behind[ended.end..];
        }
        tries
    }
}

impl FirstTry {
    /// Where a try ends in a text that begins with it. A full stop before a digit belongs to a number, and one at the very
    /// end may.
    fn end_in(&self, text: &str) -> Option<std::ops::Range<usize>> {
        let ends = |range: &std::ops::Range<usize>| {
            let next = text[range.end..].chars().next();
            !text[..range.end].ends_with('.') || next.is_some_and(|next| !next.is_ascii_digit())
        };
        let found = |until: &String| {
            let mut all = text.match_indices(until.as_str()).map(|(at, it)| at..at + it.len());
            all.find(|range| ends(range))
        };
        self.until.iter().filter_map(found).min_by_key(|range| (range.start, range.end))
    }
}

/// The brace that closes one before the text.
fn closing(text: &str) -> Option<std::ops::Range<usize>> {
    let mut depth = 1;
    for (at, letter) in text.char_indices() {
        depth += match letter {
            '{' => 1,
            '}' => -1,
            _ => continue,
        };
        if depth == 0 {
            return Some(at..at + 1);
        }
    }
    None
}

impl Part for FirstTry {
    fn decide(&mut self, now: &Now<'_>, said: &Said, _: &mut Steer) -> Result<Act, String> {
        let is_under_way = said.thought().is_some() && !now.answer.is_empty();
        if !is_under_way || self.tries_in(said.thoughts()) < self.tries {
            return Ok(Act::Pass);
        }
        Ok(Act::Put(Arc::clone(&self.ending)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_where_they_are_complete() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let part = FirstTry {
            tries: 1,
            after: texts(&["answer is", "\\boxed{"]),
            until: texts(&[".", "\n", "}"]),
            ending: Arc::default(),
        };
        for (text, tries) in [
            ("so the answer is", 0),
            ("so the answer is 3.5", 0),
            ("so the answer is 3.5.", 0),
            ("so the answer is 3.5. ", 1),
            ("so the answer is:\n", 0),
            ("so the answer is\n\n", 0),
            ("\\boxed{\\frac{1}{2}", 0),
            ("\\boxed{\\frac{1}{2}}", 1),
            ("\\boxed{3} wait, the answer is 4\nthe answer is 5. But", 3),
            ("nothing. at all\n", 0),
        ] {
            assert_eq!(part.tries_in(text), tries, "{text}");
        }
    }
}
