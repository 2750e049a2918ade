//! Properties of objectives that hold for any batch.

use crate::common::{Batch, batches, clip, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::kl::KlEstimator;
use burnish_rl::nll::Nll;
use burnish_rl::{Evaluation, LossConfig, Needs, Objective, PolicyLoss, Totals};
use proptest::prelude::*;

const AGGREGATIONS: [Aggregation; 4] =
    [Aggregation::Grpo, Aggregation::Bnpo, Aggregation::DrGrpo, Aggregation::Dapo];
const LOW: f64 = 0.2;
const HIGH: f64 = 0.28;

fn grpo(aggregation: Aggregation, beta: f64) -> PolicyLoss {
    loss(LossConfig { config: clip(LOW, HIGH), beta, aggregation, ..LossConfig::default() })
}

fn objectives() -> Vec<Box<dyn Objective>> {
    let mut all: Vec<Box<dyn Objective>> = vec![Box::new(Nll)];
    for aggregation in AGGREGATIONS {
        all.push(Box::new(grpo(aggregation, 0.0)));
        all.push(Box::new(grpo(aggregation, 0.04)));
        let uncorrected =
            LossConfig { beta: 0.04, use_bias_correction_kl: false, aggregation, ..LossConfig::default() };
        all.push(Box::new(loss(uncorrected)));
    }
    for kl_estimator in [KlEstimator::K1, KlEstimator::K2, KlEstimator::Abs] {
        for use_bias_correction_kl in [true, false] {
            let config =
                LossConfig { beta: 0.04, kl_estimator, use_bias_correction_kl, ..LossConfig::default() };
            all.push(Box::new(loss(config)));
        }
    }
    all
}

/// One token in the loss, alone.
fn token(policy: f64, proximal: f64, reference: f64, advantage: f64) -> Batch {
    Batch {
        policy: vec![policy],
        proximal: vec![proximal],
        reference: vec![reference],
        entropy: vec![1.0],
        advantage: vec![advantage],
        loss_mask: vec![true],
        sequences: std::iter::once(0..1).collect(),
        directions: Vec::new(),
        batch_constants: Vec::new(),
    }
}

/// Loss and derivative of one token, divided by nothing.
fn token_loss(config: LossConfig, batch: &Batch) -> (f64, f64) {
    let found = batch.evaluate(&loss(LossConfig { aggregation: Aggregation::Bnpo, ..config }));
    (found.loss, found.d_policy[0])
}

proptest! {
    #[test]
    fn derivatives_are_those_of_finite_differences(batch in batches(1.0)) {
        const STEP: f64 = 1e-6;
        let near_a_kink = |at: usize| {
            let ratio = (batch.policy[at] - batch.proximal[at]).exp();
            let is_at_reference = (batch.policy[at] - batch.reference[at]).abs() < 1e-3;
            is_at_reference || [1.0 - LOW, 1.0 + HIGH].iter().any(|bound| (ratio - bound).abs() < 1e-3)
        };
        for objective in objectives() {
            let found = batch.evaluate(&*objective);
            prop_assert!(found.d_entropy.iter().all(|derivative| *derivative == 0.0));
            for at in (0..batch.policy.len()).filter(|&at| !near_a_kink(at)) {
                let loss = |change: f64| {
                    let mut moved = batch.clone();
                    moved.policy[at] += change;
                    moved.evaluate(&*objective).loss
                };
                let slope = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                prop_assert!(is_near(found.d_policy[at], slope, 1e-7), "{} for {slope}", found.d_policy[at]);
            }
        }
    }

    #[test]
    fn masked_tokens_never_change_a_value(batch in batches(20.0)) {
        let mut spoiled = batch.clone();
        for at in (0..batch.policy.len()).filter(|&at| !batch.loss_mask[at]) {
            let Batch { policy, proximal, reference, entropy, advantage, .. } = &mut spoiled;
            for stream in [policy, proximal, reference, entropy, advantage] {
                stream[at] = f64::NAN;
            }
        }
        for objective in objectives() {
            let found = batch.evaluate(&*objective);
            prop_assert_eq!(&spoiled.evaluate(&*objective), &found);
            for at in (0..batch.policy.len()).filter(|&at| !batch.loss_mask[at]) {
                prop_assert_eq!(found.d_policy[at], 0.0);
            }
        }
    }

    #[test]
    fn parts_of_a_batch_add_up_to_the_whole(batch in batches(2.0), cut in 0usize..7) {
        let cut = cut.min(batch.sequences.len());
        let totals = batch.totals();
        for objective in objectives() {
            let whole = batch.evaluate(&*objective);
            let parts = [0..cut, cut..batch.sequences.len()].map(|sequences| {
                objective.evaluate(&batch.part(sequences).streams(), &totals)
            });
            prop_assert!(is_near(parts[0].loss + parts[1].loss, whole.loss, 1e-12));
            prop_assert_eq!([&parts[0].d_policy[..], &parts[1].d_policy[..]].concat(), whole.d_policy);
            for (at, metric) in whole.metrics.iter().enumerate() {
                let sum: f64 = parts.iter().map(|part| part.metrics[at].sum).sum();
                let weight: f64 = parts.iter().map(|part| part.metrics[at].weight).sum();
                prop_assert!(is_near(sum, metric.sum, 1e-12));
                prop_assert_eq!(weight, metric.weight);
            }
        }
    }

    #[test]
    fn on_policy_the_gradient_is_exactly_reinforce(batch in batches(1.0)) {
        let batch = batch.on_policy();
        for aggregation in AGGREGATIONS {
            let found = batch.evaluate(&grpo(aggregation, 0.0));
            for sequence in &batch.sequences {
                let tokens = sequence.clone().filter(|&at| batch.loss_mask[at]).count();
                let denominator = aggregation.denominator(tokens, &batch.totals());
                for at in sequence.clone() {
                    let reinforce = -batch.advantage[at] / denominator;
                    prop_assert_eq!(found.d_policy[at], if batch.loss_mask[at] { reinforce } else { 0.0 });
                }
            }
        }
    }

    #[test]
    fn a_reference_equal_to_the_policy_changes_nothing(batch in batches(2.0)) {
        let batch = Batch { reference: batch.policy.clone(), ..batch };
        for aggregation in AGGREGATIONS {
            let (with, without) = (grpo(aggregation, 0.04), grpo(aggregation, 0.0));
            let (with, without) = (batch.evaluate(&with), batch.evaluate(&without));
            prop_assert_eq!((with.loss, with.d_policy), (without.loss, without.d_policy));
            let kl = with.metrics.iter().find(|metric| metric.name == "kl").unwrap();
            prop_assert_eq!(kl.sum, 0.0);
        }
    }

    #[test]
    fn the_estimate_of_the_kl_is_never_negative(policy in -9.0..0.0f64, reference in -9.0..0.0f64) {
        for use_bias_correction_kl in [true, false] {
            let config = LossConfig { beta: 1.0, use_bias_correction_kl, ..LossConfig::default() };
            let (kl, derivative) = token_loss(config, &token(policy, policy, reference, 0.0));
            prop_assert!(kl >= 0.0);
            prop_assert_eq!(derivative > 0.0, policy > reference, "descent leads to the reference");
            // On policy, the correction makes the log-ratio the weight of the score: the gradient of the KL.
            prop_assert!(!use_bias_correction_kl || is_near(derivative, policy - reference, 1e-9));
        }
    }

    #[test]
    fn imitation_is_grpo_on_policy_with_advantage_1_over_the_tokens_of_the_batch(batch in batches(1.0)) {
        let mut batch = batch.on_policy();
        batch.advantage.fill(1.0);
        let reinforced = batch.evaluate(&grpo(Aggregation::Bnpo, 0.0));
        prop_assert_eq!(batch.evaluate(&Nll).d_policy, reinforced.d_policy);
    }

    #[test]
    fn aggregations_agree_on_completions_that_all_have_the_greatest_length(
        batch in batches(1.0),
        length in 1usize..9,
    ) {
        let mut batch = batch.unmasked();
        let sequences = batch.policy.len() / length;
        batch.sequences = (0..sequences).map(|row| row * length..(row + 1) * length).collect();
        prop_assume!(sequences > 0);
        let tokens = sequences * length;
        let totals = Totals {
            sequences,
            tokens,
            tokens_generation: tokens,
            minibatches: 1,
            completion_tokens_max: length,
            ..Totals::default()
        };
        let found: [Evaluation; 4] =
            AGGREGATIONS.map(|aggregation| grpo(aggregation, 0.04).evaluate(&batch.streams(), &totals));
        for other in &found[1..] {
            prop_assert_eq!(other, &found[0]);
        }
    }
}

#[test]
fn a_ratio_on_a_bound_is_not_clipped_and_the_next_number_beyond_it_is() {
    for (log_ratio, advantage) in [(0.2f64, 1.5), (-0.2, -1.5)] {
        let ratio = log_ratio.exp();
        // Exact, so that the bound is the ratio itself: no digit is lost in differences of such near numbers.
        let config = LossConfig {
            config: clip(
                if advantage < 0.0 { 1.0 - ratio } else { 0.2 },
                if advantage > 0.0 { ratio - 1.0 } else { 0.2 },
            ),
            ..LossConfig::default()
        };
        let on = token_loss(config.clone(), &token(log_ratio, 0.0, 0.0, advantage));
        assert_eq!(on, (-ratio * advantage, -ratio * advantage));
        let beyond = token_loss(config, &token(log_ratio * (1.0 + 1e-12), 0.0, 0.0, advantage));
        assert_eq!(beyond, (-ratio * advantage, 0.0));
    }
}

#[test]
fn a_ratio_outside_the_region_counts_where_the_advantage_draws_it_back() {
    let config = LossConfig::default();
    for (log_ratio, advantage) in [(1.0f64, -2.0), (-1.0, 2.0)] {
        let expected = -log_ratio.exp() * advantage;
        assert_eq!(token_loss(config.clone(), &token(log_ratio, 0.0, 0.0, advantage)), (expected, expected));
    }
}

#[test]
fn no_advantage_is_no_loss_however_extreme_the_ratio() {
    for log_ratio in [-1e4, 0.0, 1e4] {
        assert_eq!(token_loss(LossConfig::default(), &token(log_ratio, 0.0, 0.0, 0.0)), (0.0, 0.0));
    }
}

#[test]
fn epsilon_low_of_1_never_clips_downwards() {
    let config = LossConfig { config: clip(1.0, 0.2), ..LossConfig::default() };
    let (_, derivative) = token_loss(config, &token(-30.0, 0.0, 0.0, -1.0));
    assert!(derivative > 0.0);
}

#[test]
fn sequences_without_loss_tokens_count_in_means_over_sequences_only() {
    let mut batch = token(-1.0, -1.0, -1.0, 1.0);
    let alone = AGGREGATIONS.map(|aggregation| batch.evaluate(&grpo(aggregation, 0.0)).loss);
    batch = Batch {
        policy: vec![-1.0, -1.0],
        proximal: vec![-1.0, -1.0],
        reference: vec![-1.0, -1.0],
        entropy: vec![1.0, 1.0],
        advantage: vec![1.0, 1.0],
        loss_mask: vec![true, false],
        sequences: vec![0..1, 1..2],
        directions: Vec::new(),
        batch_constants: Vec::new(),
    };
    let beside = AGGREGATIONS.map(|aggregation| batch.evaluate(&grpo(aggregation, 0.0)).loss);
    let halved = [true, false, true, false];
    for at in 0..AGGREGATIONS.len() {
        assert_eq!(
            beside[at],
            if halved[at] { alone[at] / 2.0 } else { alone[at] },
            "{:?}",
            AGGREGATIONS[at]
        );
    }
}

#[test]
fn a_batch_without_loss_tokens_has_no_loss() {
    let mut batch = token(-1.0, -1.0, -1.0, 1.0);
    batch.loss_mask.fill(false);
    for objective in objectives() {
        let found = batch.evaluate(&*objective);
        assert_eq!((found.loss, found.d_policy), (0.0, vec![0.0]));
        assert!(found.metrics.iter().all(|metric| metric.weight == 0.0));
    }
}

#[test]
fn imitation_reports_the_loss_and_the_entropy_a_token() {
    let mut batch = token(-1.0, 0.0, 0.0, 0.0);
    batch.policy.push(-3.0);
    batch.entropy.push(0.5);
    for stream in [&mut batch.proximal, &mut batch.reference, &mut batch.advantage] {
        stream.push(0.0);
    }
    batch.loss_mask.push(true);
    batch.sequences[0] = 0..2;
    let found = batch.evaluate(&Nll);
    assert_eq!((found.loss, found.d_policy), (2.0, vec![-0.5, -0.5]));
    assert_eq!((found.metrics[0].name, found.metrics[0].sum, found.metrics[0].weight), ("entropy", 1.5, 2.0));
}

#[test]
fn a_reference_is_asked_for_only_where_it_counts() {
    assert_eq!(grpo(Aggregation::Dapo, 0.04).needs(), Needs { reference: true, ..Needs::default() });
    assert_eq!(grpo(Aggregation::Dapo, 0.0).needs(), Needs::default());
    assert_eq!(Nll.needs(), Needs::default());
    let in_reward = loss(LossConfig {
        beta: 0.04,
        use_kl_in_reward: true,
        kl_estimator: KlEstimator::K1,
        ..LossConfig::default()
    });
    assert_eq!(in_reward.needs(), Needs::default(), "the reward has it, not the loss");
    let batch = token(-1.0, -1.0, -1.0, 1.0);
    let streams = burnish_rl::Streams { reference: None, ..batch.streams() };
    assert_eq!(
        grpo(Aggregation::Dapo, 0.0).evaluate(&streams, &batch.totals()),
        batch.evaluate(&grpo(Aggregation::Dapo, 0.0))
    );
}

#[test]
#[should_panic(expected = "the streams need a reference")]
fn a_penalty_without_the_reference_that_was_asked_for_is_never_left_out_silently() {
    let batch = token(-1.0, -1.0, -1.0, 1.0);
    let streams = burnish_rl::Streams { reference: None, ..batch.streams() };
    grpo(Aggregation::Dapo, 0.04).evaluate(&streams, &batch.totals());
}
