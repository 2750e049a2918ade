//! The order in which rows are used.

use burnish_core::rng::{Address, Purpose, Stream};

/// The order of `len` rows in pass number `epoch`: a uniformly random permutation that depends only on the arguments
/// and is the same on every machine (Fisher and Yates, with addressed randomness). Takes 8 bytes per row.
pub fn order(len: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let place = Address { step: epoch, ..Address::new(seed, Purpose::Shuffle) };
    Stream::new(place.seed()).shuffle(&mut order);
    order
}

/// `len` rows in passes without end, each pass in its own [`order`]: no row comes twice before all have come.
pub fn passes(len: usize, seed: u64) -> impl Iterator<Item = usize> {
    (0..).flat_map(move |epoch| order(len, seed, epoch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_pass_holds_every_row_once(len in 0usize..300, seed: u64, epoch in 0u64..5) {
            let mut order = order(len, seed, epoch);
            order.sort_unstable();
            prop_assert_eq!(order, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_order_depends_on_the_seed_and_on_the_pass_and_on_nothing_else() {
        assert_eq!(order(50, 3, 1), order(50, 3, 1));
        assert_ne!(order(50, 3, 1), order(50, 3, 2));
        assert_ne!(order(50, 3, 1), order(50, 4, 1));
    }

    #[test]
    fn the_order_stays_what_it_was_when_stored_runs_were_made() {
        // Computed by tests/golden/make_order.py, an independent implementation.
        let golden = include_str!("../tests/golden/order.json");
        let golden: Vec<(usize, u64, u64, Vec<usize>)> = serde_json::from_str(golden).unwrap();
        assert!(golden.len() >= 4);
        for (len, seed, epoch, expected) in golden {
            assert_eq!(order(len, seed, epoch), expected, "{len} rows, seed {seed}, epoch {epoch}");
        }
    }
}
