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
    /// How many tries of the answer are complete in a text.
    fn tries_in(&self, text: &str) -> usize {
        let first = |text: &str, of: &[String]| -> Option<usize> {
            of.iter().filter_map(|it| Some(text.find(it.as_str())? + it.len())).min()
        };
        let (mut rest, mut tries) = (text, 0);
        while let Some(begun) = first(rest, &self.after) {
            let Some(length) = first(&rest[begun..], &self.until) else { break };
            rest = &rest[begun + length..];
            tries += 1;
        }
        tries
    }
}

impl Part for FirstTry {
    fn decide(&mut self, now: &Now<'_>, said: &Said, _: &mut Steer) -> Result<Act, String> {
        // Only a token that ends something can complete a try.
        let may_end = !now.answer.is_empty() && self.until.iter().any(|until| said.is_new(until));
        if said.thought().is_none() || !may_end || self.tries_in(&said.text) < self.tries {
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
            ("so the answer is 12", 0),
            ("so the answer is 12.", 1),
            ("\\boxed{3} wait, the answer is 4\nthe answer is \\boxed{5}.", 3),
            ("nothing. at all\n", 0),
        ] {
            assert_eq!(part.tries_in(text), tries, "{text}");
        }
    }
}
