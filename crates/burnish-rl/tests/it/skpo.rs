//! `skpo`: beginnings and what follows from them.

use crate::common::{change, is_near, of_whole, rollouts};
use burnish_core::rng::Stream;
use burnish_rl::advantage::{Advantage, Estimator, Grpo, Normalisation, Phase, Rollout, Rollouts, Skpo};
use burnish_rl::catalogue::ADVANTAGES;
use burnish_rl::fact::{TASK_DRIFT, WINS, WORTH, Worths};
use proptest::prelude::*;
use serde_json::Value;
use std::ops::Range;

fn answer(task: &str, reward: f64) -> Rollout {
    Rollout { task: task.into(), ..Rollout::of_reward(Some(reward)) }
}

fn beginning(task: &str) -> Rollout {
    Rollout { task: task.into(), phase: Phase::Upstream, ..Rollout::default() }
}

/// A beginning, and answers that earned `rewards`.
fn group(task: &str, rewards: &[f64]) -> Vec<Rollout> {
    let answers = rewards.iter().map(|reward| answer(task, *reward));
    std::iter::once(beginning(task)).chain(answers).collect()
}

fn ranges(sizes: &[usize]) -> Vec<Range<usize>> {
    let ends = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    ends.zip(sizes).map(|(end, size)| end - size..end).collect()
}

fn credit(estimator: &dyn Estimator, groups: &[Vec<Rollout>]) -> Vec<f64> {
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    let found = estimator.advantages(&Rollouts { all: &groups.concat(), groups: &ranges(&sizes) });
    found.into_iter().map(|own| own.map_or(f64::NAN, of_whole)).collect()
}

fn learn(estimator: &mut Skpo, groups: &[Vec<Rollout>]) {
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    estimator.learn(&Rollouts { all: &groups.concat(), groups: &ranges(&sizes) });
}

fn raw() -> Skpo {
    Skpo { upstream_normalisation: Normalisation::Identity, ..Skpo::default() }
}

/// What the other members get, without the upstream members.
fn without(values: Vec<Option<Advantage>>, all: &[Rollout]) -> Vec<Option<Advantage>> {
    let downstream = values.into_iter().zip(all).filter(|(_, own)| own.phase == Phase::Downstream);
    downstream.map(|(value, _)| value).collect()
}

/// A beginning in front of each group of four, with a reward that must not be looked at.
fn begun(all: &[Rollout], reward: Option<f64>) -> Vec<Rollout> {
    let begin = |group: &[Rollout]| {
        let mut group = group.to_vec();
        group.iter_mut().for_each(|own| change(own, &WINS, |wins| wins.insert(0, 1.0)));
        let upstream = Rollout { phase: Phase::Upstream, reward, ..group[0].clone() };
        group.insert(0, upstream);
        group
    };
    all.chunks(4).flat_map(begin).collect()
}

