//! Batches of streams, by hand or at random.

use burnish_rl::advantage::{
    Advantage, Estimator, Grpo, Rollout, Rollouts, Step, TokenStatistics, reward_metrics,
};
use burnish_rl::{Evaluation, LossConfig, Mark, Objective, PolicyLoss, Streams, Totals};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;

/// The streams of some sequences, owned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) policy: Vec<f64>,
    pub(crate) proximal: Vec<f64>,
    pub(crate) reference: Vec<f64>,
    pub(crate) entropy: Vec<f64>,
    pub(crate) advantage: Vec<f64>,
    pub(crate) loss_mask: Vec<bool>,
    pub(crate) sequences: Vec<Range<usize>>,
    /// What the whole batch said, where an objective asked.
    pub(crate) marks: Vec<Mark>,
}

impl Batch {
    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams {
            policy: &self.policy,
            proximal: &self.proximal,
            behavior: &self.proximal,
            reference: Some(&self.reference),
            entropy: &self.entropy,
            advantage: &self.advantage,
            loss_mask: &self.loss_mask,
            sequences: &self.sequences,
            groups: &[],
            marks: &self.marks,
        }
    }

    /// Totals of an optimiser batch that is this batch, a third of its generation.
    pub(crate) fn totals(&self) -> Totals {
        let tokens = self.loss_mask.iter().filter(|in_loss| **in_loss).count();
        let is_positive = |at: &usize| self.loss_mask[*at] && self.advantage[*at] > 0.0;
        Totals {
            sequences: self.sequences.len(),
            groups: 0,
            tokens,
            tokens_positive: (0..self.policy.len()).filter(is_positive).count(),
            tokens_generation: 3 * tokens + 5,
            minibatches: 3,
            completion_tokens_max: 9,
            seed: 7,
        }
    }

    pub(crate) fn evaluate(&self, objective: &dyn Objective) -> Evaluation {
        self.marked(objective).evaluate_marked(objective)
    }

    /// The same, with what `objective` says of each token of it, as a trainer asks before the first derivative.
    pub(crate) fn marked(&self, objective: &dyn Objective) -> Batch {
        let mut marked = self.clone();
        if objective.needs().marks {
            marked.marks = objective.marks(&self.streams(), &self.totals());
        }
        marked
    }

    /// With the marks as they are: constants of the derivative.
    pub(crate) fn evaluate_marked(&self, objective: &dyn Objective) -> Evaluation {
        objective.evaluate(&self.streams(), &self.totals())
    }

    /// The given sequences alone.
    pub(crate) fn part(&self, sequences: Range<usize>) -> Batch {
        let mut part = Batch::default();
        for range in &self.sequences[sequences] {
            let start = part.policy.len();
            part.policy.extend(&self.policy[range.clone()]);
            part.proximal.extend(&self.proximal[range.clone()]);
            part.reference.extend(&self.reference[range.clone()]);
            part.entropy.extend(&self.entropy[range.clone()]);
            part.advantage.extend(&self.advantage[range.clone()]);
            part.loss_mask.extend(&self.loss_mask[range.clone()]);
            part.marks.extend(self.marks.get(range.clone()).unwrap_or_default());
            part.sequences.push(start..part.policy.len());
        }
        part
    }

    /// The same, before the policy has moved.
    pub(crate) fn on_policy(mut self) -> Batch {
        self.proximal = self.policy.clone();
        self
    }

    /// The same, with everything in the loss.
    pub(crate) fn unmasked(mut self) -> Batch {
        self.loss_mask.fill(true);
        self
    }
}

/// Ragged sequences with holes in the mask; the policy has moved by up to `log_ratio_max` either way.
pub(crate) fn batches(log_ratio_max: f64) -> impl Strategy<Value = Batch> {
    let moved = prop_oneof![1 => Just(0.0), 3 => -log_ratio_max..log_ratio_max];
    let token = (-6.0..0.0f64, moved, -1.0..1.0f64, 0.0..3.0f64, prop::bool::weighted(0.7));
    let advantage = prop_oneof![1 => Just(0.0), 4 => -3.0..3.0f64];
    let sequence = (advantage, prop::collection::vec(token, 1..9));
    prop::collection::vec(sequence, 1..7).prop_map(|sequences| {
        let mut batch = Batch::default();
        for (advantage, tokens) in sequences {
            let start = batch.policy.len();
            for (policy, moved, to_reference, entropy, in_loss) in tokens {
                batch.policy.push(policy);
                batch.proximal.push(policy - moved);
                batch.reference.push(policy + to_reference);
                batch.entropy.push(entropy);
                batch.advantage.push(advantage);
                batch.loss_mask.push(in_loss);
            }
            batch.sequences.push(start..batch.policy.len());
        }
        batch
    })
}

