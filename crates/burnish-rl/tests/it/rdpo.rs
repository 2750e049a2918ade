//! `rdpo`: ranks, magnitudes, active sets, whitening.

use crate::common::{is_near, of_whole, rollouts};
use burnish_rl::advantage::{
    Advantage, Estimator, Gdpo, Grpo, Magnitude, Rdpo, Rollout, Rollouts, Scale, Whiten,
};
use burnish_rl::fact::COMPONENTS;
use proptest::prelude::*;
use std::ops::Range;

const GROUP_SIZE: usize = 4;

fn member(components: &[f64]) -> Rollout {
    Rollout::of_reward(Some(components.iter().sum())).with(&COMPONENTS, components)
}

fn members(rows: &[Vec<f64>]) -> Vec<Rollout> {
    rows.iter().map(|row| member(row)).collect()
}

fn groups(all: &[Rollout], size: usize) -> Vec<Range<usize>> {
    (0..all.len() / size).map(|at| at * size..(at + 1) * size).collect()
}

fn credit(estimator: &dyn Estimator, all: &[Rollout]) -> Vec<Option<Advantage>> {
    estimator.advantages(&Rollouts { all, groups: &groups(all, GROUP_SIZE) })
}

fn values(estimator: &dyn Estimator, all: &[Rollout]) -> Vec<f64> {
    credit(estimator, all).into_iter().map(|own| own.map_or(f64::NAN, of_whole)).collect()
}

fn learn(rdpo: &mut Rdpo, all: &[Rollout]) {
    rdpo.learn(&Rollouts { all, groups: &groups(all, GROUP_SIZE) });
}

/// Nothing but `a`.
fn bare() -> Rdpo {
    Rdpo { whitening: false, normalise: Whiten::None, ..Rdpo::default() }
}

/// Strict whitening: no shrinkage, nothing added, no averages.
fn exact() -> Rdpo {
    Rdpo { shrinkage: 0.0, epsilon: 0.0, rows_min: 0, normalise: Whiten::None, ..Rdpo::default() }
}

/// The advantages from each component by itself: the weights of the others are 0.
fn apart(rdpo: &Rdpo, all: &[Rollout]) -> Vec<Vec<f64>> {
    let count = all.first().map_or(0, |own| own.facts.of(&COMPONENTS).len());
    let alone = |at: usize| {
        let weights = (0..count).map(|other| f64::from(u8::from(other == at))).collect();
        values(&Rdpo { weights, ..rdpo.clone() }, all)
    };
    (0..count).map(alone).collect()
}

fn covariance(columns: &[Vec<f64>], one: usize, other: usize) -> f64 {
    let count = columns[one].len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (a, b) = (mean(&columns[one]), mean(&columns[other]));
    columns[one].iter().zip(&columns[other]).map(|(x, y)| (x - a) * (y - b)).sum::<f64>() / count
}

/// Rows of a few components, four per group: numbers without ties, two values, and few values.
fn rows(groups: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let row = (-5.0..5.0f64, prop::bool::ANY, 0..5i32)
        .prop_map(|(number, yes, few)| vec![number, f64::from(u8::from(yes)), f64::from(few) * 0.25]);
    prop::collection::vec(row, groups * GROUP_SIZE)
}

