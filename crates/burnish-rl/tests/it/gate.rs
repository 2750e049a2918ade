//! Gates of updates: when they close, what they remember, and the bound that the head's gradient is watched for.

use burnish_core::rng::Stream;
use burnish_rl::aggregation::Aggregation;
use burnish_rl::catalogue::GATES;
use burnish_rl::gate::{Gate, GateConfig, Proposal};
use burnish_rl::{LossConfig, Objective, Streams, Totals};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{is_near, loss};

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn dgg(config: Value) -> Box<dyn Gate> {
    GateConfig { gate: "dgg".into(), config }.build().unwrap()
}

fn head(norm: f64) -> Proposal {
    Proposal { head_grad_norm: norm, ..Proposal::default() }
}

/// The gate's rulings on these norms of the head: whether it is open, and `z`.
fn rulings(gate: &mut dyn Gate, proposals: &[(usize, f64)]) -> Vec<(bool, Option<f64>)> {
    let mut all = Vec::new();
    for (reuse, norm) in proposals {
        let ruling = gate.rule(*reuse, &head(*norm));
        let z = ruling.metrics.iter().find(|(name, _)| *name == "gate/z").map(|(_, z)| *z);
        all.push((ruling.is_open, z));
    }
    all
}

/// `z` of `change` after `changes`, in two passes.
fn oracle(changes: &[f64], change: f64, decay: f64, epsilon: f64) -> f64 {
    let weight = |at: usize| decay.powi((changes.len() - 1 - at) as i32);
    let total: f64 = (0..changes.len()).map(weight).sum();
    let mean = changes.iter().enumerate().map(|(at, own)| weight(at) * own).sum::<f64>() / total;
    let spread = changes.iter().enumerate().map(|(at, own)| weight(at) * (own - mean).powi(2)).sum::<f64>();
    (change - mean) / ((spread / total).sqrt() + epsilon)
}

/// Batches of `uses` uses each, as a run proposes them: a closed gate ends a batch.
fn reused(
    gate: &mut dyn Gate,
    batches: usize,
    uses: usize,
    mut norm: impl FnMut(usize) -> f64,
) -> Vec<usize> {
    let mut made = Vec::new();
    for _ in 0..batches {
        let open = (1..=uses).take_while(|reuse| gate.rule(*reuse, &head(norm(*reuse))).is_open).count();
        made.push(open);
    }
    made
}

