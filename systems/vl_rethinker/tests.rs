use std::cell::Cell;

use burnish_core::Verdict;
use burnish_rl::plan::{Beginning, Request, Role, Start};
use serde_json::json;

use super::VlRethinker;
use crate::PLANS;
use crate::testing::{Shown, answered, play};

const ROLLOUTS: usize = 64;

#[test]
fn a_share_of_the_rollouts_goes_on_behind_the_trigger_and_what_was_not_scored_does_not() {
    let extended = |share: f64, seed| {
        let plan = VlRethinker { share, ..VlRethinker::default() };
        let at = Cell::new(0);
        let Shown { batches, error, episodes } = play(&plan, (ROLLOUTS, seed), |_, _| {
            let mut episode = answered("y", at.get() % 2 == 0);
            if at.replace(at.get() + 1) == 7 {
                episode.verdict = Verdict::unscored("hung");
            }
            episode
        });
        assert!(error.is_none() && batches[0] == [Request::rollouts(ROLLOUTS)] && batches.len() <= 2);
        assert_eq!(episodes.len(), ROLLOUTS, "who goes on takes the place of what it goes on from");
        let found = batches.get(1).cloned().unwrap_or_default();
        for request in &found {
            assert_eq!((request.role, request.count), (Role::Extension, 1));
            assert_eq!(request.prefix, [Beginning::Text("\n\nWait, does it seem right?".into())]);
        }
        found.into_iter().map(|request| request.start).collect::<Vec<_>>()
    };
    assert!(extended(0.0, 1).is_empty());
    let all: Vec<Start> = (0..ROLLOUTS).filter(|of| *of != 7).map(|of| Start::After { of }).collect();
    assert_eq!(extended(1.0, 1), all);
    let counts: Vec<usize> = (0..200).map(|seed| extended(0.25, seed).len()).collect();
    let mean = counts.iter().sum::<usize>() as f64 / 200.0;
    assert!((mean - 0.25 * 63.0).abs() < 1.0, "{mean}");
    assert_eq!(extended(0.25, 5), extended(0.25, 5));
}

#[test]
fn settings_out_of_range_are_named() {
    for (config, key) in [(json!({ "share": 1.5 }), "share"), (json!({ "trigger": "" }), "trigger")] {
        let entry = PLANS.iter().find(|entry| entry.card.id == "vl_rethinker").unwrap();
        assert_eq!((entry.build)(&config).err().unwrap().key, key);
    }
}