proptest! {
    #[test]
    fn a_adds_up_to_0_in_each_group_and_is_never_above_1(rows in rows(5)) {
        for magnitude in [Magnitude::Range, Magnitude::None, Magnitude::Blend] {
            let rdpo = Rdpo { magnitude, ..bare() };
            for column in apart(&rdpo, &members(&rows)) {
                for group in column.chunks(GROUP_SIZE) {
                    prop_assert!(group.iter().sum::<f64>().abs() < 1e-12, "{group:?}");
                    prop_assert!(group.iter().all(|value| value.abs() <= 1.0), "{group:?}");
                }
            }
        }
    }

    #[test]
    fn ranks_survive_monotone_transforms_to_the_bit_and_a_affine_ones_whose_scale_is_known(
        rows in rows(3),
        scale in 0.1..50.0f64,
        shift in -3.0..3.0f64,
    ) {
        let all = members(&rows);
        let changed = |change: &dyn Fn(f64) -> f64| {
            members(&rows.iter().map(|row| row.iter().map(|own| change(*own)).collect()).collect::<Vec<_>>())
        };
        let ranks = Rdpo { magnitude: Magnitude::None, ..bare() };
        prop_assert_eq!(credit(&ranks, &changed(&|own| (own / 3.0).exp())), credit(&ranks, &all));
        prop_assert_eq!(credit(&ranks, &changed(&|own| own.powi(3) + own)), credit(&ranks, &all));
        // The running reference moves with the scale; a known one has to.
        let known = |times: f64| Rdpo { reference: vec![4.0 * times, 0.5 * times, 2.0 * times], ..bare() };
        let moved = changed(&|own| scale * own + shift);
        for (before, after) in [(bare(), bare()), (known(1.0), known(scale))] {
            for (found, expected) in values(&after, &moved).iter().zip(values(&before, &all)) {
                prop_assert!(is_near(*found, expected, 1e-9), "{found} for {expected}");
            }
        }
    }

    #[test]
    fn of_one_binary_reward_it_is_its_distance_from_the_mean(yes in prop::collection::vec(prop::bool::ANY, 3 * GROUP_SIZE)) {
        let rows: Vec<Vec<f64>> = yes.iter().map(|yes| vec![f64::from(u8::from(*yes))]).collect();
        let all = members(&rows);
        let grpo = values(&Grpo { scale: Scale::None, ..Grpo::default() }, &all);
        for (found, expected) in values(&bare(), &all).iter().zip(&grpo) {
            prop_assert!((found - expected).abs() < 1e-15, "{found} for {expected}");
        }
        // Whitened it is in proportion.
        let white = values(&Rdpo { normalise: Whiten::None, ..Rdpo::default() }, &all);
        let ratios: Vec<f64> =
            white.iter().zip(&grpo).filter(|(_, own)| **own != 0.0).map(|(white, own)| white / own).collect();
        prop_assert!(ratios.iter().all(|ratio| *ratio > 0.0 && is_near(*ratio, ratios[0], 1e-9)), "{ratios:?}");
    }

    #[test]
    fn without_ranks_magnitudes_and_whitening_it_is_gdpo_to_the_bit(all in rollouts(GROUP_SIZE)) {
        let rdpo = Rdpo { quantile: false, magnitude: Magnitude::None, ..bare() };
        let gdpo = Gdpo { whiten: Whiten::None, ..Gdpo::default() };
        prop_assert_eq!(credit(&rdpo, &all), credit(&gdpo, &all));
        let weights = vec![0.5, -2.0];
        let (rdpo, gdpo) = (Rdpo { weights: weights.clone(), ..rdpo }, Gdpo { weights, ..gdpo });
        prop_assert_eq!(credit(&rdpo, &all), credit(&gdpo, &all));
    }

    #[test]
    fn a_component_that_is_the_same_for_a_group_counts_for_nothing(rows in rows(4), constant in -9.0..9.0f64) {
        let with: Vec<Vec<f64>> = rows.iter().map(|row| [&row[..], &[constant]].concat()).collect();
        for rdpo in [Rdpo::default(), exact()] {
            prop_assert_eq!(credit(&rdpo, &members(&with)), credit(&rdpo, &members(&rows)));
        }
        let alone: Vec<Vec<f64>> = rows.iter().map(|_| vec![constant]).collect();
        prop_assert!(values(&Rdpo::default(), &members(&alone)).iter().all(|value| *value == 0.0));
    }

    #[test]
    fn whitened_components_are_uncorrelated_with_a_variance_of_1(rows in rows(12)) {
        // Those that differ in every group.
        let rows: Vec<Vec<f64>> = rows.iter().enumerate().map(|(at, row)| {
            let first = f64::from(u8::from(at.is_multiple_of(GROUP_SIZE)));
            vec![row[0], first + row[1] * 0.3 + row[0] * 0.1, row[2] + 2.0 * first]
        }).collect();
        let columns = apart(&exact(), &members(&rows));
        for one in 0..3 {
            for other in 0..3 {
                let found = covariance(&columns, one, other);
                prop_assert!(is_near(found, f64::from(u8::from(one == other)), 1e-8), "{one} {other}: {found}");
            }
        }
        // Each component still correlates most with itself.
        let before = apart(&bare(), &members(&rows));
        for (white, plain) in columns.iter().zip(&before) {
            let both = [white.clone(), plain.clone()];
            prop_assert!(covariance(&both, 0, 1) > 0.0);
        }
    }

    #[test]
    fn the_order_of_components_decides_nothing(rows in rows(6)) {
        let turned: Vec<Vec<f64>> = rows.iter().map(|row| vec![row[2], row[0], row[1]]).collect();
        for rdpo in [Rdpo::default(), Rdpo { normalise: Whiten::None, ..Rdpo::default() }, bare()] {
            for (found, expected) in values(&rdpo, &members(&turned)).iter().zip(values(&rdpo, &members(&rows))) {
                prop_assert!(is_near(*found, expected, 1e-9), "{found} for {expected}");
            }
        }
        let (before, after) = (apart(&Rdpo::default(), &members(&rows)), apart(&Rdpo::default(), &members(&turned)));
        for (from, to) in [(2, 0), (0, 1), (1, 2)] {
            prop_assert!(before[from].iter().zip(&after[to]).all(|(one, other)| is_near(*one, *other, 1e-8)));
        }
    }

    #[test]
    fn groups_in_which_other_components_differ_never_mix(rows in rows(4), others in rows(4)) {
        let rdpo = Rdpo { reference: vec![3.0, 1.0, 0.5], normalise: Whiten::None, ..Rdpo::default() };
        // In the first half the first component is still, in the second the last; the others differ in each.
        let differ = |at: usize| f64::from(u8::from(at.is_multiple_of(GROUP_SIZE))) * 7.0;
        let first = |rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
            rows.iter().enumerate().map(|(at, row)| vec![0.0, row[1] + differ(at), row[2] - differ(at)]).collect()
        };
        let second: Vec<Vec<f64>> =
            rows.iter().enumerate().map(|(at, row)| vec![row[0] + differ(at) * 3.0, row[1] + differ(at), 0.0]).collect();
        let found = |first: Vec<Vec<f64>>| values(&rdpo, &members(&[first, second.clone()].concat()));
        let (one, other) = (found(first(&rows)), found(first(&others)));
        prop_assert_eq!(&one[4 * GROUP_SIZE..], &other[4 * GROUP_SIZE..]);
        prop_assert_eq!(&one[4 * GROUP_SIZE..], &values(&rdpo, &members(&second))[..]);
    }
}