proptest! {
    #[test]
    fn without_beginnings_it_is_grpo_and_with_them_answers_get_what_they_got(all in rollouts(4), seen in rollouts(4)) {
        let groups = |all: &[Rollout], size: usize| ranges(&vec![size; all.len() / size]);
        let mut skpo = Skpo::default();
        skpo.learn(&Rollouts { all: &seen, groups: &groups(&seen, 4) });
        let plain = Grpo::default().advantages(&Rollouts { all: &all, groups: &groups(&all, 4) });
        prop_assert_eq!(&skpo.advantages(&Rollouts { all: &all, groups: &groups(&all, 4) }), &plain);
        let begun = begun(&all, Some(7.0));
        let found = skpo.advantages(&Rollouts { all: &begun, groups: &groups(&begun, 5) });
        prop_assert_eq!(without(found, &begun), plain);
    }

    #[test]
    fn to_every_other_estimator_a_beginning_is_as_good_as_absent(all in rollouts(4)) {
        let begun = begun(&all, Some(7.0));
        let groups = |all: &[Rollout], size: usize| ranges(&vec![size; all.len() / size]);
        for entry in ADVANTAGES {
            let estimator = (entry.build)(&Value::Null).unwrap();
            let found = estimator.advantages(&Rollouts { all: &begun, groups: &groups(&begun, 5) });
            let expected = estimator.advantages(&Rollouts { all: &all, groups: &groups(&all, 4) });
            let upstream = found.iter().step_by(5).flatten().count();
            prop_assert_eq!(upstream > 0, entry.card.id == "skpo" && all.iter().any(|own| own.reward.is_some()));
            prop_assert_eq!(without(found, &begun), expected, "{}", entry.card.id);
        }
    }

    #[test]
    fn beginnings_are_standardised_once_over_the_step(
        groups in prop::collection::vec(prop::collection::vec(0.0..1.0f64, 4), 3..8),
    ) {
        let groups: Vec<Vec<Rollout>> = groups.iter().map(|rewards| group("a", rewards)).collect();
        let upstream = |skpo: &Skpo| -> Vec<f64> { credit(skpo, &groups).into_iter().step_by(5).collect() };
        let (found, raw) = (upstream(&Skpo { upstream_epsilon: 0.0, ..Skpo::default() }), upstream(&raw()));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        prop_assert!(mean(&found).abs() < 1e-9);
        let squares: f64 = found.iter().map(|value| value * value).sum();
        prop_assert!((squares / (found.len() - 1) as f64 - 1.0).abs() < 1e-9, "{found:?}");
        // No second division: the same up to one shift and one scale.
        let slope = (found[1] - found[0]) / (raw[1] - raw[0]);
        for (found, raw_own) in found.iter().zip(&raw) {
            prop_assert!(is_near(*found, slope * (raw_own - mean(&raw)), 1e-6));
        }
        // What beginnings weigh is a factor, and 0 is no upstream loss.
        let half = upstream(&Skpo { upstream_weight: 0.5, ..Skpo::default() });
        let whole = upstream(&Skpo::default());
        prop_assert!(half.iter().zip(&whole).all(|(half, whole)| *half == 0.5 * whole));
        let nothing = upstream(&Skpo { upstream_weight: 0.0, ..Skpo::default() });
        prop_assert!(nothing.iter().all(|value| *value == 0.0));
    }
}

#[test]
fn where_all_answers_earn_the_same_they_get_nothing_and_the_beginning_does() {
    let mut skpo = raw();
    learn(&mut skpo, &[group("a", &[1.0, 0.0, 0.0, 0.0]), group("b", &[1.0, 1.0])]);
    assert_eq!((skpo.value("a"), skpo.value("b"), skpo.value("c")), (1.0 / 3.0, 0.75, 0.5));
    let groups = [group("a", &[1.0; 4]), group("b", &[0.0; 4]), group("c", &[1.0, 0.0])];
    let found = credit(&skpo, &groups);
    assert_eq!(found[..10], [1.0 - 1.0 / 3.0, 0.0, 0.0, 0.0, 0.0, -0.75, 0.0, 0.0, 0.0, 0.0]);
    // As good as the task was: nothing, for a beginning whose answers differ.
    assert!(found[10] == 0.0 && found[11] > 0.0 && found[12] < 0.0);
    // Standardised: the better one above 0, the worse one below.
    let standardised = credit(&Skpo { upstream_normalisation: Normalisation::MeanStd, ..skpo }, &groups);
    assert!(standardised[0] > 0.9 && standardised[5] < -0.9, "{standardised:?}");
    // Alone in its step, it has nothing to be standardised by.
    assert_eq!(credit(&Skpo::default(), &groups[..1])[0], 0.0);
}

#[test]
fn a_beginning_whose_answers_have_no_reward_gets_nothing_and_teaches_nothing() {
    let silent =
        [beginning("a"), Rollout { reward: None, ..answer("a", 0.0) }, answer("a", f64::NAN)].to_vec();
    let found = Skpo::default().advantages(&Rollouts { all: &silent, groups: &[0..3, 3..3] });
    assert_eq!(found, [None, None, None]);
    let mut skpo = Skpo::default();
    learn(&mut skpo, &[silent]);
    assert_eq!(skpo, Skpo::default());
}