proptest! {
    #[test]
    fn z_is_that_of_all_updates_made_so_far(
        norms in prop::collection::vec(0.01f64..3.0, 2..40),
        decay in prop::sample::select(vec![1.0, 0.99, 0.7]),
    ) {
        // Every use is a first one, so every update is applied.
        let mut gate = dgg(json!({ "statistics": "all", "decay": decay, "epsilon": 1e-3 }));
        let proposals: Vec<(usize, f64)> = norms.iter().map(|norm| (1, *norm)).collect();
        let found = rulings(&mut *gate, &proposals);
        prop_assert_eq!(found[0], (true, None));
        let mut changes = vec![0.0];
        for (pair, (_, z)) in norms.windows(2).zip(&found[1..]) {
            let expected = oracle(&changes, pair[1] - pair[0], decay, 1e-3);
            prop_assert!(is_near(z.unwrap(), expected, 1e-9), "{z:?} for {expected}");
            changes.push(pair[1] - pair[0]);
        }
    }

    #[test]
    fn statistics_of_reuse_leave_out_the_changes_from_batch_to_batch(
        norms in prop::collection::vec(0.01f64..3.0, 6..60),
    ) {
        let mut gate = dgg(json!({ "statistics": "reuse", "tau": "inf", "epsilon": 1e-3 }));
        let proposals: Vec<(usize, f64)> = (0..).map(|at| 1 + at % 3).zip(norms.iter().copied()).collect();
        let found = rulings(&mut *gate, &proposals);
        let mut changes = Vec::new();
        for (at, (reuse, norm)) in proposals.iter().enumerate() {
            if *reuse == 1 {
                prop_assert_eq!(found[at].1, None);
                continue;
            }
            let change = norm - norms[at - 1];
            match found[at].1 {
                Some(z) => prop_assert!(is_near(z, oracle(&changes, change, 0.99, 1e-3), 1e-9)),
                None => prop_assert!(changes.is_empty()),
            }
            changes.push(change);
        }
    }

    #[test]
    fn a_dropped_update_leaves_the_gate_as_it_was(
        norms in prop::collection::vec(0.01f64..3.0, 3..20),
        leap in 100.0f64..1e6,
    ) {
        let mut gate = dgg(json!({ "statistics": "all", "tau": 1.0, "warmup": 0 }));
        for norm in &norms {
            prop_assert!(gate.rule(1, &head(*norm)).is_open);
        }
        let before = gate.state();
        prop_assert!(!gate.rule(2, &head(leap)).is_open);
        prop_assert_eq!(gate.state(), before);
    }

    #[test]
    fn every_gate_opens_to_the_first_use_and_goes_on_from_its_state(
        norms in prop::collection::vec((1usize..5, -1e3f64..1e3), 1..60),
        cut in 0usize..60,
    ) {
        for entry in GATES {
            let proposal = |norm: f64| Proposal {
                head_grad_norm: norm, grad_norm: 2.0 * norm, kl: norm / 3.0, clip_fraction: norm / 4.0, entropy: -norm,
            };
            let mut whole = (entry.build)(&Value::Null).unwrap();
            let mut resumed = (entry.build)(&Value::Null).unwrap();
            for (at, (reuse, norm)) in norms.iter().enumerate() {
                if at == cut {
                    // Through text, as a checkpoint keeps it.
                    let text = serde_json::to_string(&resumed.state()).unwrap();
                    resumed = (entry.build)(&Value::Null).unwrap();
                    resumed.restore(&serde_json::from_str(&text).unwrap()).unwrap();
                }
                let ruling = whole.rule(*reuse, &proposal(*norm));
                prop_assert!(*reuse > 1 || ruling.is_open, "{}", entry.card.id);
                prop_assert_eq!(&resumed.rule(*reuse, &proposal(*norm)), &ruling, "{}", entry.card.id);
            }
            prop_assert_eq!(resumed.state(), whole.state());
        }
    }

    #[test]
    fn tau_infinite_makes_every_use_and_minus_infinite_the_first_alone(
        seed: u64,
        uses in 1usize..9,
    ) {
        let mut random = Stream::new(seed);
        let mut norm = |_| random.normal().exp();
        let mut open = dgg(json!({ "tau": "inf", "warmup": 0 }));
        prop_assert!(reused(&mut *open, 30, uses, &mut norm).iter().all(|made| *made == uses));
        let mut closed = dgg(json!({ "tau": "-inf", "warmup": 0 }));
        prop_assert!(reused(&mut *closed, 30, uses, &mut norm).iter().all(|made| *made == 1));
        // Whatever tau is, each batch is used at least once, and no more often than allowed.
        let mut some = dgg(json!({ "warmup": 5 }));
        let made = reused(&mut *some, 30, uses, &mut norm);
        prop_assert!(made.iter().all(|made| (1..=uses).contains(made)), "{made:?}");
    }

    #[test]
    fn the_unit_of_what_is_watched_changes_nothing(seed: u64, exponent in -20i32..20, shift in -2.0f64..2.0) {
        let mut random = Stream::new(seed);
        let norms: Vec<(usize, f64)> = (0..80).map(|at| (1 + at % 4, random.normal())).collect();
        let factor = 2f64.powi(exponent);
        let scaled: Vec<(usize, f64)> = norms.iter().map(|(reuse, norm)| (*reuse, factor * norm)).collect();
        let shifted: Vec<(usize, f64)> = norms.iter().map(|(reuse, norm)| (*reuse, norm + shift)).collect();
        let with = |epsilon: f64| dgg(json!({ "epsilon": epsilon, "warmup": 3 }));
        let plain = rulings(&mut *with(1e-3), &norms);
        // A power of two rounds nothing.
        prop_assert_eq!(&rulings(&mut *with(1e-3 * factor), &scaled), &plain);
        for ((_, z), (_, other)) in rulings(&mut *with(1e-3), &shifted).iter().zip(&plain) {
            prop_assert!(is_near(z.unwrap_or(0.0), other.unwrap_or(0.0), 1e-6));
        }
    }

    /// `‖g‖_F ≤ √2·A_max·h_max·mean(ρ)` and `χ² ≥ (‖g‖_F / C)² - 1`, with the derivative that our own objective gives.
    #[test]
    fn the_gradient_of_the_head_bounds_the_divergence_from_below(
        seed: u64,
        tokens in 1usize..24,
        vocab in 2usize..7,
        width in 1usize..5,
        spread in 0.0f64..2.0,
        on_policy in any::<bool>(),
    ) {
        let mut random = Stream::new(seed);
        let mut normals = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<f64>>();
        let (weight, moved) = (normals(vocab * width), normals(vocab * width));
        let spread = if on_policy { 0.0 } else { spread };
        let old: Vec<f64> = weight.iter().zip(&moved).map(|(own, by)| own + spread * by).collect();
        let hidden: Vec<Vec<f64>> = (0..tokens).map(|_| normals(width)).collect();
        let advantage = normals(tokens);
        let targets: Vec<usize> = normals(tokens).iter().map(|x| (x.abs() * 1e3) as usize % vocab).collect();
        let logprobs = |weight: &[f64], hidden: &[f64]| -> Vec<f64> {
            let logits: Vec<f64> =
                weight.chunks(width).map(|row| row.iter().zip(hidden).map(|(w, h)| w * h).sum()).collect();
            let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum = logits.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
            logits.iter().map(|z| z - most - sum).collect()
        };
        let at = |weight: &[f64]| -> Vec<f64> {
            hidden.iter().zip(&targets).map(|(hidden, target)| logprobs(weight, hidden)[*target]).collect()
        };
        let (policy, proximal) = (at(&weight), at(&old));
        let unclipped = LossConfig {
            config: json!({ "epsilon_low": 1.0, "epsilon_high": 1e300 }),
            aggregation: Aggregation::Bnpo,
            ..LossConfig::default()
        };
        let whole = 0..tokens;
        let streams = Streams {
            policy: &policy, proximal: &proximal, behavior: &proximal, reference: None, teacher: None,
            entropy: &vec![0.0; tokens], advantage: &advantage, loss_mask: &vec![true; tokens],
            sequences: std::slice::from_ref(&whole), groups: &[], directions: &[], parts: &[],
            facts: &[], batch_constants: &[],
        };
        let totals = Totals { sequences: 1, tokens, tokens_generation: tokens, minibatches: 1, ..Totals::default() };
        let d_policy = loss(unclipped).evaluate(&streams, &totals).d_policy;
        let mut gradient = vec![0.0; vocab * width];
        for ((hidden, target), d) in hidden.iter().zip(&targets).zip(&d_policy) {
            for (id, logprob) in logprobs(&weight, hidden).into_iter().enumerate() {
                let d_logit = d * (f64::from(id == *target) - logprob.exp());
                for (sum, h) in gradient[id * width..].iter_mut().zip(hidden) {
                    *sum += d_logit * h;
                }
            }
        }
        let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let ratios: Vec<f64> = policy.iter().zip(&proximal).map(|(own, old)| (own - old).exp()).collect();
        let mean = |of: &dyn Fn(f64) -> f64| ratios.iter().map(|ratio| of(*ratio)).sum::<f64>() / tokens as f64;
        let advantage_max = advantage.iter().fold(0.0, |most: f64, own| most.max(own.abs()));
        let hidden_max = hidden.iter().map(|own| norm(own)).fold(0.0, f64::max);
        let constant = 2f64.sqrt() * advantage_max * hidden_max;
        let found = norm(&gradient);
        prop_assert!(found <= constant * mean(&|ratio| ratio) * (1.0 + 1e-9), "{found}");
        let divergence = mean(&|ratio| ratio * ratio) - 1.0;
        let bound = (found / constant).powi(2) - 1.0;
        prop_assert!(divergence >= bound - 1e-9 * (1.0 + divergence.abs()), "{divergence} below {bound}");
        if on_policy {
            prop_assert!(bound <= 1e-9, "on the policy that sampled it says nothing: {bound}");
        }
    }
}

