//! What a recipe may say.

use burnish_rl::advantage::{AdvantageConfig, GroupOfOne, Grpo, Scale};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::correction::CorrectionConfig;
use burnish_rl::entropy::AdaptiveEntropy;
use burnish_rl::kl::{AdaptiveKl, KlEstimator};
use burnish_rl::rules::{self, Setup};
use burnish_rl::{LossConfig, Part};
use serde_json::json;

#[test]
fn keys_that_are_left_out_have_the_defaults_of_trl() {
    let grpo: LossConfig = serde_json::from_value(json!({})).unwrap();
    let grpo = grpo.complete().unwrap();
    let trl = LossConfig {
        objective: "ppo_clip".into(),
        config: json!({ "epsilon_low": 0.2, "epsilon_high": 0.2, "dual_clip": 0.0 }),
        beta: 0.0,
        kl_estimator: KlEstimator::K3,
        use_bias_correction_kl: true,
        use_kl_in_reward: false,
        adaptive_kl: AdaptiveKl { target_kl: 0.0, horizon: 10_000.0 },
        mask_truncated_completions: false,
        aggregation: Aggregation::Dapo,
        kl_clamp: 0.0,
        loss_scale_factor: 0,
        correction: CorrectionConfig::default(),
        entropy_coef: 0.0,
        use_entropy_aggregation: false,
        adaptive_entropy: AdaptiveEntropy::default(),
        top_entropy_quantile: 1.0,
        on: String::new(),
        terms: Vec::new(),
        further: Default::default(),
    };
    assert!(!trl.correction.is_on() && !trl.adaptive_entropy.is_on());
    assert_eq!(grpo, trl);
    let advantage: Grpo = serde_json::from_value(json!({})).unwrap();
    let trl =
        Grpo { scale: Scale::Group, ddof: 1, epsilon: 1e-4, std_min: 0.0, group_of_one: GroupOfOne::Zero };
    assert_eq!(advantage, trl);
    assert!(advantage.check().is_ok());
}

#[test]
fn unknown_keys_and_names_are_refused() {
    assert!(serde_json::from_value::<LossConfig>(json!({ "epsilon": 0.2 })).is_err());
    assert!(serde_json::from_value::<LossConfig>(json!({ "aggregation": "token_mean" })).is_err());
    assert!(serde_json::from_value::<Grpo>(json!({ "scale_rewards": "group" })).is_err());
}

#[test]
fn configurations_are_read_back_as_they_were_written() {
    for name in ["grpo", "bnpo", "dr_grpo", "dapo", "prompt_mean", "seq_mean_token_sum", "token_sum"] {
        let read: LossConfig =
            serde_json::from_value(json!({ "aggregation": name, "config": { "epsilon_high": 0.28 } }))
                .unwrap();
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["aggregation"], name);
        assert_eq!(serde_json::from_value::<LossConfig>(written).unwrap(), read);
    }
    for name in ["group", "batch", "none"] {
        let read: Grpo = serde_json::from_value(json!({ "scale": name })).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap()["scale"], name);
    }
}

#[test]
fn values_out_of_range_are_refused_by_key_with_what_is_allowed() {
    for (wrong, message) in [
        (json!({ "config": { "epsilon_low": -0.1 } }), "config.epsilon_low: must be 0 to 1, not -0.1"),
        (json!({ "config": { "epsilon_low": 1.5 } }), "config.epsilon_low: must be 0 to 1, not 1.5"),
        (json!({ "config": { "epsilon_high": -1.0 } }), "config.epsilon_high: must be 0 or more, not -1"),
        (json!({ "config": { "dual_clip": 1.1 } }), "config.dual_clip: must be 0 (off), or 1.2"),
        (json!({ "config": { "epsilon": 0.2 } }), "config.epsilon: unknown field `epsilon`"),
        (json!({ "config": { "epsilon_low": "0.2" } }), "config.epsilon_low: invalid type"),
        (json!({ "beta": -1.0 }), "beta: must be 0 or more, not -1"),
        (json!({ "objective": "vanilla" }), "objective: is no id of the catalogue: `vanilla`; there are: "),
    ] {
        let wrong: LossConfig = serde_json::from_value(wrong).unwrap();
        let error = wrong.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let nan = LossConfig { beta: f64::NAN, ..LossConfig::default() };
    assert_eq!(nan.complete().unwrap_err().to_string(), "beta: must be 0 or more, not NaN");
    let base = Grpo::default();
    for (wrong, message) in [
        (Grpo { ddof: 2, ..base.clone() }, "ddof: must be 0 or 1, not 2"),
        (Grpo { epsilon: -1e-4, ..base.clone() }, "epsilon: must be 0 or more, not -0.0001"),
    ] {
        assert_eq!(wrong.check().unwrap_err().to_string(), message);
    }
}

/// What a recipe with this loss is told.
pub(crate) fn refused(loss: &LossConfig) -> String {
    let advantage = AdvantageConfig::default();
    let setup = Setup::on_policy(loss, &advantage);
    rules::broken(setup).map(|rule| format!("{}: {} [{}]", rule.key, rule.reason, rule.id)).collect()
}

#[test]
fn kl_settings_that_would_not_do_what_they_say_are_refused_with_the_reason() {
    let base = LossConfig { beta: 0.1, ..LossConfig::default() };
    let target = AdaptiveKl { target_kl: 0.1, ..AdaptiveKl::default() };
    let k1 = KlEstimator::K1;
    for (wrong, parts) in [
        (
            LossConfig { beta: 0.0, use_kl_in_reward: true, kl_estimator: k1, ..base.clone() },
            ["use_kl_in_reward", "beta"],
        ),
        (
            LossConfig { beta: 0.0, adaptive_kl: target.clone(), ..base.clone() },
            ["adaptive_kl.target_kl", "beta"],
        ),
        (LossConfig { use_kl_in_reward: true, ..base.clone() }, ["kl_estimator", "\"k1\""]),
        (
            LossConfig { kl_estimator: k1, use_bias_correction_kl: false, ..base.clone() },
            ["kl_estimator", "expectation of its gradient is zero"],
        ),
        (
            LossConfig { adaptive_kl: AdaptiveKl { horizon: 0.0, ..target.clone() }, ..base.clone() },
            ["adaptive_kl.horizon", "above 0"],
        ),
        (
            LossConfig { adaptive_kl: AdaptiveKl { target_kl: -1.0, ..target.clone() }, ..base.clone() },
            ["adaptive_kl.target_kl", "-1"],
        ),
    ] {
        let wrong = wrong.complete().map(|loss| refused(&loss));
        let error = wrong.unwrap_or_else(|error| error.to_string());
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    for right in [
        LossConfig { kl_estimator: k1, ..base.clone() },
        LossConfig { kl_estimator: KlEstimator::K2, use_bias_correction_kl: false, ..base.clone() },
        LossConfig { kl_estimator: k1, use_kl_in_reward: true, adaptive_kl: target, ..base },
    ] {
        assert_eq!(refused(&right.complete().unwrap()), "");
    }
}
