//! What objectives for stale rollouts and for entropy reduce to, and how many tokens they touch.

use crate::common::{Batch, batches, clip, is_near, loss};
use crate::research::{Stale, objective, token_loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::objective::covariances;
use burnish_rl::rules::{self, Setup};
use burnish_rl::{LossConfig, Losses, Objective, PolicyLoss, Tokens, advantage::AdvantageConfig};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::slice;

/// `-r·A` with no bound that a number could reach.
fn unbounded() -> PolicyLoss {
    objective("ppo_clip", clip(1.0, 1e300))
}

fn reinforce() -> PolicyLoss {
    objective("rec", json!({ "clip": "none" }))
}

/// The loss tokens of a batch, and their covariances.
fn tokens_in_loss(batch: &Batch) -> (Vec<usize>, Vec<f64>) {
    let positions: Vec<usize> = (0..batch.policy.len()).filter(|at| batch.loss_mask[*at]).collect();
    let column = |stream: &[f64]| positions.iter().map(|at| stream[*at]).collect::<Vec<f64>>();
    let (policy, proximal) = (column(&batch.policy), column(&batch.proximal));
    let tokens = Tokens {
        policy: &policy,
        detached: &policy,
        proximal: &proximal,
        behavior: &proximal,
        teacher: &[],
        entropy: &column(&batch.entropy),
        advantage: &column(&batch.advantage),
        facts: &[],
        batch_constants: &[],
        sequences: &[],
    };
    let covariances = covariances(&tokens);
    (positions, covariances)
}

fn chosen(batch: &Batch, objective: &PolicyLoss) -> Vec<usize> {
    let batch_constants = batch.marked(objective).batch_constants;
    (0..batch_constants.len()).filter(|at| batch_constants[*at].value == 1.0).collect()
}

/// As many as a share is: at least one.
fn share_of(share: f64, tokens: usize) -> usize {
    ((share * tokens as f64).floor() as usize).max(1)
}

proptest! {
    #[test]
    fn kl_cov_penalises_exactly_its_share_of_the_largest_covariances(batch in batches(1.0), share in 0.001..1.0f64) {
        let (positions, covariances) = tokens_in_loss(&batch);
        prop_assume!(!positions.is_empty());
        let penalised = chosen(&batch, &objective("kl_cov", json!({ "kl_cov_ratio": share })));
        prop_assert_eq!(penalised.len(), share_of(share, positions.len()));
        prop_assert!(penalised.iter().all(|at| batch.loss_mask[*at]));
        let (inside, outside): (Vec<_>, Vec<_>) =
            positions.iter().zip(covariances).partition(|(at, _)| penalised.contains(at));
        let least = inside.iter().map(|(_, covariance)| *covariance).fold(f64::INFINITY, f64::min);
        prop_assert!(outside.iter().all(|(_, covariance)| *covariance <= least));
    }

    #[test]
    fn clip_cov_leaves_out_its_share_of_the_candidates_and_no_other(batch in batches(1.0), share in 0.001..1.0f64) {
        let (positions, covariances) = tokens_in_loss(&batch);
        let ratio = |at: usize| (batch.policy[at] - batch.proximal[at]).exp();
        let is_clipped = |at: usize| {
            (batch.advantage[at] > 0.0 && ratio(at) > 1.3) || (batch.advantage[at] < 0.0 && ratio(at) < 0.8)
        };
        let candidates: Vec<usize> = positions
            .iter()
            .zip(covariances)
            .filter(|(at, covariance)| *covariance > 0.1 && *covariance < 2.0 && !is_clipped(**at))
            .map(|(at, _)| *at)
            .collect();
        let config = json!({
            "clip_cov_ratio": share, "clip_cov_lb": 0.1, "clip_cov_ub": 2.0, "epsilon_low": 0.2, "epsilon_high": 0.3,
        });
        let clip_cov = objective("clip_cov", config);
        let left_out = chosen(&batch, &clip_cov);
        prop_assert_eq!(left_out.len(), share_of(share, positions.len()).min(candidates.len()));
        prop_assert!(left_out.iter().all(|at| candidates.contains(at)));
        let found = batch.evaluate(&clip_cov);
        prop_assert!(left_out.iter().all(|at| found.d_policy[*at] == 0.0));
        let share = found.metrics.iter().find(|metric| metric.name == "clip_cov/detached_mean");
        prop_assert_eq!(share.map_or(0.0, |metric| metric.sum), left_out.len() as f64);
    }

    #[test]
    fn a_share_of_0_is_the_loss_without_it_to_the_bit(batch in batches(2.0)) {
        let bounds = clip(0.2, 0.28);
        let mut config = bounds.clone();
        config["clip_cov_ratio"] = json!(0.0);
        let clip_cov = objective("clip_cov", config);
        let kl_cov = objective("kl_cov", json!({ "kl_cov_ratio": 0.0 }));
        prop_assert!(!clip_cov.needs().batch_constants && !kl_cov.needs().batch_constants);
        for (found, base) in [(clip_cov, objective("ppo_clip", bounds)), (kl_cov, unbounded())] {
            let (found, base) = (batch.evaluate(&found), batch.evaluate(&base));
            prop_assert_eq!((found.loss, found.d_policy), (base.loss, base.d_policy));
        }
    }

    #[test]
    fn rec_with_importance_weights_has_the_gradient_of_the_clipped_surrogate(batch in batches(1.0)) {
        let bounds = json!({ "weight": "is", "epsilon_low": 0.2, "epsilon_high": 0.28 });
        let rec = |clip: &str| {
            let mut config = bounds.clone();
            config["clip"] = json!(clip);
            batch.evaluate(&objective("rec", config)).d_policy
        };
        let surrogate = batch.evaluate(&objective("ppo_clip", clip(0.2, 0.28))).d_policy;
        prop_assert_eq!(&rec("one_side"), &surrogate);
        prop_assert_eq!(rec("none"), batch.evaluate(&unbounded()).d_policy);
        for (at, two_side) in rec("two_side").into_iter().enumerate() {
            let ratio = (batch.policy[at] - batch.proximal[at]).exp();
            let expected = if (0.8..=1.28).contains(&ratio) { surrogate[at] } else { 0.0 };
            prop_assert_eq!(two_side, expected);
        }
    }

    #[test]
    fn the_variants_of_reinforce_are_reinforce_where_their_cards_say_so(batch in batches(1.0)) {
        let base = batch.evaluate(&reinforce());
        for (id, config) in [
            ("asymre", json!({ "baseline_shift": 0.0 })),
            ("opmd", json!({ "tau": 0.0 })),
            ("opmd", json!({ "variant": "minimal", "tau": 0.0 })),
        ] {
            let found = batch.evaluate(&objective(id, config));
            prop_assert_eq!((found.loss, found.d_policy), (base.loss, base.d_policy.clone()), "{}", id);
        }
        let still = batch.clone().on_policy();
        let opmd = still.evaluate(&objective("opmd", Value::Null));
        prop_assert_eq!(opmd.d_policy, still.evaluate(&reinforce()).d_policy);
        // On tokens that are sequences, and on a policy that has not moved.
        let grpo = |id: &str, config: Value, batch: &Batch| {
            let aggregation = Aggregation::Grpo;
            batch.evaluate(&loss(LossConfig { objective: id.into(), config, aggregation, ..LossConfig::default() }))
        };
        let single = Batch { sequences: (0..batch.policy.len()).map(|at| at..at + 1).collect(), ..batch.clone() };
        for tau in [0.0, 0.7] {
            let [found, base] = ["opmd_kimi", "opmd"].map(|id| grpo(id, json!({ "tau": tau }), &single));
            prop_assert_eq!((found.loss, found.d_policy), (base.loss, base.d_policy));
        }
        let free = grpo("opmd_kimi", json!({ "tau": 0.0 }), &batch).d_policy;
        prop_assert_eq!(grpo("opmd_kimi", Value::Null, &still).d_policy, free.clone());
        for range in &batch.sequences {
            for at in range.clone().filter(|at| batch.loss_mask[*at]) {
                let summed = -batch.advantage[at] / batch.sequences.len() as f64;
                prop_assert!(is_near(free[at], summed, 1e-12), "{} for {summed}", free[at]);
            }
        }
        // However positive a batch is, nothing is dropped where nothing is negative.
        let positive = Batch { advantage: batch.advantage.iter().map(|a| a.abs()).collect(), ..batch.clone() };
        let (red, base) = (positive.evaluate(&objective("red", Value::Null)), positive.evaluate(&reinforce()));
        prop_assert_eq!((red.loss, red.d_policy), (base.loss, base.d_policy));
        let hot = batch.evaluate(&objective("red", json!({ "mode": "weight", "temperature": 1e12 })));
        let base = batch.evaluate(&reinforce());
        prop_assert!(hot.d_policy.iter().zip(base.d_policy).all(|(found, base)| is_near(*found, base, 1e-9)));
    }

    #[test]
    fn asymre_is_reinforce_with_another_baseline(batch in batches(1.0), rewards in prop::collection::vec(0..5i32, 7)) {
        // Quarters, so that every difference is exact.
        let rewards: Vec<f64> = rewards.into_iter().map(|reward| f64::from(reward) * 0.25).collect();
        let (mean, shift) = (1.25, -0.5);
        let with_baseline = |baseline: f64| {
            let mut credited = batch.clone();
            for (range, reward) in batch.sequences.iter().zip(&rewards) {
                credited.advantage[range.clone()].fill(reward - baseline);
            }
            credited
        };
        let asymre = with_baseline(mean).evaluate(&objective("asymre", json!({ "baseline_shift": shift })));
        let shifted = with_baseline(mean + shift).evaluate(&reinforce());
        prop_assert_eq!((asymre.loss, asymre.d_policy), (shifted.loss, shifted.d_policy));
    }

    #[test]
    fn red_drops_surplus_negatives_only_and_the_rest_has_mean_0(batch in batches(1.0)) {
        let batch = batch.unmasked();
        let of = |stream: &[f64]| batch.sequences.iter().map(|range| stream[range.start]).collect::<Vec<f64>>();
        let before = of(&batch.advantage);
        let negatives = before.iter().filter(|advantage| **advantage < 0.0).count();
        let surplus = negatives.saturating_sub(before.len() - negatives);
        let batch_constants: Vec<f64> =
            batch.marked(&objective("red", Value::Null)).batch_constants.iter().map(|mark| mark.value).collect();
        let after = of(&batch_constants);
        if surplus == 0 {
            prop_assert_eq!(batch_constants, batch.advantage);
        } else {
            let dropped = |at: &usize| before[*at] < 0.0 && after[*at] == 0.0;
            prop_assert_eq!((0..before.len()).filter(dropped).count(), surplus);
            prop_assert!(after.iter().sum::<f64>().abs() < 1e-12);
        }
    }

    #[test]
    fn m2po_leaves_out_the_farthest_and_no_more_than_it_must(
        batch in batches(1.0), threshold in 0.0..0.5f64, proximal in any::<bool>(), seed in any::<u64>(),
    ) {
        let behavior: Vec<f64> = batch.proximal.iter().zip(0..)
            .map(|(lp, at)| lp + burnish_core::rng::uniform(seed, at) - 0.5).collect();
        let stale = Stale { batch, behavior };
        let moment = if proximal { "proximal" } else { "policy" };
        let m2po = objective("m2po", json!({ "m2_threshold": threshold, "moment": moment }));
        let batch_constants = stale.batch_constants(&m2po);
        let Batch { policy, proximal: old, advantage, loss_mask, .. } = &stale.batch;
        let (mut kept, mut out) = (Vec::new(), Vec::new());
        for at in (0..policy.len()).filter(|at| loss_mask[*at]) {
            let x = if proximal { stale.behavior[at] - old[at] } else { policy[at] - stale.behavior[at] };
            if proximal || (advantage[at] > 0.0 && x > 0.0) || (advantage[at] < 0.0 && x < 0.0) {
                if batch_constants[at].value == 0.0 { &mut kept } else { &mut out }.push(x * x);
            } else {
                prop_assert_eq!(batch_constants[at].value, 0.0);
            }
        }
        let least = if proximal { 1 } else { 0 };
        prop_assert!(kept.len() >= least.min(kept.len() + out.len()));
        let sum: f64 = kept.iter().sum();
        prop_assert!(kept.len() <= least || sum <= threshold * kept.len() as f64 + 1e-12);
        if let Some(next) = out.iter().copied().reduce(f64::min) {
            prop_assert!(kept.iter().all(|moment| *moment <= next));
            prop_assert!(sum + next > threshold * (kept.len() + 1) as f64 - 1e-12);
        }
    }

    #[test]
    fn m2po_is_the_surrogate_where_nothing_is_left_out(batch in batches(1.0)) {
        let wide = batch.evaluate(&objective("m2po", json!({ "m2_threshold": 1e6 })));
        let surrogate = batch.evaluate(&unbounded());
        prop_assert_eq!((wide.loss, wide.d_policy), (surrogate.loss, surrogate.d_policy));
        let fresh = batch.evaluate(&objective("m2po", json!({ "moment": "proximal" })));
        let clipped = batch.evaluate(&objective("ppo_clip", clip(0.2, 0.2)));
        prop_assert_eq!((fresh.loss, fresh.d_policy), (clipped.loss, clipped.d_policy));
    }

    #[test]
    fn mdpo_on_policy_is_the_policy_gradient_and_without_a_penalty_the_surrogate(batch in batches(1.0)) {
        let still = batch.clone().on_policy();
        let found = still.evaluate(&objective("mdpo", json!({ "inverse_step": 7.0 })));
        let clipped = still.evaluate(&objective("ppo_clip", clip(0.2, 0.2)));
        prop_assert_eq!((found.loss, found.d_policy), (clipped.loss, clipped.d_policy));
        let free = batch.evaluate(&objective("mdpo", json!({ "inverse_step": 0.0 })));
        let surrogate = batch.evaluate(&unbounded());
        prop_assert_eq!((free.loss, free.d_policy), (surrogate.loss, surrogate.d_policy));
    }

    #[test]
    fn other_settings_have_the_derivatives_of_finite_differences_and_stay_finite(
        batch in batches(1.0), far in batches(300.0),
    ) {
        const STEP: f64 = 1e-6;
        for (id, config, aggregation) in [
            ("clip_cov", json!({ "clip_cov_ratio": 0.3, "clip_cov_lb": 0.0, "epsilon_low": 0.2 }), Aggregation::Bnpo),
            ("kl_cov", json!({ "kl_cov_ratio": 0.5, "ppo_kl_coef": 0.3 }), Aggregation::Bnpo),
            ("m2po", json!({ "moment": "proximal" }), Aggregation::Bnpo),
            ("rec", json!({ "clip": "ring" }), Aggregation::Bnpo),
            ("rec", json!({ "clip": "two_side" }), Aggregation::Bnpo),
            ("red", json!({ "mode": "weight", "temperature": 0.7 }), Aggregation::Bnpo),
            ("opmd_kimi", json!({ "tau": 0.4 }), Aggregation::Grpo),
            ("opmd", json!({ "variant": "minimal" }), Aggregation::Bnpo),
        ] {
            let what = format!("{id} {config}");
            let own = loss(LossConfig { objective: id.into(), config, aggregation, ..LossConfig::default() });
            let marked = batch.marked(&own);
            let found = marked.evaluate_marked(&own);
            let at_offset = |at: usize, offset: f64| {
                let mut moved = marked.clone();
                moved.policy[at] += offset;
                moved.evaluate_marked(&own).loss
            };
            for at in 0..batch.policy.len() {
                let after = (at_offset(at, STEP) - found.loss) / STEP;
                let before = (found.loss - at_offset(at, -STEP)) / STEP;
                if is_near(after, before, 1e-4) {
                    let slope = 0.5 * (after + before);
                    prop_assert!(is_near(found.d_policy[at], slope, 1e-6), "{what}: {} for {slope}", found.d_policy[at]);
                }
            }
            let found = far.evaluate(&own);
            prop_assert!(found.loss.is_finite() && found.d_policy.iter().all(|d| d.is_finite()), "{what}");
        }
    }
}

#[test]
fn on_a_bound_rec_does_not_clip_and_on_the_next_number_it_does() {
    let rec = |clip: &str, log_ratio: f64, advantage: f64, prime: f64| {
        let config = json!({
            "clip": clip, "epsilon_low": 0.0, "epsilon_high": 0.0, "epsilon_low_prime": prime,
            "epsilon_high_prime": prime,
        });
        let (policy, proximal) = ([log_ratio], [0.0]);
        let tokens = Tokens {
            policy: &policy,
            detached: &policy,
            proximal: &proximal,
            behavior: &proximal,
            teacher: &[],
            entropy: &proximal,
            advantage: &[advantage],
            facts: &[],
            batch_constants: &[],
            sequences: slice::from_ref(&(0..1)),
        };
        let mut losses = Losses::zero(1);
        token_loss("rec", &config).losses(&tokens, &mut losses);
        losses.clipped[0].is_some()
    };
    for clip in ["one_side", "two_side", "ring"] {
        for advantage in [1.0, -1.0] {
            assert!(!rec(clip, 0.0, advantage, 1.0), "{clip}");
            let outwards = 1e-15f64.copysign(advantage);
            assert!(rec(clip, outwards, advantage, 1.0), "{clip}");
            // Back towards where it was: a bound of two sides only, unless the ring begins there.
            assert_eq!(rec(clip, -outwards, advantage, 1.0), clip != "one_side", "{clip}");
            assert_eq!(rec(clip, -outwards, advantage, 0.0), clip == "two_side", "{clip}");
        }
    }
}

#[test]
fn kimi_is_refused_under_any_other_mean_than_that_over_sequences() {
    let told = |id: &str, aggregation| {
        let loss = LossConfig { objective: id.into(), aggregation, ..LossConfig::default() };
        let advantage = AdvantageConfig::default();
        let loss = loss.complete().unwrap();
        let setup = Setup::on_policy(&loss, &advantage);
        rules::broken(setup).map(|rule| rule.id).collect::<Vec<&str>>()
    };
    assert_eq!(told("opmd_kimi", Aggregation::Dapo), ["sequence-ratio-token-mean"]);
    assert!(told("opmd_kimi", Aggregation::Grpo).is_empty());
    assert!(told("opmd", Aggregation::Dapo).is_empty());
}

#[test]
fn settings_out_of_range_are_refused_by_key() {
    for (id, config, message) in [
        ("clip_cov", json!({ "clip_cov_ratio": 1.5 }), "config.clip_cov_ratio: must be 0 to 1, not 1.5"),
        (
            "clip_cov",
            json!({ "clip_cov_ub": 1.0 }),
            "config.clip_cov_ub: must be above clip_cov_lb, 1, not 1",
        ),
        ("kl_cov", json!({ "ppo_kl_coef": -1.0 }), "config.ppo_kl_coef: must be 0 or more, not -1"),
        ("m2po", json!({ "m2_threshold": -0.04 }), "config.m2_threshold: must be 0 or more, not -0.04"),
        ("m2po", json!({ "moment": "old" }), "config.moment: unknown variant `old`"),
        (
            "rec",
            json!({ "epsilon_low_prime": 0.1 }),
            "config.epsilon_low_prime: must be 0.2 (epsilon_low) to 1",
        ),
        (
            "rec",
            json!({ "epsilon_high_prime": 0.1 }),
            "config.epsilon_high_prime: must be 0.2 (epsilon_high) or more",
        ),
        ("red", json!({ "temperature": 0.0 }), "config.temperature: must be above 0, not 0"),
        ("opmd", json!({ "tau": -1.0 }), "config.tau: must be 0 or more, not -1"),
        ("mdpo", json!({ "inverse_step": -1.0 }), "config.inverse_step: must be 0 or more, not -1"),
    ] {
        let wrong = LossConfig { objective: id.into(), config, ..LossConfig::default() };
        let error = wrong.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