#[test]
fn before_there_are_statistics_and_in_the_warm_up_every_use_is_made() {
    let mut gate = dgg(json!({ "tau": -1e300, "warmup": 0 }));
    // Even a second use, where it comes first.
    assert_eq!(rulings(&mut *gate, &[(2, 1.0), (2, 1.0)]), [(true, None), (false, Some(0.0))]);
    // A gate that always closes needs none.
    let mut gate = dgg(json!({ "tau": "-inf", "warmup": 0 }));
    assert_eq!(
        rulings(&mut *gate, &[(2, 1.0), (1, 1.0), (2, 1.0)]),
        [(false, None), (true, None), (false, None)]
    );
    let mut gate = dgg(json!({ "tau": "-inf", "warmup": 7 }));
    assert_eq!(reused(&mut *gate, 4, 4, |_| 1.0), [4, 3, 1, 1]);
}

#[test]
fn what_is_not_finite_closes_the_gate_unless_tau_is_infinite_and_is_not_remembered() {
    for wrong in [f64::NAN, f64::INFINITY] {
        for tau in [json!(1e300), json!(0.5), json!("-inf")] {
            let mut gate = dgg(json!({ "statistics": "all", "tau": tau, "warmup": 0 }));
            rulings(&mut *gate, &[(1, 1.0), (1, 2.0)]);
            let before = gate.state();
            assert_eq!(rulings(&mut *gate, &[(2, wrong)]), [(false, Some(f64::INFINITY))]);
            // A first use is applied all the same, but the number must not spoil what follows.
            assert_eq!(rulings(&mut *gate, &[(1, wrong)]), [(true, Some(f64::INFINITY))]);
            assert_eq!(gate.state(), before);
        }
        let mut gate = dgg(json!({ "statistics": "all", "tau": "inf", "warmup": 0 }));
        rulings(&mut *gate, &[(1, wrong), (1, 1.0), (1, 2.0)]);
        assert_eq!(rulings(&mut *gate, &[(2, wrong)]), [(true, Some(f64::INFINITY))]);
        assert!(rulings(&mut *gate, &[(2, 2.0)])[0].1.is_some_and(f64::is_finite));
    }
}