#[test]
fn what_is_uncorrelated_with_a_variance_of_1_stays() {
    // z-scores of a cross, but for the epsilon in their standard deviation: the covariance is a multiple of the
    // identity.
    let rows = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]].map(|row| member(&row));
    let a = apart(&Rdpo { quantile: true, magnitude: Magnitude::None, ..bare() }, &rows);
    let white = apart(&Rdpo { magnitude: Magnitude::None, ..exact() }, &rows);
    // Ranks are ±1/2: variance 1/4.
    for (a, white) in a.iter().zip(&white) {
        assert!(a.iter().zip(white).all(|(a, white)| a.abs() == 0.5 && is_near(*white, 2.0 * a, 1e-15)));
    }
}

#[test]
fn a_copy_counts_root_two_times_and_not_twice() {
    // Two independent directions, the first of which two components say.
    let rows = [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]].map(|row| member(&row));
    for (rdpo, times) in [(exact(), 2f64.sqrt()), (bare(), 2.0)] {
        let found = values(&rdpo, &rows);
        let (first, second) = (found[0] + found[1], found[0] + found[2]);
        assert!(is_near(first / second, times, 1e-12), "{first} {second} for {times}");
    }
}

#[test]
fn a_group_that_hardly_differs_counts_less_and_the_running_scale_is_learned() {
    let group = |range: f64| [0.0, 0.0, range, range].map(|own| member(&[own]));
    let known = Rdpo { reference: vec![2.0], ..bare() };
    for (range, share) in [(1.0, 0.5), (2.0, 1.0), (8.0, 1.0), (0.02, 0.01)] {
        let found = values(&known, &group(range));
        assert!(is_near(found[3], 0.5 * share, 1e-15) && is_near(found[0], -0.5 * share, 1e-15), "{found:?}");
    }
    // Alone in its step it is as wide as any; after a wider one it is not.
    let mut rdpo = bare();
    assert_eq!(values(&rdpo, &group(1.0))[3], 0.5);
    let wide = group(11.0);
    learn(&mut rdpo, &wide);
    assert!(is_near(values(&rdpo, &group(1.0))[3], 0.5 / (0.9 * 11.0 + 0.1), 1e-15));
    // Asking for advantages teaches nothing, and neither does a step in which nothing differs.
    let still = group(0.0);
    let before = rdpo.clone();
    learn(&mut rdpo, &still);
    assert_eq!(rdpo, before);
}

#[test]
fn few_rows_take_the_moving_average_of_their_covariance() {
    let cross = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]].map(|row| member(&row));
    let line = [[2.0, 2.0], [1.0, 1.0], [-1.0, -1.0], [-2.0, -2.0]].map(|row| member(&row));
    let rdpo = Rdpo { magnitude: Magnitude::None, rows_min: 4, ..exact() };
    let mut learned = rdpo.clone();
    learn(&mut learned, &cross);
    // Four rows of two components are few: a different past gives a different whitening.
    assert_ne!(values(&learned, &line), values(&rdpo, &line));
    // Eight are enough.
    let many = [line.clone(), line.clone()].concat();
    assert_eq!(values(&learned, &many), values(&rdpo, &many));
}

#[test]
fn rewards_at_the_ends_of_f64_stay_finite() {
    let rows = [[f64::MAX, 1e-300], [f64::MIN, 2e-300], [0.0, 0.0], [5.0, 3e-300]].map(|row| member(&row));
    let mut rdpo = Rdpo::default();
    for _ in 0..3 {
        assert!(values(&rdpo, &rows).iter().all(|value| value.is_finite()));
        learn(&mut rdpo, &rows);
    }
    let state = rdpo.state();
    rdpo.restore(&state).unwrap();
    assert!(values(&rdpo, &rows).iter().all(|value| value.is_finite()));
}
