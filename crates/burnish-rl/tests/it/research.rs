//! Objectives for stale rollouts and for entropy: their frameworks' own numbers, made by
//! `tests/golden/make_research.py`.

use crate::common::{Batch, Rows, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::catalogue::{self, OBJECTIVES};
use burnish_rl::{
    BatchConstant, Evaluation, LossConfig, Objective, PolicyLoss, Streams, TokenLoss, Tokens, Totals,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-11;

#[derive(Deserialize)]
struct Golden {
    batches: BTreeMap<String, Rows>,
    cases: Vec<Case>,
    drops: Vec<Drop>,
}

#[derive(Deserialize)]
struct Case {
    objective: String,
    config: Value,
    batch: String,
    aggregation: Aggregation,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    /// How many of the first candidates, row by row, were chosen.
    chosen: Option<usize>,
}

#[derive(Deserialize)]
struct Drop {
    rewards: Vec<f64>,
    advantages: Vec<f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/research.json")).unwrap()
}

/// A batch whose tokens another policy sampled.
pub(crate) struct Stale {
    pub(crate) batch: Batch,
    pub(crate) behavior: Vec<f64>,
}

impl Stale {
    fn of_rows(rows: &Rows) -> Self {
        Stale { batch: rows.batch(), behavior: rows.behavior.concat() }
    }

    fn streams(&self) -> Streams<'_> {
        Streams { behavior: &self.behavior, reference: None, teacher: None, ..self.batch.streams() }
    }

    pub(crate) fn batch_constants(&self, objective: &PolicyLoss) -> Vec<BatchConstant> {
        objective.batch_constants(&self.streams(), &self.batch.totals())
    }

    fn evaluate(&self, objective: &PolicyLoss, batch_constants: &[BatchConstant]) -> Evaluation {
        objective.evaluate(&Streams { batch_constants, ..self.streams() }, &self.batch.totals())
    }
}

/// An objective under the mean over tokens.
pub(crate) fn objective(id: &str, config: Value) -> PolicyLoss {
    let aggregation = Aggregation::Bnpo;
    loss(LossConfig { objective: id.into(), config, aggregation, ..LossConfig::default() })
}

/// A token loss by itself.
#[expect(clippy::unwrap_used, reason = "a test says what is right")]
pub(crate) fn token_loss(id: &str, config: &Value) -> Box<dyn TokenLoss> {
    (catalogue::find(OBJECTIVES, "objective", id).unwrap().build)(config).unwrap()
}

#[test]
fn loss_and_gradient_are_those_of_the_frameworks() {
    let golden = golden();
    let mut marked = BTreeMap::new();
    for case in &golden.cases {
        let stale = Stale::of_rows(&golden.batches[&case.batch]);
        let config = LossConfig {
            objective: case.objective.clone(),
            config: case.config.clone(),
            aggregation: case.aggregation,
            ..LossConfig::default()
        };
        let own = loss(config.clone());
        let what = format!("{} {} {}", case.objective, case.config, case.batch);
        let mut batch_constants = stale.batch_constants(&own);
        if let Some(chosen) = case.chosen {
            let found = batch_constants.iter().filter(|mark| mark.value == 1.0).count();
            assert_eq!(found, chosen, "{what}");
            // Which tokens were drawn depends on torch's generator; which ones could have been drawn does not.
            let mut all = config.clone();
            all.config["clip_cov_ratio"] = json!(1.0);
            batch_constants = stale.batch_constants(&loss(all));
            batch_constants
                .iter_mut()
                .filter(|mark| mark.value == 1.0)
                .skip(chosen)
                .for_each(|mark| mark.value = 0.0);
        }
        *marked.entry(case.objective.as_str()).or_insert(0) +=
            batch_constants.iter().filter(|mark| mark.value == 1.0).count();
        let found = stale.evaluate(&own, &batch_constants);
        assert!(is_near(found.loss, case.loss, TOLERANCE), "{what}: {} for {}", found.loss, case.loss);
        for (found, expected) in found.d_policy.iter().zip(case.gradient.concat()) {
            assert!(is_near(*found, expected, TOLERANCE), "{what}: gradient {found} for {expected}");
        }
    }
    let compared: Vec<&str> = marked.keys().copied().collect();
    assert_eq!(compared, ["asymre", "clip_cov", "kl_cov", "m2po", "mdpo", "opmd", "opmd_kimi", "rec", "red"]);
    assert!(["clip_cov", "kl_cov", "m2po"].iter().all(|id| marked[id] > 10), "{marked:?}");
}

#[test]
fn red_drop_leaves_the_advantages_that_trinity_leaves_in_one_group() {
    for Drop { rewards, advantages } in golden().drops {
        let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
        let advantage: Vec<f64> = rewards.iter().map(|reward| reward - mean).collect();
        let zeros = vec![0.0; rewards.len()];
        let sequences: Vec<Range<usize>> = (0..rewards.len()).map(|at| at..at + 1).collect();
        let batch = Tokens {
            policy: &zeros,
            detached: &zeros,
            proximal: &zeros,
            behavior: &zeros,
            teacher: &[],
            entropy: &zeros,
            advantage: &advantage,
            facts: &[],
            batch_constants: &[],
            sequences: &sequences,
        };
        let mut found = token_loss("red", &Value::Null).batch_constants(&batch, 3);
        found.sort_by(f64::total_cmp);
        // Trinity computes in f32.
        let near = found.iter().zip(&advantages).all(|(found, expected)| is_near(*found, *expected, 1e-6));
        assert!(near, "{rewards:?}: {found:?} for {advantages:?}");
    }
}

#[test]
fn clip_cov_draws_every_candidate_as_often_under_seeds_of_its_own() {
    let golden = golden();
    let stale = Stale::of_rows(&golden.batches["near"]);
    let config = json!({ "clip_cov_ratio": 0.0002, "clip_cov_lb": 0.05, "clip_cov_ub": 2.0 });
    let clip_cov = objective("clip_cov", config);
    let draw = |seed| {
        let totals = Totals { seed, ..stale.batch.totals() };
        clip_cov.batch_constants(&stale.streams(), &totals).iter().position(|mark| mark.value == 1.0).unwrap()
    };
    let mut counts = BTreeMap::new();
    for seed in 0..9000 {
        *counts.entry(draw(seed)).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 9);
    // Six standard deviations of a binomial count.
    assert!(counts.values().all(|count: &i32| (count - 1000).abs() < 180), "{counts:?}");
    assert_eq!(draw(5), draw(5));
}
