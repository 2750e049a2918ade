//! What an objective reduces to under which setting, and what it does at its bounds and far beyond them.

use crate::common::{Batch, Columns, batches, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::catalogue::{self, OBJECTIVES};
use burnish_rl::{Bound, LossConfig, Losses, TokenLoss};
use proptest::prelude::*;
use serde_json::{Value, json};

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn part(id: &str, config: Value) -> Box<dyn TokenLoss> {
    (catalogue::find(OBJECTIVES, "objective", id).unwrap().build)(&config).unwrap()
}

/// Value and derivative of each loss token.
fn losses(batch: &Batch, id: &str, config: Value) -> (Vec<f64>, Vec<f64>) {
    let part = part(id, config);
    let losses = Columns::of(batch, &*part).losses(&*part);
    (losses.value, losses.d_policy)
}

/// One token, alone.
fn token(id: &str, config: Value, policy: f64, proximal: f64, advantage: f64) -> Losses {
    let one = |number: f64| vec![number];
    let columns = Columns {
        policy: one(policy),
        detached: one(policy),
        proximal: one(proximal),
        behavior: one(proximal),
        teacher: one(proximal),
        entropy: one(0.0),
        advantage: one(advantage),
        batch_constants: Vec::new(),
        sequences: std::iter::once(0..1).collect(),
    };
    columns.losses(&*part(id, config))
}

/// The same, each token a sequence of its own.
fn split(mut batch: Batch) -> Batch {
    batch.sequences = (0..batch.policy.len()).map(|at| at..at + 1).collect();
    batch
}

fn all_near(found: &[f64], expected: &[f64], tolerance: f64) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| is_near(*found, *expected, tolerance))
}

/// Every objective here, with settings other than the default.
pub(crate) fn settings() -> Vec<(&'static str, Value)> {
    vec![
        ("ppo_clip", json!({ "dual_clip": 1.5 })),
        ("gspo", json!({ "epsilon_low": 0.2, "epsilon_high": 0.3 })),
        ("gspo", json!({ "level": "token", "epsilon_low": 0.2, "epsilon_high": 0.3 })),
        ("gmpo", json!({ "epsilon_low": 0.1, "epsilon_high": 0.2 })),
        ("luspo", json!({ "epsilon_low": 0.2, "epsilon_high": 0.3 })),
        ("cispo", json!({ "bounds": "upper", "epsilon_high": 0.3 })),
        ("cispo", json!({ "bounds": "wide" })),
        ("cispo", json!({ "bounds": "cap", "epsilon_high": 2.0 })),
        ("sapo", json!({ "tau_pos": 3.0, "tau_neg": 0.5 })),
        ("vespo", json!({ "k_pos": 0.5, "lambda_pos": 0.5, "k_neg": 0.0, "lambda_neg": 1.0 })),
        (
            "dppo_tv",
            json!({ "divergence_low": 0.02, "divergence_high": 0.04, "ratio_max": 1.2, "kl_tau": 0.1 }),
        ),
        ("dppo_tv", json!({ "ratio_max": 0.0, "anchor": "behavior", "kl_tau": 0.001 })),
        ("dppo_kl", json!({ "divergence_low": 0.001, "divergence_high": 0.002, "ratio_max": 1.2 })),
        ("prime_rl_symmetric", json!({ "threshold": 0.02, "kl_tau": 0.1 })),
        ("dro", json!({ "beta": 1.5 })),
        ("reinforce", json!({ "ratio_max": 1.2 })),
        ("gppo", json!({ "beta1": 0.5, "beta2": 0.75 })),
        ("gppo", json!({ "dual_clip": 1.5 })),
    ]
}

