//! Properties of advantages that hold for any rewards.

use crate::common::{group_relative, is_near};
use burnish_rl::advantage::{Grpo, Scale, has_variance, shuffle_within_groups};
use proptest::prelude::*;

const GROUP_SIZE: usize = 4;
const SCALES: [Scale; 3] = [Scale::Group, Scale::Batch, Scale::None];

fn config(scale: Scale) -> Grpo {
    Grpo { scale, ..Grpo::default() }
}

fn advantages(rewards: &[Option<f64>], scale: Scale) -> Vec<Option<f64>> {
    group_relative(rewards, GROUP_SIZE, &config(scale)).advantages
}

/// Whole groups; some rollouts unscored, some rewards alike.
fn rewards() -> impl Strategy<Value = Vec<Option<f64>>> {
    let reward = prop_oneof![
        1 => Just(None),
        3 => (0..3).prop_map(|tenths| Some(f64::from(tenths) * 0.1)),
        3 => (-5.0..5.0f64).prop_map(Some),
    ];
    (1..5usize).prop_flat_map(move |groups| prop::collection::vec(reward.clone(), groups * GROUP_SIZE))
}

fn sorted(rewards: &[Option<f64>]) -> Vec<f64> {
    let mut values: Vec<f64> = rewards.iter().flatten().copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

proptest! {
    #[test]
    fn a_group_has_variance_exactly_where_an_advantage_is_not_zero(rewards in rewards()) {
        let advantages = advantages(&rewards, Scale::None);
        for (group, advantages) in rewards.chunks(GROUP_SIZE).zip(advantages.chunks(GROUP_SIZE)) {
            prop_assert_eq!(has_variance(group), advantages.iter().flatten().any(|advantage| *advantage != 0.0));
        }
    }

    #[test]
    fn permuting_the_rollouts_of_a_group_permutes_their_advantages(
        rewards in rewards(),
        order in Just([0, 1, 2, 3]).prop_shuffle(),
    ) {
        let permute = |values: &[Option<f64>]| -> Vec<Option<f64>> {
            values.chunks(GROUP_SIZE).flat_map(|group| order.map(|from| group[from])).collect()
        };
        for scale in SCALES {
            prop_assert_eq!(advantages(&permute(&rewards), scale), permute(&advantages(&rewards, scale)));
        }
    }

    #[test]
    fn adding_a_constant_to_the_rewards_of_a_group_changes_nothing(
        rewards in rewards(),
        constant in -3.0..3.0f64,
    ) {
        let moved: Vec<_> = rewards.iter().enumerate().map(|(at, reward)| {
            reward.map(|reward| if at < GROUP_SIZE { reward + constant } else { reward })
        }).collect();
        // A batch's standard deviation depends on how far apart groups are, so it is left out.
        for scale in [Scale::Group, Scale::None] {
            for (found, expected) in advantages(&moved, scale).iter().zip(advantages(&rewards, scale)) {
                let (found, expected) = (found.unwrap_or(0.0), expected.unwrap_or(0.0));
                prop_assert!(is_near(found, expected, 1e-9), "{found} for {expected}");
            }
        }
    }

    #[test]
    fn advantages_of_a_group_add_up_to_zero_and_only_scored_rollouts_have_one(rewards in rewards()) {
        for scale in SCALES {
            let found = advantages(&rewards, scale);
            for (group, rewards) in found.chunks(GROUP_SIZE).zip(rewards.chunks(GROUP_SIZE)) {
                prop_assert!(group.iter().flatten().sum::<f64>().abs() < 1e-9);
                for (advantage, reward) in group.iter().zip(rewards) {
                    prop_assert_eq!(advantage.is_some(), reward.is_some());
                }
            }
        }
    }

    #[test]
    fn an_unscored_rollout_is_as_good_as_absent(
        group in prop::collection::vec(-5.0..5.0f64, 2..6),
        at in 0usize..5,
    ) {
        let scored: Vec<Option<f64>> = group.iter().copied().map(Some).collect();
        for absent in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            let mut with = scored.clone();
            with.insert(at.min(scored.len()), absent);
            for scale in SCALES {
                let mut found = group_relative(&with, with.len(), &config(scale)).advantages;
                prop_assert_eq!(found.remove(at.min(scored.len())), None);
                prop_assert_eq!(found, group_relative(&scored, scored.len(), &config(scale)).advantages);
            }
        }
    }

    #[test]
    fn a_group_in_which_all_earn_the_same_has_advantages_of_exactly_zero(
        reward in -1e3..1e3f64,
        members in 1usize..9,
    ) {
        let rewards = vec![Some(reward); members];
        let zeros = vec![Some(0.0); members];
        for scale in SCALES {
            for epsilon in [0.0, 1e-4] {
                let config = Grpo { epsilon, ..config(scale) };
                prop_assert_eq!(&group_relative(&rewards, members, &config).advantages, &zeros);
            }
        }
        // Whatever the rest of the batch earns.
        let beside = [rewards.clone(), vec![Some(reward + 1.0); members - 1], vec![Some(0.0)]].concat();
        let found = group_relative(&beside, members, &config(Scale::Batch)).advantages;
        prop_assert_eq!(&found[..members], &zeros[..]);
    }

    #[test]
    fn shuffling_keeps_the_rewards_in_their_groups_and_the_unscored_in_their_places(
        rewards in rewards(),
        seed: u64,
    ) {
        let shuffled = shuffle_within_groups(&rewards, GROUP_SIZE, seed);
        prop_assert_eq!(&shuffled, &shuffle_within_groups(&rewards, GROUP_SIZE, seed));
        for (found, given) in shuffled.chunks(GROUP_SIZE).zip(rewards.chunks(GROUP_SIZE)) {
            prop_assert_eq!(sorted(found), sorted(given));
        }
        for (found, given) in shuffled.iter().zip(&rewards) {
            prop_assert_eq!(found.is_some(), given.is_some());
        }
        for scale in SCALES {
            prop_assert_eq!(
                group_relative(&shuffled, GROUP_SIZE, &config(scale)).metrics,
                group_relative(&rewards, GROUP_SIZE, &config(scale)).metrics
            );
        }
    }
}

