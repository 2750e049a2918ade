//! Combinations that are refused, and the nearest ones that are not. Those about the placement of the KL are in
//! `config.rs`.

use crate::common::loss;
use burnish_rl::advantage::AdvantageConfig;
use burnish_rl::aggregation::Aggregation;
use burnish_rl::catalogue::OBJECTIVES;
use burnish_rl::correction::{
    BehaviorSource, CorrectionConfig, ProximalSource, Rejected, Rejection, Statistic, WeightConfig,
    WeightLevel,
};
use burnish_rl::kl::KlEstimator;
use burnish_rl::rules::{self, RULES, Setup};
use burnish_rl::{LossConfig, Losses, TokenLoss, Tokens};
use serde_json::json;
use std::collections::BTreeSet;

/// Ids of the rules that a loss breaks.
fn broken(loss: &LossConfig) -> Vec<&'static str> {
    let advantage = AdvantageConfig::default();
    let setup = Setup::on_policy(loss, &advantage);
    rules::broken(setup).map(|rule| rule.id).collect()
}

fn with(correction: CorrectionConfig) -> LossConfig {
    LossConfig { correction, ..LossConfig::default() }
}

fn weighted(level: WeightLevel) -> CorrectionConfig {
    CorrectionConfig {
        weight: WeightConfig { level, ..WeightConfig::default() },
        ..CorrectionConfig::default()
    }
}

fn rejecting(statistic: Statistic, rejected: Rejected) -> CorrectionConfig {
    let reject = vec![Rejection { statistic, min: 0.0, max: 2.0 }];
    CorrectionConfig { reject, rejected, ..CorrectionConfig::default() }
}

#[test]
fn each_rule_fires_on_what_it_refuses_and_not_on_the_nearest() {
    let base = LossConfig { beta: 0.1, ..LossConfig::default() };
    let plus = LossConfig { kl_estimator: KlEstimator::K3Plus, ..base.clone() };
    let clamp = LossConfig { kl_clamp: 10.0, kl_estimator: KlEstimator::K1, ..base };
    let constant = LossConfig { loss_scale_factor: 64, ..LossConfig::default() };
    let normalised = WeightConfig { batch_normalize: true, ..WeightConfig::default() };
    let no_level = CorrectionConfig { weight: normalised.clone(), ..CorrectionConfig::default() };
    let token = CorrectionConfig {
        weight: WeightConfig { level: WeightLevel::Token, ..normalised },
        ..CorrectionConfig::default()
    };
    let removal = CorrectionConfig { rejected: Rejected::Remove, ..CorrectionConfig::default() };
    let twice = CorrectionConfig { bypass: true, ..weighted(WeightLevel::Token) };
    for (id, wrong, right) in [
        ("kl-plus-times-ratio", plus.clone(), LossConfig { use_bias_correction_kl: false, ..plus }),
        ("kl-clamp-in-reward", LossConfig { use_kl_in_reward: true, ..clamp.clone() }, clamp),
        (
            "loss-scale-factor-without-dr-grpo",
            constant.clone(),
            LossConfig { aggregation: Aggregation::DrGrpo, ..constant },
        ),
        ("weight-without-level", with(no_level), with(token)),
        ("weight-twice", with(twice.clone()), with(CorrectionConfig { bypass: false, ..twice.clone() })),
        ("weight-twice", with(twice), with(CorrectionConfig { bypass: true, ..CorrectionConfig::default() })),
        ("removal-without-rejection", with(removal), with(rejecting(Statistic::TokenK1, Rejected::Remove))),
    ] {
        assert_eq!(broken(&wrong), [id]);
        assert_eq!(broken(&right), [""; 0], "{id}");
        // Both can be built: only the combination is refused.
        loss(wrong);
        loss(right);
    }
}

