//! What a recipe may say.

use burnish_rl::advantage::{AdvantageConfig, Scale};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::grpo::GrpoConfig;
use burnish_rl::kl::{AdaptiveKl, KlEstimator};
use serde_json::json;

#[test]
fn keys_that_are_left_out_have_the_defaults_of_trl() {
    let grpo: GrpoConfig = serde_json::from_value(json!({})).unwrap();
    let trl = GrpoConfig {
        epsilon_low: 0.2,
        epsilon_high: 0.2,
        beta: 0.0,
        kl_estimator: KlEstimator::K3,
        use_bias_correction_kl: true,
        use_kl_in_reward: false,
        adaptive_kl: AdaptiveKl { target_kl: 0.0, horizon: 10_000.0 },
        mask_truncated_completions: false,
        aggregation: Aggregation::Dapo,
    };
    assert_eq!(grpo, trl);
    let advantage: AdvantageConfig = serde_json::from_value(json!({})).unwrap();
    assert_eq!(advantage, AdvantageConfig { scale: Scale::Group, ddof: 1, epsilon: 1e-4 });
    assert!(grpo.check().is_ok() && advantage.check().is_ok());
}

#[test]
fn unknown_keys_and_names_are_refused() {
    assert!(serde_json::from_value::<GrpoConfig>(json!({ "epsilon": 0.2 })).is_err());
    assert!(serde_json::from_value::<GrpoConfig>(json!({ "aggregation": "token_mean" })).is_err());
    assert!(serde_json::from_value::<AdvantageConfig>(json!({ "scale_rewards": "group" })).is_err());
}

#[test]
fn configurations_are_read_back_as_they_were_written() {
    for name in ["grpo", "bnpo", "dr_grpo", "dapo"] {
        let read: GrpoConfig =
            serde_json::from_value(json!({ "aggregation": name, "epsilon_high": 0.28 })).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["aggregation"], name);
        assert_eq!(serde_json::from_value::<GrpoConfig>(written).unwrap(), read);
    }
    for name in ["group", "batch", "none"] {
        let read: AdvantageConfig = serde_json::from_value(json!({ "scale": name })).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap()["scale"], name);
    }
}

#[test]
fn values_out_of_range_are_refused_by_key_with_what_is_allowed() {
    let base = GrpoConfig::default();
    for (wrong, message) in [
        (GrpoConfig { epsilon_low: -0.1, ..base.clone() }, "epsilon_low: must be 0 to 1, not -0.1"),
        (GrpoConfig { epsilon_low: 1.5, ..base.clone() }, "epsilon_low: must be 0 to 1, not 1.5"),
        (GrpoConfig { epsilon_high: -1.0, ..base.clone() }, "epsilon_high: must be 0 or more, not -1"),
        (
            GrpoConfig { epsilon_high: f64::INFINITY, ..base.clone() },
            "epsilon_high: must be 0 or more, not inf",
        ),
        (GrpoConfig { beta: f64::NAN, ..base.clone() }, "beta: must be 0 or more, not NaN"),
    ] {
        assert_eq!(wrong.check().unwrap_err().to_string(), message);
    }
    let base = AdvantageConfig::default();
    for (wrong, message) in [
        (AdvantageConfig { ddof: 2, ..base.clone() }, "ddof: must be 0 or 1, not 2"),
        (AdvantageConfig { epsilon: -1e-4, ..base.clone() }, "epsilon: must be 0 or more, not -0.0001"),
    ] {
        assert_eq!(wrong.check().unwrap_err().to_string(), message);
    }
}

#[test]
fn kl_settings_that_would_not_do_what_they_say_are_refused_with_the_reason() {
    let base = GrpoConfig { beta: 0.1, ..GrpoConfig::default() };
    let target = AdaptiveKl { target_kl: 0.1, ..AdaptiveKl::default() };
    let k1 = KlEstimator::K1;
    for (wrong, parts) in [
        (
            GrpoConfig { beta: 0.0, use_kl_in_reward: true, kl_estimator: k1, ..base.clone() },
            ["use_kl_in_reward", "beta"],
        ),
        (
            GrpoConfig { beta: 0.0, adaptive_kl: target.clone(), ..base.clone() },
            ["adaptive_kl.target_kl", "beta"],
        ),
        (GrpoConfig { use_kl_in_reward: true, ..base.clone() }, ["kl_estimator", "\"k3\""]),
        (
            GrpoConfig { kl_estimator: k1, use_bias_correction_kl: false, ..base.clone() },
            ["kl_estimator", "expectation of its gradient is zero"],
        ),
        (
            GrpoConfig { adaptive_kl: AdaptiveKl { horizon: 0.0, ..target.clone() }, ..base.clone() },
            ["adaptive_kl.horizon", "above 0"],
        ),
        (
            GrpoConfig { adaptive_kl: AdaptiveKl { target_kl: -1.0, ..target.clone() }, ..base.clone() },
            ["adaptive_kl.target_kl", "-1"],
        ),
    ] {
        let error = wrong.check().unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    for right in [
        GrpoConfig { kl_estimator: k1, ..base.clone() },
        GrpoConfig { kl_estimator: KlEstimator::K2, use_bias_correction_kl: false, ..base.clone() },
        GrpoConfig { kl_estimator: k1, use_kl_in_reward: true, adaptive_kl: target, ..base },
    ] {
        assert_eq!(right.check(), Ok(()));
    }
}