#[test]
fn the_mean_of_answers_estimates_the_value_with_the_variance_of_a_share() {
    const DRAWS: usize = 20_000;
    let mut stream = Stream::new(1);
    for (value, continuations) in [(0.2, 1), (0.5, 4), (0.9, 8)] {
        let estimates: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let rewards: Vec<f64> =
                    (0..continuations).map(|_| f64::from(u8::from(stream.uniform() < value))).collect();
                // Minus the prior's half.
                credit(&raw(), &[group("a", &rewards)])[0] + 0.5
            })
            .collect();
        let mean = estimates.iter().sum::<f64>() / DRAWS as f64;
        let variance = estimates.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        let expected = value * (1.0 - value) / continuations as f64;
        assert!((mean - value).abs() < 4.0 * (expected / DRAWS as f64).sqrt(), "{mean} for {value}");
        assert!(is_near(variance / expected, 1.0, 0.05), "{variance} for {expected}");
    }
}

#[test]
fn the_tracker_is_a_running_mean_that_forgets_as_the_policy_moves() {
    let moved = |kl: f64, rewards: &[f64]| -> Vec<Rollout> {
        rewards.iter().map(|reward| answer("a", *reward).with(&TASK_DRIFT, [kl])).collect()
    };
    let after = |kls: [f64; 2]| {
        let mut skpo = Skpo::default();
        learn(&mut skpo, &[moved(kls[0], &[1.0, 1.0, 1.0, 0.0])]);
        learn(&mut skpo, &[moved(kls[1], &[0.0, 0.0]), moved(kls[1], &[1.0, 0.0])]);
        skpo.value("a")
    };
    // Nothing moved: (1 + 3 + 1) / (2 + 4 + 4).
    assert_eq!(after([0.0, 0.0]), 0.5);
    // Half is forgotten, once a step though the task was played twice: (4/2 + 1) / (6/2 + 4).
    assert!(is_near(after([0.0, 0.1]), 3.0 / 7.0, 1e-15));
    // No more than half, however far.
    assert_eq!(after([0.0, f64::INFINITY]), after([0.0, 0.1]));
    assert_eq!(after([0.0, f64::NAN]), after([0.0, 0.1]));
    assert_eq!(after([0.0, -1.0]), after([0.0, 0.0]));
}

#[test]
fn rewards_beyond_success_and_failure_count_as_those() {
    let skpo = Skpo { reward_min: -1.0, reward_max: 3.0, ..raw() };
    let mut learned = skpo.clone();
    // As shares of a success: 0, 1 and a half.
    learn(&mut learned, &[group("a", &[-5.0, 9.0, 1.0])]);
    assert_eq!((skpo.value("a"), learned.value("a")), (1.0, -1.0 + 4.0 * 2.5 / 5.0));
    assert_eq!(credit(&skpo, &[group("a", &[-5.0, 9.0])])[0], 0.0);
    assert_eq!(credit(&skpo, &[group("a", &[9.0, 9.0])])[0], 2.0);
}

#[test]
fn a_single_stream_compares_an_answer_with_what_its_task_earned() {
    let mut spo = Skpo { single_stream: true, ..raw() };
    assert!(!spo.compares_within_groups() && Skpo::default().compares_within_groups());
    learn(&mut spo, &[vec![answer("a", 1.0)], vec![answer("b", 0.0)]]);
    let found = credit(&spo, &[vec![answer("a", 1.0)], vec![answer("b", 1.0)]]);
    assert!(is_near(found[0], 1.0 / 3.0, 1e-15) && is_near(found[1], 2.0 / 3.0, 1e-15), "{found:?}");
}