/// Whole groups of `size` rollouts with all that an estimator may ask for; some unscored, some rewards alike.
pub(crate) fn rollouts(size: usize) -> impl Strategy<Value = Vec<Rollout>> {
    let reward = || prop_oneof![3 => (0..3).prop_map(|tenths| f64::from(tenths) * 0.5), 3 => -5.0..5.0f64];
    let step =
        (reward(), 0..3u64, 1..4usize).prop_map(|(reward, state, tokens)| Step { reward, state, tokens });
    let rollout = (
        prop::option::weighted(0.85, reward()),
        prop::collection::vec(reward(), 2),
        prop::collection::vec(step, 1..4),
        reward(),
        prop::collection::vec((0..3).prop_map(|halves| f64::from(halves) * 0.5), size),
        prop::collection::vec((-3.0..0.0f64, 0.05..1.0f64, -1.0..1.0f64), 12),
    );
    let rollout = rollout.prop_map(|(reward, components, steps, greedy, wins, statistics)| {
        let tokens = steps.iter().map(|step| step.tokens).sum();
        let token_statistics = statistics[..tokens]
            .iter()
            .map(|&(logprob, squares, value)| TokenStatistics { logprob, squares, value })
            .collect();
        Rollout { reward, tokens, components, steps, greedy_reward: Some(greedy), wins, token_statistics }
    });
    (1..4usize).prop_flat_map(move |groups| prop::collection::vec(rollout.clone(), groups * size))
}

/// The objective of a configuration.
#[expect(clippy::unwrap_used, reason = "a test says what is right")]
pub(crate) fn loss(config: LossConfig) -> PolicyLoss {
    PolicyLoss::new(&config).unwrap()
}

/// Settings of the clipped surrogate.
pub(crate) fn clip(epsilon_low: f64, epsilon_high: f64) -> Value {
    json!({ "epsilon_low": epsilon_low, "epsilon_high": epsilon_high })
}

/// Advantages, one entry a rollout, and what is reported of the rewards.
pub(crate) struct Credit {
    pub(crate) advantages: Vec<Option<f64>>,
    pub(crate) metrics: BTreeMap<String, f64>,
}

/// Of rollouts that lie group after group, `group_size` to each; the last group may be smaller.
pub(crate) fn group_relative(rewards: &[Option<f64>], group_size: usize, config: &Grpo) -> Credit {
    Credit {
        advantages: whole(config, rewards, group_size),
        metrics: reward_metrics(rewards, group_size, config.scale),
    }
}

/// The advantages of an estimator that needs nothing but rewards.
pub(crate) fn whole(
    estimator: &dyn Estimator,
    rewards: &[Option<f64>],
    group_size: usize,
) -> Vec<Option<f64>> {
    let all: Vec<Rollout> = rewards.iter().copied().map(Rollout::of_reward).collect();
    let groups: Vec<Range<usize>> =
        (0..all.len()).step_by(group_size).map(|start| start..(start + group_size).min(all.len())).collect();
    let credit = estimator.advantages(&Rollouts { all: &all, groups: &groups });
    credit.into_iter().map(|advantage| advantage.map(of_whole)).collect()
}

/// The number of an advantage that is the same for all tokens, and NaN for another.
pub(crate) fn of_whole(advantage: Advantage) -> f64 {
    match advantage {
        Advantage::Whole(advantage) => advantage,
        Advantage::Steps(_) | Advantage::Tokens(_) => f64::NAN,
    }
}

/// Is `found` within `tolerance` of `expected`, relative to it where it is above 1?
pub(crate) fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
    found == expected || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}