/// On a series without a trend, changes stand out as often as those of any normal variable: that is the price of a
/// small `τ`, which a run pays with harmless uses.
#[test]
fn false_alarms_of_a_calm_series_are_as_many_as_a_normal_variable_has() {
    for (tau, expected) in [(0.1, 0.460), (0.5, 0.309), (1.0, 0.159), (3.0, 0.001_35)] {
        for decay in [0.99, 1.0] {
            let mut gate = dgg(json!({ "statistics": "all", "tau": tau, "decay": decay }));
            let mut random = Stream::new(7);
            let (mut alarms, count) = (0.0, 20_000);
            for at in 0..count + 200 {
                // Single use: nothing is dropped, and the gate still says what it would have done.
                let ruling = gate.rule(1, &head(5.0 + random.normal()));
                assert!(ruling.is_open);
                let alarm =
                    ruling.metrics.iter().find(|(name, _)| *name == "gate/alarm").map(|(_, alarm)| *alarm);
                alarms += if at < 200 { 0.0 } else { alarm.unwrap_or(f64::NAN) };
            }
            let share = alarms / f64::from(count);
            assert!((share - expected).abs() < 0.01, "tau {tau}, decay {decay}: {share} for {expected}");
        }
    }
    // Nothing changes: nothing stands out.
    let mut gate = dgg(json!({ "tau": 0.1, "warmup": 0 }));
    assert!(reused(&mut *gate, 50, 4, |_| 0.25).iter().all(|made| *made == 4));
}

#[test]
fn a_norm_that_leaps_with_reuse_ends_the_reuse_and_nothing_else_does() {
    let mut random = Stream::new(3);
    let mut gate = dgg(json!({ "tau": 3.0 }));
    let mut calm = || 1.0 + 0.05 * random.normal();
    let made = reused(&mut *gate, 40, 4, |_| calm());
    assert!(made.iter().filter(|made| **made == 4).count() >= 36, "{made:?}");
    // From now on the third use jumps.
    let made = reused(&mut *gate, 40, 4, |reuse| if reuse >= 3 { 2.0 } else { calm() });
    assert!(made.iter().filter(|made| **made == 2).count() >= 36, "{made:?}");
}

