//! How everything that was sampled together is split into optimiser batches.

use std::borrow::Borrow;

use burnish_core::rng::{self, Stream};
use burnish_rl::{PartTotals, Totals};

use crate::Sample;

/// Splits the samples of one generation into `count` minibatches, in a different order for every `epoch`. Returns the
/// samples' indices. Sizes differ by at most one, and none is empty (so there may be fewer than `count`).
///
/// `group_sizes` says how many samples each group has; samples lie group after group. Whole groups are put in
/// random order, and the row of samples is then cut evenly, so a group keeps its order and stays together
/// unless a cut falls into it. TRL shuffles single samples, once for all epochs. Each sample is as likely there as here
/// to be in a given minibatch, but neighbours that begin alike would be torn apart, and their prompt would be computed
/// again in each minibatch.
///
/// `seed` is that of an [`rng::Address`] with purpose [`rng::Purpose::Shuffle`].
pub fn minibatches(group_sizes: &[usize], count: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let order = shuffled(group_sizes, seed, epoch).concat();
    cut(&order, count)
}

/// As [`minibatches`], but with cuts only between groups: the numbers of groups differ by at most one.
pub fn minibatches_of_groups(group_sizes: &[usize], count: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let mut groups = shuffled(group_sizes, seed, epoch);
    groups.retain(|group| !group.is_empty());
    cut(&groups, count).into_iter().map(|groups| groups.concat()).collect()
}

/// The samples of each group, the groups in random order.
fn shuffled(group_sizes: &[usize], seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let mut first = 0;
    let mut groups: Vec<_> = group_sizes
        .iter()
        .map(|size| {
            let group: Vec<usize> = (first..first + size).collect();
            first += size;
            group
        })
        .collect();
    Stream::new(rng::bits(seed, epoch)).shuffle(&mut groups);
    groups
}

/// `count` parts of `row`, as even as possible; none is empty.
fn cut<T: Clone>(row: &[T], count: usize) -> Vec<Vec<T>> {
    (0..count)
        .map(|at| row[at * row.len() / count..(at + 1) * row.len() / count].to_vec())
        .filter(|part| !part.is_empty())
        .collect()
}

/// What an objective may know about `minibatch` as a whole, which is one of the `minibatches` that make up
/// `generation`. `completion_tokens_max` is the most tokens that a completion may have, `seed` the seed of the
/// minibatch.
pub fn totals(
    minibatch: &[impl Borrow<Sample>],
    generation: &[impl Borrow<Sample>],
    minibatches: usize,
    completion_tokens_max: usize,
    seed: u64,
) -> Totals {
    Totals {
        sequences: minibatch.len(),
        groups: minibatch.chunk_by(|a, b| a.borrow().group == b.borrow().group).count(),
        tokens: scored_tokens(minibatch),
        tokens_positive: minibatch.iter().map(|sample| positive_tokens(sample.borrow())).sum(),
        tokens_generation: scored_tokens(generation),
        minibatches,
        completion_tokens_max,
        seed,
        parts: std::array::from_fn(|part| part_totals(minibatch, generation, part)),
        mismatched_log_ratio: None,
    }
}

/// The counts of the tokens in part number `part`.
fn part_totals(
    minibatch: &[impl Borrow<Sample>],
    generation: &[impl Borrow<Sample>],
    part: usize,
) -> PartTotals {
    let is_inside =
        |sample: &Sample, at: usize| sample.parts.get(at).is_none_or(|parts| parts >> part & 1 == 1);
    let count = |samples: &[&Sample], counts: &dyn Fn(&Sample, usize) -> bool| -> usize {
        samples
            .iter()
            .map(|own| own.scored().filter(|at| is_inside(own, *at) && counts(own, *at)).count())
            .sum()
    };
    let own: Vec<&Sample> = minibatch.iter().map(Borrow::borrow).collect();
    let all: Vec<&Sample> = generation.iter().map(Borrow::borrow).collect();
    PartTotals {
        tokens: count(&own, &|_, _| true),
        tokens_positive: count(&own, &|sample, at| sample.advantages[at] > 0.0),
        tokens_generation: count(&all, &|_, _| true),
    }
}