proptest! {
    #[test]
    fn derivatives_are_those_of_finite_differences_with_other_settings_and_an_advantage_a_token(
        batch in batches(1.0),
        advantages in prop::collection::vec(-2.0..2.0f64, 64),
    ) {
        let mut uneven = batch.clone();
        uneven.advantage.iter_mut().zip(advantages).for_each(|(own, other)| *own = other);
        for (id, config) in settings() {
            let part = part(id, config.clone());
            for batch in [&batch, &uneven] {
                let checked = Columns::of(batch, &*part).check_derivatives(&*part);
                prop_assert!(checked.is_ok(), "{id} {config}: {checked:?}");
            }
        }
    }

    #[test]
    fn gspo_of_sequences_of_one_token_is_ppo_clip(batch in batches(1.0)) {
        let clip = json!({ "epsilon_low": 0.2, "epsilon_high": 0.28 });
        let batch = split(batch);
        let expected = losses(&batch, "ppo_clip", clip);
        for level in ["sequence", "token"] {
            let config = json!({ "level": level, "epsilon_low": 0.2, "epsilon_high": 0.28 });
            prop_assert_eq!(&losses(&batch, "gspo", config), &expected, "{}", level);
        }
    }

    #[test]
    fn with_one_advantage_a_sequence_both_levels_of_gspo_are_one(batch in batches(0.3)) {
        let clip = |level| json!({ "level": level, "epsilon_low": 0.1, "epsilon_high": 0.1 });
        let whole = losses(&batch, "gspo", clip("sequence"));
        let single = losses(&batch, "gspo", clip("token"));
        prop_assert_eq!(whole.0, single.0);
        prop_assert!(all_near(&whole.1, &single.1, 1e-12));
    }

    #[test]
    fn luspo_is_gspo_times_the_length_of_the_sequence(batch in batches(1.0)) {
        let clip = || json!({ "epsilon_low": 0.2, "epsilon_high": 0.28 });
        let alone = split(batch.clone());
        prop_assert_eq!(losses(&alone, "luspo", clip()), losses(&alone, "gspo", clip()));

        let config = |objective: &str, aggregation| LossConfig {
            objective: objective.into(), config: clip(), aggregation, ..LossConfig::default()
        };
        let luspo = batch.evaluate(&loss(config("luspo", Aggregation::Grpo)));
        let gspo = batch.evaluate(&loss(config("gspo", Aggregation::DrGrpo)));
        let length = batch.totals().completion_tokens_max as f64;
        prop_assert!(is_near(luspo.loss, gspo.loss * length, 1e-12));
        let scaled: Vec<f64> = gspo.d_policy.iter().map(|derivative| derivative * length).collect();
        prop_assert!(all_near(&luspo.d_policy, &scaled, 1e-12));
    }

    #[test]
    fn gmpo_of_one_token_is_ppo_clip_and_without_bounds_it_is_gspo(batch in batches(1.0)) {
        let alone = split(batch.clone());
        let clip = json!({ "epsilon_low": 1.0 - (-0.3f64).exp(), "epsilon_high": 0.4f64.exp() - 1.0 });
        let expected = losses(&alone, "ppo_clip", clip);
        let found = losses(&alone, "gmpo", json!({ "epsilon_low": 0.3, "epsilon_high": 0.4 }));
        prop_assert!(all_near(&found.0, &expected.0, 1e-12) && all_near(&found.1, &expected.1, 1e-12));

        let expected = losses(&batch, "gspo", json!({ "epsilon_low": 1.0, "epsilon_high": 1e9 }));
        let found = losses(&batch, "gmpo", json!({ "epsilon_low": 1e9, "epsilon_high": 1e9 }));
        prop_assert!(all_near(&found.0, &expected.0, 1e-12) && all_near(&found.1, &expected.1, 1e-12));
    }

    #[test]
    fn gppo_has_the_value_of_ppo_clip_and_leaves_no_token_without_a_gradient(batch in batches(2.0)) {
        for dual_clip in [0.0, 3.0] {
            let clip = || json!({ "epsilon_high": 0.28, "dual_clip": dual_clip });
            let expected = losses(&batch, "ppo_clip", clip());
            let found = losses(&batch, "gppo", clip());
            prop_assert_eq!(&found.0, &expected.0, "bit for bit");
            let part = part("gppo", clip());
            let columns = Columns::of(&batch, &*part);
            for (at, derivative) in found.1.iter().enumerate() {
                let (advantage, ratio) =
                    (columns.advantage[at], (columns.policy[at] - columns.proximal[at]).exp());
                let is_above_dual = dual_clip > 0.0 && advantage < 0.0 && ratio > dual_clip;
                prop_assert_eq!(*derivative == 0.0, advantage == 0.0 || is_above_dual);
            }
            let off = json!({ "epsilon_high": 0.28, "dual_clip": dual_clip, "beta1": 0.0, "beta2": 0.0 });
            prop_assert_eq!(&losses(&batch, "gppo", off).1, &expected.1);
        }
    }

    #[test]
    fn between_the_bounds_gppo_cispo_and_ppo_clip_have_one_gradient(batch in batches(0.18)) {
        let expected = losses(&batch, "ppo_clip", Value::Null).1;
        prop_assert_eq!(&losses(&batch, "gppo", Value::Null).1, &expected);
        prop_assert_eq!(&losses(&batch, "cispo", Value::Null).1, &expected);
    }

    #[test]
    fn without_bounds_a_weighted_reinforce_has_the_gradient_of_ppo_clip_without_bounds(batch in batches(2.0)) {
        let expected = losses(&batch, "ppo_clip", json!({ "epsilon_low": 1.0, "epsilon_high": 1e300 })).1;
        prop_assert_eq!(&losses(&batch, "reinforce", json!({ "ratio_max": 1e300 })).1, &expected);
        let all = json!({ "divergence_low": 1.0, "divergence_high": 1.0, "ratio_max": 0.0 });
        let kept: Vec<f64> = losses(&batch, "dppo_tv", all).1;
        // Some of these log-probabilities are above 0: they are not probabilities, and may be more than 1 away.
        let close = batch.proximal.iter().all(|proximal| *proximal <= 0.0);
        prop_assert!(!close || kept == expected);
        let soft = losses(&batch, "sapo", json!({ "tau_pos": 1e-9, "tau_neg": 1e-9 })).1;
        prop_assert!(all_near(&soft, &expected, 1e-6));
    }

    #[test]
    fn dro_without_its_penalty_is_reinforce(batch in batches(2.0)) {
        let expected = losses(&batch, "reinforce", Value::Null);
        prop_assert_eq!(losses(&batch, "dro", json!({ "beta": 0.0 })), expected);
    }

    #[test]
    fn for_small_moves_the_trust_regions_of_probabilities_are_one(batch in batches(0.05)) {
        let expected = losses(&batch, "dppo_tv", Value::Null);
        prop_assert_eq!(losses(&batch, "dppo_kl", Value::Null), expected);
        let prime = json!({ "ratio_max": 0.0, "anchor": "behavior", "kl_tau": 1e-3 });
        let expected = losses(&batch, "dppo_tv", prime).1;
        prop_assert_eq!(losses(&batch, "prime_rl_symmetric", Value::Null).1, expected);
    }

    #[test]
    fn names_of_bounds_of_cispo_are_points_of_the_two_sided_one(batch in batches(3.0)) {
        let two_sided = |low: f64, high: f64| {
            losses(&batch, "cispo", json!({ "epsilon_low": low, "epsilon_high": high }))
        };
        let named = |bounds: &str, high: f64| {
            losses(&batch, "cispo", json!({ "bounds": bounds, "epsilon_high": high }))
        };
        prop_assert_eq!(named("upper", 0.28), two_sided(1.0, 0.28));
        prop_assert_eq!(named("wide", 0.2), two_sided(1.0, 4.0));
        prop_assert_eq!(named("cap", 3.0), two_sided(1.0, 2.0));
    }

    #[test]
    fn on_policy_every_objective_is_reinforce(batch in batches(1.0)) {
        let batch = batch.on_policy();
        let defaults = OBJECTIVES.iter().map(|entry| (entry.card.id, Value::Null));
        let own = ["ppo_clip", "gspo", "gmpo", "luspo", "cispo", "sapo", "vespo", "dppo_tv", "dppo_kl",
            "prime_rl_symmetric", "dro", "reinforce", "gppo"];
        for (id, config) in defaults.filter(|(id, _)| own.contains(id)).chain(settings()) {
            let part = part(id, config.clone());
            let columns = Columns::of(&batch, &*part);
            let found = columns.losses(&*part).d_policy;
            let is_sequence = part.aggregation().is_some() && config["level"] != "token";
            for range in &columns.sequences {
                let scale = if id == "luspo" { range.len() as f64 } else { 1.0 };
                for at in range.clone() {
                    let reinforce = -columns.advantage[at] * scale;
                    if is_sequence {
                        // The mean of n equal numbers may differ from them in the last digit.
                        prop_assert!(is_near(found[at], reinforce, 1e-14), "{id} {config}");
                    } else {
                        prop_assert_eq!(found[at], reinforce, "{} {}", id, config);
                    }
                }
            }
        }
    }

    #[test]
    fn an_advantage_of_0_is_no_loss_unless_a_term_stands_beside_it(batch in batches(300.0)) {
        let mut batch = batch;
        batch.advantage.fill(0.0);
        for (id, config) in settings() {
            if id == "dro" || id == "prime_rl_symmetric" || config.get("kl_tau").is_some() {
                continue;
            }
            let (value, derivative) = losses(&batch, id, config);
            prop_assert!(value.iter().chain(&derivative).all(|number| *number == 0.0), "{id}");
        }
    }

    #[test]
    fn an_anchor_is_the_only_thing_that_the_policy_is_compared_with(batch in batches(1.0), shift in 0.1..1.0f64) {
        for (id, config, reads_proximal) in [
            ("prime_rl_symmetric", Value::Null, false),
            ("dppo_tv", json!({ "anchor": "behavior", "kl_tau": 0.1 }), false),
            ("dppo_kl", json!({ "anchor": "behavior" }), false),
            ("dppo_tv", json!({ "kl_tau": 0.1 }), true),
            ("dppo_kl", Value::Null, true),
        ] {
            let part = part(id, config);
            let columns = Columns::of(&batch, &*part);
            let mut moved = columns.clone();
            let other = if reads_proximal { &mut moved.behavior } else { &mut moved.proximal };
            other.iter_mut().for_each(|logprob| *logprob -= shift);
            prop_assert_eq!(moved.losses(&*part), columns.losses(&*part), "{}", id);
        }
    }
}

