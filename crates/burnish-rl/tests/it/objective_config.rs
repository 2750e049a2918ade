//! What a recipe may say about an objective.

use crate::reductions::settings;
use burnish_rl::LossConfig;
use burnish_rl::advantage::AdvantageConfig;
use burnish_rl::aggregation::Aggregation;
use burnish_rl::rules::{self, Setup};
use serde_json::{Value, json};

#[test]
fn settings_without_effect_or_out_of_range_are_refused_by_key() {
    for (id, config, message) in [
        ("cispo", json!({ "bounds": "upper", "epsilon_low": 0.1 }), "epsilon_low: has no effect"),
        ("cispo", json!({ "bounds": "wide", "epsilon_high": 4.0 }), "epsilon_high: has no effect"),
        (
            "cispo",
            json!({ "bounds": "cap", "epsilon_low": 1.0, "epsilon_high": 5.0 }),
            "epsilon_low: has no effect",
        ),
        // TRL's default, which would scale tokens that have not moved.
        ("cispo", json!({ "bounds": "cap" }), "epsilon_high: must be 1 or more"),
        ("cispo", json!({ "epsilon_low": 1.5 }), "epsilon_low: must be 0 to 1"),
        ("gspo", json!({ "epsilon_high": -0.1 }), "epsilon_high: must be 0 or more"),
        ("gspo", json!({ "level": "step" }), "level: unknown variant"),
        ("luspo", json!({ "epsilon_low": -0.1 }), "epsilon_low: must be 0 to 1"),
        ("gmpo", json!({ "epsilon_low": -0.1 }), "epsilon_low: must be 0 or more"),
        ("sapo", json!({ "tau_neg": 0.0 }), "tau_neg: must be above 0"),
        ("vespo", json!({ "lambda_pos": 0.0 }), "lambda_pos: must be 0.0001 to 50"),
        ("vespo", json!({ "k_neg": -1.0 }), "k_neg: must be 0 to 50"),
        ("dppo_tv", json!({ "divergence_high": 1.5 }), "divergence_high: must be 0 to 1"),
        ("dppo_tv", json!({ "ratio_max": 0.5 }), "ratio_max: must be 0 (no limit), or 1 or more"),
        ("dppo_kl", json!({ "divergence_low": -1.0 }), "divergence_low: must be 0 or more"),
        ("prime_rl_symmetric", json!({ "threshold": -0.1 }), "threshold: must be 0 to 1"),
        ("dro", json!({ "beta": -0.1 }), "beta: must be 0 or more"),
        ("reinforce", json!({ "ratio_max": 0.9 }), "ratio_max: must be 0 (no limit), or 1 or more"),
        ("gppo", json!({ "beta1": -1.0 }), "beta1: must be 0 or more"),
        ("gppo", json!({ "dual_clip": 1.1 }), "dual_clip: must be 0 (off), or 1.2"),
    ] {
        let config = LossConfig { objective: id.into(), config, ..LossConfig::default() };
        let error = config.complete().unwrap_err().to_string();
        assert!(error.starts_with(&format!("config.{message}")), "{id}: {error}");
    }
}

#[test]
fn a_loss_of_whole_sequences_is_refused_with_a_sum_over_tokens_and_the_nearest_is_not() {
    let broken = |objective: &str, config: &Value, aggregation| {
        let loss = LossConfig {
            objective: objective.into(),
            config: config.clone(),
            aggregation,
            ..LossConfig::default()
        };
        let loss = loss.complete().unwrap();
        let advantage = AdvantageConfig::default();
        let setup = Setup::on_policy(&loss, &advantage);
        rules::broken(setup).map(|rule| format!("[{}]; {}", rule.id, rule.nearest)).collect::<Vec<_>>()
    };
    let cases = settings().into_iter().chain([("gspo", Value::Null), ("ppo_clip", Value::Null)]);
    for (id, config) in cases {
        let is_refused = ["gspo", "gmpo", "luspo"].contains(&id);
        for aggregation in [Aggregation::Bnpo, Aggregation::DrGrpo, Aggregation::Dapo] {
            let found = broken(id, &config, aggregation);
            assert_eq!(found.len(), usize::from(is_refused), "{id}: {found:?}");
            for error in found {
                assert!(error.contains("[sequence-ratio-token-mean]"), "{error}");
                assert!(error.ends_with("set `loss.aggregation = \"grpo\"`"), "{error}");
            }
        }
        assert_eq!(broken(id, &config, Aggregation::Grpo), Vec::<String>::new(), "{id}");
    }
}