#[test]
fn shuffling_leaves_no_tie_between_a_rollout_and_its_reward() {
    // Of 4,000 groups, each member keeps its reward in a quarter.
    let rewards: Vec<Option<f64>> = (0..4 * 4000).map(|at| Some(f64::from(at % 4))).collect();
    let shuffled = shuffle_within_groups(&rewards, GROUP_SIZE, 3);
    for member in 0..GROUP_SIZE {
        let kept =
            (member..rewards.len()).step_by(GROUP_SIZE).filter(|&at| shuffled[at] == rewards[at]).count();
        assert!((900..1100).contains(&kept), "member {member} keeps {kept} of 4000");
    }
    assert_ne!(shuffled, shuffle_within_groups(&rewards, GROUP_SIZE, 4));
}

#[test]
fn ddof_says_what_the_sum_of_squares_is_divided_by() {
    let rewards = [Some(0.0), Some(2.0)];
    for (ddof, std) in [(0, 1.0), (1, 2f64.sqrt())] {
        let config = Grpo { ddof, epsilon: 0.0, ..config(Scale::Group) };
        assert_eq!(group_relative(&rewards, 2, &config).advantages, [Some(-1.0 / std), Some(1.0 / std)]);
    }
}

#[test]
fn the_last_group_may_be_smaller_and_a_step_without_rewards_has_no_mean() {
    let found = group_relative(&[Some(1.0), Some(3.0), Some(9.0)], 2, &config(Scale::None));
    assert_eq!(found.advantages, [Some(-1.0), Some(1.0), Some(0.0)]);
    let nothing = group_relative(&[None, None], 2, &config(Scale::Group));
    assert_eq!(nothing.advantages, [None, None]);
    assert_eq!(nothing.metrics.into_iter().collect::<Vec<_>>(), [("frac_reward_zero_std".to_owned(), 0.0)]);
    assert!(group_relative(&[], 2, &config(Scale::Group)).metrics.is_empty());
}
