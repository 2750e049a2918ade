//! What an objective promises that calls itself PPO's clipped surrogate.

use crate::aggregation::AGGREGATIONS;
use crate::common::{Batch, clip, is_near, loss};
use crate::correction_algebra::everything;
use crate::off_policy::{OffPolicy, off_policy};
use burnish_rl::catalogue::OBJECTIVES;
use burnish_rl::correction::CorrectionConfig;
use burnish_rl::{LossConfig, Objective, RatioBounds};
use proptest::prelude::*;
use serde_json::json;

type Change = fn(&mut LossConfig);

/// Everything that can be on and does not look at the policy.
fn constant_weights() -> CorrectionConfig {
    CorrectionConfig { off_policy_mask_threshold: 0.0, ..everything() }
}

proptest! {
    #[test]
    fn its_derivative_is_that_at_a_ratio_of_one_times_the_ratio_up_to_the_bound(batch in off_policy(0.6)) {
        let proximal = batch.batch.proximal.clone();
        let at_one = OffPolicy { batch: Batch { policy: proximal, ..batch.batch.clone() }, ..batch.clone() };
        for correction in [CorrectionConfig::default(), constant_weights()] {
            for aggregation in AGGREGATIONS {
                let correction = correction.clone();
                let config = LossConfig { config: clip(0.2, 0.28), aggregation, correction, ..LossConfig::default() };
                let objective = loss(config);
                let bounds = objective.surrogate();
                prop_assert_eq!(bounds, Some(RatioBounds { low: 0.8, high: 1.28 }));
                let (found, at_one) = (batch.evaluate(&objective, 9), at_one.evaluate(&objective, 9));
                for (at, slope) in at_one.d_policy.iter().enumerate() {
                    let ratio = (batch.batch.policy[at] - batch.batch.proximal[at]).exp();
                    let is_beyond = if *slope < 0.0 { ratio > 1.28 } else { ratio < 0.8 };
                    let expected = if is_beyond { 0.0 } else { slope * ratio };
                    prop_assert!(is_near(found.d_policy[at], expected, 1e-12), "{aggregation:?}");
                }
            }
        }
    }
}

#[test]
fn whatever_else_there_is_in_a_loss_it_is_none() {
    let plain = LossConfig::default();
    let with = |change: &dyn Fn(&mut LossConfig)| {
        let mut config = plain.clone();
        change(&mut config);
        loss(config).surrogate()
    };
    assert!(with(&|_| {}).is_some());
    assert!(with(&|config| (config.beta, config.use_kl_in_reward) = (0.1, true)).is_some());
    let others: [(&str, Change); 6] = [
        ("dual clip", |config| config.config = json!({ "dual_clip": 3.0 })),
        ("KL", |config| config.beta = 0.1),
        ("entropy", |config| config.entropy_coef = 0.1),
        ("forks", |config| config.top_entropy_quantile = 0.5),
        ("bypass", |config| config.correction.bypass = true),
        ("mask", |config| config.correction.off_policy_mask_threshold = 0.1),
    ];
    for (name, change) in others {
        assert_eq!(with(&change), None, "{name}");
    }
    for entry in OBJECTIVES.iter().filter(|entry| entry.card.id != "ppo_clip") {
        assert_eq!(with(&|config| config.objective = entry.card.id.into()), None, "{}", entry.card.id);
    }
}