#[test]
fn the_tokens_of_a_sequence_with_one_loss_weigh_the_same() {
    let id = "token-weights-of-a-sequence-loss";
    let uneven = [
        with(weighted(WeightLevel::Token)),
        with(rejecting(Statistic::TokenK2, Rejected::Zero)),
        LossConfig { top_entropy_quantile: 0.2, ..LossConfig::default() },
    ];
    let even = [
        with(weighted(WeightLevel::Sequence)),
        with(rejecting(Statistic::SeqSumK2, Rejected::Zero)),
        with(rejecting(Statistic::TokenK2, Rejected::Remove)),
    ];
    for entry in OBJECTIVES {
        let is_one = entry.card.scope == "sequence";
        let of = |config: &LossConfig| LossConfig { objective: entry.card.id.into(), ..config.clone() };
        for config in &uneven {
            assert_eq!(broken(&of(config)).contains(&id), is_one, "{}", entry.card.id);
        }
        for config in &even {
            assert!(!broken(&of(config)).contains(&id), "{}", entry.card.id);
        }
    }
}

/// REINFORCE: `-A·lp`.
struct Reinforce;

impl TokenLoss for Reinforce {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            losses.value[at] = -tokens.advantage[at] * tokens.policy[at];
            losses.d_policy[at] = -tokens.advantage[at];
        }
    }
}

#[test]
fn an_objective_without_a_ratio_is_told_from_one_with() {
    assert!(!rules::has_ratio(&Reinforce));
    let clipped = OBJECTIVES.iter().find(|entry| entry.card.id == "ppo_clip").unwrap();
    let clipped = (clipped.build)(&serde_json::Value::Null).unwrap();
    assert!(rules::has_ratio(clipped.as_ref()));
}

#[test]
fn every_rule_has_a_name_of_its_own_and_says_what_to_do() {
    let ids: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), RULES.len());
    for rule in RULES {
        assert!(rule.key.starts_with("loss.") || rule.key.starts_with("rollout."), "{}", rule.key);
        let verbs = ["must ", "needs ", "has "];
        assert!(verbs.iter().any(|verb| rule.reason.starts_with(verb)), "{}", rule.reason);
        assert!(rule.nearest.contains('`'), "{}: {}", rule.id, rule.nearest);
    }
}

#[test]
fn a_weight_is_refused_where_the_objective_itself_is_measured_against_the_sampler() {
    let told = |objective: &str, config: serde_json::Value| {
        let correction = json!({ "weight": { "level": "token" } });
        let loss = json!({ "objective": objective, "config": config, "correction": correction });
        let loss: LossConfig = serde_json::from_value(loss).unwrap();
        let loss = loss.complete().unwrap();
        let advantage = AdvantageConfig::default();
        let setup = Setup::on_policy(&loss, &advantage);
        rules::broken(setup).any(|rule| rule.id == "weight-of-a-loss-to-the-sampler")
    };
    assert!(told("dppo_tv", json!({ "anchor": "behavior" })) && told("prime_rl_symmetric", json!({})));
    assert!(!told("dppo_tv", json!({})) && !told("ppo_clip", json!({})) && !told("reinforce", json!({})));
}

/// Ids of the rules broken by a recipe that samples with weights `policy_lag` steps old.
fn broken_behind(policy_lag: u64, correction: CorrectionConfig) -> Vec<&'static str> {
    let (loss, advantage) = (with(correction), AdvantageConfig::default());
    rules::broken(Setup { policy_lag, ..Setup::on_policy(&loss, &advantage) }).map(|rule| rule.id).collect()
}

