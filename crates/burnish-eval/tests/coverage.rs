//! How often a study's interval holds the true effect, by simulation. The table in `docs/study.md` is what this finds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;

use burnish_core::rng::{Stream, bits};
use burnish_eval::{Estimate, smallest_detectable};

const TRIALS: u64 = 20_000;

/// A distribution of the difference between two arms on one seed, with its true mean.
struct Differences {
    name: &'static str,
    mean: f64,
    draw: fn(&mut Stream) -> f64,
    is_normal: bool,
}

/// The difference of two success rates over 200 held-out tasks, each around 50 %, that differ by nothing else.
fn of_tasks(stream: &mut Stream) -> f64 {
    let solved = |stream: &mut Stream| (0..200).filter(|_| stream.uniform() < 0.5).count() as f64 / 200.0;
    solved(stream) - solved(stream)
}

const ALL: [Differences; 8] = [
    Differences {
        name: "normal, spread 1 point",
        mean: 0.02,
        draw: |stream| 0.02 + 0.01 * stream.normal(),
        is_normal: true,
    },
    Differences {
        name: "normal, spread 5 points",
        mean: 0.0,
        draw: |stream| 0.05 * stream.normal(),
        is_normal: true,
    },
    Differences {
        name: "normal, spread 5 points, and 200 tasks",
        mean: 0.0,
        draw: |stream| 0.05 * stream.normal() + of_tasks(stream),
        is_normal: true,
    },
    Differences {
        name: "normal, spread 20 points",
        mean: -0.1,
        draw: |stream| -0.1 + 0.2 * stream.normal(),
        is_normal: true,
    },
    Differences {
        name: "one seed in five loses 40 points, spread 3 points",
        mean: -0.08,
        draw: |stream| 0.03 * stream.normal() - if stream.uniform() < 0.2 { 0.4 } else { 0.0 },
        is_normal: false,
    },
    Differences {
        name: "every second seed loses 40 points, spread 3 points",
        mean: -0.2,
        draw: |stream| 0.03 * stream.normal() - if stream.uniform() < 0.5 { 0.4 } else { 0.0 },
        is_normal: false,
    },
    Differences {
        name: "skewed: log-normal (sigma 1), median 5 points",
        // exp(1/2)
        mean: 0.05 * 1.648_721_270_700_128,
        draw: |stream| 0.05 * stream.normal().exp(),
        is_normal: false,
    },
    Differences {
        name: "skewed: exponential, mean 5 points",
        mean: 0.05,
        draw: |stream| -0.05 * (1.0 - stream.uniform()).ln(),
        is_normal: false,
    },
];

/// The share of `TRIALS` studies of `seeds` seeds for which `is_so` holds.
fn share(
    world: u64,
    draw: impl Fn(&mut Stream) -> f64,
    seeds: usize,
    is_so: impl Fn(Estimate) -> bool,
) -> f64 {
    let held = (0..TRIALS).filter(|trial| {
        let mut stream = Stream::new(bits(world + 100 * seeds as u64, *trial));
        let values: Vec<f64> = (0..seeds).map(|_| draw(&mut stream)).collect();
        is_so(Estimate::of(&values).unwrap())
    });
    held.count() as f64 / TRIALS as f64
}

fn coverage(world: u64, of: &Differences, seeds: usize) -> f64 {
    share(world, of.draw, seeds, |found| {
        let [low, high] = found.interval().unwrap();
        (low..=high).contains(&of.mean)
    })
}

#[test]
fn intervals_of_five_and_ten_seeds_hold_the_true_effect_as_often_as_they_say_and_the_docs_have_the_table() {
    let mut table = String::from(
        "| differences between seeds | 3 seeds | 5 seeds | 10 seeds |\n| --- | --- | --- | --- |\n",
    );
    for (world, of) in (0..).zip(&ALL) {
        let [three, five, ten] = [3, 5, 10].map(|seeds| coverage(world, of, seeds));
        if of.is_normal {
            for held in [five, ten] {
                assert!((0.93..=0.97).contains(&held), "{}: {held}", of.name);
            }
        }
        let percent = |held: f64| format!("{:.1} %", 100.0 * held);
        writeln!(table, "| {} | {} | {} | {} |", of.name, percent(three), percent(five), percent(ten))
            .unwrap();
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study.md");
    let text = std::fs::read_to_string(docs).unwrap();
    assert!(text.contains(&table), "docs/study.md lacks this table:\n{table}");
}

#[test]
fn an_effect_of_the_smallest_detectable_size_is_found_in_about_80_of_100_studies() {
    for (seeds, tests) in [(5, 1), (10, 1), (5, 2)] {
        let effect = smallest_detectable(0.05, seeds, tests).unwrap();
        let of_size = 0.05 / tests as f64;
        let found = |times: f64| {
            share(
                50,
                |stream| times * effect + 0.05 * stream.normal(),
                seeds,
                |found| found.p_value().unwrap() < of_size,
            )
        };
        let (whole, none) = (found(1.0), found(0.0));
        assert!((0.76..0.86).contains(&whole), "{seeds} seeds, {tests} tests: {whole}");
        assert!((none - of_size).abs() < 0.006, "{seeds} seeds, {tests} tests: {none}");
    }
}