/// Beginnings whose worth is known: what their task earned before, what four answers earned now, and what beginning and
/// task are worth.
fn measured(skpo: &mut Skpo, beginnings: &[(f64, f64, [f64; 2])]) -> Vec<(String, f64)> {
    let (mut past, mut now) = (Vec::new(), Vec::new());
    for (at, (before, earned, worth)) in beginnings.iter().enumerate() {
        let task = at.to_string();
        // Nothing of the prior is left.
        let sure = |reward: &f64| answer(&task, *reward).with(&TASK_DRIFT, [f64::INFINITY]);
        past.push([*before; 4].iter().map(sure).collect());
        let mut group = group(&task, &[*earned; 4]);
        group[0].facts.set(&WORTH, *worth);
        now.push(group);
    }
    learn(skpo, &past);
    let sizes: Vec<usize> = now.iter().map(Vec::len).collect();
    skpo.metrics(&Rollouts { all: &now.concat(), groups: &ranges(&sizes) })
}

#[test]
fn where_it_is_known_what_beginnings_are_worth_their_credit_is_compared_with_it() {
    let forgets = || Skpo { retention_min: 0.0, measure_every: 1, ..Skpo::default() };
    let of = |beginnings: &[(f64, f64, [f64; 2])]| -> Vec<f64> {
        measured(&mut forgets(), beginnings).into_iter().map(|(_, value)| value).collect()
    };
    // The past is what tasks are worth: all that varies is from the beginnings, and each is judged rightly.
    assert_eq!(of(&[(0.5, 0.75, [0.75, 0.5]), (0.25, 0.0, [0.0, 0.25])]), [0.0, 1.0, 0.0]);
    // Beginnings are as good as their tasks, of which nothing was known: all that varies is from the tasks.
    assert_eq!(of(&[(0.5, 0.75, [0.75, 0.75]), (0.5, 0.0, [0.0, 0.0])]), [1.0, 0.0]);
    // Tasks that are worth more than was known hide what the first beginning spoilt; the last has no difference to see:
    // one of two is judged wrongly, and two of three are told apart.
    let found = of(&[(0.0, 0.75, [0.75, 1.0]), (0.5, 0.0, [0.0, 0.5]), (0.5, 0.5, [0.5, 0.53])]);
    assert!(is_near(found[1], 2.0 / 3.0, 1e-15) && found[2] == 0.5, "{found:?}");
    // As above, by hand: better are 0.75, -0.5 and 0; for their tasks alone 1, 0 and 0.03.
    let [better, task] = [[0.75, -0.5, 0.0], [1.0, 0.0, 0.03]];
    let mean = |values: [f64; 3]| values.iter().sum::<f64>() / 3.0;
    let product = |a: [f64; 3], b: [f64; 3]| {
        a.iter().zip(b).map(|(own, other)| (own - mean(a)) * (other - mean(b))).sum::<f64>()
    };
    assert!(is_near(found[0], product(better, task) / product(better, better), 1e-12), "{found:?}");
    // More answers tell more apart.
    let mut many = Skpo { measure_answers: 4096, ..forgets() };
    assert_eq!(measured(&mut many, &[(0.5, 0.5, [0.5, 0.53]), (0.5, 1.0, [1.0, 0.5])])[1].1, 1.0);
    // Nothing is measured: there is nothing to tell.
    assert!(forgets().metrics(&Rollouts { all: &group("a", &[1.0]), groups: &ranges(&[2]) }).is_empty());
}

#[test]
fn what_beginnings_are_worth_is_asked_for_where_it_is_measured_and_changes_no_credit() {
    let asks = |skpo: &Skpo| skpo.needs().iter().any(|need| *need.fact == WORTH);
    let measuring = Skpo { measure_every: 3, ..Skpo::default() };
    assert!(asks(&measuring) && !asks(&Skpo::default()));
    assert!(measuring.needs().contains(&Worths { every: 3, answers: 256 }.need()));
    let groups = [group("a", &[1.0, 0.0]), group("b", &[1.0, 1.0])];
    let mut told = groups.clone();
    told.iter_mut().for_each(|group| group[0].facts.set(&WORTH, [0.0, 1.0]));
    assert_eq!(credit(&measuring, &told), credit(&Skpo::default(), &groups));
}