#[test]
fn a_proximal_policy_is_asked_for_where_it_is_one_of_its_own_and_nowhere_else() {
    for proximal in [ProximalSource::Recompute, ProximalSource::Loglinear] {
        let asked = CorrectionConfig { proximal, ..weighted(WeightLevel::Token) };
        assert_eq!(broken_behind(0, asked.clone()), ["proximal-on-policy"]);
        assert!(broken_behind(2, asked.clone()).is_empty());
        let bypass = CorrectionConfig { bypass: true, proximal, ..CorrectionConfig::default() };
        assert_eq!(broken_behind(2, bypass), ["proximal-bypassed"]);
    }
    for compares in [weighted(WeightLevel::Sequence), rejecting(Statistic::SeqMeanK3, Rejected::Zero)] {
        assert!(broken_behind(0, compares.clone()).is_empty(), "harmless where nothing is behind");
        assert_eq!(broken_behind(1, compares), ["correction-without-proximal"]);
    }
    let masks = CorrectionConfig { off_policy_mask_threshold: 0.1, ..CorrectionConfig::default() };
    assert!(broken_behind(1, masks).is_empty(), "it compares the sampler with the policy itself");
}

/// Ids of the rules broken by an objective whose behavior is the distribution that tokens were drawn from.
#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn broken_with_sampled(objective: &str, more: serde_json::Value) -> Vec<&'static str> {
    let mut loss = json!({ "objective": objective, "correction": { "behavior": "sampled" } });
    let (loss_table, correction) = (more.get("loss"), more.get("correction"));
    let extend = |table: &mut serde_json::Value, more: Option<&serde_json::Value>| {
        let more = more.and_then(|more| more.as_object()).cloned().unwrap_or_default();
        table.as_object_mut().unwrap().extend(more);
    };
    extend(&mut loss, loss_table);
    extend(&mut loss["correction"], correction);
    let loss: LossConfig = serde_json::from_value(loss).unwrap();
    let (loss, advantage) = (loss.complete().unwrap(), AdvantageConfig::default());
    let setup = Setup { alters_sampling: true, ..Setup::on_policy(&loss, &advantage) };
    assert_eq!(loss.build().unwrap().needs().behavior, BehaviorSource::Sampled);
    rules::broken(setup).map(|rule| rule.id).collect()
}

#[test]
fn what_tokens_were_drawn_with_is_asked_for_only_where_something_looks_at_it() {
    let unread = ["sampled-behavior-unread"];
    let reject = json!([{ "statistic": "seq_mean_k1", "min": 0.5, "max": 2.0 }]);
    for correction in [
        json!({ "weight": { "level": "token" } }),
        json!({ "reject": reject }),
        json!({ "off_policy_mask_threshold": 3.0 }),
        json!({ "bypass": true }),
    ] {
        assert_eq!(broken_with_sampled("ppo_clip", json!({ "correction": correction })), [""; 0]);
    }
    for (objective, config, is_read) in [
        ("ppo_clip", json!({}), false),
        ("reinforce", json!({}), false),
        ("dppo_tv", json!({}), false),
        ("dppo_tv", json!({ "anchor": "behavior" }), true),
        ("dppo_kl", json!({ "anchor": "behavior" }), true),
        ("prime_rl_symmetric", json!({}), true),
        ("m2po", json!({ "moment": "policy" }), true),
        ("m2po", json!({ "moment": "proximal" }), true),
        ("opd", json!({}), true),
        ("opd", json!({ "surrogate": "clip" }), true),
        ("opd", json!({ "surrogate": "clip", "kl_coef": 0.0, "reward_weight": 1.0 }), false),
        ("aopd", json!({}), true),
        ("gkd", json!({}), false),
        ("dpo", json!({}), false),
    ] {
        let told = broken_with_sampled(objective, json!({ "loss": { "config": config } }));
        assert_eq!(told, if is_read { &[][..] } else { &unread[..] }, "{objective} {config}");
    }
    // For a loss that stands alone, nothing else of the correction counts.
    let told = broken_with_sampled("opd", json!({ "correction": { "weight": { "level": "token" } } }));
    assert_eq!(told, ["preference-alone"]);
}

