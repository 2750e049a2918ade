//! How far the presets are from each other, measured by their gradients on one batch.

use std::ops::Range;

use burnish_core::rng::Stream;
use burnish_rl::advantage::{Advantage, AdvantageConfig, Rollout, Rollouts};
use burnish_rl::presets::{PRESETS, Preset};
use burnish_rl::{LossConfig, Objective, PolicyLoss, SettingError, Streams, Totals};
use serde_json::Value;

const GROUPS: usize = 8;
const GROUP_SIZE: usize = 4;

/// `‖g_i - g_j‖ / max(‖g_i‖, ‖g_j‖)` for every two presets, where `g` is the gradient with respect to the log-probs of
/// one fixed batch of random rollouts: ragged lengths, rewards of 0, ½ or 1, ratios mostly near 1.
///
/// # Errors
/// If the settings of a preset make no loss.
pub(super) fn distances() -> Result<Vec<Vec<f64>>, SettingError> {
    let batch = Batch::random();
    let gradients: Vec<Vec<f64>> =
        PRESETS.iter().map(|preset| batch.gradient(preset)).collect::<Result<_, _>>()?;
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let distance = |one: &Vec<f64>, other: &Vec<f64>| {
        let difference: Vec<f64> = one.iter().zip(other).map(|(a, b)| a - b).collect();
        norm(&difference) / norm(one).max(norm(other))
    };
    Ok(gradients.iter().map(|one| gradients.iter().map(|other| distance(one, other)).collect()).collect())
}

struct Batch {
    rollouts: Vec<Rollout>,
    sequences: Vec<Range<usize>>,
    policy: Vec<f64>,
    proximal: Vec<f64>,
}

impl Batch {
    fn random() -> Self {
        let mut random = Stream::new(5);
        let mut batch =
            Batch { rollouts: Vec::new(), sequences: Vec::new(), policy: Vec::new(), proximal: Vec::new() };
        for _ in 0..GROUPS * GROUP_SIZE {
            let (start, tokens) = (batch.policy.len(), 4 + random.below(29) as usize);
            for _ in 0..tokens {
                let logprob = -0.05 - 2.0 * random.uniform();
                batch.policy.push(logprob);
                batch.proximal.push(logprob - 0.15 * random.normal());
            }
            let reward = Some(0.5 * random.below(3) as f64);
            batch.rollouts.push(Rollout { tokens, ..Rollout::of_reward(reward) });
            batch.sequences.push(start..start + tokens);
        }
        batch
    }

    fn gradient(&self, preset: &Preset) -> Result<Vec<f64>, SettingError> {
        let settings = (preset.settings)();
        let unreadable = |error: serde_json::Error| SettingError::new(preset.id, error.to_string());
        let part = |key: &str| match &settings[key] {
            Value::Null => Value::Object(serde_json::Map::new()),
            part => part.clone(),
        };
        let loss: LossConfig = serde_json::from_value(part("loss")).map_err(unreadable)?;
        let advantage: AdvantageConfig = serde_json::from_value(part("advantage")).map_err(unreadable)?;
        let groups: Vec<Range<usize>> =
            (0..GROUPS).map(|group| group * GROUP_SIZE..(group + 1) * GROUP_SIZE).collect();
        let credit = advantage.build()?.advantages(&Rollouts { all: &self.rollouts, groups: &groups });
        let advantages: Vec<f64> = self
            .sequences
            .iter()
            .zip(&credit)
            .flat_map(|(tokens, credit)| {
                std::iter::repeat_n(credit.as_ref().map_or(0.0, Advantage::mean), tokens.len())
            })
            .collect();
        let tokens = self.policy.len();
        let totals = Totals {
            sequences: self.sequences.len(),
            groups: GROUPS,
            tokens,
            tokens_positive: advantages.iter().filter(|advantage| **advantage > 0.0).count(),
            tokens_generation: tokens,
            minibatches: 1,
            completion_tokens_max: 32,
            ..Totals::default()
        };
        let streams = Streams {
            policy: &self.policy,
            proximal: &self.proximal,
            behavior: &self.proximal,
            reference: None,
            teacher: None,
            entropy: &vec![1.0; tokens],
            advantage: &advantages,
            loss_mask: &vec![true; tokens],
            sequences: &self.sequences,
            groups: &groups,
            directions: &[],
            parts: &[],
            facts: &[],
            batch_constants: &[],
        };
        let objective = PolicyLoss::new(&loss)?;
        let batch_constants = if objective.needs().batch_constants {
            objective.batch_constants(&streams, &totals)
        } else {
            Vec::new()
        };
        Ok(objective.evaluate(&Streams { batch_constants: &batch_constants, ..streams }, &totals).d_policy)
    }
}
