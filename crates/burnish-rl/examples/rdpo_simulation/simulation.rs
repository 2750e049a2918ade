//! The rewards, the estimators, and the measures of their advantages.

use burnish_core::rng::Stream;
use burnish_rl::advantage::{
    Advantage, Estimator, Gdpo, Grpo, Magnitude, Rdpo, Rollout, Rollouts, Scale, Whiten,
};
use burnish_rl::fact::COMPONENTS;
use std::ops::Range;

const SEEDS: u64 = 8;
const GROUPS: usize = 256;
const GROUP_SIZE: usize = 8;
pub(crate) const CORRELATIONS: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

/// Which rewards are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alike {
    /// Style repeats format.
    Pair,
    /// All four depend on the same hidden number.
    All,
}

/// Correct (yes or no), format (yes or no), style (yes or no), and length (a number without bounds).
const CORRECT: usize = 0;
const FORMAT: usize = 1;
const STYLE: usize = 2;

/// A step's rollouts: with probability `correlation`, a reward depends on the same number as the rewards that it is
/// like.
fn rollouts(alike: Alike, correlation: f64, seed: u64) -> Vec<Rollout> {
    let mut stream = Stream::new(seed);
    let rollout = |_| {
        // The same numbers are drawn at every correlation.
        let draws: Vec<f64> = (0..9).map(|_| stream.uniform()).collect();
        let (own, chance, shared) = (&draws[..4], &draws[4..8], draws[8]);
        let decides = |at: usize| match alike {
            Alike::Pair if at == STYLE && chance[at] < correlation => own[FORMAT],
            // Both of two rewards do so with the product of their probabilities.
            Alike::All if chance[at] < correlation.sqrt() => shared,
            _ => own[at],
        };
        let yes = |at: usize| f64::from(u8::from(decides(at) > 0.5));
        let components = vec![yes(CORRECT), yes(FORMAT), yes(STYLE), -(1.0 - decides(3)).ln()];
        Rollout::of_reward(Some(components.iter().sum())).with(&COMPONENTS, components)
    };
    (0..GROUPS * GROUP_SIZE).map(rollout).collect()
}

/// What is compared, before anything is standardised over the step.
pub(crate) fn methods() -> [(&'static str, Box<dyn Estimator>); 5] {
    let rdpo = Rdpo { normalise: Whiten::None, ..Rdpo::default() };
    [
        ("summed GRPO", Box::new(Grpo { scale: Scale::None, ..Grpo::default() })),
        ("GDPO", Box::new(Gdpo { whiten: Whiten::None, ..Gdpo::default() })),
        ("quantile only", Box::new(Rdpo { whitening: false, ..rdpo.clone() })),
        ("whitening only", Box::new(Rdpo { quantile: false, magnitude: Magnitude::None, ..rdpo.clone() })),
        ("RDPO", Box::new(rdpo)),
    ]
}

/// Measures of the advantages of one method.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Variance.
    pub(crate) variance: f64,
    /// Correlation with format + style, the direction that two rewards share.
    pub(crate) with_pair: f64,
    /// Correlation with correctness.
    pub(crate) with_correct: f64,
    /// Correlation with format divided by that with correctness: how many times format counts.
    pub(crate) counted: f64,
}

/// The mean over seeds.
pub(crate) fn measure(estimator: &dyn Estimator, alike: Alike, correlation: f64) -> Measured {
    let groups: Vec<Range<usize>> = (0..GROUPS).map(|at| at * GROUP_SIZE..(at + 1) * GROUP_SIZE).collect();
    let mut mean = Measured::default();
    for seed in 0..SEEDS {
        let all = rollouts(alike, correlation, seed);
        let credit = estimator.advantages(&Rollouts { all: &all, groups: &groups });
        let credit: Vec<f64> = credit.iter().flatten().map(Advantage::mean).collect();
        let reward = |of: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            centred(all.iter().map(|rollout| of(rollout.facts.of(&COMPONENTS))).collect())
        };
        let with = |of: &dyn Fn(&[f64]) -> f64| {
            let reward = reward(of);
            dot(&credit, &reward) / (dot(&credit, &credit) * dot(&reward, &reward)).sqrt()
        };
        let (correct, format) = (with(&|own| own[CORRECT]), with(&|own| own[FORMAT]));
        let share = 1.0 / SEEDS as f64;
        mean.variance += share * dot(&credit, &credit) / credit.len() as f64;
        mean.with_pair += share * with(&|own| own[FORMAT] + own[STYLE]);
        mean.with_correct += share * correct;
        mean.counted += share * format / correct;
    }
    mean
}