#[test]
fn what_tokens_were_drawn_with_is_their_model_log_prob_where_nothing_is_altered() {
    let correction = CorrectionConfig { behavior: BehaviorSource::Sampled, ..weighted(WeightLevel::Token) };
    let (loss, advantage) = (with(correction), AdvantageConfig::default());
    assert_eq!(broken(&loss), ["sampled-behavior-unaltered"]);
    let setup = Setup { alters_sampling: true, ..Setup::on_policy(&loss, &advantage) };
    assert_eq!(rules::broken(setup).count(), 0);
    // Weights are then not 1 even against the model that sampled.
    assert_eq!(rules::broken(Setup { policy_lag: 1, ..setup }).count(), 0);
}

#[test]
fn keys_of_earlier_recipes_mean_what_they_meant_and_new_ones_are_written_where_they_say_something() {
    let read = |text: &str| serde_json::from_str::<CorrectionConfig>(text).unwrap();
    let written = |config: &CorrectionConfig| serde_json::to_value(config).unwrap();
    let plain = CorrectionConfig::default();
    for same in [r#"{"proximal":"behavior"}"#, r#"{"proximal":"sampling"}"#, r#"{"behavior":"model"}"#] {
        assert_eq!(read(same), plain);
    }
    assert!(written(&plain).get("behavior").is_none() && written(&plain).get("proximal").is_none());
    let sampled = CorrectionConfig { behavior: BehaviorSource::Sampled, ..plain };
    assert_eq!(written(&sampled)["behavior"], "sampled");
    assert_eq!(read(&written(&sampled).to_string()), sampled);
    assert!(serde_json::from_str::<CorrectionConfig>(r#"{"behavior":"behavior"}"#).is_err());
}

#[test]
fn ties_are_dropped_only_where_they_would_teach_nothing() {
    for (estimator, is_refused) in
        [("grpo", false), ("rloo", false), ("reinforce_plus_plus", true), ("remax", true)]
    {
        let advantage: AdvantageConfig = serde_json::from_value(json!({ "estimator": estimator })).unwrap();
        let (loss, advantage) = (LossConfig::default(), advantage.complete().unwrap());
        let setup = Setup::on_policy(&loss, &advantage);
        assert_eq!(rules::broken(setup).count(), 0);
        let told: Vec<&str> =
            rules::broken(Setup { drops_ties: true, ..setup }).map(|rule| rule.id).collect();
        assert_eq!(told == ["dropped-ties-would-teach"], is_refused, "{estimator}: {told:?}");
    }
}

#[test]
fn a_preference_loss_stands_alone() {
    let told = |more: serde_json::Value| {
        let mut loss = json!({ "objective": "dpo", "config": { "beta": 0.2 } });
        loss.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let loss: LossConfig = serde_json::from_value(loss).unwrap();
        broken(&loss.complete().unwrap())
    };
    assert!(told(json!({})).is_empty() && told(json!({ "mask_truncated_completions": true })).is_empty());
    assert!(told(json!({ "entropy_coef": 0.1 })).contains(&"preference-alone"));
    assert!(told(json!({ "aggregation": "grpo" })).contains(&"preference-alone"));
}

#[test]
fn a_distillation_is_an_objective_with_settings_of_its_own_and_stands_alone() {
    for (id, key) in [("opd", "kl_coef"), ("gkd", "beta"), ("aopd", "tau")] {
        let of = |more: serde_json::Value| {
            let mut loss = json!({ "objective": id, "config": { key: 0.25 } });
            loss.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<LossConfig>(loss).unwrap().complete().unwrap()
        };
        let complete = of(json!({}));
        assert_eq!(complete.config[key], 0.25);
        assert!(complete.config.get("aggregation").is_some(), "{id}");
        assert_eq!(complete.distillation().map(|entry| entry.card.id), Some(id));
        let needs = complete.build().unwrap().needs();
        assert_eq!((needs.teacher, needs.head.is_some()), (id != "gkd", id != "opd"));
        assert!(broken(&complete).is_empty());
        assert!(broken(&of(json!({ "beta": 0.1 }))).contains(&"preference-alone"));
    }
    let ppo = LossConfig::default().complete().unwrap();
    assert!(ppo.distillation().is_none() && ppo.build().unwrap().head().is_none());
}
