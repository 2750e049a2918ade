//! The pages of `examples/`: the code computes their numbers, and the numbers support their claims.

use burnish_core::rng::Stream;
use std::cmp::Ordering;
use std::path::Path;

#[path = "../../examples/skpo_diagnostic/diagnostic.rs"]
mod diagnostic;
#[path = "../../examples/rdpo_simulation/simulation.rs"]
mod simulation;

use diagnostic::{CONTINUATIONS, Errors, TASK, Task};
use simulation::{Alike, CORRELATIONS, Measured, measure, methods};

#[expect(clippy::unwrap_used, reason = "the page is part of the test")]
fn is_page(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems").join(name);
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written == page, "make systems/{name} again, as it says");
}

#[test]
fn the_pages_are_those_of_the_code() {
    is_page("skpo/results-diagnostic.md", &diagnostic::page());
    is_page("rdpo/results-simulation.md", &simulation::page());
}

/// The sign of the difference of two estimates, from sampled answers.
fn sampled(task: &Task, position: usize, continuations: usize, draws: usize) -> Errors {
    let mut stream = Stream::new(position as u64);
    let (mut errors, mut count) = (Errors::default(), 0.0);
    let end = |good: usize, from: usize, stream: &mut Stream| {
        (from..task.steps).filter(|_| stream.uniform() < task.good).count() + good
    };
    for _ in 0..draws {
        let before = (0..position).filter(|_| stream.uniform() < task.good).count();
        let after = before + usize::from(stream.uniform() < task.good);
        let truth = task.values(position + 1)[after].total_cmp(&task.values(position)[before]);
        let mut right = |good: usize, from: usize| -> usize {
            (0..continuations).filter(|_| 2 * end(good, from, &mut stream) > task.steps).count()
        };
        let (old, new) = (right(before, position), right(after, position + 1));
        if truth != Ordering::Equal {
            errors.wrong += f64::from(u8::from(new.cmp(&old) == truth.reverse()));
            errors.tied += f64::from(u8::from(new == old));
            count += 1.0;
        }
    }
    Errors { wrong: errors.wrong / count, tied: errors.tied / count }
}

#[test]
fn chances_of_errors_are_their_frequencies() {
    const DRAWS: usize = 4000;
    for (position, continuations) in [(0, 1), (3, 8), (9, 4), (14, 2)] {
        let (found, exact) =
            (sampled(&TASK, position, continuations, DRAWS), TASK.dense(position, continuations));
        for (found, exact) in [(found.wrong, exact.wrong), (found.tied, exact.tied)] {
            let error = (exact * (1.0 - exact) / (DRAWS as f64 * TASK.changing(position))).sqrt();
            assert!((found - exact).abs() < 4.0 * error, "{position} {continuations}: {found} for {exact}");
        }
    }
}

#[test]
fn values_are_the_chances_of_enough_good_steps() {
    // By hand: three steps, two of which must be good.
    let task = Task { steps: 3, good: 0.5 };
    assert_eq!(task.values(0), [0.5]);
    assert_eq!(task.values(1), [0.25, 0.75]);
    assert_eq!(task.values(2), [0.0, 0.5, 1.0]);
    assert_eq!(task.values(3), [0.0, 0.0, 1.0, 1.0]);
    // The first step: 1/4 or 3/4 after, 1/2 before.
    let found = task.dense(0, 1);
    assert_eq!((found.wrong, found.tied), (0.125, 0.5));
    assert_eq!(task.changing(2), 0.5);
    assert_eq!(task.outcome(2).rate(), 0.0);
    assert_eq!(task.outcome(0).rate(), 0.25);
    assert_eq!(task.beginning(1, 1).rate(), 0.25);
}

#[test]
fn signs_are_wrong_where_steps_are_early_and_continuations_few() {
    for position in 0..TASK.steps {
        let rates = CONTINUATIONS.map(|count| TASK.dense(position, count).rate());
        assert!(rates.windows(2).all(|pair| pair[1] <= pair[0]), "{position}: {rates:?}");
        let opposite = CONTINUATIONS.map(|count| TASK.dense(position, count).wrong);
        assert!(position == 0 || opposite[3] < TASK.dense(position - 1, 8).wrong, "{position}: {opposite:?}");
    }
    // With eight continuations, dense credit of a step errs more than the outcome alone until late in the answer;
    // credit of one beginning errs less.
    for position in 0..TASK.steps - 3 {
        assert!(TASK.dense(position, 8).rate() > TASK.outcome(position).rate(), "{position}");
        assert!(TASK.beginning(position + 1, 8).rate() < TASK.outcome(position).rate(), "{position}");
    }
}

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn of(method: &str, alike: Alike, correlation: f64) -> Measured {
    let methods = methods();
    let found = methods.iter().find(|(name, _)| *name == method);
    measure(found.map(|(_, own)| own.as_ref()).unwrap(), alike, correlation)
}

#[test]
fn whitening_counts_a_copy_root_two_times_and_sums_count_it_twice() {
    for (method, times) in [("summed GRPO", 2.0), ("GDPO", 2.0), ("RDPO", 2f64.sqrt())] {
        let found = of(method, Alike::Pair, 1.0).counted / of(method, Alike::Pair, 0.0).counted;
        assert!((found - times).abs() < 0.06, "{method}: {found} for {times}");
    }
    let share =
        |method| of(method, Alike::Pair, 1.0).with_correct / of(method, Alike::Pair, 0.0).with_correct;
    assert!(share("RDPO") > 0.97 && share("GDPO") < 0.85, "{} {}", share("RDPO"), share("GDPO"));
}

#[test]
fn the_variance_of_whitened_advantages_does_not_grow_with_correlation() {
    for alike in [Alike::Pair, Alike::All] {
        for method in ["summed GRPO", "GDPO", "quantile only"] {
            let found = CORRELATIONS.map(|correlation| of(method, alike, correlation).variance);
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{method}: {found:?}");
            assert!(of(method, alike, 1.0).with_pair > of(method, alike, 0.0).with_pair, "{method}");
        }
        for method in ["whitening only", "RDPO"] {
            for correlation in CORRELATIONS {
                let found = of(method, alike, correlation).variance;
                assert!((found - 4.0).abs() < 0.2, "{method} {correlation}: {found}");
            }
        }
    }
}