fn scored_tokens(samples: &[impl Borrow<Sample>]) -> usize {
    samples.iter().map(|sample| sample.borrow().scored_tokens()).sum()
}

fn positive_tokens(sample: &Sample) -> usize {
    sample.scored().filter(|at| sample.advantages[*at] > 0.0).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_rl::terms::PARTS_MAX;
    use proptest::prelude::*;

    #[test]
    fn groups_stay_together_in_their_order_where_they_divide_evenly() {
        for minibatch in minibatches(&[4; 6], 3, 9, 0) {
            assert_eq!(minibatch.len(), 8);
            for group in minibatch.chunks(4) {
                assert_eq!(group[0] % 4, 0);
                assert!(group.windows(2).all(|pair| pair[1] == pair[0] + 1));
            }
        }
    }

    #[test]
    fn cuts_between_groups_never_tear_one_apart() {
        let parts = minibatches_of_groups(&[2, 0, 2, 2, 2, 2], 2, 4, 1);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4, 6]);
        for pair in parts.concat().chunks(2) {
            assert!(pair[0] % 2 == 0 && pair[1] == pair[0] + 1, "{parts:?}");
        }
    }

    #[test]
    fn every_epoch_has_its_own_order_and_every_call_the_same() {
        let epoch = |epoch| minibatches(&[2; 20], 4, 1, epoch);
        assert_eq!(epoch(0), epoch(0));
        assert_ne!(epoch(0), epoch(1));
        assert_ne!(epoch(0), minibatches(&[2; 20], 4, 2, 0));
    }

    #[test]
    fn totals_count_the_scored_tokens_of_the_part_and_of_the_whole() {
        let sample = |scored: usize| Sample {
            loss_mask: vec![true; scored],
            advantages: (0..scored).map(|at| at as f32).collect(),
            ..Sample::default()
        };
        let generation = [sample(3), sample(0), sample(5)];
        let minibatch: Vec<&Sample> = generation[..2].iter().collect();
        assert_eq!(
            totals(&minibatch, &generation, 2, 7, 3),
            Totals {
                sequences: 2,
                groups: 1,
                tokens: 3,
                tokens_positive: 2,
                tokens_generation: 8,
                minibatches: 2,
                completion_tokens_max: 7,
                seed: 3,
                parts: [PartTotals { tokens: 3, tokens_positive: 2, tokens_generation: 8 }; PARTS_MAX],
                mismatched_log_ratio: None,
            }
        );
        // Tokens belong to the parts of their bits.
        let [first, second, mut third] = generation;
        third.parts = vec![1, 3, 2, 0, 1];
        let parts = totals(&[&third], &[first, second, third.clone()], 2, 7, 3).parts;
        assert_eq!(parts[0], PartTotals { tokens: 3, tokens_positive: 2, tokens_generation: 6 });
        assert_eq!(parts[1], PartTotals { tokens: 2, tokens_positive: 2, tokens_generation: 5 });
        assert_eq!(parts[2], PartTotals { tokens: 0, tokens_positive: 0, tokens_generation: 3 });
    }

    proptest! {
        #[test]
        fn every_sample_is_in_exactly_one_minibatch_and_sizes_differ_by_one_at_most(
            sizes in prop::collection::vec(0usize..9, 0..12),
            count in 1usize..9,
            seed: u64,
        ) {
            let parts = minibatches(&sizes, count, seed, 0);
            let mut all: Vec<usize> = parts.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..sizes.iter().sum()).collect::<Vec<_>>());
            let lens = parts.iter().map(Vec::len);
            if let (Some(least), Some(most)) = (lens.clone().min(), lens.max()) {
                prop_assert!(least > 0 && most - least <= 1);
            }
        }
    }
}
