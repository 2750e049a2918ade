//! Rows packed into sequences of one length, so that a step has as many tokens as it has room for.

/// Which of the items, by their lengths, share a sequence of at most `length_max` tokens: best fit, the longest first,
/// as TRL's `bfd`. Items of a sequence are in their own order, sequences in that of their first item.
pub(super) fn packed(lengths: &[usize], length_max: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(lengths[*at]));
    // Sequences by the room that is left in them.
    let mut open: std::collections::BTreeSet<(usize, usize)> = std::collections::BTreeSet::new();
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    for at in order {
        let length = lengths[at];
        let found = open.range((length, 0)..).next().copied();
        let (room, sequence) = found.unwrap_or((length_max.max(length), sequences.len()));
        match found {
            Some(place) => _ = open.remove(&place),
            None => sequences.push(Vec::new()),
        }
        sequences[sequence].push(at);
        open.insert((room - length, sequence));
    }
    sequences.iter_mut().for_each(|sequence| sequence.sort_unstable());
    sequences.sort_unstable();
    sequences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_packed_once_and_no_sequence_is_too_long() {
        assert_eq!(packed(&[3, 9, 4, 6, 10, 1], 10), [vec![0], vec![1, 5], vec![2, 3], vec![4]]);
        assert!(packed(&[], 10).is_empty());
        for seed in 0..50 {
            let draw = |at: u64| 1 + (burnish_core::rng::bits(seed, at) % 40) as usize;
            let lengths: Vec<usize> = (0..60).map(draw).collect();
            let sequences = packed(&lengths, 40);
            let mut all: Vec<usize> = sequences.concat();
            all.sort_unstable();
            assert_eq!(all, (0..60).collect::<Vec<_>>());
            let tokens = |sequence: &Vec<usize>| sequence.iter().map(|at| lengths[*at]).sum::<usize>();
            assert!(sequences.iter().all(|sequence| tokens(sequence) <= 40));
            // Two sequences that would fit into one are packed badly.
            let least: Vec<usize> = sequences.iter().map(tokens).collect();
            let halves = least.iter().filter(|tokens| **tokens <= 20).count();
            assert!(halves <= 1, "{least:?}");
        }
    }
}
