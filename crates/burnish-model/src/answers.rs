//! Finds where generation blocks are in a rendered text.
//!
//! To find the texts of the blocks in the rendered text, a mark is put before and after each: two characters that occur
//! neither in the template nor in its input. [`take_out`] reads and removes them.

use std::collections::BTreeSet;
use std::ops::Range;

/// The two characters before and after a block's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) open: char,
    pub(crate) close: char,
}

impl Marks {
    /// Two characters of Unicode's private use area that occur in none of `texts`.
    pub(crate) fn absent_from<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let is_private = |c: &char| ('\u{f0000}'..='\u{ffffd}').contains(c);
        let used: BTreeSet<char> = texts.into_iter().flat_map(str::chars).filter(is_private).collect();
        let mut free = ('\u{f0000}'..='\u{ffffd}').filter(|c| !used.contains(c));
        Some(Marks { open: free.next()?, close: free.next()? })
    }
}

/// The text without marks, and the byte ranges that were between them. `None` if the marks are not a sequence of pairs:
/// blocks are nested, or the template cuts or repeats a block's text.
pub(crate) fn take_out(marked: &str, marks: Marks) -> Option<(String, Vec<Range<usize>>)> {
    let mut text = String::with_capacity(marked.len());
    let mut ranges = Vec::new();
    let mut open = None;
    for char in marked.chars() {
        if char == marks.open {
            if open.replace(text.len()).is_some() {
                return None;
            }
        } else if char == marks.close {
            ranges.push(open.take()?..text.len());
        } else {
            text.push(char);
        }
    }
    open.is_none().then_some((text, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_never_characters_of_the_texts() {
        let all: String = ('\u{f0000}'..='\u{ffffd}').collect();
        assert!(Marks::absent_from([all.as_str()]).is_none());
        let most: String = all.chars().filter(|c| !['\u{f1234}', '\u{f4321}'].contains(c)).collect();
        let marks = Marks::absent_from([most.as_str(), "x"]).unwrap();
        assert_eq!((marks.open, marks.close), ('\u{f1234}', '\u{f4321}'));
    }

    #[test]
    fn marks_are_taken_out_in_pairs() {
        let marks = Marks { open: '<', close: '>' };
        assert_eq!(take_out("a<bé>c<>", marks), Some(("abéc".into(), vec![1..4, 5..5])));
        for wrong in ["<a", "a>", "<<a>>", "<a>>"] {
            assert_eq!(take_out(wrong, marks), None);
        }
    }
}