#[test]
fn stopping_at_random_makes_as_many_uses_as_the_geometric_distribution_says() {
    let with = |chance: f64| {
        GateConfig { gate: "random_stop".into(), config: json!({ "chance": chance }) }.build().unwrap()
    };
    let mut random = Stream::new(5);
    let mut uses = |gate: &mut dyn Gate| -> f64 {
        let batches = 20_000;
        let of_batch = |_| {
            let mut rule = |reuse: &usize| {
                let proposal = Proposal { grad_norm: random.normal().exp(), ..Proposal::default() };
                gate.rule(*reuse, &proposal).is_open
            };
            (1..=4).take_while(|reuse| rule(reuse)).count()
        };
        (0..batches).map(of_batch).sum::<usize>() as f64 / f64::from(batches)
    };
    for chance in [0.1f64, 0.5, 0.9] {
        let expected = (1.0 - (1.0 - chance).powi(4)) / chance;
        let found = uses(&mut *with(chance));
        assert!((found - expected).abs() < 0.03, "{chance}: {found} for {expected}");
    }
    assert_eq!((uses(&mut *with(0.0)), uses(&mut *with(1.0))), (4.0, 1.0));
    let wrong = GateConfig { gate: "random_stop".into(), config: json!({ "chance": 1.5 }) };
    assert!(wrong.complete().unwrap_err().to_string().contains("config.chance: must be from 0 to 1"));
    assert!(with(0.5).restore(&json!({})).unwrap_err().to_string().contains("random_stop"));
}

#[test]
fn every_signal_watches_its_own_number() {
    let calm = Proposal { head_grad_norm: 1.0, grad_norm: 1.0, kl: 1.0, clip_fraction: 1.0, entropy: 1.0 };
    let leaps = [
        ("head_grad_norm", Proposal { head_grad_norm: 9.0, ..calm }),
        ("grad_norm", Proposal { grad_norm: 9.0, ..calm }),
        ("kl", Proposal { kl: 9.0, ..calm }),
        ("clip_fraction", Proposal { clip_fraction: 9.0, ..calm }),
        ("entropy", Proposal { entropy: 9.0, ..calm }),
    ];
    for (signal, _) in leaps {
        for (leaping, leap) in leaps {
            let mut gate = dgg(json!({ "statistics": "all", "signal": signal, "warmup": 0 }));
            gate.rule(1, &calm);
            assert_eq!(gate.rule(2, &leap).is_open, signal != leaping, "{signal} and {leaping}");
        }
    }
}

#[test]
fn settings_and_states_that_are_wrong_are_named() {
    let error = |config: Value| {
        let config = GateConfig { gate: "dgg".into(), config };
        config.complete().map(drop).unwrap_err().to_string()
    };
    assert!(error(json!({ "decay": 0.0 })).contains("config.decay: must be above 0"));
    assert!(error(json!({ "epsilon": 0.0 })).contains("config.epsilon"));
    assert!(error(json!({ "tau": "high" })).contains("\"inf\""));
    assert!(error(json!({ "tau": null })).contains("in quotes"));
    let unknown = GateConfig { gate: "dwd".into(), config: json!({}) }.complete().map(drop).unwrap_err();
    assert!(unknown.to_string().contains("gate: ") && unknown.to_string().contains("dgg"), "{unknown}");
    for tau in [json!("inf"), json!("-inf"), json!(0.1), json!(1)] {
        let config = GateConfig { gate: "dgg".into(), config: json!({ "tau": tau }) }.complete().unwrap();
        assert_eq!(config.config["tau"].as_f64(), tau.as_f64());
        assert_eq!(config.clone().complete().unwrap(), config);
    }
    for state in [Value::Null, json!({}), json!({ "updates": -1 })] {
        assert!(dgg(json!({})).restore(&state).unwrap_err().to_string().contains("dgg"), "{state}");
    }
}
