//! VL-Rethinker's replay: members that are trained on again.

use burnish_rl::catalogue::{REPLAYS, find};
use burnish_rl::replay::{Mixture, Replay, Ssr};
use proptest::prelude::*;
use serde_json::json;

proptest! {
    /// Once something is kept, nothing that is trained on has an advantage of 0, and the batch keeps its size.
    #[test]
    fn what_teaches_nothing_makes_room_for_what_did(
        fresh in prop::collection::vec(prop_oneof![Just(0.0), -2.0..2.0f64], 1..40),
        kept in prop::collection::vec(prop_oneof![0.1..2.0f64, -2.0..-0.1f64], 0..20),
        seed in 0u64..99,
    ) {
        let ssr = Ssr::default();
        let Mixture { fresh: own, kept: replayed } = ssr.mix(&fresh, &kept, seed);
        prop_assert_eq!(own.len() + replayed.len(), fresh.len());
        if kept.is_empty() {
            prop_assert_eq!(own, (0..fresh.len()).collect::<Vec<_>>());
            return Ok(());
        }
        let expected: Vec<usize> = (0..fresh.len()).filter(|at| fresh[*at] != 0.0).collect();
        prop_assert_eq!(&own, &expected);
        prop_assert!(replayed.iter().all(|at| kept[*at] != 0.0));
        prop_assert_eq!(ssr.mix(&fresh, &kept, seed), Mixture { fresh: own, kept: replayed });
    }
}

#[test]
fn members_are_replayed_as_often_as_the_size_of_their_advantage_says() {
    let kept = [0.5, -1.0, 2.0, -0.25, 1.25];
    for (alpha, bound) in [(1.0, 18.5), (2.0, 18.5), (0.0, 18.5)] {
        let ssr = Ssr { alpha, ..Ssr::default() };
        let mut counts = [0_usize; 5];
        for seed in 0..2000 {
            ssr.mix(&[0.0; 16], &kept, seed).kept.into_iter().for_each(|at| counts[at] += 1);
        }
        let weights = kept.map(|advantage: f64| advantage.abs().powf(alpha));
        let (whole, draws) = (weights.iter().sum::<f64>(), 32_000.0);
        // χ² with four degrees of freedom: above 18.5 once in a thousand.
        let chi: f64 = counts
            .iter()
            .zip(weights)
            .map(|(count, weight)| {
                let expected = draws * weight / whole;
                (*count as f64 - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < bound, "{alpha}: {chi} {counts:?}");
    }
}

#[test]
fn the_queue_is_as_long_as_a_share_of_a_step_and_takes_what_teaches() {
    let ssr = Ssr::default();
    assert_eq!(
        (ssr.capacity(16), ssr.capacity(3), Ssr { buffer: 0.0, ..Ssr::default() }.capacity(9)),
        (8, 1, 0)
    );
    assert_eq!([0.5, -0.1, 0.0, f64::NAN].map(|advantage| ssr.keeps(advantage)), [true, true, false, false]);
    for (config, key) in [(json!({ "alpha": -1.0 }), "alpha"), (json!({ "buffer": -1.0 }), "buffer")] {
        let entry = find(REPLAYS, "replay", "ssr").unwrap();
        assert_eq!((entry.build)(&config).err().unwrap().key, key);
    }
}