#[test]
fn far_away_a_bounded_weight_is_its_bound_and_a_soft_one_is_nothing() {
    // exp overflows on one side, and is 0 on the other.
    for distance in [300.0, 1e4] {
        for advantage in [1.5, -1.5] {
            let up = |id: &str, config| token(id, config, 0.0, -distance, advantage).d_policy[0];
            let down = |id: &str, config| token(id, config, -distance, 0.0, advantage).d_policy[0];
            assert_eq!(up("cispo", Value::Null), -1.2 * advantage);
            assert_eq!(down("cispo", Value::Null), -0.8 * advantage);
            assert_eq!(up("cispo", json!({ "bounds": "wide" })), -5.0 * advantage);
            assert_eq!(up("reinforce", json!({ "ratio_max": 2.0 })), -2.0 * advantage);
            assert_eq!(up("sapo", Value::Null), 0.0);
            assert!(down("sapo", Value::Null).abs() < 1e-100);
            assert_eq!(up("vespo", Value::Null), 0.0);
            assert!(down("vespo", Value::Null).abs() < 1e-100);
            // If the advantage pulls it further away it is left out; if it pulls it back, it counts with the largest
            // weight.
            for id in ["dppo_tv", "dppo_kl"] {
                assert_eq!(up(id, Value::Null), if advantage > 0.0 { 0.0 } else { -20.0 * advantage });
            }
        }
    }
}