/// Minus the mean of each group, like advantages.
fn centred(mut values: Vec<f64>) -> Vec<f64> {
    for group in values.chunks_mut(GROUP_SIZE) {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        group.iter_mut().for_each(|value| *value -= mean);
    }
    values
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn table(alike: Alike, of: impl Fn(Measured, Measured) -> f64) -> String {
    let methods = methods();
    let names: Vec<&str> = methods.iter().map(|(name, _)| *name).collect();
    let head = format!("| correlation | {} |\n| --- {}|\n", names.join(" | "), "| --- ".repeat(names.len()));
    let uncorrelated: Vec<Measured> =
        methods.iter().map(|(_, own)| measure(own.as_ref(), alike, 0.0)).collect();
    let row = |correlation: &f64| {
        let cell = |((_, own), before): (&(_, Box<dyn Estimator>), &Measured)| {
            format!("{:.2}", of(measure(own.as_ref(), alike, *correlation), *before))
        };
        let cells: Vec<String> = methods.iter().zip(&uncorrelated).map(cell).collect();
        format!("| {correlation:.1} | {} |\n", cells.join(" | "))
    };
    head + &CORRELATIONS.iter().map(row).collect::<String>()
}

/// `systems/rdpo/results-simulation.md`.
pub(crate) fn page() -> String {
    format!(
        "# Correlated rewards: what estimators make of them

What RDPO (`advantage.estimator = \"rdpo\"`) is for: a reward that two components report counts twice in their sum, and the
variance of the advantage grows with their correlation.

Made by `cargo run --release -p burnish-rl --example rdpo_simulation > systems/rdpo/results-simulation.md`. A simulation of rewards:
no policy is trained. A test compares the page with the code.

**The rewards.** Four components of one task: *correct*, *format* and *style*, which are 0 or 1 with equal chances, and *length*,
an exponential number. {GROUPS} groups of {GROUP_SIZE} rollouts, {SEEDS} seeds, the same random numbers for every method and correlation.
All methods with their default settings, before any standardisation over the step: *summed GRPO* without division, *GDPO*
and RDPO as sums. *Quantile only* is RDPO without whitening, *whitening only* is RDPO with z-scores in place of ranks. RDPO is
reconstructed from its abstract; see the head of its file.

## Style repeats format

### How often format counts

Correlation of the advantage with format over that with correctness. 1: the same for both.

{counted}
### Correlation of the advantage with format + style

{pair}
### Correlation of the advantage with correctness

{correct}
### Variance of the advantage

Over that of the same method without correlation.

{variance}
## All four share what decides them

### Variance of the advantage

Over that of the same method without correlation.

{variance_all}
## How to read this

Where style is a copy of format, format counts {gdpo:.2} times in GDPO and {rdpo:.2} times in RDPO: whitening makes two of one
direction count √2 and not 2 times (a little more, for its covariance is shrunk), and does not bring it down to 1. Ranks
alone do nothing against it. The variance of a sum of whitened components is their number, whatever their correlation was
(but for the shrinkage), and that of the others grows.
",
        counted = table(Alike::Pair, |now, _| now.counted),
        pair = table(Alike::Pair, |now, _| now.with_pair),
        correct = table(Alike::Pair, |now, _| now.with_correct),
        variance = table(Alike::Pair, |now, before| now.variance / before.variance),
        variance_all = table(Alike::All, |now, before| now.variance / before.variance),
        gdpo = measure(methods()[1].1.as_ref(), Alike::Pair, 1.0).counted,
        rdpo = measure(methods()[4].1.as_ref(), Alike::Pair, 1.0).counted,
    )
}
