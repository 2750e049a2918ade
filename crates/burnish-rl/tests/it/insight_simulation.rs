//! The simulation behind systems/insight/results-simulation.md.

#[path = "../../examples/insight_bandit/simulation.rs"]
#[allow(dead_code, reason = "the example makes the page")]
mod simulation;

use std::path::Path;

use simulation::{Outcome, arms, mean, row, run, runs, runs_of_page};

/// The numbers of a row, in their order.
fn numbers(row: &str) -> Vec<f64> {
    let parts = row.split(|char: char| !(char.is_ascii_digit() || char == '.'));
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[test]
fn the_rows_of_the_page_are_what_the_simulation_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/insight/results-simulation.md");
    let page = std::fs::read_to_string(path).unwrap();
    let arms = arms();
    for arm in &arms {
        assert!(page.contains(&format!("| {} |", arm.name)), "{} is not on the page", arm.name);
    }
    let uniform = runs_of_page(&arms[0]);
    let insight = arms.iter().find(|arm| arm.name == "insight, w = product").unwrap();
    for (arm, found) in [(&arms[0], &uniform), (insight, &runs_of_page(insight))] {
        let expected = row(arm, found, &uniform);
        let shown = page.lines().find(|line| line.starts_with(&format!("| {} |", arm.name))).unwrap();
        // Another machine's logarithm may differ in its last bit, and a choice with it.
        let (shown, expected) = (numbers(shown), numbers(&expected));
        assert_eq!(shown.len(), expected.len(), "{shown:?} for {expected:?}");
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 0.02 * b.abs() + 0.5;
        assert!(shown.iter().zip(&expected).all(is_near), "{shown:?} for {expected:?}: make the page again");
    }
}

#[test]
fn a_simulation_repeats_itself_and_seeds_differ() {
    let arms = arms();
    for arm in &arms {
        let (once, again) = (run(arm, 3, 5000), run(arm, 3, 5000));
        assert_eq!(once.scores, again.scores, "{}", arm.name);
        assert_ne!(once.scores, run(arm, 4, 5000).scores, "{}", arm.name);
        assert_eq!(once.scores.len(), 4);
    }
}

#[test]
fn selectors_that_see_difficulty_sample_fewer_groups_that_teach_nothing() {
    let arms = arms();
    let zero = |name: &str| {
        let arm = arms.iter().find(|arm| arm.name == name).unwrap();
        let found: Vec<Outcome> = runs(arm, 3, 25_600);
        mean(&found.iter().map(|outcome| outcome.zero_variance).collect::<Vec<_>>())
    };
    let uniform = zero("uniform");
    for name in ["mopps", "difficulty", "insight, w = additive", "insight, w = product"] {
        assert!(zero(name) < uniform - 0.02, "{name}: {} for {uniform}", zero(name));
    }
    // A control: looking at evidence alone is as good as none.
    assert!((zero("evidence") - uniform).abs() < 0.05);
}
