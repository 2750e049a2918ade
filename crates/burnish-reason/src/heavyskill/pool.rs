//! Which drafts of a pool are read, where it has more than a deliberation can take.

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

/// A rule that picks drafts from a pool. None sees more than the drafts themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolSelection {
    /// Any of them.
    Random,
    /// Those whose final answer occurs most often in the pool.
    #[default]
    MaxAnswerNum,
    /// As many different final answers as possible: one of each, the most frequent first, then a second of each.
    MaxDiversity,
    /// The longest.
    MaxLength,
}

impl PoolSelection {
    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            PoolSelection::Random => "random",
            PoolSelection::MaxAnswerNum => "max_answer_num",
            PoolSelection::MaxDiversity => "max_diversity",
            PoolSelection::MaxLength => "max_length",
        }
    }

    /// The indices of `count` drafts, in the order of the pool. `answers` has the number of each draft's answer (equal
    /// answers, equal numbers), `tokens` its length. Of drafts that the rule does not tell apart the first are taken.
    pub(crate) fn pick(
        self,
        answers: &[Option<usize>],
        tokens: &[usize],
        count: usize,
        seed: u64,
    ) -> Vec<usize> {
        let mut order: Vec<usize> = (0..answers.len()).collect();
        let frequency = |at: usize| {
            answers.iter().filter(|other| answers[at].is_some() && **other == answers[at]).count()
        };
        // How many of the same answer stand before it; without an answer, a draft stands for itself.
        let rank = |at: usize| match answers[at] {
            Some(_) => answers[..at].iter().filter(|other| **other == answers[at]).count(),
            None => usize::MAX,
        };
        match self {
            PoolSelection::Random => Stream::new(seed).shuffle(&mut order),
            PoolSelection::MaxAnswerNum => {
                let first = |at: usize| answers[at].unwrap_or(usize::MAX);
                order.sort_by_key(|at| (std::cmp::Reverse(frequency(*at)), first(*at)));
            }
            PoolSelection::MaxDiversity => {
                order.sort_by_key(|at| (rank(*at), std::cmp::Reverse(frequency(*at))));
            }
            PoolSelection::MaxLength => order.sort_by_key(|at| std::cmp::Reverse(tokens[*at])),
        }
        order.truncate(count);
        order.sort_unstable();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers a, b, b, none, c, b, a.
    const ANSWERS: [Option<usize>; 7] = [Some(0), Some(1), Some(1), None, Some(2), Some(1), Some(0)];
    const TOKENS: [usize; 7] = [3, 1, 4, 1, 5, 9, 3];

    #[test]
    fn each_rule_picks_what_it_says() {
        let pick = |rule: PoolSelection, count| rule.pick(&ANSWERS, &TOKENS, count, 1);
        assert_eq!(pick(PoolSelection::MaxAnswerNum, 4), [0, 1, 2, 5]);
        assert_eq!(pick(PoolSelection::MaxDiversity, 3), [0, 1, 4]);
        assert_eq!(pick(PoolSelection::MaxDiversity, 4), [0, 1, 2, 4]);
        assert_eq!(pick(PoolSelection::MaxLength, 3), [2, 4, 5]);
        assert_eq!(pick(PoolSelection::MaxAnswerNum, 9), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn at_random_each_draft_is_picked_equally_often() {
        let mut counts = [0; 7];
        for seed in 0..7000 {
            for at in PoolSelection::Random.pick(&ANSWERS, &TOKENS, 2, seed) {
                counts[at] += 1;
            }
        }
        // 2000 expected; the standard deviation is about 38.
        assert!(counts.iter().all(|count| (1830..2170).contains(count)), "{counts:?}");
    }
}
