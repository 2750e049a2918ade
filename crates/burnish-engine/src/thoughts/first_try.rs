//! Thoughts end after the answer was tried (First Try Matters, arXiv:2510.08308).

use std::ops::Range;
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
    pub(super) seen: Seen,
}

/// What was found so far, so that no text is looked through twice.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Tries that are complete.
    tries: usize,
    /// Where to look on, in bytes.
    from: usize,
    /// Whether a try begins there, and with a brace.
    under_way: Option<bool>,
}

impl FirstTry {
    /// Looks on in a text that has grown; returns how many tries are complete. What has no letter and no digit is no try: a
    /// colon and a line break are no answer yet.
    fn follow(&mut self, text: &str) -> usize {
        loop {
            let rest = &text[self.seen.from..];
            match self.seen.under_way {
                None => {
                    let Some(begun) = first(&self.after, |it| rest.find(it).map(|at| at..at + it.len()))
                    else {
                        // The beginning of such a text may be at the end already.
                        let longest = self.after.iter().map(String::len).max().unwrap_or(0);
                        let mut from = rest.len().saturating_sub(longest);
                        while !rest.is_char_boundary(from) {
                            from -= 1;
                        }
                        self.seen.from += from;
                        return self.seen.tries;
                    };
                    self.seen.under_way = Some(rest[..begun.end].ends_with('{'));
                    self.seen.from += begun.end;
                }
                Some(is_braced) => {
                    let ended =
                        if is_braced { closing(rest) } else { first(&self.until, |it| end(rest, it)) };
                    let Some(ended) = ended else { return self.seen.tries };
                    self.seen.tries += usize::from(rest[..ended.start].contains(char::is_alphanumeric));
                    self.seen.under_way = None;
                    self.seen.from += ended.end;
                }
            }
        }
    }
}

/// The first of the places where `find` finds a text.
fn first<'a>(texts: &'a [String], find: impl Fn(&'a str) -> Option<Range<usize>>) -> Option<Range<usize>> {
    texts.iter().filter_map(|text| find(text)).min_by_key(|range| (range.start, range.end))
}

/// Where `until` ends a try. A full stop before a digit belongs to a number, and one at the very end may.
fn end(text: &str, until: &str) -> Option<Range<usize>> {
    let is_end = |range: &Range<usize>| {
        let next = text[range.end..].chars().next();
        !text[..range.end].ends_with('.') || next.is_some_and(|next| !next.is_ascii_digit())
    };
    text.match_indices(until).map(|(at, it)| at..at + it.len()).find(is_end)
}

/// The brace that closes one before the text.
fn closing(text: &str) -> Option<Range<usize>> {
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
    fn decide(&mut self, _: &Now<'_>, said: &Said, _: &mut Steer) -> Result<Act, String> {
        match said.thought().is_some() && self.follow(said.thoughts()) >= self.tries {
            true => Ok(Act::Put(Arc::clone(&self.ending))),
            false => Ok(Act::Pass),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_where_they_are_complete() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
        let part = || FirstTry {
            tries: 1,
            after: texts(&["answer is", "\\boxed{"]),
            until: texts(&[".", "\n", "}"]),
            ending: Arc::default(),
            seen: Seen::default(),
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
            ("é answer is é. é the answer isé\n", 2),
        ] {
            assert_eq!(part().follow(text), tries, "{text}");
            // The same, letter by letter.
            let mut growing = part();
            let counts = (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .map(|at| growing.follow(&text[..at]));
            assert_eq!(counts.last(), Some(tries), "{text}");
        }
    }
}