#[test]
fn on_a_bound_nothing_is_clipped_and_beyond_it_everything() {
    let ratio = 0.25f64.exp();
    let beyond = 0.25 * (1.0 + 1e-12);
    for id in ["gspo", "luspo", "gppo"] {
        let config = json!({ "epsilon_high": ratio - 1.0 });
        let on = token(id, config.clone(), 0.25 - 2.0, -2.0, 1.5);
        assert_eq!((on.clipped[0], on.d_policy[0]), (None, -ratio * 1.5), "{id}");
        let out = token(id, config, beyond - 2.0, -2.0, 1.5);
        let slope = if id == "gppo" { -ratio * 1.5 } else { 0.0 };
        assert_eq!((out.clipped[0], out.d_policy[0]), (Some(Bound::High), slope), "{id}");
    }
    let config = json!({ "epsilon_low": 0.25 });
    let on = token("gmpo", config.clone(), -2.25, -2.0, -1.5);
    assert_eq!((on.clipped[0], on.d_policy[0]), (None, 1.5 * (-0.25f64).exp()));
    let out = token("gmpo", config, -2.25 - 1e-12, -2.0, -1.5);
    assert_eq!((out.clipped[0], out.d_policy[0]), (Some(Bound::Low), 0.0));

    let (from, to) = (0.25f64.ln(), 0.5f64.ln());
    let distance = to.exp() - from.exp();
    let at = |id: &str, config: Value| token(id, config, to, from, 1.5).clipped[0];
    for (id, key) in [("dppo_tv", "divergence_high"), ("prime_rl_symmetric", "threshold")] {
        assert_eq!(at(id, json!({ key: distance })), None, "{id}");
        assert_eq!(at(id, json!({ key: distance * (1.0 - 1e-12) })), Some(Bound::High), "{id}");
    }
    let divergence = 0.25 * 0.5f64.ln() + 0.75 * 1.5f64.ln();
    assert_eq!(at("dppo_kl", json!({ "divergence_high": divergence * (1.0 + 1e-12) })), None);
    assert_eq!(at("dppo_kl", json!({ "divergence_high": divergence * (1.0 - 1e-12) })), Some(Bound::High));
}

