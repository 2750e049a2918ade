//! verl 0.9.1's own numbers on TRL's batches, made by `tests/golden/make_verl.py`.

use crate::common::{clip, group_relative, is_near, loss};
use crate::trl;
use burnish_rl::advantage::{Grpo, Scale};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::{LossConfig, Objective, PolicyLoss, Totals};
use serde::Deserialize;

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-11;

#[derive(Deserialize)]
struct Golden {
    losses: Vec<LossCase>,
    advantages: Vec<AdvantageCase>,
}

#[derive(Deserialize)]
struct LossCase {
    batch: String,
    loss_agg_mode: String,
    kl_loss_coef: f64,
    clip_ratio_c: f64,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    pg_clipfrac: f64,
}

#[derive(Deserialize)]
struct AdvantageCase {
    name: String,
    group_size: usize,
    norm_adv_by_std_in_grpo: bool,
    rewards: Vec<f64>,
    advantages: Vec<f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/verl.json")).unwrap()
}

impl LossCase {
    /// As `docs/coming-from-verl.md` translates `loss_agg_mode`.
    fn aggregation(&self) -> Aggregation {
        match self.loss_agg_mode.as_str() {
            "seq-mean-token-mean" => Aggregation::Grpo,
            "seq-mean-token-sum-norm" => Aggregation::DrGrpo,
            _ => Aggregation::Bnpo,
        }
    }

    fn objective(&self) -> PolicyLoss {
        loss(LossConfig {
            config: clip(0.2, 0.28),
            beta: self.kl_loss_coef,
            use_bias_correction_kl: false,
            aggregation: self.aggregation(),
            ..LossConfig::default()
        })
    }

    /// In its mean over the tokens of a sequence, verl adds 1e-8 to their number.
    fn tolerance(&self) -> f64 {
        if self.aggregation() == Aggregation::Grpo { 1e-8 } else { TOLERANCE }
    }

    /// Is verl's third bound, on the loss for negative advantages, so low that ratios reach it?
    fn is_clipped_twice(&self) -> bool {
        self.clip_ratio_c == 3.0 && self.batch == "ragged"
    }
}

#[test]
fn loss_gradient_and_clipped_share_are_those_of_verl_as_long_as_no_ratio_reaches_its_third_bound() {
    let batches = trl::batches();
    let (mut equal, mut bounded) = (0, 0);
    for case in golden().losses {
        let batch = &batches[&case.batch];
        let totals = Totals { completion_tokens_max: trl::completion_tokens_max(), ..batch.totals() };
        let found = case.objective().evaluate(&batch.streams(), &totals);
        let what = format!("{} {} {}", case.batch, case.loss_agg_mode, case.kl_loss_coef);
        if case.is_clipped_twice() {
            assert!(found.loss > case.loss + 0.1, "{what}: {} and {}", found.loss, case.loss);
            bounded += 1;
            continue;
        }
        assert!(is_near(found.loss, case.loss, case.tolerance()), "{what}: {} for {}", found.loss, case.loss);
        for (found, expected) in found.d_policy.iter().zip(case.gradient.concat()) {
            assert!(is_near(*found, expected, case.tolerance()), "{what}: gradient {found} for {expected}");
        }
        let clipped = found.metrics.iter().find(|metric| metric.name == "clip_ratio/region_mean");
        let clipped = clipped.map(|metric| metric.sum / metric.weight).unwrap_or(f64::NAN);
        assert!(is_near(clipped, case.pg_clipfrac, 1e-6), "{what}: {clipped} for {}", case.pg_clipfrac);
        equal += 1;
    }
    assert_eq!((equal, bounded), (30, 6));
}

#[test]
fn advantages_are_those_of_verl_but_in_groups_of_one() {
    let cases = golden().advantages;
    assert_eq!(cases.len(), 8);
    for case in cases {
        let scale = if case.norm_adv_by_std_in_grpo { Scale::Group } else { Scale::None };
        let config = Grpo { scale, epsilon: 1e-6, ..Grpo::default() };
        let rewards: Vec<Option<f64>> = case.rewards.iter().copied().map(Some).collect();
        let credit = group_relative(&rewards, case.group_size, &config);
        for ((found, expected), reward) in credit.advantages.iter().zip(&case.advantages).zip(&case.rewards) {
            let what = format!("{}, {scale:?}", case.name);
            let found = found.unwrap_or(f64::NAN);
            if case.group_size == 1 {
                assert!(found == 0.0 && is_near(*expected, *reward, 1e-5), "{what}: {found}, {expected}");
            } else {
                assert!(is_near(found, *expected, TOLERANCE), "{what}: {found} for {expected}");
            }
        }
    }
}