#[test]
fn a_far_token_that_its_advantage_draws_back_is_kept_by_dppo_and_left_out_by_the_symmetric_region() {
    let (from, to) = (0.1f64.ln(), 0.9f64.ln());
    for id in ["dppo_tv", "dppo_kl"] {
        assert_eq!(token(id, Value::Null, to, from, 1.0).d_policy[0], 0.0, "{id}");
        assert!(token(id, Value::Null, to, from, -1.0).d_policy[0] > 1.0, "{id}");
    }
    let off = json!({ "kl_tau": 0.0 });
    for advantage in [1.0, -1.0] {
        let found = token("prime_rl_symmetric", off.clone(), to, from, advantage);
        assert_eq!((found.d_policy[0], found.clipped[0]), (0.0, Some(Bound::High)));
    }
}

#[test]
fn the_weight_of_a_sequence_that_has_not_moved_is_1_in_the_metrics_of_vespo() {
    let found = token("vespo", Value::Null, -1.0, -1.0, -2.0);
    assert_eq!(
        (found.metrics[0].name, found.metrics[0].sum, found.metrics[0].weight),
        ("vespo/phi_mean", 1.0, 1.0)
    );
    let moved = token("vespo", Value::Null, -1.0, -1.5, -2.0);
    let ratio = 0.5f64.exp();
    assert!(is_near(moved.metrics[0].sum, ratio.powi(3) * (2.0 * (1.0 - ratio)).exp(), 1e-14));
}
